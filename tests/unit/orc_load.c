/* SPDX-License-Identifier: MIT */
/*
 * Loading ORC tables from a kernel's memory. The flags of the only entry mean something else in
 * each layout, so that looking it up tells which one was taken.
 */
#include "guest/linux/orc_load.h"
#include "fake_linux.h"
#include "guest/linux/unwind_info.h"

#define DATA	 UINT64_C(0xffffffff82000000)
#define IP	 DATA
#define ENTRIES	 (DATA + 0x100)
#define HEADER	 (DATA + 0x200)
#define FP_ENTRY (DATA + 0x300)
#define CODE	 UINT64_C(0xffffffff81000000)
#define FLAGS	 0x0a05 /* register 5; bits 9 and 11 */

/* What the kernel's scripts/orc_hash.sh gives for its definitions. */
static const uint8_t hash_6_3[] = { 0xdb, 0x84, 0xae, 0xd4, 0x10, 0x3b, 0x31, 0xdd, 0x51, 0xe0,
				    0x17, 0xf8, 0xf7, 0x97, 0x83, 0xca, 0x98, 0x5c, 0x2c, 0x51 };
static const uint8_t hash_6_4[] = { 0xfe, 0x5d, 0x32, 0xbf, 0x58, 0x1b, 0xd6, 0x3b, 0x2c, 0xa9,
				    0xa5, 0xc6, 0x5b, 0xa5, 0xa6, 0x25, 0xea, 0xb3, 0xfe, 0x24 };
static const uint8_t hash_7_1[] = { 0x13, 0x7c, 0x36, 0xad, 0x76, 0x27, 0xc4, 0xdd, 0x55, 0x93,
				    0x21, 0x76, 0xbb, 0x0e, 0xcd, 0xbd, 0x50, 0x41, 0xfc, 0x82 };
static const uint8_t hash_unknown[20] = { 1 };

/* orc_fp_entry: sp_reg BP, bp_reg PREV_SP, type CALL. */
static const uint8_t fp_4_14[] = { 16, 0, 0xf0, 0xff, 0x14, 0x00 };
static const uint8_t fp_6_4[] = { 16, 0, 0xf0, 0xff, 0x14, 0x02 };
static const uint8_t fp_7_1[] = { 16, 0, 0xf0, 0xff, 0x84, 0x02 };

struct layout_case {
	const char *name, *release;
	const uint8_t *hash, *fp_entry;
	enum vms_orc_layout layout;
	bool adds_first;
};

static const struct layout_case layout_cases[] = {
	{ "4.19", "4.19.0-27-amd64", NULL, NULL, VMS_ORC_4_14, true },
	{ "5.10", "5.10.0-33-amd64", NULL, fp_4_14, VMS_ORC_4_14, true },
	{ "5.12", "5.12.0", NULL, fp_4_14, VMS_ORC_4_14, false },
	{ "6.1", "6.1.0-56-cloud-amd64", NULL, fp_4_14, VMS_ORC_4_14, false },
	{ "6.3-without-header", "6.3.1", NULL, fp_4_14, VMS_ORC_6_3, false },
	{ "6.3", "6.3.13", hash_6_3, fp_4_14, VMS_ORC_6_3, false },
	{ "6.12", "6.12.117+deb12-cloud-amd64", hash_6_4, fp_6_4, VMS_ORC_6_4, false },
	{ "6.4-without-header", "6.4.0", NULL, fp_6_4, VMS_ORC_6_4, false },
	{ "backported", "5.14.0-570.el9.x86_64", NULL, fp_6_4, VMS_ORC_6_4, false },
	{ "7.1", "7.1.0", hash_7_1, fp_7_1, VMS_ORC_7_1, false },
	{ "unknown-header", "9.9.0", hash_unknown, fp_7_1, VMS_ORC_7_1, false },
	{ "no-release", NULL, hash_6_4, NULL, VMS_ORC_6_4, false },
};

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
};

static void set_up(struct fixture *f, const struct fake_symbol *symbols)
{
	const int32_t ip = (int32_t)(CODE - IP);
	const uint16_t flags = FLAGS;
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, DATA, 0x1000);
	memcpy(fake_machine_at(f->machine, IP), &ip, sizeof(ip));
	memcpy(fake_machine_at(f->machine, ENTRIES + 4), &flags, sizeof(flags));
	f->guest = fake_linux_new(f->machine, symbols, NULL);
}

static void tear_down(struct fixture *f)
{
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static void check_layout(const struct vms_orc *orc, const struct layout_case *test)
{
	static const struct {
		enum vms_orc_type type;
		enum vms_orc_reg sp_reg;
		bool signal;
	} expected[] = {
		[VMS_ORC_4_14] = { VMS_ORC_TYPE_REGS_PARTIAL, VMS_ORC_SP, true },
		[VMS_ORC_6_3] = { VMS_ORC_TYPE_REGS_PARTIAL, VMS_ORC_SP, false },
		[VMS_ORC_6_4] = { VMS_ORC_TYPE_CALL, VMS_ORC_SP, true },
		[VMS_ORC_7_1] = { VMS_ORC_TYPE_CALL, VMS_ORC_DI, true },
	};
	struct vms_orc_entry entry;
	g_assert_true(vms_orc_find(orc, CODE, &entry));
	g_assert_cmpint(entry.type, ==, expected[test->layout].type);
	g_assert_cmpint(entry.sp_reg, ==, expected[test->layout].sp_reg);
	g_assert_cmpint(entry.signal, ==, expected[test->layout].signal);
	g_assert_cmpint(entry.sp_indirect_adds_first, ==, test->adds_first);
}

static void test_layout(gconstpointer data)
{
	const struct layout_case *test = data;
	struct fake_symbol symbols[8] = {
		{ "__start_orc_unwind_ip", IP },
		{ "__stop_orc_unwind_ip", IP + 4 },
		{ "__start_orc_unwind", ENTRIES },
		{ "__stop_orc_unwind", ENTRIES + 6 },
	};
	size_t n = 4;
	if (test->hash)
		symbols[n++] = (struct fake_symbol) { "__start_orc_header", HEADER };
	if (test->fp_entry)
		symbols[n++] = (struct fake_symbol) { "orc_fp_entry", FP_ENTRY };
	struct fixture f;
	set_up(&f, symbols);
	if (test->hash)
		memcpy(fake_machine_at(f.machine, HEADER), test->hash, 20);
	if (test->fp_entry)
		memcpy(fake_machine_at(f.machine, FP_ENTRY), test->fp_entry, 6);
	f.guest->release = g_strdup(test->release);

	struct vms_orc *kernel = vms_linux_orc_load(f.guest);
	g_assert_nonnull(kernel);
	check_layout(kernel, test);
	vms_orc_free(kernel);
	struct vms_orc *module = vms_linux_orc_load_module(f.guest, IP, ENTRIES, 1);
	g_assert_nonnull(module);
	check_layout(module, test);
	vms_orc_free(module);
	tear_down(&f);
}

static void check_refused(uint64_t ip, uint64_t ip_end, uint64_t entries, uint64_t entries_end)
{
	const struct fake_symbol symbols[] = {
		{ "__start_orc_unwind_ip", ip },
		{ "__stop_orc_unwind_ip", ip_end },
		{ "__start_orc_unwind", entries },
		{ "__stop_orc_unwind", entries_end },
		{ NULL },
	};
	struct fixture f;
	set_up(&f, symbols);
	g_assert_null(vms_linux_orc_load(f.guest));
	tear_down(&f);
}

static void test_refused(void)
{
	const uint64_t huge = UINT64_C(1) << 30;
	check_refused(IP, IP, ENTRIES, ENTRIES);
	check_refused(IP, IP + 3, ENTRIES, ENTRIES + 6);
	check_refused(IP, IP + 4, ENTRIES, ENTRIES + 5);
	check_refused(IP, IP + 8, ENTRIES, ENTRIES + 6);
	check_refused(IP + 4, IP, ENTRIES + 6, ENTRIES);
	check_refused(IP, IP + 4 * huge, ENTRIES, ENTRIES + 6 * huge);
	/* Not in memory, or not all of it. */
	check_refused(CODE, CODE + 4, ENTRIES, ENTRIES + 6);
	check_refused(IP, IP + 4 * 1024, ENTRIES, ENTRIES + 6 * 1024);
}

static void test_none(void)
{
	const struct fake_symbol symbols[] = { { "_text", CODE }, { NULL } };
	struct fixture f;
	set_up(&f, symbols);
	g_assert_null(vms_linux_orc_load(f.guest));
	g_assert_null(vms_linux_orc_load_module(f.guest, IP, ENTRIES, 0));
	g_assert_null(vms_linux_orc_load_module(f.guest, IP, ENTRIES, UINT64_MAX));
	g_assert_null(vms_linux_orc_load_module(f.guest, CODE, ENTRIES, 1));
	tear_down(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(layout_cases); i++) {
		g_autofree char *path =
			g_strconcat("/orc-load/layout/", layout_cases[i].name, NULL);
		g_test_add_data_func(path, &layout_cases[i], test_layout);
	}
	g_test_add_func("/orc-load/refused", test_refused);
	g_test_add_func("/orc-load/none", test_none);
	return g_test_run();
}
