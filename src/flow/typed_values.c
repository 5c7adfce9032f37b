/* SPDX-License-Identifier: MIT */
/* Values with types, in expressions: paths through structures, pointers and arrays. */
#include "base/errno_name.h"
#include "flow/expression-private.h"
#include <string.h>

#define TEXT_BYTES  128u  /* of the text at a pointer */
#define BYTES_MAX   1024u /* of a structure or array */
#define STARS_MAX   8
#define ELEMENT_MAX (1u << 20) /* bytes of an element that an index counts */
#define TYPE_LENGTH 128

/* ---- types of values -------------------------------------------------------------------- */

static void set_type(struct meaning *meaning, struct vms_type type, unsigned stars,
		     enum where where)
{
	meaning->has_type = true;
	meaning->is_result = false;
	meaning->is_signed = false;
	meaning->type = type;
	meaning->stars = stars;
	meaning->where = where;
	meaning->bit_offset = 0;
	meaning->bits = 0;
}

/* Gets the type of a value without typedefs and qualifiers. */
static void get_info(const struct meaning *meaning, struct vms_type_info *ret)
{
	vms_type_get_info(vms_type_resolve(meaning->type), ret);
	if (!meaning->stars)
		return;
	ret->kind = VMS_TYPE_POINTER;
	ret->size = sizeof(uint64_t);
	ret->is_signed = false;
}

static char *name_type(const struct meaning *meaning)
{
	g_autofree char *name = vms_type_name(meaning->type);
	g_autofree char *stars = g_strnfill(meaning->stars, '*');
	return g_strconcat(name, *stars ? " " : "", stars, NULL);
}

/* Sets an error whose text may have the type in it: "…%s…". Returns false. */
static bool fail_type(const struct compiler *compiler, const struct meaning *meaning,
		      const char *at, const char *before, const char *after)
{
	g_autofree char *name = name_type(meaning);
	g_autofree char *what = g_strdup_printf("%s\"%s\"%s", before, name, after);
	return vms_expression_fail(compiler, at, what);
}

/* Sets the message of another function's error, with a position. Frees it. Returns false. */
static bool fail_with(const struct compiler *compiler, const char *at, GError *error)
{
	vms_expression_fail(compiler, at, error->message);
	g_error_free(error);
	return false;
}

static bool is_structure(const struct vms_type_info *info)
{
	return info->kind == VMS_TYPE_STRUCT || info->kind == VMS_TYPE_UNION;
}

/* ---- numbers ---------------------------------------------------------------------------- */

static void keep_bits(GArray *ops, uint64_t bits, bool is_signed)
{
	if (bits == 0 || bits >= 64)
		return;
	if (is_signed && (bits == 8 || bits == 16 || bits == 32)) {
		vms_program_add(ops, VMS_OP_EXTEND, (unsigned)bits / 8, 0);
		return;
	}
	vms_program_push(ops, (UINT64_C(1) << bits) - 1);
	vms_program_do(ops, VMS_OP_AND);
	if (!is_signed)
		return;
	const uint64_t sign = UINT64_C(1) << (bits - 1);
	vms_program_push(ops, sign);
	vms_program_do(ops, VMS_OP_XOR);
	vms_program_push(ops, sign);
	vms_program_do(ops, VMS_OP_SUBTRACT);
}

static void shift_right(GArray *ops, uint64_t bits)
{
	if (!bits)
		return;
	vms_program_push(ops, bits);
	vms_program_do(ops, VMS_OP_SHIFT_RIGHT);
}

static void add_offset(GArray *ops, uint64_t offset)
{
	if (!offset)
		return;
	vms_program_push(ops, offset);
	vms_program_do(ops, VMS_OP_ADD);
}

/* True for the sizes that a number can be read with. */
static bool is_integer_size(uint64_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Replaces the address on the stack by a bit field: it is read as a number of its type. */
static bool load_bits(struct compiler *compiler, const struct meaning *meaning,
		      const struct vms_type_info *info, const char *at)
{
	const uint64_t unit = info->size * 8, begin = meaning->bit_offset / unit * unit;
	const uint64_t shift = meaning->bit_offset - begin;
	if (meaning->bits > unit || shift + meaning->bits > unit)
		return vms_expression_fail(compiler, at, "this bit field cannot be read");
	vms_program_load(compiler->ops, (unsigned)info->size, begin / 8);
	shift_right(compiler->ops, shift);
	keep_bits(compiler->ops, meaning->bits, info->is_signed);
	return true;
}

/* Replaces the address on the stack by the number there. */
static bool load_number(struct compiler *compiler, const struct meaning *meaning,
			const struct vms_type_info *info, const char *at)
{
	if (!is_integer_size(info->size) || meaning->bit_offset % 8 > (meaning->bits ? 7 : 0))
		return fail_type(compiler, meaning, at, "", " is not a type of numbers");
	if (meaning->bits)
		return load_bits(compiler, meaning, info, at);
	vms_program_load(compiler->ops, (unsigned)info->size, meaning->bit_offset / 8);
	if (info->is_signed && info->size < sizeof(uint64_t))
		vms_program_add(compiler->ops, VMS_OP_EXTEND, (unsigned)info->size, 0);
	return true;
}

bool vms_typed_number(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	struct vms_type_info info;
	if (!meaning->has_type)
		return true;
	get_info(meaning, &info);
	if (is_structure(&info))
		return fail_type(compiler, meaning, at, "",
				 " is not a number: name a member, or take its address with &");
	if (meaning->where == IN_MEMORY && info.kind == VMS_TYPE_ARRAY) {
		add_offset(compiler->ops, meaning->bit_offset / 8);
		set_type(meaning, info.target, 1, ON_STACK);
		return true;
	}
	if (meaning->where == IN_MEMORY && !load_number(compiler, meaning, &info, at))
		return false;
	if (meaning->where == IN_PART) {
		shift_right(compiler->ops, meaning->bit_offset);
		keep_bits(compiler->ops, meaning->bits ? meaning->bits : info.size * 8,
			  info.is_signed);
	}
	meaning->where = ON_STACK;
	meaning->is_signed = info.is_signed;
	return true;
}

/* ---- arguments and other names ------------------------------------------------------------ */

static const struct vms_type *get_function(const struct compiler *compiler)
{
	const struct vms_known_types *known = compiler->scope->known;
	return known && known->has_function ? &known->function : NULL;
}

/* Finds an argument by its name or by "argN". False if no argument has this name. */
static bool find_argument(const struct compiler *compiler, const char *name, uint32_t *index)
{
	const struct vms_type *function = get_function(compiler);
	struct vms_type_part part;
	uint64_t number;
	if (g_str_has_prefix(name, "arg") &&
	    g_ascii_string_to_unsigned(name + strlen("arg"), 10, 0,
				       compiler->scope->arch->n_arguments - 1, &number, NULL)) {
		*index = (uint32_t)number;
		return true;
	}
	for (*index = 0; function && vms_type_get_part(*function, *index, &part); ++*index)
		if (strcmp(part.name, name) == 0)
			return true;
	return false;
}

bool vms_typed_is_argument(const struct compiler *compiler, const char *name)
{
	uint32_t index;
	return find_argument(compiler, name, &index);
}

/* Takes an argument from its register. Only the type tells which bits of the register it has. */
static void take_argument(struct compiler *compiler, struct vms_type type, struct meaning *ret)
{
	struct vms_type_info info;
	set_type(ret, type, 0, ON_STACK);
	get_info(ret, &info);
	if (is_structure(&info)) {
		ret->where = IN_PART;
		return;
	}
	keep_bits(compiler->ops, info.kind == VMS_TYPE_BOOL ? 8 : info.size * 8, info.is_signed);
	ret->is_signed = info.is_signed;
}

bool vms_typed_argument(struct compiler *compiler, const char *name, const char *at,
			struct meaning *ret)
{
	const struct vms_arch *arch = compiler->scope->arch;
	const struct vms_type *function = get_function(compiler);
	struct vms_type_part part;
	GError *error = NULL;
	uint32_t index;
	unsigned reg;
	find_argument(compiler, name, &index);
	const bool is_typed = function && vms_type_get_part(*function, index, &part);
	if (!is_typed)
		reg = index; /* argN of an unknown function, or after its last argument */
	else if (!vms_type_argument(*function, index, arch->n_arguments, &reg, &error))
		return fail_with(compiler, at, error);
	vms_program_add(compiler->ops, VMS_OP_ARGUMENT, 0, arch->arguments[reg]);
	if (is_typed)
		take_argument(compiler, part.type, ret);
	return true;
}

void vms_typed_result(struct compiler *compiler, struct meaning *ret)
{
	const struct vms_type *function = get_function(compiler);
	struct vms_type_info info, result;
	if (!function)
		return;
	vms_type_get_info(*function, &info);
	vms_type_get_info(vms_type_resolve(info.target), &result);
	if (result.size == 0 || result.size > sizeof(uint64_t))
		return;
	take_argument(compiler, info.target, ret);
	ret->is_result = true;
}

void vms_typed_task(struct compiler *compiler, struct meaning *ret)
{
	const struct vms_known_types *known = compiler->scope->known;
	struct vms_type type;
	if (known && known->types &&
	    vms_types_find(known->types, "struct task_struct", &type, NULL))
		set_type(ret, type, 1, ON_STACK);
}

/* Common constants that kernels define by the preprocessor, so that no type has them. */
static const struct {
	const char *name;
	uint64_t value;
} macros[] = {
	{ "AF_UNSPEC", 0 },	{ "AF_UNIX", 1 },	 { "AF_INET", 2 },
	{ "AF_INET6", 10 },	{ "AF_NETLINK", 16 },	 { "AF_PACKET", 17 },
	{ "S_IFMT", 0170000 },	{ "S_IFSOCK", 0140000 }, { "S_IFLNK", 0120000 },
	{ "S_IFREG", 0100000 }, { "S_IFBLK", 0060000 },	 { "S_IFDIR", 0040000 },
	{ "S_IFCHR", 0020000 }, { "S_IFIFO", 0010000 },	 { "NULL", 0 },
	{ "true", 1 },		{ "false", 0 },
};

bool vms_typed_constant(const struct compiler *compiler, const char *name, uint64_t *ret)
{
	const struct vms_known_types *known = compiler->scope->known;
	int64_t value;
	if (known && known->types && vms_types_find_enumerator(known->types, name, &value)) {
		*ret = (uint64_t)value;
		return true;
	}
	for (unsigned i = 0; i < G_N_ELEMENTS(macros); i++) {
		*ret = macros[i].value;
		if (strcmp(macros[i].name, name) == 0)
			return true;
	}
	*ret = vms_errno_number(name);
	return *ret;
}

/* ---- paths ------------------------------------------------------------------------------- */

/* Replaces the pointer on the stack by the value at its address. */
static bool follow_pointer(struct compiler *compiler, struct meaning *meaning, const char *at,
			   const char *untyped)
{
	struct vms_type_info info;
	if (!meaning->has_type)
		return vms_expression_fail(compiler, at, untyped);
	get_info(meaning, &info);
	if (info.kind != VMS_TYPE_POINTER && info.kind != VMS_TYPE_ARRAY)
		return fail_type(compiler, meaning, at, "",
				 is_structure(&info)
					 ? " is not a pointer: write \".\" before its members"
					 : " is not a pointer");
	if (!vms_typed_number(compiler, meaning, at))
		return false;
	if (meaning->stars)
		set_type(meaning, meaning->type, meaning->stars - 1, IN_MEMORY);
	else
		set_type(meaning, info.target, 0, IN_MEMORY);
	return true;
}

bool vms_typed_dereference(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	return follow_pointer(compiler, meaning, at,
			      "the type of this is not known: cast it, as in *(int *)arg0");
}

bool vms_typed_address(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	if (!meaning->has_type || meaning->where != IN_MEMORY || meaning->bits ||
	    meaning->stars == STARS_MAX)
		return vms_expression_fail(compiler, at, "this has no address");
	add_offset(compiler->ops, meaning->bit_offset / 8);
	set_type(meaning, meaning->type, meaning->stars + 1, ON_STACK);
	return true;
}

/* Finds the definition of a structure that is only declared, in other parts of the types. */
static struct vms_type find_definition(struct vms_type type)
{
	struct vms_type_info info;
	struct vms_type found;
	const struct vms_type resolved = vms_type_resolve(type);
	vms_type_get_info(resolved, &info);
	if (info.kind != VMS_TYPE_UNKNOWN || !*info.name)
		return type;
	g_autofree char *as_struct = g_strconcat("struct ", info.name, NULL);
	g_autofree char *as_union = g_strconcat("union ", info.name, NULL);
	return vms_types_find(type.types, as_struct, &found, NULL) ||
			       vms_types_find(type.types, as_union, &found, NULL)
		       ? found
		       : type;
}

/* Takes the name of a member, and replaces the structure by the member. */
static bool take_member(struct compiler *compiler, struct meaning *meaning)
{
	vms_expression_skip_blanks(compiler);
	const char *begin = compiler->at;
	while (g_ascii_isalnum(*compiler->at) || *compiler->at == '_')
		compiler->at++;
	if (compiler->at == begin)
		return vms_expression_fail(compiler, begin, "the name of a member is missing");
	g_autofree char *name = g_strndup(begin, (gsize)(compiler->at - begin));
	struct vms_type_part member;
	GError *error = NULL;
	struct vms_type_info info;
	get_info(meaning, &info);
	if (info.kind == VMS_TYPE_POINTER)
		return fail_type(compiler, meaning, begin, "",
				 " is a pointer: write \"->\" before its members");
	if (meaning->where == ON_STACK)
		return fail_type(compiler, meaning, begin, "", " is not a structure");
	if (!vms_type_find_member(find_definition(meaning->type), name, &member, &error))
		return fail_with(compiler, begin, error);
	const uint64_t offset = meaning->bit_offset + member.bit_offset;
	set_type(meaning, member.type, 0, meaning->where);
	meaning->bit_offset = offset;
	meaning->bits = member.bits;
	return true;
}

/* If all operations since `begin` are one constant, removes it and gets its value. */
static bool take_constant(GArray *ops, guint begin, uint64_t *ret)
{
	const struct vms_op *op = &g_array_index(ops, struct vms_op, begin);
	if (ops->len != begin + 1 || op->code != VMS_OP_PUSH)
		return false;
	*ret = op->value;
	g_array_set_size(ops, begin);
	return true;
}

/*
 * Replaces an array by its first element, or a pointer by the value at its address. Sets `*n` to
 * the number of elements, or to 0 if that is not known.
 */
static bool begin_elements(struct compiler *compiler, struct meaning *meaning, const char *at,
			   uint64_t *n)
{
	struct vms_type_info info;
	*n = 0;
	if (meaning->has_type)
		get_info(meaning, &info);
	if (!meaning->has_type || meaning->where != IN_MEMORY || info.kind != VMS_TYPE_ARRAY)
		return follow_pointer(compiler, meaning, at,
				      "only arrays and pointers with a type have elements");
	const uint64_t offset = meaning->bit_offset;
	*n = info.n_elements;
	set_type(meaning, info.target, 0, IN_MEMORY);
	meaning->bit_offset = offset;
	return true;
}

static bool take_index(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	struct vms_type_info info;
	struct meaning index;
	uint64_t n, value;
	if (!begin_elements(compiler, meaning, at, &n))
		return false;
	get_info(meaning, &info);
	const guint begin = compiler->ops->len;
	const char *index_at = compiler->at;
	if (!vms_expression_any(compiler, &index) || !vms_expression_expect(compiler, "]"))
		return false;
	if (index.is_string)
		return vms_expression_fail(compiler, index_at, "a string is not a number");
	if (!vms_expression_number(compiler, &index, index_at))
		return false;
	if (info.size == 0 || info.size > ELEMENT_MAX)
		return fail_type(compiler, meaning, at, "elements of type ", " have no size");
	if (!take_constant(compiler->ops, begin, &value)) {
		vms_program_push(compiler->ops, info.size);
		vms_program_do(compiler->ops, VMS_OP_MULTIPLY);
		vms_program_do(compiler->ops, VMS_OP_ADD);
	} else if ((n && value >= n) || value > INT32_MAX) {
		return vms_expression_fail(compiler, index_at,
					   "the index is beyond the end of the array");
	} else {
		meaning->bit_offset += value * info.size * 8;
	}
	return true;
}

bool vms_typed_postfix(struct compiler *compiler, struct meaning *meaning)
{
	for (;;) {
		vms_expression_skip_blanks(compiler);
		const char *at = compiler->at;
		bool done;
		if (vms_expression_take(compiler, "->"))
			done = follow_pointer(compiler, meaning, at,
					      "the type of this is not known: cast it, as in "
					      "((struct sock *)arg0)->…") &&
			       take_member(compiler, meaning);
		else if (!meaning->is_string && vms_expression_take(compiler, "."))
			done = meaning->has_type ? take_member(compiler, meaning)
						 : vms_expression_fail(compiler, at,
								       "this is not a structure");
		else if (!meaning->is_string && vms_expression_take(compiler, "["))
			done = take_index(compiler, meaning, at);
		else
			return true;
		if (!done)
			return false;
	}
}

/* ---- casts ------------------------------------------------------------------------------- */

/* True for words with which only names of types begin. */
static bool begins_type(const char *name)
{
	static const char *const words[] = { "struct", "union", "enum",	 "unsigned",
					     "signed", "char",	"short", "int",
					     "long",   "void",	"const" };
	const size_t length = strcspn(name, " ");
	for (unsigned i = 0; i < G_N_ELEMENTS(words); i++)
		if (strlen(words[i]) == length && strncmp(words[i], name, length) == 0)
			return true;
	return false;
}

/* Takes words with single blanks between them into `name`. Returns what follows. */
static const char *take_words(const char *at, GString *name)
{
	for (;;) {
		while (g_ascii_isspace(*at))
			at++;
		if (!g_ascii_isalnum(*at) && *at != '_')
			return at;
		if (name->len)
			g_string_append_c(name, ' ');
		while (g_ascii_isalnum(*at) || *at == '_')
			g_string_append_c(name, *at++);
	}
}

enum cast { IS_CAST, IS_NO_CAST, IS_WRONG };

/* Finds the type whose name is in parentheses. */
static enum cast find_cast(struct compiler *compiler, const char *at, const char *words,
			   struct vms_type *ret)
{
	const struct vms_known_types *known = compiler->scope->known;
	const char *name = words + (g_str_has_prefix(words, "const ") ? strlen("const ") : 0);
	const bool is_type = begins_type(words);
	g_autoptr(GError) error = NULL;
	if (vms_typed_is_argument(compiler, name))
		return IS_NO_CAST;
	if (known && known->types &&
	    vms_types_find(known->types, name, ret, is_type ? &error : NULL))
		return IS_CAST;
	if (!is_type)
		return IS_NO_CAST;
	vms_expression_fail(compiler, at,
			    error		  ? error->message
			    : known && known->why ? known->why
						  : "the types of the guest are not known");
	return IS_WRONG;
}

/* Converts a value to another type. */
static bool convert_value(struct compiler *compiler, struct meaning *meaning, struct vms_type type,
			  unsigned stars, const char *at)
{
	struct vms_type_info info;
	if (meaning->is_string)
		return vms_expression_fail(compiler, at, "a string cannot be cast");
	if (!vms_expression_number(compiler, meaning, at))
		return false;
	set_type(meaning, type, stars, ON_STACK);
	get_info(meaning, &info);
	if (is_structure(&info) || !is_integer_size(info.size) || info.kind == VMS_TYPE_ARRAY)
		return fail_type(compiler, meaning, at, "cannot cast to ",
				 ": cast to a pointer to it");
	keep_bits(compiler->ops, info.size * 8, info.is_signed);
	meaning->is_signed = info.is_signed;
	return true;
}

bool vms_typed_cast(struct compiler *compiler, struct meaning *ret, bool *is_cast)
{
	g_autoptr(GString) words = g_string_new(NULL);
	struct vms_type type;
	unsigned stars = 0;
	vms_expression_skip_blanks(compiler);
	const char *open = compiler->at;
	*is_cast = false;
	if (*open != '(')
		return true;
	const char *at = take_words(open + 1, words);
	for (; *at == '*' || g_ascii_isspace(*at); at++)
		stars += *at == '*';
	if (*at != ')' || !words->len || words->len > TYPE_LENGTH || stars > STARS_MAX)
		return true;
	const enum cast cast = find_cast(compiler, open + 1, words->str, &type);
	*is_cast = cast == IS_CAST;
	if (cast != IS_CAST)
		return cast == IS_NO_CAST;
	compiler->at = at + 1;
	const guint begin = ret->begin;
	const bool done = vms_expression_operand(compiler, ret) &&
			  convert_value(compiler, ret, type, stars, open);
	ret->begin = begin;
	return done;
}

/* ---- text, and values to collect --------------------------------------------------------- */

bool vms_typed_string(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	struct vms_type_info info;
	if (!meaning->has_type || meaning->stars || !vms_type_is_text(meaning->type))
		return true;
	get_info(meaning, &info);
	const bool is_array = info.kind == VMS_TYPE_ARRAY;
	if (!vms_typed_number(compiler, meaning, at))
		return false;
	meaning->has_type = false;
	meaning->is_string = true;
	meaning->chunk = is_array && info.n_elements ? 8 : 1;
	meaning->limit = is_array ? info.n_elements : 0;
	return true;
}

/* Collects the bytes of a structure or an array, up to BYTES_MAX. */
static bool collect_bytes(struct compiler *compiler, struct meaning *meaning,
			  const struct vms_type_info *info, uint32_t size)
{
	const uint64_t limit = size ? size : BYTES_MAX;
	if (info->size == 0 || meaning->bit_offset % 8)
		return fail_type(compiler, meaning, compiler->text, "the size of ",
				 " is not known");
	add_offset(compiler->ops, meaning->bit_offset / 8);
	vms_program_add(compiler->ops, VMS_OP_COLLECT_MEMORY, (unsigned)MIN(info->size, limit), 0);
	return true;
}

/* Converts the value to a pointer to text, and collects the text and the pointer. */
static bool collect_text(struct compiler *compiler, struct meaning *meaning, uint32_t size,
			 struct vms_expression_value *ret)
{
	if (!vms_typed_number(compiler, meaning, compiler->text))
		return false;
	ret->is_text = true;
	ret->type = meaning->type;
	ret->is_pointer = meaning->stars;
	vms_program_do(compiler->ops, VMS_OP_DUPLICATE);
	vms_program_add(compiler->ops, VMS_OP_COLLECT_STRING, size ? size : TEXT_BYTES, 0);
	vms_program_add(compiler->ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	return true;
}

bool vms_typed_collect(struct compiler *compiler, struct meaning *meaning, uint32_t size,
		       struct vms_expression_value *ret)
{
	struct vms_type_info info;
	*ret = (struct vms_expression_value) { .has_type = meaning->has_type,
					       .type = meaning->type,
					       .is_pointer = meaning->stars,
					       .is_result = meaning->is_result };
	if (!meaning->has_type) {
		vms_program_add(compiler->ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
		return true;
	}
	get_info(meaning, &info);
	const bool is_array = info.kind == VMS_TYPE_ARRAY;
	/* Pointers, and char text[], whose size is not known. */
	if (!meaning->stars && vms_type_is_text(meaning->type) && (!is_array || !info.n_elements))
		return collect_text(compiler, meaning, size, ret);
	if (meaning->where == IN_MEMORY && (is_structure(&info) || is_array))
		return collect_bytes(compiler, meaning, &info, size);
	if (meaning->where == IN_PART && is_structure(&info))
		shift_right(compiler->ops, meaning->bit_offset);
	else if (!vms_typed_number(compiler, meaning, compiler->text))
		return false;
	vms_program_add(compiler->ops, VMS_OP_COLLECT, (unsigned)info.size, 0);
	return true;
}
