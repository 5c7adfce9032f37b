/* SPDX-License-Identifier: MIT */
/* Expressions: what they are worth, by the rules of C, and where they are wrong. */
#include "flow/expression.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "probe/program.h"
#include <string.h>

#define KERNEL 0xffffffff81000000
#define DATA   0x1000 /* 64 bytes of memory, at the end of all memory */

struct fixture {
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_expression_scope scope;
};

static const uint8_t memory[64] = { 0x11, 0x22, 0x33, 0x84, 0xff, 0xff, 0xff, 0xff,
				    0x01, 0,	0,    0,    0,	  0,	0,    0x80,
				    'c',  'a',	't',  0,    'd',  'o',	'g',  0 };

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	f->guest = fake_guest_new(f->machine, VMS_GUEST_LINUX);
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("vmlinux");
	vms_symbol_table_add(table, "jiffies", KERNEL, 8, 'D');
	vms_symbol_table_add(table, "twice", KERNEL + 0x100, 8, 't');
	vms_symbol_table_add(table, "twice", KERNEL + 0x200, 8, 't');
	vms_symbol_table_finish(table, KERNEL + 0x1000);
	fake_guest_set_kernel(f->guest, table, KERNEL, KERNEL + 0x1000);
	f->scope = (struct vms_expression_scope) { &vms_arch_x86_64, f->guest };
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_guest_unref(f->guest);
	vms_machine_unref(f->machine);
}

/* rdi is 3, rsi is DATA, rax is -5, rbx has a byte of its own in every place. */
static bool give_register(void *data, unsigned reg, uint64_t *ret)
{
	(void)data;
	const char *name = vms_arch_x86_64.regs[reg].name;
	*ret = strcmp(name, "rdi") == 0	  ? 3
	       : strcmp(name, "rsi") == 0 ? DATA
	       : strcmp(name, "rax") == 0 ? UINT64_MAX - 4
	       : strcmp(name, "rbx") == 0 ? 0x1122334455667788
					  : 0;
	return strcmp(name, "cr2") != 0;
}

static bool give_memory(void *data, uint64_t va, void *buf, size_t size)
{
	(void)data;
	if (va < DATA || va - DATA > sizeof(memory) - size)
		return false;
	memcpy(buf, memory + (va - DATA), size);
	return true;
}

struct worth {
	const char *text;
	uint64_t value;
};

static const struct worth worths[] = {
	{ "1 + 2 * 3", 7 },
	{ "(1 + 2) * 3", 9 },
	{ "10 - 3 - 2", 5 },
	{ "100 / 7 % 4", 2 },
	{ "1 << 4 | 1", 17 },
	{ "6 & 3 ^ 1", 3 },
	{ "0x10 >> 2", 4 },
	{ "-8 >> 1", (uint64_t)-4 },
	{ "(-8 >> 1) < 0", 1 },
	{ "(8 >> -(-1)) - 5 < 0", 0 },
	{ "1 << 64", 0 },
	{ "~0", UINT64_MAX },
	{ "-1", UINT64_MAX },
	{ "!5", 0 },
	{ "!0", 1 },
	{ "- -3", 3 },
	{ "010", 8 },
	{ "'a'", 'a' },
	{ "'\\n'", '\n' },
	{ "'\\0'", 0 },
	{ "1 < 2", 1 },
	{ "2 <= 2", 1 },
	{ "2 > 2", 0 },
	{ "2 >= 2", 1 },
	{ "1 == 1 != 1", 0 },
	{ "1 < 2 == 1", 1 },
	/* without a sign, -1 is the greatest number; with one, less than 0 */
	{ "rax > 0", 1 },
	{ "rax < -1", 1 },
	{ "s64(rsi+8) < 0", 1 },
	{ "u64(rsi+8) < 0", 0 },
	{ "-7 / 2", (uint64_t)-3 },
	{ "-7 % 2", (uint64_t)-1 },
	{ "-9223372036854775808 / -1", UINT64_C(1) << 63 },
	{ "rdi", 3 },
	{ "RDI", 3 },
	{ "edi + 1", 4 },
	{ "eax", 0xfffffffb },
	{ "bx", 0x7788 },
	{ "bl", 0x88 },
	{ "bh", 0x77 },
	{ "arg0", 3 },
	{ "arg1", DATA },
	{ "retval == -5", 1 },
	{ "cpu", 6 },
	{ "jiffies", 0xffffffff81000000 },
	{ "jiffies+8", 0xffffffff81000008 },
	{ "u8(rsi)", 0x11 },
	{ "u16(rsi)", 0x2211 },
	{ "u32(rsi)", 0x84332211 },
	{ "u64(rsi)", 0xffffffff84332211 },
	{ "s8(rsi+3)", 0xffffffffffffff84 },
	{ "s32(rsi)", 0xffffffff84332211 },
	{ "s32(rsi) < 0", 1 },
	{ "u8(rsi + u8(rsi+8))", 0x22 },
	{ "str(rsi+16) == \"cat\"", 1 },
	{ "str(rsi+16) == \"ca\"", 0 },
	{ "str(rsi+16) == \"cats\"", 0 },
	{ "str(rsi+16) != \"dog\"", 1 },
	{ "str(rsi+20) == \"dog\" && rdi == 3", 1 },
	/* what decides comes first: the rest is not looked at */
	{ "0 && u8(0)", 0 },
	{ "1 || u8(0)", 1 },
	{ "5 && 7", 1 },
	{ "0 || 9", 1 },
	{ "1 || 0 && 0", 1 },
	{ "rdi == 3 && u32(rsi+8) > 10 || cpu == 6", 1 },
};

static void test_worth(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	for (size_t i = 0; i < G_N_ELEMENTS(worths); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
		struct vms_value_head head;
		uint64_t value;
		size_t size;
		vms_expression_compile(&f->scope, worths[i].text, ops, &error);
		g_assert_no_error(error);
		const struct vms_op collect = { .code = VMS_OP_COLLECT, .size = 8 };
		g_array_append_val(ops, collect);
		const struct vms_program program = { (const void *)ops->data, ops->len };
		const struct vms_program_input input = { give_register, give_memory, NULL, 6 };
		g_assert_true(vms_program_check(&program, vms_arch_x86_64.n_regs));
		g_assert_cmpint(vms_program_run(&program, &input, output, &size), ==,
				VMS_PROGRAM_COMPLETE);
		memcpy(&head, output, sizeof(head));
		g_test_message("%s", worths[i].text);
		g_assert_cmpint(head.status, ==, VMS_VALUE_KNOWN);
		memcpy(&value, output + sizeof(head), sizeof(value));
		g_assert_cmphex(value, ==, worths[i].value);
	}
}

static void test_unknown(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const texts[] = { "u8(0)",	   "u8(0) && 1",  "u8(0) || 1",
					     "1 && u8(0)", "1 / 0",	  "1 % 0",
					     "cr2",	   "u64(rsi+57)", "!u8(0) == 1" };
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
		size_t size;
		g_assert_true(vms_expression_compile(&f->scope, texts[i], ops, NULL));
		const struct vms_op require = { .code = VMS_OP_REQUIRE };
		g_array_append_val(ops, require);
		const struct vms_program program = { (const void *)ops->data, ops->len };
		const struct vms_program_input input = { give_register, give_memory, NULL, 0 };
		g_test_message("%s", texts[i]);
		g_assert_cmpint(vms_program_run(&program, &input, output, &size), ==,
				VMS_PROGRAM_UNKNOWN);
	}
}

/* ---- wide registers -------------------------------------------------------------------- */

/* xmm1, and nothing wider: the bytes 0x80 to 0x8f. st2 is pi. The base of gdtr is 0x1122. */
static bool give_wide(void *data, unsigned number, void *buf, size_t size)
{
	static const uint8_t pi[] = { 0x35, 0xc2, 0x68, 0x21, 0xa2, 0xda, 0x0f, 0xc9, 0x00, 0x40 };
	static const uint8_t gdtr[] = { 0x7f, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0 };
	uint8_t xmm[16];
	(void)data;
	for (unsigned i = 0; i < sizeof(xmm); i++)
		xmm[i] = (uint8_t)(0x80 + i);
	const uint8_t *bytes = number == 1		   ? xmm
			       : number == VMS_WIDE_ST + 2 ? pi
			       : number == VMS_WIDE_GDTR   ? gdtr
							   : NULL;
	if (!bytes || size > (number == 1 ? sizeof(xmm) : sizeof(pi)))
		return false;
	memcpy(buf, bytes, size);
	return true;
}

struct shown {
	const char *text, *type;
	const char *value; /* NULL: it cannot be read */
};

static const struct shown wide_values[] = {
	{ "xmm1", "uint128_t", "0x8f8e8d8c8b8a89888786858483828180" },
	{ "XMM1.u32", "uint32_t[4]", "{2206368128, 2273740164, 2341112200, 2408484236}" },
	{ "xmm1.u8[15]", "uint8_t", "143" },
	{ "xmm1.s8[0]", "int8_t", "-128" },
	{ "xmm1.s16", "int16_t[8]",
	  "{-32384, -31870, -31356, -30842, -30328, -29814, -29300, -28786}" },
	{ "xmm1.f32[0]", "float", "-7.67044502e-37" },
	{ "xmm1.f64[ 1 ]", "double", "-9.6091767778271145e-234" },
	{ "ymm1.u64[0]", "uint64_t", "9765639646188044672" },
	{ "ymm1.u64", "uint64_t[4]", NULL },
	{ "ymm1.u64[2]", "uint64_t", NULL },
	{ "zmm31", "uint512_t", NULL },
	{ "xmm0", "uint128_t", NULL },
	{ "st2", "uint80_t", "0x4000c90fdaa22168c235" },
	{ "st2.f80", "long double", "3.14159265358979323851" },
	{ "gdtr", "struct desc_ptr", "{base=0x1122, limit=0x7f}" },
	{ "gdtr.base", "uint64_t", "0x1122" },
	{ "gdtr.limit", "uint16_t", "127" },
};

static void test_wide(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_program_input input = { .reg = give_register, .wide = give_wide };
	for (size_t i = 0; i < G_N_ELEMENTS(wide_values); i++) {
		const struct shown *shown = &wide_values[i];
		g_autoptr(GError) error = NULL;
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		g_autoptr(GString) text = g_string_new(NULL);
		struct vms_expression_value value;
		struct vms_value_head head;
		uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
		size_t size;
		vms_expression_collect(&f->scope, shown->text, 0, ops, &value, &error);
		g_assert_no_error(error);
		const struct vms_program program = { (const void *)ops->data, ops->len };
		g_assert_true(vms_program_check(&program, vms_arch_x86_64.n_regs));
		vms_program_run(&program, &input, output, &size);
		memcpy(&head, output, sizeof(head));
		g_test_message("%s", shown->text);
		g_autofree char *type = vms_wide_part_type(&value.wide);
		g_assert_cmpstr(type, ==, shown->type);
		g_assert_cmpint(head.status, ==,
				shown->value ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE);
		if (!shown->value)
			continue;
		g_assert_cmpuint(head.size, ==, value.wide.size);
		vms_wide_part_format(&value.wide, output + sizeof(head), text);
		g_assert_cmpstr(text->str, ==, shown->value);
	}
}

/* As numbers among others. */
static void test_wide_numbers(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const holds[] = { "xmm1.u16[1] == 0x8382", "xmm1.s8[0] < 0",
					     "-xmm1.s64[1] > 0 && xmm1.u32[0] - 1 == 0x8382817f",
					     "gdtr.base + gdtr.limit == 0x11a1",
					     "!(xmm1.u8[0] == 0x81)" };
	const struct vms_program_input input = { .reg = give_register, .wide = give_wide };
	for (size_t i = 0; i < G_N_ELEMENTS(holds); i++) {
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		g_autoptr(GError) error = NULL;
		uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
		size_t size;
		vms_expression_compile(&f->scope, holds[i], ops, &error);
		g_assert_no_error(error);
		const struct vms_op require = { .code = VMS_OP_REQUIRE };
		g_array_append_val(ops, require);
		const struct vms_program program = { (const void *)ops->data, ops->len };
		g_test_message("%s", holds[i]);
		g_assert_cmpint(vms_program_run(&program, &input, output, &size), ==,
				VMS_PROGRAM_COMPLETE);
	}
}

struct mistake {
	const char *text;
	const char *message; /* a part of it */
};

static const struct mistake mistakes[] = {
	{ "", "character 1: a value is missing: the expression is empty" },
	{ " ", "character 2: a value is missing: the expression is empty" },
	{ "1 +", "character 4: a value is missing" },
	{ "1 2", "character 3: this is unexpected" },
	{ "(1", "character 3: \")\" is missing" },
	{ "1)", "character 2" },
	{ "rdii", "(did you mean rdi" },
	{ "jifies", "jiffies" },
	{ "twice", "character 1: 2 symbols are called \"twice\": write the address of one: "
		   "0xffffffff81000100, 0xffffffff81000200" },
	{ "arg6", "\"arg6\" is not known" },
	{ "f(1)", "character 1: only u8" },
	{ "u8(1", "\")\" is missing" },
	{ "99999999999999999999", "not a number of 64 bits" },
	{ "12ab", "not a number of 64 bits" },
	{ "'ab'", "not one character" },
	{ "'a", "does not end" },
	{ "str(rsi)", "a string is not a number" },
	{ "str(rsi) + 1", "only be compared" },
	{ "str(rsi) == 1", "in double quotes" },
	{ "str(rsi) == \"a", "does not end" },
	{ "str(str(rsi)) == \"a\"", "this is a string" },
	{ "1 = 1", "an operator may be missing" },
	{ "pid", "tasks of this guest are not known" },
	{ "xmm0", "character 1: this is more than one number of 64 bits: write one" },
	{ "1 + xmm0.u32", "this is more than one number" },
	{ "xmm0.u32[4]", "character 10: a number from 0 to 3 is needed here" },
	{ "xmm0.u32[rax]", "a number from 0 to 3" },
	{ "xmm0.u32[1", "\"]\" is missing" },
	{ "xmm0.f32[0] > 1", "can be shown, but not computed with" },
	{ "xmm0.u128", "no view of this register, which has u8, u16, u32, u64, s8" },
	{ "st0.u64[0]", "no view of this register, which has f80" },
	{ "gdtr", "write gdtr.base or gdtr.limit" },
	{ "xmm16", "\"xmm16\" is not known (did you mean" },
	{ "xmm01", "\"xmm01\" is not known" },
};

static void test_mistakes(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	for (size_t i = 0; i < G_N_ELEMENTS(mistakes); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		g_test_message("%s", mistakes[i].text);
		g_assert_false(vms_expression_compile(&f->scope, mistakes[i].text, ops, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
		g_assert_nonnull(strstr(error->message, mistakes[i].message));
		g_assert_cmpuint(ops->len, ==, 0);
	}
}

/* However deep a text is nested, the compiler's own stack is not. */
static void test_nesting(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const parts[] = { "(", "-", "!", "u8(" };
	for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
		g_autoptr(GString) text = g_string_new(NULL);
		g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
		g_autoptr(GError) error = NULL;
		for (unsigned n = 0; n < 100000; n++)
			g_string_append(text, parts[i]);
		g_assert_false(vms_expression_compile(&f->scope, text->str, ops, &error));
		g_assert_nonnull(strstr(error->message, "nested too deeply"));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/expression/worth", struct fixture, NULL, set_up, test_worth, tear_down);
	g_test_add("/expression/unknown", struct fixture, NULL, set_up, test_unknown, tear_down);
	g_test_add("/expression/mistakes", struct fixture, NULL, set_up, test_mistakes, tear_down);
	g_test_add("/expression/wide", struct fixture, NULL, set_up, test_wide, tear_down);
	g_test_add("/expression/wide-numbers", struct fixture, NULL, set_up, test_wide_numbers,
		   tear_down);
	g_test_add("/expression/nesting", struct fixture, NULL, set_up, test_nesting, tear_down);
	return g_test_run();
}
