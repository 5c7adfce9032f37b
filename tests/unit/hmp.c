/* SPDX-License-Identifier: MIT */
#include "machine/qemu/hmp.h"

#include "arch/x86_64.h"
#include <string.h>

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

/* ---- registers --------------------------------------------------------- */

#define GENERAL_64                                                                                 \
	"RAX=0000000000000040 RBX=00007ffe542902f8 RCX=0000000000000000 RDX=0000000000000040\n"    \
	"RIP=000000000057aac6 RFL=00000202 [-------] CPL=3 II=0 A20=1 SMM=0 HLT=0\n"
#define SEGMENTS_64                                                                                \
	"ES =0000 0000000000000000 00000000 00000000\n"                                            \
	"CS =0033 0000000000000000 ffffffff 00affb00 DPL=3 CS64 [-RA]\n"                           \
	"SS =002b 0000000000000000 ffffffff 00c0f300 DPL=3 DS   [-WA]\n"                           \
	"DS =0000 0000000000000000 00000000 00000000\n"                                            \
	"FS =0000 0000000010bbf3c0 00000000 00000000\n"                                            \
	"GS =0000 0000000000000000 00000000 00000000\n"                                            \
	"LDT=0000 0000000000000000 00000000 00008200 DPL=0 LDT\n"                                  \
	"TR =0040 fffffe000003e000 00004087 00008900 DPL=0 TSS64-avl\n"
#define TABLES_64                                                                                  \
	"GDT=     fffffe000003c000 0000007f\n"                                                     \
	"IDT=     fffffe0000000000 00000fff\n"
#define CONTROL_64 "CR0=80050033 CR2=0000000010bc2b98 CR3=000000000139c000 CR4=00751ea0\n"
#define DEBUG_64                                                                                   \
	"DR0=0000000000000001 DR1=0000000000000002 DR2=0000000000000003 DR3=0000000000000004 \n"   \
	"DR6=00000000ffff0ff0 DR7=0000000000000400\n"
#define REST                                                                                       \
	"EFER=0000000000000d01\n"                                                                  \
	"FCW=037f FSW=0000 [ST=0] FTW=00 MXCSR=00001f80\n"

/* As QEMU 10.0.2 prints a vCPU in user mode; up to version 7 there was no head. */
static const char user_64[] = "\nCPU#1\n" GENERAL_64 SEGMENTS_64 TABLES_64 CONTROL_64 DEBUG_64 REST;
static const char user_64_without_head[] =
	GENERAL_64 SEGMENTS_64 TABLES_64 CONTROL_64 DEBUG_64 REST;

/* A 32-bit program on the same kernel: what belongs to the kernel is cut off. */
static const char compatible[] =
	"EAX=00000040 EBX=542902f8 ECX=00000000 EDX=00000040\n"
	"EIP=0057aac6 EFL=00000202 [-------] CPL=3 II=0 A20=1 SMM=0 HLT=0\n"
	"ES =002b 00000000 ffffffff 00c0f300 DPL=3 DS   [-WA]\n"
	"CS =0023 00000000 ffffffff 00c0fb00 DPL=3 CS32 [-RA]\n"
	"SS =002b 00000000 ffffffff 00c0f300 DPL=3 DS   [-WA]\n"
	"DS =002b 00000000 ffffffff 00c0f300 DPL=3 DS   [-WA]\n"
	"FS =0000 00000000 00000000 00000000\n"
	"GS =0063 f7d9c100 ffffffff 00d0f300 DPL=3 DS   [-WA]\n"
	"LDT=0000 00000000 00000000 00008200 DPL=0 LDT\n"
	"TR =0040 0003e000 00004087 00008900 DPL=0 TSS64-avl\n" TABLES_64 CONTROL_64 DEBUG_64 REST;

/* QEMU 10.0.2 at reset. */
static const char real_mode[] =
	"\nCPU#0\n"
	"EAX=00000000 EBX=00000000 ECX=00000000 EDX=00000663\n"
	"ESI=00000000 EDI=00000000 EBP=00000000 ESP=00000000\n"
	"EIP=0000fff0 EFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=0\n"
	"ES =0000 00000000 0000ffff 00009300\n"
	"CS =f000 ffff0000 0000ffff 00009b00\n"
	"SS =0000 00000000 0000ffff 00009300\n"
	"DS =0000 00000000 0000ffff 00009300\n"
	"FS =0000 00000000 0000ffff 00009300\n"
	"GS =0000 00000000 0000ffff 00009300\n"
	"LDT=0000 00000000 0000ffff 00008200\n"
	"TR =0000 00000000 0000ffff 00008b00\n"
	"GDT=     00000000 0000ffff\n"
	"IDT=     00000000 0000ffff\n"
	"CR0=60000010 CR2=00000000 CR3=00000000 CR4=00000000\n"
	"DR0=0000000000000000 DR1=0000000000000000 DR2=0000000000000000 DR3=0000000000000000 \n"
	"DR6=00000000ffff0ff0 DR7=0000000000000400\n"
	"EFER=0000000000000000\n";

static void check_registers(const char *text, const char *expected)
{
	struct vms_regs regs = { 0 };
	g_autoptr(GString) got = g_string_new(NULL);
	g_assert_true(vms_hmp_parse_x86_64_registers(text, &regs));
	for (unsigned i = 0; i < N_REGS; i++) {
		if (vms_regs_have(&regs, i) && regs.value[i] != 0)
			g_string_append_printf(got, "%s=%" G_GINT64_MODIFIER "x ",
					       vms_arch_x86_64.regs[i].name, regs.value[i]);
	}
	g_assert_cmpstr(got->str, ==, expected);
}

static void test_registers(void)
{
	static const char user[] =
		"cs_limit=ffffffff cs_attr=a0fb ss_limit=ffffffff ss_attr=c0f3 ldtr_attr=82 tr=40 "
		"tr_base=fffffe000003e000 tr_limit=4087 tr_attr=89 gdtr_base=fffffe000003c000 "
		"gdtr_limit=7f idtr_base=fffffe0000000000 idtr_limit=fff dr0=1 dr1=2 dr2=3 dr3=4 "
		"dr6=ffff0ff0 dr7=400 ";
	struct vms_regs regs = { 0 };
	check_registers(user_64, user);
	check_registers(user_64_without_head, user);
	check_registers(compatible,
			"cs_limit=ffffffff cs_attr=c0fb ss_limit=ffffffff ss_attr=c0f3 "
			"ds_limit=ffffffff ds_attr=c0f3 es_limit=ffffffff es_attr=c0f3 "
			"gs_limit=ffffffff gs_attr=d0f3 ldtr_attr=82 tr=40 tr_limit=4087 "
			"tr_attr=89 gdtr_base=fffffe000003c000 gdtr_limit=7f "
			"idtr_base=fffffe0000000000 idtr_limit=fff dr0=1 dr1=2 dr2=3 dr3=4 "
			"dr6=ffff0ff0 dr7=400 ");
	check_registers(real_mode, "cs_base=ffff0000 cs_limit=ffff cs_attr=9b ss_limit=ffff "
				   "ss_attr=93 ds_limit=ffff ds_attr=93 es_limit=ffff es_attr=93 "
				   "fs_limit=ffff fs_attr=93 gs_limit=ffff gs_attr=93 "
				   "ldtr_limit=ffff ldtr_attr=82 tr_limit=ffff tr_attr=8b "
				   "gdtr_limit=ffff idtr_limit=ffff dr6=ffff0ff0 dr7=400 ");
	/* What is zero is known all the same; what is cut off is not. */
	g_assert_true(vms_hmp_parse_x86_64_registers(compatible, &regs));
	g_assert_true(vms_regs_have(&regs, CS_BASE));
	g_assert_true(vms_regs_have(&regs, LDTR));
	g_assert_false(vms_regs_have(&regs, TR_BASE));
	g_assert_false(vms_regs_have(&regs, LDTR_BASE));
	/* The gdb stub knows better. */
	g_assert_false(vms_regs_have(&regs, FS_BASE));
	g_assert_false(vms_regs_have(&regs, CS));
	g_assert_false(vms_regs_have(&regs, CR0));
}

/* All is told, or nothing. */
static void test_registers_misunderstood(void)
{
	static const struct {
		const char *from, *to;
	} changes[] = {
		{ "\nCS =", "\nCX =" },
		{ "CS =0033 ", "CS =033 " },
		{ "CS =0033 ", "CS =0033  " },
		{ "CS =0033 0000000000000000", "CS =0033 000000000000000" },
		{ " 00affb00 ", " 00affb0 " },
		{ " 00affb00 ", " 00AFFB00 " },
		{ "TR =0040 ", "TR = 0040 " },
		{ "GDT=     ", "GDT= " },
		{ "GDT=     fffffe000003c000", "GDT=     0003c000" },
		{ "0000007f", "0001007f" },
		{ "DR7=0000000000000400", "DR7=0x400" },
		{ " DR1=", " DR4=" },
		{ "\nDR0=", "\nDR9=" },
	};
	const struct vms_regs none = { 0 };
	for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
		struct vms_regs regs = { 0 };
		g_auto(GStrv) parts = g_strsplit(user_64, changes[i].from, -1);
		g_assert_nonnull(parts[1]);
		g_autofree char *text = g_strjoinv(changes[i].to, parts);
		g_test_message("%s", changes[i].to);
		g_assert_false(vms_hmp_parse_x86_64_registers(text, &regs));
		g_assert_cmpmem(&regs, sizeof(regs), &none, sizeof(none));
	}
	for (size_t size = 0; size < strlen(user_64) - strlen(REST); size++) {
		struct vms_regs regs = { 0 };
		g_autofree char *text = g_strndup(user_64, size);
		g_assert_false(vms_hmp_parse_x86_64_registers(text, &regs));
		g_assert_cmpmem(&regs, sizeof(regs), &none, sizeof(none));
	}
}

static void test_general_registers(void)
{
	static const char text[] =
		"\nCPU#0\n"
		"RAX=0000000000000040 RBX=00007ffe542902f8 RCX=0000000000000001 "
		"RDX=0000000000000002\n"
		"RSI=0000000000000003 RDI=0000000000000004 RBP=0000000000000005 "
		"RSP=00007ffe54290200\n"
		"R8 =0000000000000008 R9 =0000000000000009 R10=000000000000000a "
		"R11=000000000000000b\n"
		"R12=000000000000000c R13=000000000000000d R14=000000000000000e "
		"R15=000000000000000f\n"
		"RIP=000000000057aac6 RFL=00000202 [-------] CPL=3 II=0 A20=1 SMM=0 "
		"HLT=0\n" SEGMENTS_64 TABLES_64 CONTROL_64 DEBUG_64 REST;
	static const struct {
		unsigned reg;
		uint64_t value;
	} expected[] = {
		{ RAX, 0x40 },	     { RBX, 0x7ffe542902f8 },
		{ RCX, 1 },	     { RDX, 2 },
		{ RSI, 3 },	     { RDI, 4 },
		{ RBP, 5 },	     { RSP, 0x7ffe54290200 },
		{ R8, 8 },	     { R9, 9 },
		{ R10, 10 },	     { R11, 11 },
		{ R12, 12 },	     { R13, 13 },
		{ R14, 14 },	     { R15, 15 },
		{ RIP, 0x57aac6 },   { EFLAGS, 0x202 },
		{ CS, 0x33 },	     { SS, 0x2b },
		{ DS, 0 },	     { FS_BASE, 0x10bbf3c0 },
		{ GS_BASE, 0 },	     { CR0, 0x80050033 },
		{ CR2, 0x10bc2b98 }, { CR3, 0x139c000 },
		{ CR4, 0x751ea0 },   { EFER, 0xd01 },
	};
	struct vms_regs regs = { 0 };
	g_assert_true(vms_hmp_parse_x86_64_general(text, &regs));
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
		g_assert_true(vms_regs_have(&regs, expected[i].reg));
		g_assert_cmphex(regs.value[expected[i].reg], ==, expected[i].value);
	}
	g_assert_false(vms_regs_have(&regs, K_GS_BASE));
	for (size_t size = 0; size < strlen(text) - strlen(REST); size++) {
		struct vms_regs none = { 0 };
		g_autofree char *cut = g_strndup(text, size);
		g_assert_false(vms_hmp_parse_x86_64_general(cut, &none));
		g_assert_false(vms_regs_have(&none, RAX));
	}
}

/* The top of the stack of x87 is register 5. The second one is a vector of 32 bytes. */
static void test_wide_registers(void)
{
	static const char text[] = "\n" TABLES_64 "FCW=037f FSW=2800 [ST=5] FTW=00 MXCSR=00001f80\n"
				   "FPR0=0000000000000000 0000 FPR1=0000000000000001 0002\n"
				   "FPR2=0000000000000000 0000 FPR3=0000000000000000 0000\n"
				   "FPR4=0000000000000000 0000 FPR5=c90fdaa22168c235 4000\n"
				   "FPR6=8000000000000000 3fff FPR7=b8aa3b295c17f0bc 3fff\n"
				   "XMM00=000102030405060708090a0b0c0d0e0f "
				   "YMM01=1f1e1d1c1b1a1918 1716151413121110 0f0e0d0c0b0a0908 "
				   "0706050403020100\n"
				   "XMM02=0011223344556677 8899aabbccddeef XMM03=00\n";
	static const uint8_t pi[] = { 0x35, 0xc2, 0x68, 0x21, 0xa2, 0xda, 0x0f, 0xc9, 0x00, 0x40 };
	uint8_t bytes[32];
	struct vms_wide_regs regs;
	g_assert_true(vms_hmp_parse_x86_64_wide(text, &regs));
	g_assert_true(vms_wide_get(&regs, VMS_WIDE_ST, 0, bytes, sizeof(pi)));
	g_assert_cmpmem(bytes, sizeof(pi), pi, sizeof(pi));
	g_assert_true(vms_wide_get(&regs, VMS_WIDE_ST + 4, 0, bytes, 9));
	g_assert_cmpuint(bytes[0], ==, 1); /* FPR1 */
	g_assert_cmpuint(bytes[8], ==, 2);
	g_assert_cmpuint(regs.size[0], ==, 16);
	g_assert_true(vms_wide_get(&regs, 0, 0, bytes, 2));
	g_assert_cmpuint(bytes[0], ==, 0x0f);
	g_assert_false(vms_wide_get(&regs, 0, 0, bytes, 17));
	g_assert_true(vms_wide_get(&regs, 1, 0, bytes, 32));
	for (unsigned i = 0; i < 32; i++)
		g_assert_cmpuint(bytes[i], ==, i);
	g_assert_cmpuint(regs.size[2], ==, 0); /* cut off */
	g_assert_cmpuint(regs.size[3], ==, 0);
	g_assert_cmpuint(regs.size[VMS_WIDE_GDTR], ==, VMS_WIDE_80_BITS);
	g_assert_false(vms_hmp_parse_x86_64_wide("", &regs));
	g_assert_false(vms_hmp_parse_x86_64_wide("\n" TABLES_64 "FSW=2800 [ST=8] FTW=00\n", &regs));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/hmp/mtree", test_mtree);
	g_test_add_func("/hmp/mtree-misunderstood", test_mtree_misunderstood);
	g_test_add_func("/hmp/mtree-limit", test_mtree_limit);
	g_test_add_func("/hmp/gpa2hva", test_gpa2hva);
	g_test_add_func("/hmp/registers", test_registers);
	g_test_add_func("/hmp/general-registers", test_general_registers);
	g_test_add_func("/hmp/wide-registers", test_wide_registers);
	g_test_add_func("/hmp/registers-misunderstood", test_registers_misunderstood);
	return g_test_run();
}
