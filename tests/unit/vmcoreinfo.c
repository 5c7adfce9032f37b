/* SPDX-License-Identifier: MIT */
#include "guest/linux/vmcoreinfo.h"
#include "fake_machine.h"

static const char sample[] = "OSRELEASE=6.1.0-test\n"
			     "BUILD-ID=\xff\x01\n"
			     "PAGESIZE=4096\n"
			     "SYMBOL(init_uts_ns_other)=1111\n"
			     "SYMBOL(init_uts_ns)=ffffffffadff9b60\n"
			     "OFFSET(list_head.prev)=8\n"
			     "NUMBER(phys_base)=-146800640\n"
			     "NUMBER(kimage_voffset)=0xffff7fffc0000000\n"
			     "NUMBER(broken)=12x\n"
			     "NUMBER(huge)=99999999999999999999\n"
			     "NUMBER(empty)=\n"
			     "KERNELOFFSET=2b400000\n";

static struct vms_bytes bytes_of(const char *text)
{
	return (struct vms_bytes) { (const uint8_t *)text, strlen(text) };
}

static void test_values(void)
{
	g_autofree char *text = vms_vmcoreinfo_text(bytes_of(sample));
	g_autofree char *release = vms_vmcoreinfo_string(text, "OSRELEASE");
	uint64_t va;
	int64_t number;
	g_assert_cmpstr(release, ==, "6.1.0-test");
	g_assert_true(vms_vmcoreinfo_hex(text, "SYMBOL(init_uts_ns)", &va));
	g_assert_cmphex(va, ==, UINT64_C(0xffffffffadff9b60));
	g_assert_true(vms_vmcoreinfo_hex(text, "KERNELOFFSET", &va));
	g_assert_cmphex(va, ==, 0x2b400000);
	g_assert_true(vms_vmcoreinfo_number(text, "OFFSET(list_head.prev)", &number));
	g_assert_cmpint(number, ==, 8);
	g_assert_true(vms_vmcoreinfo_number(text, "NUMBER(phys_base)", &number));
	g_assert_cmpint(number, ==, -146800640);
	g_assert_true(vms_vmcoreinfo_number(text, "NUMBER(kimage_voffset)", &number));
	g_assert_cmphex((uint64_t)number, ==, UINT64_C(0xffff7fffc0000000));
}

static void test_missing(void)
{
	static const char *const keys[] = { "NUMBER(broken)",
					    "NUMBER(huge)",
					    "NUMBER(empty)",
					    "NUMBER(none)",
					    "NUMBER(phys",
					    "",
					    "=",
					    "ERNELOFFSET" };
	g_autofree char *text = vms_vmcoreinfo_text(bytes_of(sample));
	for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
		int64_t number;
		g_assert_false(vms_vmcoreinfo_number(text, keys[i], &number));
	}
	g_assert_null(vms_vmcoreinfo_string(text, "OSRELEAS"));
}

static void test_no_text(void)
{
	static const char *const not [] = { "", "OSRELEASE", "OSRELEASE=no line", " OSRELEASE=\n" };
	for (size_t i = 0; i < G_N_ELEMENTS(not ); i++)
		g_assert_null(vms_vmcoreinfo_text(bytes_of(not [i])));
	/* A page without a NUL is cut at its end. */
	g_autofree char *long_text = g_strnfill(3 * VMS_VMCOREINFO_SIZE, 'x');
	memcpy(long_text, "OSRELEASE=1\n", strlen("OSRELEASE=1\n"));
	g_autofree char *text = vms_vmcoreinfo_text(bytes_of(long_text));
	g_assert_cmpuint(strlen(text), ==, VMS_VMCOREINFO_SIZE);
}

/* All pages that begin like it are found in turn, wherever they lie; others are not. */
static void test_scan(void)
{
	const uint64_t low = 0x1200, high = UINT64_C(0x100000000);
	g_autoptr(vms_machine) machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(machine, low, 0x4000);
	fake_machine_add_ram(machine, high, (9 << 20) + 0x1000);
	static const struct {
		uint64_t pa;
		bool found;
	} places[] = {
		{ low, false }, /* not at the begin of a page */
		{ 0x2000, true },
		{ 0x5000, false }, /* the page's end is not there */
		{ UINT64_C(0x100000000), true },
		{ UINT64_C(0x100000800), false },
		{ UINT64_C(0x1003ff000), true }, /* last page of a chunk, first, last of all */
		{ UINT64_C(0x100400000), true },
		{ UINT64_C(0x100900000), true },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
		g_autofree char *text = g_strdup_printf("OSRELEASE=%zu\n", i);
		memcpy(fake_machine_at(machine, places[i].pa), text, strlen(text));
	}
	struct vms_vmcoreinfo_search search = { 0 };
	for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
		if (!places[i].found)
			continue;
		g_autofree char *text = vms_vmcoreinfo_scan(machine, &search);
		g_autofree char *expected = g_strdup_printf("OSRELEASE=%zu\n", i);
		g_assert_cmpstr(text, ==, expected);
	}
	g_assert_null(vms_vmcoreinfo_scan(machine, &search));
	g_assert_null(vms_vmcoreinfo_scan(machine, &search));
}

/* A machine that stands still while it is read is not searched to the end. */
static void test_stopping(void)
{
	g_autoptr(vms_machine) machine = fake_machine_new(&vms_arch_x86_64, 1);
	struct vms_vmcoreinfo_search search = { 0 };
	uint8_t *ram = fake_machine_add_ram(machine, 0, VMS_VMCOREINFO_STOPPED_MAX + (8 << 20));
	strcpy((char *)ram + VMS_VMCOREINFO_STOPPED_MAX - 4096, "OSRELEASE=near\n");
	strcpy((char *)ram + VMS_VMCOREINFO_STOPPED_MAX + 4096, "OSRELEASE=far\n");
	fake_machine_set_held_reads(machine, 1 << 20);
	g_autofree char *near = vms_vmcoreinfo_scan(machine, &search);
	g_assert_cmpstr(near, ==, "OSRELEASE=near\n");
	g_assert_false(search.is_cut);
	g_assert_null(vms_vmcoreinfo_scan(machine, &search));
	g_assert_true(search.is_cut);
	g_assert_cmpuint(search.stopped, <=, VMS_VMCOREINFO_STOPPED_MAX);
	search = (struct vms_vmcoreinfo_search) { .pa = VMS_VMCOREINFO_STOPPED_MAX };
	fake_machine_set_held_reads(machine, 0);
	g_autofree char *far = vms_vmcoreinfo_scan(machine, &search);
	g_assert_cmpstr(far, ==, "OSRELEASE=far\n");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/vmcoreinfo/values", test_values);
	g_test_add_func("/vmcoreinfo/missing", test_missing);
	g_test_add_func("/vmcoreinfo/no_text", test_no_text);
	g_test_add_func("/vmcoreinfo/scan", test_scan);
	g_test_add_func("/vmcoreinfo/stopping", test_stopping);
	return g_test_run();
}
