/* SPDX-License-Identifier: MIT */
/*
 * ORC tables, written here with bit fields as the kernel's asm/orc_types.h declares them: the
 * compiler is the encoder that decoding is compared with.
 */
#include "guest/linux/orc.h"

#define IP_VA	 UINT64_C(0xffffffff82a00000)
#define CODE	 UINT64_C(0xffffffff81000000)
#define MAX_ROWS 4096

struct entry_4_14 {
	int16_t sp_offset, bp_offset;
	unsigned sp_reg : 4, bp_reg : 4, type : 2, end : 1;
} __attribute__((packed));
struct entry_6_3 {
	int16_t sp_offset, bp_offset;
	unsigned sp_reg : 4, bp_reg : 4, type : 2, signal : 1, end : 1;
} __attribute__((packed));
struct entry_6_4 {
	int16_t sp_offset, bp_offset;
	unsigned sp_reg : 4, bp_reg : 4, type : 3, signal : 1;
} __attribute__((packed));
G_STATIC_ASSERT(sizeof(struct entry_4_14) == 6 && sizeof(struct entry_6_3) == 6 &&
		sizeof(struct entry_6_4) == 6);

struct table {
	int32_t ip[MAX_ROWS];
	uint8_t entry[MAX_ROWS][6];
	size_t n;
};

static void add(struct table *table, uint64_t pc, const void *entry)
{
	table->ip[table->n] = (int32_t)(pc - (IP_VA + table->n * 4));
	memcpy(table->entry[table->n++], entry, 6);
}

static struct vms_orc *make(const struct table *table, enum vms_orc_layout layout)
{
	g_autoptr(GError) error = NULL;
	struct vms_orc *orc = vms_orc_new(
		(struct vms_bytes) { (const uint8_t *)table->ip, table->n * 4 }, IP_VA,
		(struct vms_bytes) { table->entry[0], table->n * 6 }, layout, false, &error);
	g_assert_no_error(error);
	return orc;
}

static void check(const struct vms_orc *orc, uint64_t pc, struct vms_orc_entry expected)
{
	struct vms_orc_entry entry;
	g_assert_true(vms_orc_find(orc, pc, &entry));
	g_assert_cmpint(entry.type, ==, expected.type);
	g_assert_cmpint(entry.signal, ==, expected.signal);
	if (entry.type == VMS_ORC_TYPE_END || entry.type == VMS_ORC_TYPE_UNDEFINED)
		return;
	g_assert_cmpint(entry.sp_reg, ==, expected.sp_reg);
	g_assert_cmpint(entry.bp_reg, ==, expected.bp_reg);
	g_assert_cmpint(entry.sp_offset, ==, expected.sp_offset);
	g_assert_cmpint(entry.bp_offset, ==, expected.bp_offset);
}

static void test_4_14(void)
{
	struct table table = { 0 };
	/* UNDEFINED 0, PREV_SP 1, BP 4, SP 5, BP_INDIRECT 8; CALL 0, REGS 1, REGS_PARTIAL 2 */
	add(&table, CODE, &(struct entry_4_14) { .sp_reg = 5, .sp_offset = 8 });
	add(&table, CODE + 1,
	    &(struct entry_4_14) { .sp_reg = 5, .sp_offset = 16, .bp_reg = 1, .bp_offset = -16 });
	add(&table, CODE + 4,
	    &(struct entry_4_14) { .sp_reg = 4, .sp_offset = 16, .bp_reg = 1, .bp_offset = -16 });
	add(&table, CODE + 20, &(struct entry_4_14) { .sp_reg = 5, .type = 1 });
	add(&table, CODE + 30, &(struct entry_4_14) { .sp_reg = 5, .type = 2 });
	add(&table, CODE + 40, &(struct entry_4_14) { .end = 1 });
	add(&table, CODE + 50, &(struct entry_4_14) { .sp_reg = 8, .sp_offset = -8 });
	add(&table, CODE + 60, &(struct entry_4_14) { .sp_reg = 0 });
	struct vms_orc *orc = make(&table, VMS_ORC_4_14);
	check(orc, CODE,
	      (struct vms_orc_entry) {
		      .type = VMS_ORC_TYPE_CALL, .sp_reg = VMS_ORC_SP, .sp_offset = 8 });
	for (uint64_t pc = CODE + 1; pc < CODE + 20; pc++)
		check(orc, pc,
		      (struct vms_orc_entry) { .type = VMS_ORC_TYPE_CALL,
					       .sp_reg = pc < CODE + 4 ? VMS_ORC_SP : VMS_ORC_BP,
					       .sp_offset = 16,
					       .bp_reg = VMS_ORC_PREV_SP,
					       .bp_offset = -16 });
	check(orc, CODE + 20,
	      (struct vms_orc_entry) {
		      .type = VMS_ORC_TYPE_REGS, .sp_reg = VMS_ORC_SP, .signal = true });
	check(orc, CODE + 39,
	      (struct vms_orc_entry) {
		      .type = VMS_ORC_TYPE_REGS_PARTIAL, .sp_reg = VMS_ORC_SP, .signal = true });
	check(orc, CODE + 40, (struct vms_orc_entry) { .type = VMS_ORC_TYPE_END });
	check(orc, CODE + 50,
	      (struct vms_orc_entry) {
		      .type = VMS_ORC_TYPE_CALL, .sp_reg = VMS_ORC_BP_INDIRECT, .sp_offset = -8 });
	check(orc, CODE + 60, (struct vms_orc_entry) { .type = VMS_ORC_TYPE_UNDEFINED });
	struct vms_orc_entry entry;
	g_assert_false(vms_orc_find(orc, CODE - 1, &entry));
	g_assert_false(vms_orc_find(orc, CODE + (UINT64_C(5) << 30), &entry));
	vms_orc_free(orc);
}

static void test_6_3(void)
{
	struct table table = { 0 };
	add(&table, CODE, &(struct entry_6_3) { .sp_reg = 9, .sp_offset = 8 });
	add(&table, CODE + 10, &(struct entry_6_3) { .sp_reg = 5, .type = 1, .signal = 1 });
	add(&table, CODE + 20, &(struct entry_6_3) { .sp_reg = 5, .type = 1 });
	add(&table, CODE + 30, &(struct entry_6_3) { .end = 1 });
	add(&table, CODE + 40, &(struct entry_6_3) { .signal = 1 });
	struct vms_orc *orc = make(&table, VMS_ORC_6_3);
	check(orc, CODE,
	      (struct vms_orc_entry) {
		      .type = VMS_ORC_TYPE_CALL, .sp_reg = VMS_ORC_SP_INDIRECT, .sp_offset = 8 });
	check(orc, CODE + 10,
	      (struct vms_orc_entry) {
		      .type = VMS_ORC_TYPE_REGS, .sp_reg = VMS_ORC_SP, .signal = true });
	check(orc, CODE + 20,
	      (struct vms_orc_entry) { .type = VMS_ORC_TYPE_REGS, .sp_reg = VMS_ORC_SP });
	check(orc, CODE + 30, (struct vms_orc_entry) { .type = VMS_ORC_TYPE_END });
	check(orc, CODE + 40,
	      (struct vms_orc_entry) { .type = VMS_ORC_TYPE_UNDEFINED, .signal = true });
	vms_orc_free(orc);
}

/* Both numberings of the registers: what number stands for what. */
static void test_registers(void)
{
	static const enum vms_orc_reg before[16] = {
		0,	    VMS_ORC_PREV_SP, VMS_ORC_DX,  VMS_ORC_DI,	       VMS_ORC_BP,
		VMS_ORC_SP, VMS_ORC_R10,     VMS_ORC_R13, VMS_ORC_BP_INDIRECT, VMS_ORC_SP_INDIRECT
	};
	static const enum vms_orc_reg since_7_1[16] = { 0,
							VMS_ORC_AX,
							VMS_ORC_DX,
							VMS_ORC_SP,
							VMS_ORC_BP,
							VMS_ORC_DI,
							VMS_ORC_R10,
							VMS_ORC_R13,
							VMS_ORC_PREV_SP,
							VMS_ORC_SP_INDIRECT,
							VMS_ORC_BP_INDIRECT };
	struct table table = { 0 };
	for (unsigned reg = 0; reg < 16; reg++)
		add(&table, CODE + reg,
		    &(struct entry_6_4) { .sp_reg = reg, .bp_reg = 15 - reg, .type = 2 });
	struct vms_orc *old = make(&table, VMS_ORC_6_4), *new = make(&table, VMS_ORC_7_1);
	for (unsigned reg = 0; reg < 16; reg++) {
		check(old, CODE + reg,
		      (struct vms_orc_entry) { .type = VMS_ORC_TYPE_CALL,
					       .sp_reg = before[reg],
					       .bp_reg = before[15 - reg] });
		check(new, CODE + reg,
		      (struct vms_orc_entry) { .type = VMS_ORC_TYPE_CALL,
					       .sp_reg = since_7_1[reg],
					       .bp_reg = since_7_1[15 - reg] });
	}
	vms_orc_free(old);
	vms_orc_free(new);
}

static void test_types_6_4(void)
{
	static const enum vms_orc_type types[8] = { VMS_ORC_TYPE_UNDEFINED, VMS_ORC_TYPE_END,
						    VMS_ORC_TYPE_CALL, VMS_ORC_TYPE_REGS,
						    VMS_ORC_TYPE_REGS_PARTIAL };
	struct table table = { 0 };
	for (unsigned i = 0; i < 16; i++)
		add(&table, CODE + i,
		    &(struct entry_6_4) { .sp_reg = 4, .type = i % 8, .signal = i / 8 });
	struct vms_orc *orc = make(&table, VMS_ORC_6_4);
	for (unsigned i = 0; i < 16; i++)
		check(orc, CODE + i,
		      (struct vms_orc_entry) {
			      .type = types[i % 8], .sp_reg = VMS_ORC_BP, .signal = i / 8 });
	vms_orc_free(orc);
}

/* Entry i lies at CODE + 16 i and has the sp_offset i. */
static void check_numbered(const struct vms_orc *orc, size_t n)
{
	for (size_t i = 0; i < n * 16; i++) {
		struct vms_orc_entry entry;
		g_assert_true(vms_orc_find(orc, CODE + i, &entry));
		g_assert_cmpint(entry.sp_offset, ==, (int)(i / 16));
	}
}

static void test_order(void)
{
	struct table sorted = { 0 }, reversed = { 0 }, shuffled = { 0 };
	for (unsigned i = 0; i < MAX_ROWS; i++) {
		unsigned back = MAX_ROWS - 1 - i, mixed = i * 1237 % MAX_ROWS;
		add(&sorted, CODE + 16 * i,
		    &(struct entry_6_4) { .sp_reg = 5, .type = 2, .sp_offset = (int16_t)i });
		add(&reversed, CODE + 16 * back,
		    &(struct entry_6_4) { .sp_reg = 5, .type = 2, .sp_offset = (int16_t)back });
		add(&shuffled, CODE + 16 * mixed,
		    &(struct entry_6_4) { .sp_reg = 5, .type = 2, .sp_offset = (int16_t)mixed });
	}
	const struct table *tables[] = { &sorted, &reversed, &shuffled };
	for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
		struct vms_orc *orc = make(tables[i], VMS_ORC_6_4);
		check_numbered(orc, MAX_ROWS);
		vms_orc_free(orc);
	}
}

/* A terminator and a real entry at one address, in both orders. */
static void test_terminators(void)
{
	for (unsigned order = 0; order < 2; order++) {
		struct table table = { 0 };
		add(&table, CODE, &(struct entry_6_4) { .sp_reg = 5, .type = 2, .sp_offset = 8 });
		for (unsigned i = 0; i < 2; i++) {
			if (i == order)
				add(&table, CODE + 16, &(struct entry_6_4) { .type = 0 });
			else
				add(&table, CODE + 16,
				    &(struct entry_6_4) {
					    .sp_reg = 5, .type = 2, .sp_offset = 24 });
		}
		add(&table, CODE + 32, &(struct entry_6_4) { .type = 0 });
		struct vms_orc *orc = make(&table, VMS_ORC_6_4);
		check(orc, CODE + 16,
		      (struct vms_orc_entry) {
			      .type = VMS_ORC_TYPE_CALL, .sp_reg = VMS_ORC_SP, .sp_offset = 24 });
		check(orc, CODE + 31,
		      (struct vms_orc_entry) {
			      .type = VMS_ORC_TYPE_CALL, .sp_reg = VMS_ORC_SP, .sp_offset = 24 });
		vms_orc_free(orc);
	}
}

static void check_refused(size_t ip_size, size_t entries_size, const uint8_t *data)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_orc_new((struct vms_bytes) { data, ip_size }, IP_VA,
				  (struct vms_bytes) { data, entries_size }, VMS_ORC_6_4, false,
				  &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
}

static void test_refused(void)
{
	static const uint8_t zeros[64];
	check_refused(0, 0, zeros);
	check_refused(4, 0, zeros);
	check_refused(0, 6, zeros);
	check_refused(4, 5, zeros);
	check_refused(5, 6, zeros);
	check_refused(8, 6, zeros);
	/* Never read: the size alone is refused. */
	check_refused((size_t)1 << 40, ((size_t)1 << 40) / 4 * 6, zeros);
}

/* Code from one end of what an s32 reaches to the other fits in; a little more does not. */
static void test_spread(void)
{
	static const int32_t fits[] = { INT32_MIN, INT32_MAX - 4 };
	static const int32_t spreads[] = { INT32_MIN, INT32_MAX - 3 };
	static const uint8_t entries[12];
	const uint64_t ip_va = UINT64_C(0xffff888000000000);
	const struct vms_bytes entry_bytes = { entries, sizeof(entries) };
	g_autoptr(GError) error = NULL;

	struct vms_orc *orc =
		vms_orc_new((struct vms_bytes) { (const uint8_t *)fits, sizeof(fits) }, ip_va,
			    entry_bytes, VMS_ORC_6_4, false, &error);
	g_assert_no_error(error);
	vms_orc_free(orc);
	g_assert_null(vms_orc_new((struct vms_bytes) { (const uint8_t *)spreads, sizeof(spreads) },
				  ip_va, entry_bytes, VMS_ORC_6_4, false, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/orc/4.14", test_4_14);
	g_test_add_func("/orc/6.3", test_6_3);
	g_test_add_func("/orc/6.4", test_types_6_4);
	g_test_add_func("/orc/registers", test_registers);
	g_test_add_func("/orc/order", test_order);
	g_test_add_func("/orc/terminators", test_terminators);
	g_test_add_func("/orc/refused", test_refused);
	g_test_add_func("/orc/spread", test_spread);
	return g_test_run();
}
