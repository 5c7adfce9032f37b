/* SPDX-License-Identifier: MIT */
/* Programs of probes: what is refused, and what each operation does. */
#include "probe/program.h"

#include <glib.h>
#include <string.h>

#define N_REGS 8
#define MAPPED 0x10000 /* one page, each byte that of its address, with strings in it */
#define PAGE   4096

static uint8_t page[PAGE];
static unsigned reads;

static bool read_reg(void *data, unsigned reg, uint64_t *ret)
{
	(void)data;
	g_assert_cmpuint(reg, <, N_REGS);
	*ret = UINT64_C(0x1111111111111111) * reg;
	return reg != 7;
}

static bool read_memory(void *data, uint64_t va, void *buf, size_t size)
{
	(void)data;
	reads++;
	if (va < MAPPED || va >= MAPPED + PAGE || size > MAPPED + PAGE - va)
		return false;
	memcpy(buf, page + (va - MAPPED), size);
	return true;
}

/* Byte i of wide register n is n + i. Register 1 has 16 bytes, and no other one has any. */
static bool read_wide(void *data, unsigned number, void *buf, size_t size)
{
	(void)data;
	g_assert_cmpuint(number, <, VMS_WIDE_MAX);
	g_assert_cmpuint(size, <=, VMS_WIDE_BYTES_MAX);
	for (size_t i = 0; i < size; i++)
		((uint8_t *)buf)[i] = (uint8_t)(number + i);
	return number == 1 && size <= 16;
}

static const struct vms_program_input input = {
	.reg = read_reg, .read = read_memory, .vcpu = 3, .wide = read_wide
};

/* ---- values ---------------------------------------------------------------------- */

#define OP(op, ...)                                                                                \
	{                                                                                          \
		.code = VMS_OP_##op, __VA_ARGS__                                                   \
	}
#define NUMBER(n) OP(PUSH, .value = (uint64_t)(n))
#define UNKNOWN	  OP(REGISTER, .value = 7)
#define PROGRAM(...)                                                                               \
	((struct vms_program) { (const struct vms_op[]) { __VA_ARGS__ },                           \
				sizeof((const struct vms_op[]) { __VA_ARGS__ }) /                  \
					sizeof(struct vms_op) })

static uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
static size_t output_size;

static enum vms_program_end run(struct vms_program program)
{
	memset(output, 0xcc, sizeof(output));
	g_assert_true(vms_program_check(&program, N_REGS));
	return vms_program_run(&program, &input, output, &output_size);
}

/* Takes the value at `at` out of the output. */
static enum vms_value_status value_at(size_t *at, void *bytes, size_t *size)
{
	struct vms_value_head head;
	g_assert_cmpuint(*at + sizeof(head), <=, output_size);
	memcpy(&head, output + *at, sizeof(head));
	g_assert_cmpuint(*at + sizeof(head) + head.size, <=, output_size);
	memcpy(bytes, output + *at + sizeof(head), head.size);
	*size = head.size;
	*at += sizeof(head) + head.size;
	return head.status;
}

static void assert_known(struct vms_program program, uint64_t expected)
{
	uint64_t value = 0;
	size_t at = 0, size;
	g_assert_cmpint(run(program), ==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpint(value_at(&at, &value, &size), ==, VMS_VALUE_KNOWN);
	g_assert_cmpuint(size, ==, sizeof(value));
	g_assert_cmphex(value, ==, expected);
	g_assert_cmpuint(at, ==, output_size);
}

static void assert_unknown(struct vms_program program)
{
	uint64_t value;
	size_t at = 0, size;
	g_assert_cmpint(run(program), ==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpint(value_at(&at, &value, &size), ==, VMS_VALUE_UNREADABLE);
	g_assert_cmpuint(size, ==, 0);
	g_assert_cmpuint(at, ==, output_size);
}

#define KEEP OP(COLLECT, .size = 8)

/* ---- operations ------------------------------------------------------------------ */

static void test_binary(void)
{
	static const struct {
		unsigned code;
		uint64_t a, b, expected;
	} rows[] = {
		{ VMS_OP_ADD, UINT64_MAX, 2, 1 },
		{ VMS_OP_SUBTRACT, 1, 2, UINT64_MAX },
		{ VMS_OP_MULTIPLY, UINT64_C(1) << 63, 3, UINT64_C(1) << 63 },
		{ VMS_OP_DIVIDE, UINT64_MAX, 2, INT64_MAX },
		{ VMS_OP_MODULO, UINT64_MAX, 16, 15 },
		{ VMS_OP_DIVIDE_SIGNED, (uint64_t)-7, 2, (uint64_t)-3 },
		{ VMS_OP_MODULO_SIGNED, (uint64_t)-7, 2, (uint64_t)-1 },
		{ VMS_OP_DIVIDE_SIGNED, UINT64_C(1) << 63, UINT64_MAX, UINT64_C(1) << 63 },
		{ VMS_OP_MODULO_SIGNED, UINT64_C(1) << 63, UINT64_MAX, 0 },
		{ VMS_OP_DIVIDE_SIGNED, 7, (uint64_t)-1, (uint64_t)-7 },
		{ VMS_OP_AND, 0xff0, 0x0ff, 0x0f0 },
		{ VMS_OP_OR, 0xff0, 0x0ff, 0xfff },
		{ VMS_OP_XOR, 0xff0, 0x0ff, 0xf0f },
		{ VMS_OP_SHIFT_LEFT, 3, 63, UINT64_C(1) << 63 },
		{ VMS_OP_SHIFT_LEFT, 3, 64, 0 },
		{ VMS_OP_SHIFT_LEFT, 3, UINT64_MAX, 0 },
		{ VMS_OP_SHIFT_RIGHT, UINT64_MAX, 63, 1 },
		{ VMS_OP_SHIFT_RIGHT, UINT64_MAX, 64, 0 },
		{ VMS_OP_SHIFT_RIGHT_SIGNED, (uint64_t)-8, 1, (uint64_t)-4 },
		{ VMS_OP_SHIFT_RIGHT_SIGNED, (uint64_t)-8, 64, UINT64_MAX },
		{ VMS_OP_SHIFT_RIGHT_SIGNED, 8, 2, 2 },
		{ VMS_OP_SHIFT_RIGHT_SIGNED, 8, 64, 0 },
		{ VMS_OP_EQUAL, 5, 5, 1 },
		{ VMS_OP_EQUAL, 5, 6, 0 },
		{ VMS_OP_LESS, 1, UINT64_MAX, 1 },
		{ VMS_OP_LESS, 5, 5, 0 },
		{ VMS_OP_LESS_OR_EQUAL, 5, 5, 1 },
		{ VMS_OP_LESS_OR_EQUAL, UINT64_MAX, 5, 0 },
		{ VMS_OP_LESS_SIGNED, UINT64_MAX, 1, 1 },
		{ VMS_OP_LESS_SIGNED, 1, UINT64_MAX, 0 },
		{ VMS_OP_LESS_OR_EQUAL_SIGNED, UINT64_MAX, UINT64_MAX, 1 },
		{ VMS_OP_LESS_OR_EQUAL_SIGNED, 1, UINT64_MAX, 0 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
		const struct vms_op op = { .code = (uint16_t)rows[i].code };
		assert_known(PROGRAM(NUMBER(rows[i].a), NUMBER(rows[i].b), op, KEEP),
			     rows[i].expected);
		assert_unknown(PROGRAM(UNKNOWN, NUMBER(rows[i].b), op, KEEP));
		assert_unknown(PROGRAM(NUMBER(rows[i].a), UNKNOWN, op, KEEP));
	}
}

static void test_division_by_zero(void)
{
	for (unsigned code = VMS_OP_DIVIDE; code <= VMS_OP_MODULO_SIGNED; code++) {
		const struct vms_op op = { .code = (uint16_t)code };
		assert_unknown(PROGRAM(NUMBER(5), NUMBER(0), op, KEEP));
	}
}

static void test_unary(void)
{
	assert_known(PROGRAM(NUMBER(0x80), OP(EXTEND, .size = 1), KEEP), (uint64_t)-128);
	assert_known(PROGRAM(NUMBER(0x17f), OP(EXTEND, .size = 1), KEEP), 0x7f);
	assert_known(PROGRAM(NUMBER(0x8000), OP(EXTEND, .size = 2), KEEP), (uint64_t)-32768);
	assert_known(PROGRAM(NUMBER(0x80000000), OP(EXTEND, .size = 4), KEEP),
		     UINT64_C(0xffffffff80000000));
	assert_known(PROGRAM(NUMBER(-5), OP(EXTEND, .size = 8), KEEP), (uint64_t)-5);
	assert_known(PROGRAM(NUMBER(0), OP(IS_ZERO), KEEP), 1);
	assert_known(PROGRAM(NUMBER(9), OP(IS_ZERO), KEEP), 0);
	assert_unknown(PROGRAM(UNKNOWN, OP(IS_ZERO), KEEP));
	assert_unknown(PROGRAM(UNKNOWN, OP(EXTEND, .size = 4), KEEP));
	assert_known(PROGRAM(NUMBER(1), NUMBER(2), OP(DROP), KEEP), 1);
	assert_known(PROGRAM(OP(VCPU), KEEP), 3);
	assert_known(PROGRAM(OP(REGISTER, .value = 2), KEEP), UINT64_C(0x2222222222222222));
	assert_unknown(PROGRAM(UNKNOWN, KEEP));
}

static void test_load(void)
{
	assert_known(PROGRAM(NUMBER(MAPPED + 1), OP(LOAD, .size = 1), KEEP), 1);
	assert_known(PROGRAM(NUMBER(MAPPED + 1), OP(LOAD, .size = 2), KEEP), 0x0201);
	assert_known(PROGRAM(NUMBER(MAPPED + 1), OP(LOAD, .size = 4), KEEP), 0x04030201);
	assert_known(PROGRAM(NUMBER(MAPPED + 1), OP(LOAD, .size = 8), KEEP),
		     UINT64_C(0x0807060504030201));
	assert_unknown(PROGRAM(NUMBER(MAPPED + PAGE - 1), OP(LOAD, .size = 2), KEEP));
	assert_unknown(PROGRAM(NUMBER(0), OP(LOAD, .size = 8), KEEP));
	reads = 0;
	assert_unknown(PROGRAM(UNKNOWN, OP(LOAD, .size = 8), KEEP));
	g_assert_cmpuint(reads, ==, 0);
}

/* ---- control --------------------------------------------------------------------- */

/* a && b, a || b, a ? b : c as the library writes them. */
static void test_skips(void)
{
	static const uint64_t numbers[] = { 0, 6 };
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < 2; k++) {
			assert_known(PROGRAM(NUMBER(numbers[i]), OP(SKIP_IF_ZERO, .value = 1),
					     NUMBER(numbers[k]), KEEP),
				     numbers[i] ? numbers[k] : 0);
			assert_known(PROGRAM(NUMBER(numbers[i]), OP(SKIP_UNLESS_ZERO, .value = 1),
					     NUMBER(numbers[k]), KEEP),
				     numbers[i] ? numbers[i] : numbers[k]);
		}
	assert_unknown(PROGRAM(UNKNOWN, OP(SKIP_IF_ZERO, .value = 1), NUMBER(1), KEEP));
	assert_unknown(PROGRAM(UNKNOWN, OP(SKIP_UNLESS_ZERO, .value = 1), NUMBER(1), KEEP));
	/* To the very end. */
	g_assert_cmpint(run(PROGRAM(NUMBER(0), OP(SKIP_IF_ZERO, .value = 1), NUMBER(1))), ==,
			VMS_PROGRAM_COMPLETE);
}

static void test_require(void)
{
	g_assert_cmpint(run(PROGRAM(NUMBER(1), OP(REQUIRE))), ==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpint(run(PROGRAM(NUMBER(5), KEEP, NUMBER(0), OP(REQUIRE), NUMBER(5), KEEP)), ==,
			VMS_PROGRAM_REJECTED);
	g_assert_cmpuint(output_size, ==, sizeof(struct vms_value_head) + 8);
	g_assert_cmpint(run(PROGRAM(UNKNOWN, OP(REQUIRE), NUMBER(5), KEEP)), ==,
			VMS_PROGRAM_UNKNOWN);
	g_assert_cmpuint(output_size, ==, 0);
	g_assert_cmpint(run((struct vms_program) { NULL, 0 }), ==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpuint(output_size, ==, 0);
}

/* ---- collecting ------------------------------------------------------------------ */

static void test_collect(void)
{
	uint8_t bytes[16];
	size_t at = 0, size;
	g_assert_cmpint(
		run(PROGRAM(NUMBER(0x1122334455667788), OP(COLLECT, .size = 3),
			    NUMBER(MAPPED + PAGE - 5), OP(COLLECT_MEMORY, .size = 5),
			    NUMBER(MAPPED + PAGE - 5), OP(COLLECT_MEMORY, .size = 6), UNKNOWN,
			    OP(COLLECT_MEMORY, .size = 1), UNKNOWN, OP(COLLECT, .size = 1))),
		==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpint(value_at(&at, bytes, &size), ==, VMS_VALUE_KNOWN);
	g_assert_cmpmem(bytes, size, "\x88\x77\x66", 3);
	g_assert_cmpint(value_at(&at, bytes, &size), ==, VMS_VALUE_KNOWN);
	g_assert_cmpmem(bytes, size, page + PAGE - 5, 5);
	for (unsigned i = 0; i < 3; i++) {
		g_assert_cmpint(value_at(&at, bytes, &size), ==, VMS_VALUE_UNREADABLE);
		g_assert_cmpuint(size, ==, 0);
	}
	g_assert_cmpuint(at, ==, output_size);
}

static void assert_string(uint64_t va, unsigned max, enum vms_value_status status,
			  const char *expected)
{
	char bytes[VMS_PROGRAM_OUTPUT_MAX];
	size_t at = 0, size;
	const struct vms_op op = { .code = VMS_OP_COLLECT_STRING, .size = (uint16_t)max };
	g_assert_cmpint(run(PROGRAM(NUMBER(va), op)), ==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpint(value_at(&at, bytes, &size), ==, status);
	g_assert_cmpmem(bytes, size, expected, strlen(expected));
	g_assert_cmpuint(at, ==, output_size);
}

static void test_strings(void)
{
	char long_text[PAGE];
	memcpy(page + 100, "hello", 6);
	memcpy(page + PAGE - 4, "end", 4); /* the next page is not there */
	assert_string(MAPPED + 100, 64, VMS_VALUE_KNOWN, "hello");
	assert_string(MAPPED + 100, 6, VMS_VALUE_KNOWN, "hello");
	assert_string(MAPPED + 100, 5, VMS_VALUE_CUT, "hello");
	assert_string(MAPPED + 100, 1, VMS_VALUE_CUT, "h");
	assert_string(MAPPED + 105, 8, VMS_VALUE_KNOWN, "");
	assert_string(MAPPED + PAGE - 4, 64, VMS_VALUE_KNOWN, "end");
	page[PAGE - 1] = '!';
	assert_string(MAPPED + PAGE - 4, 64, VMS_VALUE_CUT, "end!");
	assert_string(MAPPED + PAGE, 64, VMS_VALUE_UNREADABLE, "");
	assert_string(MAPPED - 4, 64, VMS_VALUE_UNREADABLE, "");
	g_assert_cmpint(run(PROGRAM(UNKNOWN, OP(COLLECT_STRING, .size = 9))), ==,
			VMS_PROGRAM_COMPLETE);
	g_assert_cmpuint(output_size, ==, sizeof(struct vms_value_head));
	memset(page, 'x', PAGE);
	memset(long_text, 'x', sizeof(long_text));
	long_text[PAGE - 8] = '\0';
	assert_string(MAPPED + 8, VMS_PROGRAM_OUTPUT_MAX - sizeof(struct vms_value_head),
		      VMS_VALUE_CUT, long_text);
}

/* Up to a page that is not there, or as much as is asked for. */
static void test_readable(void)
{
	static const struct {
		uint64_t va;
		uint16_t asked;
		size_t size;
		enum vms_value_status status;
	} cases[] = {
		{ MAPPED + PAGE - 24, 64, 24, VMS_VALUE_KNOWN },
		{ MAPPED + PAGE - 24, 24, 24, VMS_VALUE_CUT },
		{ MAPPED, 3 * PAGE, PAGE, VMS_VALUE_KNOWN },
		{ MAPPED + PAGE, 64, 0, VMS_VALUE_UNREADABLE },
		{ MAPPED - 8, 64, 0, VMS_VALUE_UNREADABLE },
	};
	char bytes[VMS_PROGRAM_OUTPUT_MAX];
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		const struct vms_op op = { .code = VMS_OP_COLLECT_READABLE,
					   .size = cases[i].asked };
		size_t at = 0, size;
		g_assert_cmpint(run(PROGRAM(NUMBER(cases[i].va), op)), ==, VMS_PROGRAM_COMPLETE);
		g_assert_cmpint(value_at(&at, bytes, &size), ==, cases[i].status);
		g_assert_cmpuint(size, ==, cases[i].size);
		g_assert_cmpmem(bytes, size, page + (size ? cases[i].va - MAPPED : 0), size);
		g_assert_cmpuint(at, ==, output_size);
	}
	g_assert_cmpint(run(PROGRAM(UNKNOWN, OP(COLLECT_READABLE, .size = 9))), ==,
			VMS_PROGRAM_COMPLETE);
	g_assert_cmpuint(output_size, ==, sizeof(struct vms_value_head));
	g_assert_false(vms_program_check(
		&PROGRAM(NUMBER(1), OP(COLLECT_READABLE, .size = VMS_PROGRAM_OUTPUT_MAX)), N_REGS));
	g_assert_false(vms_program_check(&PROGRAM(NUMBER(1), OP(COLLECT_READABLE)), N_REGS));
}

/* As many bytes as there are, up to what is asked for. */
static void test_counted(void)
{
	static const struct {
		uint64_t va, n;
		uint16_t asked;
		size_t size;
		enum vms_value_status status;
	} cases[] = {
		{ MAPPED + 8, 5, 16, 5, VMS_VALUE_KNOWN },
		{ MAPPED + 8, 16, 16, 16, VMS_VALUE_KNOWN },
		{ MAPPED + 8, 17, 16, 16, VMS_VALUE_CUT },
		{ MAPPED + 8, UINT64_MAX, 16, 16, VMS_VALUE_CUT },
		{ MAPPED + PAGE - 3, 8, 16, 3, VMS_VALUE_CUT },
		{ MAPPED + PAGE, 8, 16, 0, VMS_VALUE_UNREADABLE },
		{ 0, 0, 16, 0, VMS_VALUE_KNOWN },
	};
	char bytes[VMS_PROGRAM_OUTPUT_MAX];
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		const struct vms_op op = { .code = VMS_OP_COLLECT_COUNTED, .size = cases[i].asked };
		size_t at = 0, size;
		run(PROGRAM(NUMBER(cases[i].va), NUMBER(cases[i].n), op));
		g_assert_cmpint(value_at(&at, bytes, &size), ==, cases[i].status);
		g_assert_cmpuint(size, ==, cases[i].size);
		g_assert_cmpmem(bytes, size, page + (size ? cases[i].va - MAPPED : 0), size);
		g_assert_cmpuint(at, ==, output_size);
	}
	assert_unknown(PROGRAM(UNKNOWN, NUMBER(8), OP(COLLECT_COUNTED, .size = 9)));
	assert_unknown(PROGRAM(NUMBER(MAPPED), UNKNOWN, OP(COLLECT_COUNTED, .size = 9)));
}

/* What was collected is not read again, and nothing else is taken for it. */
static void test_copies(void)
{
	uint64_t value = 0;
	uint8_t bytes[64];
	size_t at = 0, size;
	reads = 0;
	run(PROGRAM(NUMBER(MAPPED + 16), OP(COLLECT_MEMORY, .size = 32), NUMBER(MAPPED + 16),
		    OP(LOAD, .size = 8), KEEP, NUMBER(MAPPED + 40), OP(LOAD, .size = 8), KEEP));
	g_assert_cmpuint(reads, ==, 1);
	value_at(&at, bytes, &size);
	value_at(&at, &value, &size);
	g_assert_cmphex(value, ==, UINT64_C(0x1716151413121110));
	value_at(&at, &value, &size);
	g_assert_cmphex(value, ==, UINT64_C(0x2f2e2d2c2b2a2928));
	for (unsigned i = 0; i < 2; i++) { /* a byte before, a byte behind */
		reads = 0;
		run(PROGRAM(NUMBER(MAPPED + 16), OP(COLLECT_MEMORY, .size = 32),
			    NUMBER(i ? MAPPED + 41 : MAPPED + 15), OP(LOAD, .size = 8), KEEP));
		g_assert_cmpuint(reads, ==, 2);
		at = 0;
		value_at(&at, bytes, &size);
		value_at(&at, &value, &size);
		g_assert_cmphex(value & 0xff, ==, i ? 0x29 : 0x0f);
	}
}

/* Takes the next item out of a list, which must have these bytes. */
static void assert_item(const uint8_t **list, enum vms_value_status status, const void *expected,
			size_t n)
{
	struct vms_value_head head;
	memcpy(&head, *list, sizeof(head));
	g_assert_cmpint(head.status, ==, status);
	g_assert_cmpmem(*list + sizeof(head), head.size, expected, n);
	*list += sizeof(head) + head.size;
}

#define LIST_BYTES 256

/* Collects a list and returns its items; *end is behind the last one. */
static const uint8_t *list_of(struct vms_program program, enum vms_value_status expected,
			      const uint8_t **end)
{
	static uint8_t bytes[VMS_PROGRAM_OUTPUT_MAX];
	size_t at = 0, size;
	g_assert_cmpint(run(program), ==, VMS_PROGRAM_COMPLETE);
	g_assert_cmpint(value_at(&at, bytes, &size), ==, expected);
	g_assert_cmpuint(size, <=, LIST_BYTES);
	*end = bytes + size;
	return bytes;
}

#define STRINGS(at, items, bytes, width)                                                           \
	PROGRAM(NUMBER(at), OP(COLLECT_STRINGS, .size = LIST_BYTES,                                \
			       .value = vms_op_list(items, bytes, width)))

static void test_string_lists(void)
{
	const uint64_t wide[] = { MAPPED + 512, MAPPED + 520, 1, 0 };
	const uint32_t narrow[] = { MAPPED + 520, 0 };
	const uint8_t *items, *end;
	memcpy(page, wide, sizeof(wide));
	memcpy(page + 64, narrow, sizeof(narrow));
	memcpy(page + 512, "first\0..second", 15);
	items = list_of(STRINGS(MAPPED, 8, 16, 8), VMS_VALUE_KNOWN, &end);
	assert_item(&items, VMS_VALUE_KNOWN, "first", 5);
	assert_item(&items, VMS_VALUE_KNOWN, "second", 6);
	assert_item(&items, VMS_VALUE_UNREADABLE, "", 0);
	g_assert_true(items == end);
	items = list_of(STRINGS(MAPPED, 1, 3, 8), VMS_VALUE_CUT, &end);
	assert_item(&items, VMS_VALUE_CUT, "fir", 3);
	g_assert_true(items == end);
	items = list_of(STRINGS(MAPPED + 64, 8, 16, 4), VMS_VALUE_KNOWN, &end);
	assert_item(&items, VMS_VALUE_KNOWN, "second", 6);
	g_assert_true(items == end);
	list_of(STRINGS(MAPPED + PAGE, 8, 16, 8), VMS_VALUE_UNREADABLE, &end);
}

#define PIECES(at, count, limit, items, bytes)                                                     \
	PROGRAM(NUMBER(at), NUMBER(count), NUMBER(limit),                                          \
		OP(COLLECT_PIECES, .size = LIST_BYTES, .value = vms_op_list(items, bytes, 8)))

static void test_piece_lists(void)
{
	const uint64_t pairs[] = { MAPPED + 512, 5, 1, 7, MAPPED + 520, 200 };
	const uint8_t *items, *end;
	memcpy(page, pairs, sizeof(pairs));
	memcpy(page + 512, "first\0..second", 15);
	items = list_of(PIECES(MAPPED, 3, UINT64_MAX, 8, 6), VMS_VALUE_KNOWN, &end);
	assert_item(&items, VMS_VALUE_KNOWN, pairs, 16);
	assert_item(&items, VMS_VALUE_KNOWN, "first", 5);
	assert_item(&items, VMS_VALUE_KNOWN, pairs + 2, 16);
	assert_item(&items, VMS_VALUE_UNREADABLE, "", 0);
	assert_item(&items, VMS_VALUE_KNOWN, pairs + 4, 16);
	assert_item(&items, VMS_VALUE_CUT, "second", 6);
	g_assert_true(items == end);
	/* Only the first bytes of all. */
	items = list_of(PIECES(MAPPED, 2, 3, 8, 6), VMS_VALUE_KNOWN, &end);
	assert_item(&items, VMS_VALUE_KNOWN, pairs, 16);
	assert_item(&items, VMS_VALUE_KNOWN, "fir", 3);
	assert_item(&items, VMS_VALUE_KNOWN, pairs + 2, 16);
	assert_item(&items, VMS_VALUE_KNOWN, "", 0);
	g_assert_true(items == end);
	items = list_of(PIECES(MAPPED, 3, 3, 1, 6), VMS_VALUE_CUT, &end);
	list_of(PIECES(MAPPED, 0, 3, 1, 6), VMS_VALUE_KNOWN, &end);
	list_of(PIECES(MAPPED + PAGE, 1, 3, 1, 6), VMS_VALUE_UNREADABLE, &end);
	/* More than there is room for, whatever is left of it. */
	for (unsigned size = 1; size <= LIST_BYTES; size++) {
		const struct vms_op op = { .code = VMS_OP_COLLECT_PIECES,
					   .size = (uint16_t)size,
					   .value = vms_op_list(3, 200, 8) };
		run(PROGRAM(NUMBER(MAPPED), NUMBER(3), NUMBER(-1), op));
		g_assert_cmpuint(output_size, <=, sizeof(struct vms_value_head) + size);
	}
}

/* ---- wide registers ---------------------------------------------------------------- */

static void test_wide(void)
{
	static const uint8_t expected[] = { 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	uint8_t bytes[VMS_WIDE_BYTES_MAX];
	size_t at = 0, size;
	run(PROGRAM(OP(COLLECT_WIDE, .size = 12, .value = vms_op_wide(1, 4)),
		    OP(COLLECT_WIDE, .size = 17, .value = vms_op_wide(1, 0)),
		    OP(COLLECT_WIDE, .size = 64, .value = vms_op_wide(0, 0))));
	g_assert_cmpint(value_at(&at, bytes, &size), ==, VMS_VALUE_KNOWN);
	g_assert_cmpmem(bytes, size, expected, sizeof(expected));
	for (unsigned i = 0; i < 2; i++) {
		g_assert_cmpint(value_at(&at, bytes, &size), ==, VMS_VALUE_UNREADABLE);
		g_assert_cmpuint(size, ==, 0);
	}
	assert_known(PROGRAM(OP(WIDE, .size = 4, .value = vms_op_wide(1, 12)), KEEP), 0x100f0e0d);
	assert_unknown(PROGRAM(OP(WIDE, .size = 8, .value = vms_op_wide(1, 12)), KEEP));
	/* An input without wide registers has none. */
	const struct vms_program_input none = { read_reg, read_memory, NULL, 3 };
	const struct vms_program program =
		PROGRAM(OP(WIDE, .size = 4, .value = vms_op_wide(1, 0)), OP(REQUIRE));
	g_assert_cmpint(vms_program_run(&program, &none, output, &size), ==, VMS_PROGRAM_UNKNOWN);
	g_assert_true(vms_program_has_wide(&program));
	g_assert_false(vms_program_has_wide(&PROGRAM(NUMBER(1), KEEP)));
}

/* ---- what is refused --------------------------------------------------------------- */

static bool accepts(struct vms_program program)
{
	return vms_program_check(&program, N_REGS);
}

static void test_fields(void)
{
	g_assert_false(accepts(PROGRAM({ .code = VMS_OP_COUNT })));
	g_assert_false(accepts(PROGRAM({ .code = UINT16_MAX })));
	g_assert_true(accepts(PROGRAM(OP(REGISTER, .value = N_REGS - 1))));
	g_assert_false(accepts(PROGRAM(OP(REGISTER, .value = N_REGS))));
	g_assert_false(accepts(PROGRAM(OP(REGISTER, .value = UINT64_MAX))));
	g_assert_true(accepts(PROGRAM(OP(COLLECT_WIDE, .size = 1, .value = vms_op_wide(63, 63)))));
	g_assert_false(accepts(PROGRAM(OP(COLLECT_WIDE, .size = 2, .value = vms_op_wide(63, 63)))));
	g_assert_false(accepts(PROGRAM(OP(COLLECT_WIDE, .size = 0, .value = vms_op_wide(0, 0)))));
	g_assert_false(accepts(PROGRAM(OP(COLLECT_WIDE, .size = 1, .value = vms_op_wide(64, 0)))));
	g_assert_false(accepts(PROGRAM(OP(COLLECT_WIDE, .size = 1, .value = UINT64_MAX))));
	g_assert_false(accepts(PROGRAM(OP(COLLECT_WIDE, .size = 65, .value = vms_op_wide(0, 0)))));
	g_assert_false(accepts(PROGRAM(OP(WIDE, .size = 3, .value = vms_op_wide(0, 0)), KEEP)));
	g_assert_false(accepts(PROGRAM(OP(WIDE, .size = 8, .value = vms_op_wide(0, 60)), KEEP)));
	for (unsigned size = 0; size < 20; size++) {
		const bool is_integer = size == 1 || size == 2 || size == 4 || size == 8;
		const uint16_t bytes = (uint16_t)size;
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(LOAD, .size = bytes))), ==,
				is_integer);
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(EXTEND, .size = bytes))), ==,
				is_integer);
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(COLLECT, .size = bytes))), ==,
				size >= 1 && size <= 8);
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(COLLECT_MEMORY, .size = bytes))), ==,
				size >= 1);
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(COLLECT_STRING, .size = bytes))), ==,
				size >= 1);
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(COLLECT_STRINGS, .size = 9,
							      .value = vms_op_list(1, 1, size)))),
				==, size == 4 || size == 8);
	}
	for (unsigned n = 0; n < 40; n++)
		g_assert_cmpint(accepts(PROGRAM(NUMBER(1), OP(COLLECT_STRINGS, .size = 9,
							      .value = vms_op_list(n, 1, 8)))),
				==, n >= 1 && n <= VMS_LIST_ITEMS_MAX);
	g_assert_false(accepts(
		PROGRAM(NUMBER(1), OP(COLLECT_STRINGS, .size = 9, .value = vms_op_list(1, 0, 8)))));
	g_assert_false(
		accepts(PROGRAM(NUMBER(1), OP(COLLECT_STRINGS, .value = vms_op_list(1, 1, 8)))));
}

/* Every operation that takes something needs it on the stack. */
static void test_empty_stack(void)
{
	for (unsigned code = 0; code < VMS_OP_COUNT; code++) {
		const bool takes_none = code == VMS_OP_PUSH || code == VMS_OP_REGISTER ||
					code == VMS_OP_VCPU || code == VMS_OP_ELAPSED ||
					code == VMS_OP_ARGUMENT || code == VMS_OP_COLLECT_WIDE ||
					code == VMS_OP_WIDE;
		const bool takes_two =
			(code >= VMS_OP_ADD && code <= VMS_OP_LESS_OR_EQUAL_SIGNED) ||
			code == VMS_OP_SHIFT_RIGHT_SIGNED || code == VMS_OP_COLLECT_COUNTED ||
			code == VMS_OP_COLLECT_PIECES;
		const struct vms_op op = { .code = (uint16_t)code, .size = 1, .value = 1 };
		g_assert_cmpint(accepts(PROGRAM(op, NUMBER(1))), ==, takes_none);
		if (takes_two)
			g_assert_false(accepts(PROGRAM(NUMBER(1), op, NUMBER(1))));
	}
}

/* An argument is its register, and at a return what that was at the call. */
static void test_arguments(void)
{
	const struct vms_kept_argument kept[] = { { 2, true, 77 }, { 3, false, 78 } };
	const struct vms_op ops[] = { OP(ARGUMENT, .value = 2), KEEP,
				      OP(ARGUMENT, .value = 3), KEEP,
				      OP(ARGUMENT, .value = 4), KEEP,
				      OP(REGISTER, .value = 2), KEEP,
				      OP(ARGUMENT, .value = 2), KEEP };
	const struct vms_program program = { ops, G_N_ELEMENTS(ops) };
	struct vms_program_input at_return = input;
	uint64_t values[5], before = 0;
	enum vms_value_status status[5];
	uint32_t regs[VMS_ARGUMENTS_KEPT_MAX];
	unsigned n;
	size_t at = 0, size;
	g_assert_true(read_reg(NULL, 2, &before));
	assert_known(PROGRAM(OP(ARGUMENT, .value = 2), KEEP), before);
	assert_unknown(PROGRAM(OP(ARGUMENT, .value = 7), KEEP));
	g_assert_true(vms_program_list_arguments(&program, regs, &n));
	g_assert_cmpuint(n, ==, 3);
	for (unsigned i = 0; i < n; i++)
		g_assert_cmpuint(regs[i], ==, 2 + i);
	at_return.kept = kept;
	at_return.n_kept = G_N_ELEMENTS(kept);
	g_assert_cmpint(vms_program_run(&program, &at_return, output, &output_size), ==,
			VMS_PROGRAM_COMPLETE);
	for (unsigned i = 0; i < G_N_ELEMENTS(values); i++)
		status[i] = value_at(&at, &values[i], &size);
	g_assert_cmpint(status[0], ==, VMS_VALUE_KNOWN);
	g_assert_cmpuint(values[0], ==, 77);
	g_assert_cmpint(status[1], ==, VMS_VALUE_UNREADABLE);
	g_assert_cmpint(status[2], ==, VMS_VALUE_UNREADABLE);
	g_assert_cmpint(status[3], ==, VMS_VALUE_KNOWN);
	g_assert_cmphex(values[3], ==, before);
	g_assert_cmpuint(values[4], ==, 77);
}

/* No return needs more of its call than is kept. */
static void test_too_many_arguments(void)
{
	struct vms_op ops[VMS_ARGUMENTS_KEPT_MAX + 1];
	uint32_t regs[VMS_ARGUMENTS_KEPT_MAX];
	unsigned n;
	for (unsigned i = 0; i < G_N_ELEMENTS(ops); i++)
		ops[i] = (struct vms_op)OP(ARGUMENT, .value = i);
	const struct vms_program fits = { ops, VMS_ARGUMENTS_KEPT_MAX };
	const struct vms_program too_many = { ops, VMS_ARGUMENTS_KEPT_MAX + 1 };
	g_assert_true(vms_program_list_arguments(&fits, regs, &n));
	g_assert_cmpuint(n, ==, VMS_ARGUMENTS_KEPT_MAX);
	g_assert_false(vms_program_list_arguments(&too_many, regs, &n));
}

static void test_limits(void)
{
	static struct vms_op ops[VMS_PROGRAM_OPS_MAX + 1];
	for (unsigned i = 0; i <= VMS_PROGRAM_OPS_MAX; i++)
		ops[i] = (struct vms_op) { .code = i % 2 ? VMS_OP_DROP : VMS_OP_PUSH };
	g_assert_true(accepts((struct vms_program) { ops, VMS_PROGRAM_OPS_MAX }));
	g_assert_false(accepts((struct vms_program) { ops, VMS_PROGRAM_OPS_MAX + 1 }));
	g_assert_false(accepts((struct vms_program) { ops, SIZE_MAX }));
	for (unsigned i = 0; i <= VMS_PROGRAM_STACK_MAX; i++)
		ops[i].code = VMS_OP_PUSH;
	g_assert_true(accepts((struct vms_program) { ops, VMS_PROGRAM_STACK_MAX }));
	g_assert_false(accepts((struct vms_program) { ops, VMS_PROGRAM_STACK_MAX + 1 }));
	const uint16_t most = VMS_PROGRAM_OUTPUT_MAX - sizeof(struct vms_value_head);
	g_assert_true(accepts(PROGRAM(NUMBER(1), OP(COLLECT_MEMORY, .size = most))));
	g_assert_false(accepts(PROGRAM(NUMBER(1), OP(COLLECT_MEMORY, .size = most + 1))));
	g_assert_false(accepts(PROGRAM(NUMBER(1), OP(COLLECT_MEMORY, .size = most), NUMBER(1),
				       OP(COLLECT, .size = 1))));
}

/* Where ways meet, the stack has one depth; none leads out of the program, or goes round. */
static void test_ways(void)
{
	g_assert_false(accepts(PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = 0), NUMBER(1))));
	g_assert_false(accepts(PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = 2), NUMBER(1))));
	g_assert_false(
		accepts(PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = UINT64_MAX), NUMBER(1))));
	g_assert_false(
		accepts(PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = UINT64_MAX - 1), NUMBER(1))));
	/* One value more by one way. */
	g_assert_false(accepts(
		PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = 2), NUMBER(1), NUMBER(1), OP(DROP))));
	g_assert_false(
		accepts(PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = 2), NUMBER(1), NUMBER(1))));
	/* Two skips to one place, from different depths. */
	g_assert_false(
		accepts(PROGRAM(NUMBER(1), OP(SKIP_IF_ZERO, .value = 4), NUMBER(1), NUMBER(1),
				OP(SKIP_IF_ZERO, .value = 1), NUMBER(1), OP(ADD))));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (unsigned i = 0; i < PAGE; i++)
		page[i] = (uint8_t)i;
	g_test_add_func("/program/binary", test_binary);
	g_test_add_func("/program/division-by-zero", test_division_by_zero);
	g_test_add_func("/program/unary", test_unary);
	g_test_add_func("/program/load", test_load);
	g_test_add_func("/program/skips", test_skips);
	g_test_add_func("/program/require", test_require);
	g_test_add_func("/program/collect", test_collect);
	g_test_add_func("/program/readable", test_readable);
	g_test_add_func("/program/wide", test_wide);
	g_test_add_func("/program/fields", test_fields);
	g_test_add_func("/program/empty-stack", test_empty_stack);
	g_test_add_func("/program/arguments", test_arguments);
	g_test_add_func("/program/too-many-arguments", test_too_many_arguments);
	g_test_add_func("/program/limits", test_limits);
	g_test_add_func("/program/ways", test_ways);
	g_test_add_func("/program/counted", test_counted);
	g_test_add_func("/program/copies", test_copies);
	/* These write into the page. */
	g_test_add_func("/program/strings", test_strings);
	g_test_add_func("/program/string-lists", test_string_lists);
	g_test_add_func("/program/piece-lists", test_piece_lists);
	return g_test_run();
}
