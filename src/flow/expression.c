/* SPDX-License-Identifier: MIT */
#include "flow/expression-private.h"
#include "flow/names.h"
#include "guest/processes.h"
#include <string.h>

#define NESTING_MAX 32
#define COMM_BYTES  16 /* of task_struct.comm */

bool vms_expression_fail(const struct compiler *compiler, const char *at, const char *what)
{
	g_set_error(compiler->error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "\"%s\", character %zu: %s", compiler->text, (size_t)(at - compiler->text) + 1,
		    what);
	return false;
}

void vms_expression_skip_blanks(struct compiler *compiler)
{
	while (g_ascii_isspace(*compiler->at))
		compiler->at++;
}

bool vms_expression_take(struct compiler *compiler, const char *sign)
{
	static const char *const longer[] = { "||", "&&", "==", "!=", "<=", ">=", "<<", ">>" };
	vms_expression_skip_blanks(compiler);
	if (!g_str_has_prefix(compiler->at, sign))
		return false;
	for (unsigned i = 0; i < G_N_ELEMENTS(longer) && !sign[1]; i++)
		if (g_str_has_prefix(compiler->at, longer[i]))
			return false;
	compiler->at += strlen(sign);
	return true;
}

bool vms_expression_expect(struct compiler *compiler, const char *sign)
{
	g_autofree char *what = g_strdup_printf("\"%s\" is missing", sign);
	return vms_expression_take(compiler, sign) ||
	       vms_expression_fail(compiler, compiler->at, what);
}

bool vms_expression_number(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	if (!meaning->is_wide)
		return vms_typed_number(compiler, meaning, at);
	meaning->is_wide = false;
	return vms_wide_value_push(compiler, &meaning->wide, at, &meaning->is_signed);
}

/* ---- numbers, characters, strings ---------------------------------------------------- */

static bool compile_number(struct compiler *compiler)
{
	const char *begin = compiler->at;
	char *end;
	errno = 0;
	const uint64_t value = g_ascii_strtoull(begin, &end, 0);
	if (errno || g_ascii_isalnum(*end) || *end == '_')
		return vms_expression_fail(compiler, begin, "this is not a number of 64 bits");
	compiler->at = end;
	vms_program_push(compiler->ops, value);
	return true;
}

/* Takes the text up to the closing `quote`. Returns it newly allocated, or NULL. */
static char *take_quoted(struct compiler *compiler, char quote)
{
	const char *begin = compiler->at;
	while (*compiler->at && *compiler->at != quote)
		compiler->at += compiler->at[0] == '\\' && compiler->at[1] ? 2 : 1;
	if (!*compiler->at) {
		vms_expression_fail(compiler, begin - 1, "this quote does not end");
		return NULL;
	}
	g_autofree char *raw = g_strndup(begin, (gsize)(compiler->at++ - begin));
	return g_strcompress(raw);
}

static bool compile_character(struct compiler *compiler)
{
	const char *begin = compiler->at++;
	g_autofree char *text = take_quoted(compiler, '\'');
	if (!text)
		return false;
	if (strlen(text) > 1 || (!*text && !g_str_has_prefix(begin, "'\\0'")))
		return vms_expression_fail(compiler, begin, "this is not one character");
	vms_program_push(compiler->ops, (uint8_t)*text);
	return true;
}

/* ---- names ------------------------------------------------------------------------- */

static bool is_name_char(char c)
{
	return g_ascii_isalnum(c) || c == '_' || c == '.' || c == '$';
}

/* Leaves the address of a member of the current task on the stack. */
static bool compile_task(struct compiler *compiler, const char *name, const char *at,
			 struct meaning *ret)
{
	struct vms_task_layout layout;
	const struct vms_expression_scope *scope = compiler->scope;
	if (!vms_guest_task_layout(scope->guest, &layout) ||
	    !vms_guest_add_current(scope->guest, compiler->ops))
		return vms_expression_fail(compiler, at, "the tasks of this guest are not known");
	if (strcmp(name, "current") == 0) {
		vms_typed_task(compiler, ret);
		return true;
	}
	if (strcmp(name, "comm") == 0) {
		vms_program_push(compiler->ops, layout.comm);
		vms_program_do(compiler->ops, VMS_OP_ADD);
		ret->is_string = true;
		ret->chunk = 8;
		ret->limit = COMM_BYTES;
		return true;
	}
	vms_program_load(compiler->ops, 4, strcmp(name, "pid") == 0 ? layout.pid : layout.tid);
	return true;
}

static bool fail_unknown(struct compiler *compiler, const char *name, const char *at)
{
	const struct vms_expression_scope *scope = compiler->scope;
	const struct vms_known_types *known = scope->known;
	const char *why = known ? known->why : NULL;
	size_t n;
	g_autofree char *addresses = vms_guest_addresses(scope->guest, name, &n);
	if (n > 1) {
		g_autofree char *choice = g_strdup_printf(
			"%zu symbols are called \"%s\": write the address of one: %s", n, name,
			addresses);
		return vms_expression_fail(compiler, at, choice);
	}
	g_autofree char *nearest =
		vms_flow_nearest(scope->arch, scope->guest,
				 known && known->has_function ? &known->function : NULL, name);
	g_autofree char *what = g_strdup_printf("\"%s\" is not known%s%s%s", name, nearest,
						why ? "; " : "", why ? why : "");
	return vms_expression_fail(compiler, at, what);
}

/* Compiles a name of the kernel: a symbol, or a constant. */
static bool compile_symbol(struct compiler *compiler, const char *name, const char *at)
{
	uint64_t value;
	if (!vms_flow_find_symbol(compiler->scope->guest, name, &value) &&
	    !vms_typed_constant(compiler, name, &value))
		return fail_unknown(compiler, name, at);
	vms_program_push(compiler->ops, value);
	return true;
}

/* True for words that mean the same at every place. An argument with such a name must be argN. */
static bool is_word(const char *name)
{
	static const char *const words[] = { "cpu",  "duration", "pid",	  "tid",
					     "comm", "current",	 "retval" };
	for (unsigned i = 0; i < G_N_ELEMENTS(words); i++)
		if (strcmp(words[i], name) == 0)
			return true;
	return false;
}

static bool compile_word(struct compiler *compiler, const char *name, const char *at,
			 struct meaning *ret)
{
	if (strcmp(name, "cpu") == 0) {
		vms_program_do(compiler->ops, VMS_OP_VCPU);
		return true;
	}
	if (strcmp(name, "duration") == 0) {
		vms_program_do(compiler->ops, VMS_OP_ELAPSED);
		return true;
	}
	if (strcmp(name, "retval") != 0)
		return compile_task(compiler, name, at, ret);
	vms_program_register(compiler->ops, compiler->scope->arch->result);
	vms_typed_result(compiler, ret);
	return true;
}

static bool compile_plain_name(struct compiler *compiler, const char *name, const char *at,
			       struct meaning *ret)
{
	struct vms_reg_part part;
	if (is_word(name))
		return compile_word(compiler, name, at, ret);
	if (vms_typed_is_argument(compiler, name))
		return vms_typed_argument(compiler, name, at, ret);
	if (!vms_wide_value_take(compiler, name, at, &ret->wide, &ret->is_wide))
		return false;
	if (ret->is_wide)
		return true;
	if (!vms_arch_reg_part(compiler->scope->arch, name, &part))
		return compile_symbol(compiler, name, at);
	vms_flow_push_register(compiler->scope->arch, &part, compiler->ops);
	return true;
}

/* Compiles htons(80) and htonl(0x7f000001), which give constants in network byte order. */
static bool compile_network(struct compiler *compiler, bool is_long)
{
	vms_expression_skip_blanks(compiler);
	const char *begin = compiler->at;
	if (!g_ascii_isdigit(*begin))
		return vms_expression_fail(compiler, begin, "a number is needed here");
	if (!compile_number(compiler))
		return false;
	uint64_t *value =
		&g_array_index(compiler->ops, struct vms_op, compiler->ops->len - 1).value;
	if (*value > (is_long ? UINT32_MAX : UINT16_MAX))
		return vms_expression_fail(compiler, begin, "this number is too large");
	*value = is_long ? GUINT32_TO_BE((uint32_t)*value) : GUINT16_TO_BE((uint16_t)*value);
	return vms_expression_expect(compiler, ")");
}

/* Compiles u8(A) to s64(A), and str(A). The "(" is taken already. */
static bool compile_function(struct compiler *compiler, const char *name, const char *at,
			     struct meaning *ret)
{
	static const struct {
		const char *name;
		unsigned size; /* bytes; 0: a string */
		bool is_signed;
	} functions[] = {
		{ "u8", 1, false },  { "u16", 2, false }, { "u32", 4, false },
		{ "u64", 8, false }, { "s8", 1, true },	  { "s16", 2, true },
		{ "s32", 4, true },  { "s64", 8, true },  { "str", 0, false },
	};
	if (strcmp(name, "htons") == 0 || strcmp(name, "htonl") == 0)
		return compile_network(compiler, name[4] == 'l');
	unsigned i = 0;
	while (i < G_N_ELEMENTS(functions) && strcmp(functions[i].name, name) != 0)
		i++;
	if (i == G_N_ELEMENTS(functions))
		return vms_expression_fail(
			compiler, at,
			"only u8, u16, u32, u64, s8, s16, s32, s64 and str can be called");
	struct meaning address;
	if (!vms_expression_any(compiler, &address) || !vms_expression_expect(compiler, ")"))
		return false;
	if (address.is_string)
		return vms_expression_fail(compiler, at,
					   "this is a string, but an address is needed");
	if (!vms_expression_number(compiler, &address, at))
		return false;
	ret->is_signed = functions[i].is_signed;
	ret->is_string = !functions[i].size;
	ret->chunk = 1;
	if (functions[i].size)
		vms_program_add(compiler->ops, VMS_OP_LOAD, functions[i].size, 0);
	if (functions[i].is_signed)
		vms_program_add(compiler->ops, VMS_OP_EXTEND, functions[i].size, 0);
	return true;
}

static bool compile_name(struct compiler *compiler, struct meaning *ret)
{
	const char *begin = compiler->at;
	while (is_name_char(*compiler->at))
		compiler->at++;
	g_autofree char *name = g_strndup(begin, (gsize)(compiler->at - begin));
	/* Symbols may have dots. A dot after an argument leads to a member. */
	char *dot = strchr(name, '.');
	g_autofree char *before = g_strndup(name, dot ? (gsize)(dot - name) : 0);
	if (dot && vms_typed_is_argument(compiler, before)) {
		*dot = 0;
		compiler->at = begin + strlen(name);
	}
	return vms_expression_take(compiler, "(") ? compile_function(compiler, name, begin, ret)
						  : compile_plain_name(compiler, name, begin, ret);
}

/* ---- operators --------------------------------------------------------------------- */

static bool compile_parentheses(struct compiler *compiler, struct meaning *ret)
{
	if (!vms_expression_take(compiler, "(")) {
		const bool is_empty = !compiler->text[strspn(compiler->text, " \t")];
		return vms_expression_fail(compiler, compiler->at,
					   is_empty ? "a value is missing: the expression is empty"
						    : "a value is missing");
	}
	return vms_expression_any(compiler, ret) && vms_expression_expect(compiler, ")");
}

static bool compile_primary(struct compiler *compiler, struct meaning *ret)
{
	vms_expression_skip_blanks(compiler);
	if (g_ascii_isdigit(*compiler->at))
		return compile_number(compiler);
	if (*compiler->at == '\'')
		return compile_character(compiler);
	return is_name_char(*compiler->at) ? compile_name(compiler, ret)
					   : compile_parentheses(compiler, ret);
}

/* Compiles a value, and the path from it to a member or an element. */
static bool compile_path(struct compiler *compiler, struct meaning *ret)
{
	bool is_cast;
	if (!vms_typed_cast(compiler, ret, &is_cast))
		return false;
	return is_cast || (compile_primary(compiler, ret) && vms_typed_postfix(compiler, ret));
}

static bool need_number(struct compiler *compiler, struct meaning *meaning, const char *at)
{
	if (meaning->is_string)
		return vms_expression_fail(compiler, at,
					   "a string can only be compared with == and !=");
	return vms_expression_number(compiler, meaning, at);
}

/* Compiles a sign before an operand. */
static bool compile_sign(struct compiler *compiler, char sign, const char *at, struct meaning *ret)
{
	if (sign == '-')
		vms_program_push(compiler->ops, 0);
	if (!vms_expression_operand(compiler, ret) || !need_number(compiler, ret, at))
		return false;
	if (sign == '~')
		vms_program_push(compiler->ops, UINT64_MAX);
	vms_program_do(compiler->ops, sign == '-'   ? VMS_OP_SUBTRACT
				      : sign == '~' ? VMS_OP_XOR
						    : VMS_OP_IS_ZERO);
	ret->is_signed = sign == '-' || (sign == '~' && ret->is_signed);
	ret->has_type = false;
	return true;
}

bool vms_expression_operand(struct compiler *compiler, struct meaning *ret)
{
	static const char signs[] = "-!~*&";
	const guint begin = compiler->ops->len;
	*ret = (struct meaning) { .begin = begin };
	vms_expression_skip_blanks(compiler);
	const char *sign = *compiler->at ? strchr(signs, *compiler->at) : NULL;
	if (!sign)
		return compile_path(compiler, ret);
	const char *at = compiler->at++;
	if (compiler->nesting++ == NESTING_MAX)
		return vms_expression_fail(compiler, at, "this is nested too deeply");
	const bool done = *sign == '*' ? vms_expression_operand(compiler, ret) &&
						 vms_typed_dereference(compiler, ret, at)
			  : *sign == '&' ? vms_expression_operand(compiler, ret) &&
						   vms_typed_address(compiler, ret, at)
					 : compile_sign(compiler, *sign, at, ret);
	ret->begin = begin;
	compiler->nesting--;
	return done;
}

struct operator
{
	const char *sign;
	unsigned level; /* of precedence; higher binds closer */
	enum vms_op_code code, signed_code;
	bool negates; /* the result is negated: a > b is the opposite of a <= b */
	bool compares;
};

/* Levels: 1 is |, then ^, &, equality, order, shifts, sums, products. */
#define LOWEST	1
#define HIGHEST 8
#define SHIFTS	6 /* their result has the sign of what is shifted */

static const struct operator operators[] = {
	{ "|", 1, VMS_OP_OR, VMS_OP_OR, false, false },
	{ "^", 2, VMS_OP_XOR, VMS_OP_XOR, false, false },
	{ "&", 3, VMS_OP_AND, VMS_OP_AND, false, false },
	{ "==", 4, VMS_OP_EQUAL, VMS_OP_EQUAL, false, true },
	{ "!=", 4, VMS_OP_EQUAL, VMS_OP_EQUAL, true, true },
	{ "<=", 5, VMS_OP_LESS_OR_EQUAL, VMS_OP_LESS_OR_EQUAL_SIGNED, false, true },
	{ ">=", 5, VMS_OP_LESS, VMS_OP_LESS_SIGNED, true, true },
	{ "<", 5, VMS_OP_LESS, VMS_OP_LESS_SIGNED, false, true },
	{ ">", 5, VMS_OP_LESS_OR_EQUAL, VMS_OP_LESS_OR_EQUAL_SIGNED, true, true },
	{ "<<", SHIFTS, VMS_OP_SHIFT_LEFT, VMS_OP_SHIFT_LEFT, false, false },
	{ ">>", SHIFTS, VMS_OP_SHIFT_RIGHT, VMS_OP_SHIFT_RIGHT_SIGNED, false, false },
	{ "+", 7, VMS_OP_ADD, VMS_OP_ADD, false, false },
	{ "-", 7, VMS_OP_SUBTRACT, VMS_OP_SUBTRACT, false, false },
	{ "*", 8, VMS_OP_MULTIPLY, VMS_OP_MULTIPLY, false, false },
	{ "/", 8, VMS_OP_DIVIDE, VMS_OP_DIVIDE_SIGNED, false, false },
	{ "%", 8, VMS_OP_MODULO, VMS_OP_MODULO_SIGNED, false, false },
};

static const struct operator* take_operator(struct compiler *compiler, unsigned level)
{
	for (unsigned i = 0; i < G_N_ELEMENTS(operators); i++)
		if (operators[i].level == level && vms_expression_take(compiler, operators[i].sign))
			return &operators[i];
	return NULL;
}

/* Makes the skip at `at` skip all operations that were appended after it. */
static void end_skip(GArray *ops, guint at)
{
	g_array_index(ops, struct vms_op, at).value = ops->len - at - 1;
}

/* Compares the bytes of a string. The operations from `begin` on give its address. */
static void compare_bytes(struct compiler *compiler, const struct meaning *string,
			  const char *literal, size_t size)
{
	GArray *ops = compiler->ops;
	const guint n = ops->len - string->begin;
	g_autofree struct vms_op *address =
		g_memdup2(&g_array_index(ops, struct vms_op, string->begin), n * sizeof(*address));
	g_autoptr(GArray) skips = g_array_new(FALSE, FALSE, sizeof(guint));
	g_array_set_size(ops, string->begin);
	for (size_t done = 0, part; done < size; done += part) {
		uint64_t expected = 0;
		for (part = string->chunk; part > size - done; part /= 2)
			;
		memcpy(&expected, literal + done, part);
		if (done > 0) {
			g_array_append_val(skips, ops->len);
			vms_program_do(ops, VMS_OP_SKIP_IF_ZERO);
		}
		g_array_append_vals(ops, address, n);
		vms_program_load(ops, (unsigned)part, done);
		vms_program_push(ops, expected);
		vms_program_do(ops, VMS_OP_EQUAL);
	}
	for (guint i = 0; i < skips->len; i++)
		end_skip(ops, g_array_index(skips, guint, i));
}

/* Compiles the right side of STRING == or STRING !=. */
static bool compile_literal(struct compiler *compiler, const struct meaning *string)
{
	vms_expression_skip_blanks(compiler);
	const char *begin = compiler->at;
	if (*begin != '"')
		return vms_expression_fail(compiler, begin, "a string in double quotes is missing");
	compiler->at++;
	g_autofree char *literal = take_quoted(compiler, '"');
	if (!literal)
		return false;
	const size_t size = strlen(literal) + 1;
	if (string->limit && size > string->limit) {
		g_autofree char *what =
			g_strdup_printf("this can never be equal: the array has room for %u bytes",
					string->limit - 1);
		return vms_expression_fail(compiler, begin, what);
	}
	compare_bytes(compiler, string, literal, size);
	return true;
}

static bool compile_binary(struct compiler *compiler, unsigned level, struct meaning *ret);

static bool compile_right(struct compiler *compiler, const struct operator* op, const char *at,
			  struct meaning *left)
{
	struct meaning right;
	const bool equality = op->code == VMS_OP_EQUAL;
	vms_expression_skip_blanks(compiler);
	if (equality && *compiler->at == '"' && !vms_typed_string(compiler, left, at))
		return false;
	if (left->is_string && equality) {
		if (!compile_literal(compiler, left))
			return false;
		left->is_string = false;
	} else {
		if (!need_number(compiler, left, at) ||
		    !compile_binary(compiler, op->level + 1, &right) ||
		    !need_number(compiler, &right, at))
			return false;
		left->is_signed |= right.is_signed && op->level != SHIFTS;
		vms_program_do(compiler->ops, left->is_signed ? op->signed_code : op->code);
	}
	if (op->negates)
		vms_program_do(compiler->ops, VMS_OP_IS_ZERO);
	left->is_signed &= !op->compares;
	left->has_type = false;
	return true;
}

static bool compile_binary(struct compiler *compiler, unsigned level, struct meaning *ret)
{
	const struct operator* op;
	if (level > HIGHEST)
		return vms_expression_operand(compiler, ret);
	if (!compile_binary(compiler, level + 1, ret))
		return false;
	for (const char *at = compiler->at; (op = take_operator(compiler, level));
	     at = compiler->at)
		if (!compile_right(compiler, op, at, ret))
			return false;
	return true;
}

/* Converts a value to 0 or 1. */
static void make_boolean(GArray *ops)
{
	vms_program_do(ops, VMS_OP_IS_ZERO);
	vms_program_do(ops, VMS_OP_IS_ZERO);
}

/* Compiles operands with `sign` between them. Operands after the one that decides are skipped. */
static bool compile_logic(struct compiler *compiler, const char *sign, enum vms_op_code skip,
			  bool (*part)(struct compiler *, struct meaning *), struct meaning *ret)
{
	struct meaning right;
	if (!part(compiler, ret))
		return false;
	for (const char *at = compiler->at; vms_expression_take(compiler, sign);
	     at = compiler->at) {
		if (!need_number(compiler, ret, at))
			return false;
		make_boolean(compiler->ops);
		const guint skips = compiler->ops->len;
		vms_program_do(compiler->ops, skip);
		if (!part(compiler, &right) || !need_number(compiler, &right, at))
			return false;
		make_boolean(compiler->ops);
		end_skip(compiler->ops, skips);
		ret->is_signed = ret->has_type = false;
	}
	return true;
}

static bool compile_lowest(struct compiler *compiler, struct meaning *ret)
{
	return compile_binary(compiler, LOWEST, ret);
}

static bool compile_and(struct compiler *compiler, struct meaning *ret)
{
	return compile_logic(compiler, "&&", VMS_OP_SKIP_IF_ZERO, compile_lowest, ret);
}

bool vms_expression_any(struct compiler *compiler, struct meaning *ret)
{
	if (compiler->nesting++ == NESTING_MAX)
		return vms_expression_fail(compiler, compiler->at, "this is nested too deeply");
	const bool done = compile_logic(compiler, "||", VMS_OP_SKIP_UNLESS_ZERO, compile_and, ret);
	compiler->nesting--;
	return done;
}

/* Compiles a whole text. */
static bool compile_all(struct compiler *compiler, bool allows_string, struct meaning *ret)
{
	if (!vms_expression_any(compiler, ret))
		return false;
	vms_expression_skip_blanks(compiler);
	if (*compiler->at)
		return vms_expression_fail(compiler, compiler->at,
					   "this is unexpected: an operator may be missing");
	return !ret->is_string || allows_string ||
	       vms_expression_fail(compiler, compiler->text,
				   "a string is not a number: compare it with ==");
}

static bool compile_text(const struct vms_expression_scope *scope, const char *text,
			 bool allows_string, GArray *ops, GError **error)
{
	struct compiler compiler = {
		.scope = scope, .text = text, .at = text, .ops = ops, .error = error
	};
	struct meaning meaning;
	const guint begin = ops->len;
	const bool done = compile_all(&compiler, allows_string, &meaning) &&
			  vms_expression_number(&compiler, &meaning, text);
	if (!done)
		g_array_set_size(ops, begin);
	return done;
}

static bool collect_value(struct compiler *compiler, struct meaning *meaning, uint32_t size,
			  struct vms_expression_value *ret)
{
	if (!meaning->is_wide)
		return vms_typed_collect(compiler, meaning, size, ret);
	*ret = (struct vms_expression_value) { .is_wide = true, .wide = meaning->wide };
	vms_wide_value_collect(&meaning->wide, compiler->ops);
	return true;
}

bool vms_expression_collect(const struct vms_expression_scope *scope, const char *text,
			    uint32_t size, GArray *ops, struct vms_expression_value *ret,
			    GError **error)
{
	struct compiler compiler = {
		.scope = scope, .text = text, .at = text, .ops = ops, .error = error
	};
	struct meaning meaning;
	const guint begin = ops->len;
	const bool done = compile_all(&compiler, false, &meaning) &&
			  collect_value(&compiler, &meaning, size, ret);
	if (!done)
		g_array_set_size(ops, begin);
	return done;
}

bool vms_expression_compile(const struct vms_expression_scope *scope, const char *text, GArray *ops,
			    GError **error)
{
	return compile_text(scope, text, false, ops, error);
}

bool vms_expression_compile_string(const struct vms_expression_scope *scope, const char *text,
				   GArray *ops, GError **error)
{
	return compile_text(scope, text, true, ops, error);
}
