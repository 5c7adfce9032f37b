/* SPDX-License-Identifier: MIT */
#include "machine/qemu/hmp.h"

/* Printed by QEMU 10.0.2 for a pc machine with 1 GiB; shortened. */
static const char qemu_10[] =
	"FlatView #0\n"
	" AS \"cpu-smm-0\", root: memory\n"
	" Root memory region: memory\n"
	"  0000000000000000-000000003fffffff (prio 0, ram): smm.only\n"
	"\n"
	"FlatView #1\n"
	" AS \"cpu-memory-0\", root: system\n"
	" AS \"memory\", root: system\n"
	" AS \"cpu-memory-1\", root: system\n"
	" Root memory region: system\n"
	"  0000000000000000-00000000000c2fff (prio 0, ram): pc.ram\n"
	"  00000000000c3000-00000000000e7fff (prio 0, rom): pc.ram @00000000000c3000\n"
	"  00000000000e8000-000000003fffffff (prio 0, ram): pc.ram @00000000000e8000\n"
	"  00000000fec00000-00000000fec00fff (prio 0, i/o): ioapic\n"
	"  00000000fee00000-00000000feefffff (prio 4096, i/o): apic-msi\n"
	"  00000000ff000000-00000000ff0fffff (prio -1, ramd): vfio BAR @ 0 @0000000000000000\n"
	"  00000000fffc0000-00000000ffffffff (prio 0, romd): system.flash0\n"
	"\n"
	"FlatView #2\n"
	" AS \"I/O\", root: io\n"
	" Root memory region: io\n"
	"  0000000000000000-0000000000000007 (prio 0, i/o): dma-chan\n"
	"\n";

static void test_mtree(void)
{
	static const struct vms_range expected[] = {
		{ 0x0, 0xc3000, VMS_RANGE_RAM, "pc.ram" },
		{ 0xc3000, 0x25000, VMS_RANGE_ROM, "pc.ram" },
		{ 0xe8000, 0x3ff18000, VMS_RANGE_RAM, "pc.ram" },
		{ 0xfec00000, 0x1000, VMS_RANGE_MMIO, "ioapic" },
		{ 0xfee00000, 0x100000, VMS_RANGE_MMIO, "apic-msi" },
		{ 0xff000000, 0x100000, VMS_RANGE_MMIO, "vfio BAR @ 0" },
		{ 0xfffc0000, 0x40000, VMS_RANGE_ROM, "system.flash0" },
	};
	g_autoptr(GStringChunk) names = g_string_chunk_new(64);
	g_autoptr(GError) error = NULL;
	g_autoptr(GArray) ranges = vms_hmp_parse_mtree(qemu_10, names, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(ranges->len, ==, G_N_ELEMENTS(expected));
	for (guint i = 0; i < ranges->len; i++) {
		const struct vms_range *range = &g_array_index(ranges, struct vms_range, i);
		g_assert_cmphex(range->pa, ==, expected[i].pa);
		g_assert_cmphex(range->size, ==, expected[i].size);
		g_assert_cmpint((int)range->kind, ==, (int)expected[i].kind);
		g_assert_cmpstr(range->name, ==, expected[i].name);
	}
}

#define VIEW "FlatView #0\n AS \"memory\", root: system\n Root memory region: system\n"
#define RAM  "  0000000000000000-0000000000000fff (prio 0, ram): ram\n"

static void test_mtree_misunderstood(void)
{
	static const char *const texts[] = {
		"",
		"unknown command: 'info mtree -f'\n",
		VIEW,
		VIEW "\n",
		RAM,
		VIEW "  No rendered FlatView\n",
		VIEW RAM RAM,
		VIEW "  0000000000001000-0000000000001fff (prio 0, ram): b\n" RAM,
		VIEW "  0000000000000fff-0000000000000000 (prio 0, ram): backwards\n",
		VIEW "  0000000000000000-ffffffffffffffff (prio 0, ram): everything\n",
		VIEW "  00000000000000000-000000000000000fff (prio 0, ram): long\n",
		VIEW "  0000000000000000-0000000000000fff (prio 0, new): kind\n",
		VIEW "  0000000000000000-0000000000000fff (prio x, ram): prio\n",
		VIEW "  0000000000000000-0000000000000fff (prio 0, ram) name\n",
		VIEW "  0000000000000000-0000000000000fff\n",
		VIEW RAM "  nonsense\n",
		VIEW "  fffffffffffff000-ffffffffffffffff (prio 0, ram): last\n" RAM,
	};
	g_autoptr(GStringChunk) names = g_string_chunk_new(64);
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_autoptr(GError) error = NULL;
		g_autofree char *shown = g_strescape(texts[i], NULL);
		g_test_message("%s", shown);
		g_assert_null(vms_hmp_parse_mtree(texts[i], names, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	}
}

static void test_mtree_limit(void)
{
	g_autoptr(GStringChunk) names = g_string_chunk_new(64);
	g_autoptr(GString) text = g_string_new(VIEW);
	for (unsigned i = 0; i <= VMS_HMP_RANGES_MAX; i++)
		g_string_append_printf(text, "  %016x-%016x (prio 0, ram): ram\n", i * 4096,
				       i * 4096 + 4095);
	g_assert_null(vms_hmp_parse_mtree(text->str, names, NULL));
}

static void test_gpa2hva(void)
{
	uint64_t hva = 0;
	g_assert_true(vms_hmp_parse_gpa2hva(
		"Host virtual address for 0x100000 (pc.ram) is 0x7f3e2bf00000\n", 0x100000, &hva));
	g_assert_cmphex(hva, ==, 0x7f3e2bf00000);
	static const char *const texts[] = {
		"",
		"Memory at address 0x100000 is not RAM\n",
		"No memory is mapped at address 0x100000\n",
		"Host virtual address for 0x200000 (pc.ram) is 0x7f3e2bf00000\n",
		"Host virtual address for 0x100000 (pc.ram) is (nil)\n",
		"Host virtual address for 0x100000 (pc.ram) is 0x0\n",
		"Host virtual address for 0x100000 (pc.ram) is 0x7f3e2bf00000 or so\n",
		"Host virtual address for 0x100000 (pc.ram",
	};
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
		g_assert_false(vms_hmp_parse_gpa2hva(texts[i], 0x100000, &hva));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/hmp/mtree", test_mtree);
	g_test_add_func("/hmp/mtree-misunderstood", test_mtree_misunderstood);
	g_test_add_func("/hmp/mtree-limit", test_mtree_limit);
	g_test_add_func("/hmp/gpa2hva", test_gpa2hva);
	return g_test_run();
}
