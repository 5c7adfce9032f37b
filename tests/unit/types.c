/* SPDX-License-Identifier: MIT */
/*
 * Types: what the compiler describes of types-sample.h is what this program itself has. An
 * expression is worth what C makes of the same text, and a value is written as C could have been
 * given it. Hostile types are written by hand.
 */
#include "btf_encoder.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "flow/expression.h"
#include "guest/linux/btf_types.h"
#include "probe/program_writer.h"
#include "self_section.h"
#include "types-sample.h"
#include <arpa/inet.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vmscope/flow.h>

#define PROTO 13
#define FUNC  12

static struct vms_types *make_types(const uint8_t *data, size_t size)
{
	GError *error = NULL;
	struct vms_btf *btf = vms_btf_new((struct vms_bytes) { data, size }, &error);
	g_assert_no_error(error);
	struct vms_types *types = vms_btf_make_types(btf, NULL, NULL);
	vms_btf_free(btf);
	return types;
}

static struct vms_types *finish_types(struct encoder *encoder)
{
	g_autoptr(GByteArray) blob = finish(encoder);
	return make_types(blob->data, blob->len);
}

static struct vms_type find_type(const struct vms_types *types, const char *name)
{
	struct vms_type type;
	GError *error = NULL;
	vms_types_find(types, name, &type, &error);
	g_assert_no_error(error);
	return type;
}

static char *format(struct vms_type type, const void *bytes, size_t size, unsigned flags)
{
	/* An exact copy, so that a sanitizer sees every byte read beyond it. */
	g_autofree uint8_t *copy = g_memdup2(bytes, size);
	GString *text = g_string_new(NULL);
	vms_type_format(type, copy, size, flags, text);
	return g_string_free(text, FALSE);
}

static void assert_format(struct vms_type type, const void *bytes, size_t size, const char *text)
{
	g_autofree char *formatted = format(type, bytes, size, 0);
	g_assert_cmpstr(formatted, ==, text);
}

#ifdef HAVE_COMPILER_BTF

/* ---- what the compiler describes --------------------------------------------------------- */

struct fixture {
	struct vms_types *types;
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_known_types known;
	struct vms_expression_scope scope;
	uint64_t arguments[6];
	uint64_t result;
};

static struct vms_types *load_own(void)
{
	size_t size;
	g_autofree uint8_t *section = self_section(".BTF", &size);
	return make_types(section, size);
}

static void use_function(struct fixture *f, const char *name)
{
	GError *error = NULL;
	f->known.has_function = vms_types_find_function(f->types, name, &f->known.function, &error);
	g_assert_no_error(error);
}

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->types = load_own();
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	f->guest = fake_guest_new(f->machine, VMS_GUEST_LINUX);
	f->known.types = f->types;
	f->scope = (struct vms_expression_scope) { &vms_arch_x86_64, f->guest, &f->known };
	use_function(f, "probed");
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_types_unref(f->types);
	vms_guest_unref(f->guest);
	vms_machine_unref(f->machine);
}

static bool give_register(void *data, unsigned reg, uint64_t *ret)
{
	const struct fixture *f = data;
	const struct vms_arch *arch = &vms_arch_x86_64;
	for (unsigned i = 0; i < arch->n_arguments; i++)
		if (arch->arguments[i] == reg) {
			*ret = f->arguments[i];
			return true;
		}
	*ret = f->result;
	return reg == arch->result;
}

/* The memory of the guest is that of this process. */
static bool give_memory(void *data G_GNUC_UNUSED, uint64_t va, void *buf, size_t size)
{
	const struct iovec local = { buf, size };
	const struct iovec remote = { (void *)va, size };
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Runs operations that collect one value. */
static enum vms_value_status collect(struct fixture *f, const GArray *ops, uint8_t *bytes,
				     size_t *n)
{
	const struct vms_program program = { (const void *)ops->data, ops->len };
	const struct vms_program_input input = { give_register, give_memory, f, 0 };
	uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
	struct vms_value_head head;
	size_t size;
	g_assert_true(vms_program_check(&program, vms_arch_x86_64.n_regs));
	g_assert_cmpint(vms_program_run(&program, &input, output, &size), ==, VMS_PROGRAM_COMPLETE);
	memcpy(&head, output, sizeof(head));
	memcpy(bytes, output + sizeof(head), head.size);
	*n = head.size;
	return head.status;
}

static void assert_worth(struct fixture *f, const char *text, uint64_t value)
{
	g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	GError *error = NULL;
	uint64_t found = 0;
	size_t size;
	g_test_message("%s", text);
	vms_expression_compile(&f->scope, text, ops, &error);
	g_assert_no_error(error);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	g_assert_cmpint(collect(f, ops, (uint8_t *)&found, &size), ==, VMS_VALUE_KNOWN);
	g_assert_cmphex(found, ==, value);
}

/* The same text for C and for vmscope. */
#define SAME(...) assert_worth(f, #__VA_ARGS__, (uint64_t)(__VA_ARGS__))

static struct node make_node(struct node *next)
{
	static struct name more[] = { { "first", 5 }, { "second", 6 } };
	return (struct node) {
		.next = next,
		.number = -7,
		.label = "label",
		.raw = "raw",
		.name = { "own name", 8 },
		.flag = 1,
		.kind = 5,
		.small = -3,
		.far = -0x1234567890,
		.colour = BLUE,
		.mode = (enum mode)(MODE_READ | MODE_EXEC),
		.on = true,
		.letter = 'x',
		.tiny = -1,
		.port = htons(8080),
		.address = htonl(0x7f000001),
		.large = 0xfedcba9876543210,
		.array = { { "a", 1 }, { "bc", 2 }, { NULL, 3 } },
		.matrix = { { 1, 2, 3 }, { 4, 5, -6 }, { 7, 8, 9 } },
		.names = more,
	};
}

static void test_expressions(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct node last = make_node(NULL), first = make_node(&last), *node = &first;
	const char *path = "/etc/passwd";
	const int fd = -100;
	const size_t size = 4096;
	const bool on = true;
	const enum colour colour = BLUE;
	const uint64_t arg0 = (uint64_t)node;
	last.number = 11;
	first.mode = MODE_WRITE;
	/* Only the low half of a register has an int. */
	const uint64_t arguments[] = {
		arg0, (uint64_t)path, 0xdeadbeef00000000 | (uint32_t)fd,
		size, 0xabcdef01,     0x1234567800000000 | (uint32_t)colour
	};
	memcpy(f->arguments, arguments, sizeof(arguments));
	SAME(node);
	SAME(fd);
	SAME(fd == -100);
	SAME(fd < 0 && size > 1000);
	SAME(on);
	SAME(colour == BLUE);
	SAME(node->number);
	SAME(node->number < 0);
	SAME(node->next->number);
	SAME(node->next->next);
	SAME(node->next->next == NULL);
	SAME((*node).number + 1);
	SAME((*node->next).number);
	SAME(&node->next->number);
	SAME(&node->name == &(*node).name);
	SAME(node->label[1]);
	SAME(node->label[fd + 101] == 'a');
	SAME(node->flag);
	SAME(node->kind);
	SAME(node->small);
	SAME(node->small == -3);
	SAME(node->far);
	SAME(node->colour == BLUE);
	SAME(node->mode & MODE_WRITE);
	SAME(node->on && node->letter == 'x');
	SAME(node->tiny);
	SAME(node->port == htons(8080));
	SAME(node->address == htonl(0x7f000001));
	SAME(node->large);
	SAME(node->large >> 60);
	SAME(node->array[1].length);
	SAME(node->array[size / 2048].length);
	SAME(node->matrix[1][2]);
	SAME(node->matrix[node->flag][fd + 102]);
	SAME(node->names[1].length);
	SAME(node->names->length);
	SAME(*node->names->text);
	SAME(((struct node *)arg0)->next->number);
	SAME((unsigned char)node->number);
	SAME((short)node->large);
	SAME((int)size * 2);
	SAME((unsigned long)fd);
	SAME(*(int *)(arg0 + 8));
	SAME(*(const word *)&node->large);
	SAME(~node->number);
	SAME(!node->next);
	SAME(-node->next->number);
	SAME(*path == '/' && path[1] == 'e');
	SAME(path[11] == 0);
	assert_worth(f, "node->name.text == \"own name\"", 1);
	assert_worth(f, "node->name.text == \"own nam\"", 0);
	assert_worth(f, "node->label == \"label\"", 1);
	assert_worth(f, "node->label == \"labels\"", 0);
	assert_worth(f, "node->raw != \"raw\"", 0);
	assert_worth(f, "path == \"/etc/passwd\" && node->next->label == \"label\"", 1);
	assert_worth(f, "str(node->label) == \"label\"", 1);
	assert_worth(f, "retval == -ENOENT", 0);
	f->result = 0 - UINT64_C(2);
	assert_worth(f, "retval == -ENOENT", 1);
	/* Arithmetic counts bytes. */
	assert_worth(f, "node + 8", arg0 + 8);
	assert_worth(f, "u32(node + 8)", (uint32_t)-7);
	assert_worth(f, "arg0->number == -7 && arg2 == fd", 1);
}

/* A structure in a register. */
static void test_structure_by_value(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct pair pair = { -5, 6 };
	const int last = 7;
	memcpy(&f->arguments[0], &pair, sizeof(pair));
	f->arguments[1] = 7;
	use_function(f, "by_value");
	SAME(pair.a);
	SAME(pair.b + last);
	assert_worth(f, "arg0.a == -5", 1);
}

struct mistake {
	const char *function, *text, *message;
};

static const struct mistake mistakes[] = {
	{ "probed", "nod->number", "character 1: \"nod\" is not known (did you mean node" },
	{ "probed", "node->numbe",
	  "character 7: \"struct node\" has no member \"numbe\" (did you "
	  "mean number?)" },
	{ "probed", "node->name->text", "character 11: \"struct name\" is not a pointer" },
	{ "probed", "node.number", "\"struct node *\" is a pointer: write \"->\"" },
	{ "probed", "fd.number", "\"int\" is not a structure" },
	{ "probed", "node->next.number", "is a pointer: write" },
	{ "probed", "node->array[3]", "character 13: the index is beyond" },
	{ "probed", "node->", "the name of a member is missing" },
	{ "probed", "*node == 1", "\"struct node\" is not a number" },
	{ "probed", "node->number->x", "\"int\" is not a pointer" },
	{ "probed", "size[1]", "\"size_t\" is not a pointer" },
	{ "probed", "(struct nodes *)node",
	  "there is no type \"struct nodes\" (did you mean node" },
	{ "probed", "(struct node)size", "cannot cast to \"struct node\"" },
	{ "probed", "rdi->number", "cast it" },
	{ "probed", "&size", "this has no address" },
	{ "probed", "&node->flag", "this has no address" },
	{ "probed", "node->label == \"123456789\"", "room for 7 bytes" },
	{ "probed", "node->label[\"a\"]", "a value is missing" },
	{ "probed", "node->next[", "a value is missing" },
	{ "probed", "htons(70000)", "too large" },
	{ "probed", "htons(size)", "a number is needed" },
	{ "probed", "node->call->x", "no members" },
	{ "too_many", "g", "\"g\" is on the stack" },
	{ "too_large", "last", "does not fit into one register" },
	{ "too_large", "mixed.before", "does not fit into one register" },
};

static void test_mistakes(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	for (size_t i = 0; i < G_N_ELEMENTS(mistakes); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		use_function(f, mistakes[i].function);
		g_test_message("%s", mistakes[i].text);
		g_assert_false(vms_expression_compile(&f->scope, mistakes[i].text, ops, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, mistakes[i].message));
		g_assert_cmpuint(ops->len, ==, 0);
	}
}

/* Without types, names and casts say why they are not known. */
static void test_untyped(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const texts[] = { "node", "((struct node *)arg0)->number", "(int)arg0" };
	char why[] = "there is no BTF";
	f->known = (struct vms_known_types) { .why = why };
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		g_assert_false(vms_expression_compile(&f->scope, texts[i], ops, &error));
		g_assert_nonnull(strstr(error->message, why));
	}
	f->arguments[0] = 0xffff888000000001;
	assert_worth(f, "arg0", 0xffff888000000001);
}

static void assert_collected(struct fixture *f, const char *text, const char *type,
			     const char *formatted)
{
	g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	struct vms_expression_value value;
	uint8_t bytes[VMS_PROGRAM_OUTPUT_MAX];
	GError *error = NULL;
	size_t size;
	vms_expression_collect(&f->scope, text, 0, ops, &value, &error);
	g_assert_no_error(error);
	const enum vms_value_status status = collect(f, ops, bytes, &size);
	g_autofree char *name = value.has_type ? vms_type_name(value.type) : NULL;
	g_test_message("%s", text);
	g_assert_cmpstr(name, ==, type);
	g_assert_cmpint(status, ==, formatted ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE);
	if (!formatted)
		return;
	g_autofree char *found =
		value.is_text || !value.has_type
			? g_strndup((const char *)bytes, size)
			: format(value.type, bytes, size, value.is_result ? VMS_TYPE_RESULT : 0);
	g_assert_cmpstr(found, ==, formatted);
}

static void test_collect(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct node node = make_node(NULL);
	f->arguments[0] = (uint64_t)&node;
	f->arguments[1] = (uint64_t) "a path";
	f->arguments[2] = (uint32_t)-100;
	f->arguments[5] = (uint32_t)BLUE;
	f->result = 0 - UINT64_C(2);
	assert_collected(f, "path", "const char *", "a path");
	assert_collected(f, "node->name.text", "const char *", "own name");
	assert_collected(f, "node->label", "char[8]", "\"label\"");
	assert_collected(f, "node->matrix", "int[3][3]", "{{1, 2, 3}, {4, 5, -6}, {7, 8, 9}}");
	assert_collected(f, "node->matrix[1]", "int[3]", "{4, 5, -6}");
	assert_collected(f, "node->colour", "enum colour", "BLUE");
	assert_collected(f, "node->mode", "enum mode", "MODE_READ|MODE_EXEC");
	assert_collected(f, "node->next", "struct node *", "NULL");
	assert_collected(f, "node->small", "int", "-3");
	assert_collected(f, "node->flag", "unsigned int", "1");
	assert_collected(f, "node->port", "__be16", "htons(8080)");
	assert_collected(f, "fd", "int", "-100");
	assert_collected(f, "colour", "enum colour", "BLUE");
	assert_collected(f, "retval", "long int", "-2 (ENOENT)");
	assert_collected(f, "retval + 0", NULL, "\xfe\xff\xff\xff\xff\xff\xff\xff");
	/* What cannot be read is not made up. */
	assert_collected(f, "node->next->number", "int", NULL);
	assert_collected(f, "*node->next", "struct node", NULL);
	assert_collected(f, "node->next->name.text", "const char *", NULL);
	f->arguments[1] = 8;
	assert_collected(f, "path", "const char *", NULL);
	use_function(f, "find");
	assert_collected(f, "retval", "struct node *", "ERR_PTR(-ENOENT)");
	/* An argument comes before a register of that name. */
	f->arguments[0] = (uint64_t) "mine";
	assert_collected(f, "rsi", "const char *", "mine");
	static struct line line = { 7, "a line" };
	use_function(f, "measure");
	f->arguments[0] = (uint64_t)&line;
	assert_collected(f, "line->text", "char", "a line");
	assert_worth(f, "line->text == \"a line\"", 1);
	assert_worth(f, "line->text[2] == 'l'", 1);
	use_function(f, "by_value");
	memcpy(&f->arguments[0], &(struct pair) { 1, -2 }, sizeof(struct pair));
	assert_collected(f, "pair", "struct pair", "{.a=1, .b=-2}");
}

/* ---- values as C has them ----------------------------------------------------------------- */

/* Takes blanks away, which do not matter to C. */
static char *pack(const char *text)
{
	g_auto(GStrv) words = g_strsplit(text, " ", -1);
	return g_strjoinv(NULL, words);
}

static void assert_same_text(const struct vms_types *types, const char *type, const void *bytes,
			     size_t size, const char *text)
{
	g_autofree char *formatted = format(find_type(types, type), bytes, size, 0);
	g_autofree char *a = pack(formatted), *b = pack(text);
	g_assert_cmpstr(a, ==, b);
}

/* The compiler makes the value of the text; vmscope makes the text of the value. */
#define WRITTEN(type, ...)                                                                         \
	do {                                                                                       \
		type value;                                                                        \
		memset(&value, 0, sizeof(value));                                                  \
		value = (type)__VA_ARGS__;                                                         \
		assert_same_text(f->types, #type, &value, sizeof(value), #__VA_ARGS__);            \
	} while (0)

static void test_written(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	WRITTEN(struct name, { .text = NULL, .length = 4294967295 });
	WRITTEN(struct pair, { .a = -1, .b = 2147483647 });
	WRITTEN(struct node, { .next = NULL,
			       .number = -7,
			       .label = "a\tb\"c",
			       .raw = "raw",
			       .bytes = { 1, 2, 255, 0 },
			       .name = { .text = NULL, .length = 8 },
			       .flag = 1,
			       .kind = 6,
			       .small = -8,
			       .far = -549755813888,
			       .colour = GREEN,
			       .mode = MODE_READ | MODE_LAST,
			       .on = true,
			       .letter = '\'',
			       .tiny = -128,
			       .port = htons(443),
			       .address = htonl(0xc0a80001),
			       .large = 0xffffffff80000000,
			       .array = { { .text = NULL, .length = 1 },
					  { .text = NULL, .length = 2 },
					  { .text = NULL, .length = 3 } },
			       .matrix = { { 1, 2, 3 }, { 4, 5, 6 }, { -7, 8, 9 } },
			       .call = NULL,
			       .names = NULL });
}

static void test_numbers(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t pointer = 0xffff888000001000, error = 0 - UINT64_C(12);
	const int values[] = { -2, 1 << 20, -516, -9999 };
	struct vms_type number = find_type(f->types, "int");
	assert_format(find_type(f->types, "unsigned long"), &pointer, 8, "0xffff888000001000");
	assert_format(number, &values[0], 4, "-2");
	assert_format(number, &values[1], 4, "1048576");
	g_autofree char *enoent = format(number, &values[0], 4, VMS_TYPE_RESULT);
	g_assert_cmpstr(enoent, ==, "-2 (ENOENT)");
	g_autofree char *restart = format(number, &values[2], 4, VMS_TYPE_RESULT);
	g_assert_cmpstr(restart, ==, "-516 (ERESTART_RESTARTBLOCK)");
	g_autofree char *none = format(number, &values[3], 4, VMS_TYPE_RESULT);
	g_assert_cmpstr(none, ==, "-9999");
	struct vms_type_part next;
	g_assert_true(
		vms_type_find_member(find_type(f->types, "struct node"), "next", &next, NULL));
	assert_format(next.type, &pointer, 8, "0xffff888000001000");
	assert_format(next.type, &error, 8, "ERR_PTR(-ENOMEM)");
	const int odd = 3, flags = 64 | 32, unknown = 1000;
	assert_format(find_type(f->types, "enum colour"), &odd, 4, "3");
	assert_format(find_type(f->types, "enum mode"), &flags, 4, "MODE_LAST|0x20");
	assert_format(find_type(f->types, "enum colour"), &unknown, 4, "1000");
	assert_format(find_type(f->types, "_Bool"), "\2", 1, "2");
	assert_format(find_type(f->types, "char"), "", 1, "'\\0'");
	assert_format(find_type(f->types, "char"), "\33", 1, "'\\033'");
}

/* Every shorter size shows what there is, and that there is more. */
static void test_cut(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct node node = make_node(NULL);
	const struct vms_type type = find_type(f->types, "struct node");
	for (size_t size = 0; size < offsetof(struct node, names) + 8; size++) {
		g_autofree char *text = format(type, &node, size, 0);
		g_assert_nonnull(strstr(text, "…"));
	}
	assert_format(type, &node, offsetof(struct node, label), "{.next=NULL, .number=-7, …}");
	assert_format(type, &node, 10, "{.next=NULL, .number=…, …}");
	const struct vms_type mixed = find_type(f->types, "struct mixed");
	const uint32_t words[6] = { 1, 0x20003 };
	assert_format(mixed, words, sizeof(words),
		      "{.before=1, {.whole=131075, {.low=3, .high=2}}, .node=NULL, .unknown=NULL, "
		      "…}");
}

static void test_names(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const same[][2] = { { "unsigned int", "unsigned int" },
					       { "unsigned", "unsigned int" },
					       { "long unsigned", "long unsigned int" },
					       { "unsigned long", "long unsigned int" },
					       { "short", "short int" },
					       { "long", "long int" },
					       { "char", "char" },
					       { "struct node", "struct node" },
					       { "size_t", "size_t" },
					       { "void", "void" } };
	for (size_t i = 0; i < G_N_ELEMENTS(same); i++) {
		g_autofree char *name = vms_type_name(find_type(f->types, same[i][0]));
		g_assert_cmpstr(name, ==, same[i][1]);
	}
	static const char *const members[][2] = {
		{ "next", "struct node *" },   { "matrix", "int[3][3]" },   { "call", "int (*)()" },
		{ "array", "struct name[3]" }, { "colour", "enum colour" },
	};
	struct vms_type_part part;
	for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
		g_assert_true(vms_type_find_member(find_type(f->types, "struct node"),
						   members[i][0], &part, NULL));
		g_autofree char *name = vms_type_name(part.type);
		g_assert_cmpstr(name, ==, members[i][1]);
	}
	g_assert_true(
		vms_type_find_member(find_type(f->types, "struct mixed"), "node", &part, NULL));
	g_autofree char *constant = vms_type_name(part.type);
	g_assert_cmpstr(constant, ==, "const struct node * const");
	g_assert_true(
		vms_type_find_member(find_type(f->types, "struct mixed"), "high", &part, NULL));
	g_assert_cmpuint(part.bit_offset, ==, 8 * offsetof(struct mixed, high));
}

static void test_functions(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	struct vms_type function;
	struct vms_type_info info;
	struct vms_type_part part;
	unsigned reg;
	use_function(f, "probed");
	vms_type_get_info(f->known.function, &info);
	g_assert_cmpint(info.kind, ==, VMS_TYPE_FUNCTION);
	g_assert_cmpuint(info.n_parts, ==, 6);
	g_assert_true(vms_type_get_part(f->known.function, 3, &part));
	g_assert_cmpstr(part.name, ==, "size");
	g_assert_true(vms_type_argument(f->known.function, 3, 6, &reg, NULL));
	g_assert_cmpuint(reg, ==, 3);
	g_assert_false(vms_type_argument(f->known.function, 3, 3, &reg, NULL));
	g_assert_false(vms_type_argument(f->known.function, 6, 6, &reg, NULL));
	g_assert_false(vms_type_get_part(f->known.function, 6, &part));
	g_assert_false(vms_types_find_function(f->types, "proped", &function, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
}

/* ---- probes ------------------------------------------------------------------------------- */

#define PROBED UINT64_C(0xffffffff81000000)

static void test_probe(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const names[] = { "node", "path", "fd", "size", "on", "colour" };
	g_autoptr(GError) error = NULL;
	fake_guest_add_symbol(f->guest, "probed", NULL, PROBED, 64);
	fake_guest_add_symbol(f->guest, "other", NULL, PROBED + 64, 64);
	fake_guest_set_types(f->guest, f->types);
	g_autoptr(vms_probe) probe = vms_probe_new(f->machine, f->guest, NULL);
	g_assert_true(vms_probe_set_function(probe, PROBED, false, &error));
	g_assert_true(vms_probe_has_argument(probe, "fd"));
	g_assert_false(vms_probe_has_argument(probe, "fs"));
	g_assert_true(vms_probe_add_arguments(probe, &error));
	g_assert_cmpuint(vms_probe_entries(probe), ==, G_N_ELEMENTS(names));
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
		g_assert_cmpstr(vms_probe_entry_name(probe, i), ==, names[i]);
	g_autofree char *type = vms_probe_entry_type(probe, 1);
	g_assert_cmpstr(type, ==, "const char *");
	g_assert_true(vms_probe_entry_is_text(probe, 1));
	g_autoptr(GString) text = g_string_new(NULL);
	vms_probe_format_value(probe, 1, &(struct vms_flow_value) { VMS_FLOW_CUT, "ab\n", 3 },
			       text);
	vms_probe_format_value(probe, 2, &(struct vms_flow_value) { VMS_FLOW_KNOWN, "\1\0\0", 4 },
			       text);
	vms_probe_format_value(probe, 0, &(struct vms_flow_value) { VMS_FLOW_UNREADABLE, "", 0 },
			       text);
	const uint64_t nowhere = 0x1000;
	vms_probe_format_value(
		probe, 1,
		&(struct vms_flow_value) { VMS_FLOW_UNREADABLE, &nowhere, sizeof(nowhere) }, text);
	g_assert_cmpstr(text->str, ==, "\"ab\\n\"…1(unreadable)0x1000 (unreadable)");
	g_assert_false(vms_probe_set_function(probe, PROBED, false, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	/* At the return, arguments are what they were at the call. */
	g_autoptr(vms_probe) returned = vms_probe_new(f->machine, f->guest, NULL);
	const struct vms_entry argument = { .kind = VMS_ENTRY_TYPED, .expression = "fd" };
	g_clear_error(&error);
	g_assert_true(vms_probe_set_function(returned, PROBED, true, NULL));
	g_assert_true(vms_probe_has_argument(returned, "fd"));
	g_assert_false(vms_probe_add_arguments(returned, NULL));
	g_assert_true(vms_probe_add(returned, &argument, 1, &error));
	g_assert_true(vms_probe_add_result(returned, NULL));
	g_autofree char *result = vms_probe_entry_type(returned, 1);
	g_assert_cmpstr(result, ==, "long int");
	fake_guest_add_symbol(f->guest, "nothing", NULL, PROBED + 128, 64);
	g_autoptr(vms_probe) nothing = vms_probe_new(f->machine, f->guest, NULL);
	g_assert_true(vms_probe_set_function(nothing, PROBED + 128, true, NULL));
	g_assert_true(vms_probe_add_result(nothing, NULL));
	g_assert_cmpuint(vms_probe_entries(nothing), ==, 0);
	/* Within a function, and in one that has no types, casts alone are known. */
	for (unsigned i = 0; i < 2; i++) {
		g_autoptr(vms_probe) other = vms_probe_new(f->machine, f->guest, NULL);
		const struct vms_entry cast = { .kind = VMS_ENTRY_TYPED,
						.expression = "((struct node *)rbx)->number" };
		g_clear_error(&error);
		g_assert_false(vms_probe_set_function(other, PROBED + (i ? 64 : 4), false, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
		g_assert_false(vms_probe_add_arguments(other, NULL));
		g_assert_true(vms_probe_add(other, &cast, 1, NULL));
	}
}
#endif

/* ---- hostile types ------------------------------------------------------------------------ */

static void assert_bounded(const struct vms_types *types, const char *name)
{
	uint8_t bytes[64] = { 1, 2, 3 };
	g_autofree char *text = format(find_type(types, name), bytes, sizeof(bytes), 0);
	g_assert_cmpuint(strlen(text), <, 64 << 10);
}

/* Types in circles, structures in themselves, arrays without end. */
static void test_cycles(void)
{
	struct encoder e = encoder_new();
	put_type(&e, "x", TYPEDEF, 0, false, 2);
	put_type(&e, "y", TYPEDEF, 0, false, 1);
	put_type(&e, "self", STRUCT, 300, false, 8);
	for (unsigned i = 0; i < 300; i++)
		put_member(&e, i % 2 ? "" : "me", 3, 0);
	const uint32_t array = put_type(&e, "", ARRAY, 0, false, 0);
	put(&e, array), put(&e, 1), put(&e, UINT32_MAX);
	put_type(&e, "wide", STRUCT, 4, false, 8);
	put_member(&e, "endless", array, 0);
	put_member(&e, "nowhere", 4000000000, 8);
	put_member(&e, "x", 1, UINT32_MAX);
	put_member(&e, "pointer", e.n_types + 1, 0);
	put_type(&e, "", PTR, 0, false, e.n_types + 1);
	struct vms_types *types = finish_types(&e);
	assert_bounded(types, "x");
	assert_bounded(types, "struct self");
	assert_bounded(types, "struct wide");
	struct vms_type_part part;
	g_assert_false(vms_type_find_member(find_type(types, "struct self"), "you", &part, NULL));
	g_assert_true(
		vms_type_find_member(find_type(types, "struct wide"), "pointer", &part, NULL));
	g_autofree char *name = vms_type_name(part.type);
	g_assert_cmpuint(strlen(name), <, 200);
	vms_types_unref(types);
}

/* Names that would control a terminal, one that is too long, functions that are not the same. */
static void test_hostile_names(void)
{
	struct encoder e = encoder_new();
	g_autofree char *longest = g_strnfill(600, 'x');
	const uint32_t number = put_type(&e, "int", INT, 0, false, 4);
	put(&e, 1 << 24 | 32);
	put_type(&e, "\033[2Jbad", STRUCT, 1, false, 4);
	put_member(&e, "a\nb", number, 0);
	put_type(&e, longest, STRUCT, 0, false, 4);
	const uint32_t one = put_type(&e, "", PROTO, 1, false, number);
	put(&e, name_offset(&e, "a")), put(&e, number);
	const uint32_t other = put_type(&e, "", PROTO, 1, false, number);
	put(&e, name_offset(&e, "b")), put(&e, number);
	put_type(&e, "twice", FUNC, 0, false, one);
	put_type(&e, "twice", FUNC, 0, false, other);
	put_type(&e, "again", FUNC, 0, false, one);
	put_type(&e, "again", FUNC, 0, false, one);
	struct vms_types *types = finish_types(&e);
	assert_format(find_type(types, "struct ?[2Jbad"), "\1\0\0", 4, "{.a?b=1}");
	g_autofree char *too_long = g_strconcat("struct ", longest, NULL);
	struct vms_type type;
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_types_find(types, too_long, &type, NULL));
	g_assert_true(vms_types_find_function(types, "again", &type, NULL));
	g_assert_false(vms_types_find_function(types, "twice", &type, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	vms_types_unref(types);
}

/* A module's types go on after its kernel's: numbers and strings count from there. */
static void test_module(void)
{
	struct encoder kernel = encoder_new(), module = encoder_new();
	const uint32_t number = put_type(&kernel, "int", INT, 0, false, 4);
	put(&kernel, 1 << 24 | 32);
	const uint32_t shared = put_type(&kernel, "shared", STRUCT, 1, false, 4);
	put_member(&kernel, "first", number, 0);
	const uint32_t strings = (uint32_t)kernel.strings->len;
	const uint32_t name_first = 5 + 7; /* after "", "int" and "shared" */
	/* The module's own strings count from the end of the kernel's. */
	const uint32_t begin = kernel.n_types;
	put(&module, strings + name_offset(&module, "own"));
	put(&module, STRUCT << 24 | 2);
	put(&module, 8);
	put(&module, name_first), put(&module, shared), put(&module, 0);
	put(&module, strings + name_offset(&module, "second")), put(&module, number);
	put(&module, 32);
	g_autoptr(GByteArray) kernel_blob = finish(&kernel), module_blob = finish(&module);
	struct vms_btf *kernel_btf =
		vms_btf_new((struct vms_bytes) { kernel_blob->data, kernel_blob->len }, NULL);
	struct vms_btf *module_btf =
		vms_btf_new((struct vms_bytes) { module_blob->data, module_blob->len }, NULL);
	struct vms_types *base = vms_btf_make_types(kernel_btf, NULL, NULL);
	struct vms_types *types = vms_btf_make_types(module_btf, base, kernel_btf);
	vms_types_unref(base);
	vms_btf_free(kernel_btf);
	vms_btf_free(module_btf);
	const struct vms_type own = find_type(types, "struct own");
	g_assert_cmpuint(own.number, ==, begin + 1);
	assert_format(own, "\1\0\0\0\2\0\0", 8, "{.first={.first=1}, .second=2}");
	assert_format(find_type(types, "struct shared"), "\3\0\0", 4, "{.first=3}");
	vms_types_unref(types);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/types/cycles", test_cycles);
	g_test_add_func("/types/hostile-names", test_hostile_names);
	g_test_add_func("/types/module", test_module);
#ifdef HAVE_COMPILER_BTF
#define ADD(name, function)                                                                        \
	g_test_add("/types/" name, struct fixture, NULL, set_up, function, tear_down)
	ADD("expressions", test_expressions);
	ADD("structure-by-value", test_structure_by_value);
	ADD("mistakes", test_mistakes);
	ADD("untyped", test_untyped);
	ADD("collect", test_collect);
	ADD("written", test_written);
	ADD("numbers", test_numbers);
	ADD("cut", test_cut);
	ADD("names", test_names);
	ADD("functions", test_functions);
	ADD("probe", test_probe);
#endif
	return g_test_run();
}
