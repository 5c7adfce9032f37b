/* SPDX-License-Identifier: MIT */
/* Detection of a Linux kernel in a machine of the test's own: page tables, image, VMCOREINFO. */
#include "arch/x86_64.h"
#include "fake_machine.h"
#include "guest/linux/linux.h"
#include "machine/engine.h"

#define TABLES	  UINT64_C(0x100000) /* page tables, one page each */
#define ROOT	  (TABLES + 0x1000)
#define IMAGE_PA  UINT64_C(0x1000000)
#define IMAGE_VA  UINT64_C(0xffffffff9a200000)
#define PAGE_2M	  UINT64_C(0x200000)
#define N_PAGES	  3
#define BANNER	  "Linux version 5.4.7-tiny (me@here) (cc) #3 SMP Mon Jan 1"
#define INFO_PA	  UINT64_C(0x150000)
#define PRESENT	  3
#define LARGE	  (1 << 7)
#define PHYS_BASE (IMAGE_PA - (IMAGE_VA - UINT64_C(0xffffffff80000000)))

/* Four-level tables that map the image in pages of 2 MiB, with a hole after the first. */
static void map_image(struct vms_machine *machine)
{
	const uint64_t pud = ROOT + 0x1000, pmd = ROOT + 0x2000;
	fake_machine_write_u64(machine, ROOT + 511 * 8, pud | PRESENT);
	fake_machine_write_u64(machine, pud + 510 * 8, pmd | PRESENT);
	for (unsigned i = 0; i < N_PAGES; i++) {
		uint64_t index = (IMAGE_VA >> 21 & 511) + i;
		if (i != 1)
			fake_machine_write_u64(machine, pmd + index * 8,
					       (IMAGE_PA + i * PAGE_2M) | PRESENT | LARGE);
	}
}

static struct vms_machine *new_machine(unsigned n_vcpus)
{
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, n_vcpus);
	fake_machine_add_ram(machine, TABLES, 0x100000);
	fake_machine_add_ram(machine, IMAGE_PA, N_PAGES * PAGE_2M);
	return machine;
}

static void set_paging(struct vms_machine *machine, unsigned vcpu, uint64_t root)
{
	struct vms_regs *regs = fake_machine_regs(machine, vcpu);
	vms_regs_set(regs, CR0, UINT64_C(1) << 31);
	vms_regs_set(regs, CR3, root);
	vms_regs_set(regs, CR4, 1 << 5);
	vms_regs_set(regs, EFER, 1 << 10);
}

/* In the last page of the image, after the log's copy, which is none. */
static void write_banner(struct vms_machine *machine)
{
	static const char copy[] = BANNER "\0", banner[] = BANNER "\n";
	memcpy(fake_machine_at(machine, IMAGE_PA + 2 * PAGE_2M + 77), copy, sizeof(copy));
	memcpy(fake_machine_at(machine, IMAGE_PA + 2 * PAGE_2M + 777), banner, sizeof(banner));
}

static void write_vmcoreinfo(struct vms_machine *machine, uint64_t pa, uint64_t root)
{
	g_autofree char *text =
		g_strdup_printf("OSRELEASE=5.4.7-tiny\n"
				"SYMBOL(swapper_pg_dir)=%" G_GINT64_MODIFIER "x\n"
				"NUMBER(phys_base)=%" G_GINT64_MODIFIER "d\n"
				"NUMBER(pgtable_l5_enabled)=0\n"
				"KERNELOFFSET=19200000\n",
				root - PHYS_BASE + UINT64_C(0xffffffff80000000), PHYS_BASE);
	memcpy(fake_machine_at(machine, pa), text, strlen(text));
}

static void check_linux(struct vms_guest *guest, const char *found_by)
{
	const struct vms_guest_info *info = vms_guest_info(guest);
	g_assert_cmpint(vms_guest_kind(guest), ==, VMS_GUEST_LINUX);
	g_assert_cmpstr(info->name, ==, "Linux");
	g_assert_cmpstr(info->banner, ==, BANNER);
	g_assert_cmpstr(info->release, ==, "5.4.7-tiny");
	g_assert_cmpstr(info->version, ==, "#3 SMP Mon Jan 1");
	g_assert_cmpstr(info->unwinder, ==, "frame pointers");
	g_assert_cmphex(info->text, ==, IMAGE_VA);
	g_assert_cmphex(info->kaslr_offset, ==, 0x19200000);
	g_assert_nonnull(strstr(info->found_by, found_by));
	g_assert_false(info->types);
	/* No kallsyms. */
	g_assert_nonnull(strstr(vms_guest_why(guest), "kallsyms"));
	g_assert_cmpuint(vms_guest_lookup(guest, "_text", NULL, NULL), ==, 0);
	g_assert_true(vms_guest_is_kernel_text(guest, IMAGE_VA));
	g_assert_false(vms_guest_is_kernel_text(guest, IMAGE_VA - 1));
	g_assert_false(vms_guest_is_kernel_text(guest, IMAGE_VA + N_PAGES * PAGE_2M));
	struct vms_location location;
	g_assert_false(vms_guest_locate(guest, NULL, IMAGE_VA, &location));
}

static void test_by_vcpu(void)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = new_machine(2);
	map_image(machine);
	write_banner(machine);
	/* The first vCPU is not up yet. */
	set_paging(machine, 1, ROOT);
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, &error);
	g_assert_no_error(error);
	check_linux(guest, "page tables of a vCPU");
	g_assert_null(vms_guest_vmcoreinfo(guest)); /* without symbols it is not found */
}

/* The vCPUs look through other page tables; a stale VMCOREINFO leads nowhere. */
static void test_by_scan(void)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = new_machine(2);
	map_image(machine);
	write_banner(machine);
	set_paging(machine, 0, TABLES);
	set_paging(machine, 1, TABLES);
	write_vmcoreinfo(machine, INFO_PA, TABLES);
	write_vmcoreinfo(machine, INFO_PA + 0x3000, ROOT);
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, &error);
	g_assert_no_error(error);
	check_linux(guest, "VMCOREINFO");
	g_assert_true(g_str_has_suffix(vms_guest_vmcoreinfo(guest), "\nKERNELOFFSET=19200000\n"));
}

/* A core file of which no vCPU has control registers, or that has none at all. */
static void test_core(unsigned n_vcpus, bool has_note)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = new_machine(n_vcpus);
	machine->info.is_core = true;
	map_image(machine);
	write_banner(machine);
	write_vmcoreinfo(machine, INFO_PA, ROOT);
	char *page = fake_machine_at(machine, INFO_PA);
	g_autofree char *note = g_strdup(page);
	if (has_note) {
		machine->vmcoreinfo = note;
		*page = '\0';
	}
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, &error);
	g_assert_no_error(error);
	check_linux(guest, has_note ? "VMCOREINFO of the file" : "VMCOREINFO in memory");
	for (unsigned i = 0; i < n_vcpus; i++) {
		struct vms_regs regs;
		vms_machine_hold(machine, VMS_ALL_VCPUS, NULL);
		g_assert_true(vms_machine_regs(machine, i, &regs, NULL));
		vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
		g_assert_cmphex(regs.value[CR3], ==, ROOT);
		g_assert_false(vms_regs_have(&regs, GS_BASE));
	}
}

static void test_core_note(void)
{
	test_core(2, true);
}

static void test_core_without_note(void)
{
	test_core(2, false);
}

static void test_core_without_vcpus(void)
{
	test_core(0, true);
}

static void expect_none(struct vms_machine *machine, const char *why)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, &error);
	g_assert_no_error(error);
	g_assert_cmpint(vms_guest_kind(guest), ==, VMS_GUEST_NONE);
	g_assert_nonnull(strstr(vms_guest_why(guest), why));
	g_assert_cmpuint(vms_guest_lookup(guest, NULL, NULL, NULL), ==, 0);
	g_assert_false(vms_guest_is_kernel_text(guest, IMAGE_VA));
}

static void test_none(void)
{
	g_autoptr(vms_machine) machine = new_machine(2);
	expect_none(machine, "paging");
	set_paging(machine, 0, ROOT);
	expect_none(machine, "page tables"); /* nothing is mapped */
	map_image(machine);
	expect_none(machine, "page tables"); /* what is mapped is no Linux */
	write_vmcoreinfo(machine, INFO_PA, ROOT);
	expect_none(machine, "VMCOREINFO");
}

/* A guest that is not understood can be asked everything, and knows nothing. */
static void test_none_answers(void)
{
	const struct vms_task task = { .tid = 1 };
	const struct vms_process stranger = { .pid = 1 };
	struct vms_regs regs = { 0 };
	g_autoptr(vms_machine) machine = new_machine(1);
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, NULL);
	struct vms_task current;
	g_assert_cmpint(vms_guest_kind(guest), ==, VMS_GUEST_NONE);
	g_assert_false(vms_guest_current(guest, memory, &regs, &current));
	g_assert_null(vms_guest_process(guest, &task));
	g_assert_null(vms_guest_process_get(guest, 0));
	vms_guest_note_address(guest, memory, NULL, 0x1000);
	vms_guest_note_address(guest, memory, &stranger, 0x1000);
	g_assert_null(vms_guest_timers(guest, NULL));
	g_assert_null(vms_guest_clocks(guest, NULL));
	g_assert_null(vms_guest_modules(guest));
	g_assert_cmpuint(vms_guest_mappings_stamp(guest, 1), ==, 0);
}

/* One table that is its own entry, everywhere: a whole address space of the same page. */
static void test_cyclic_tables(void)
{
	g_autoptr(vms_machine) machine = new_machine(2);
	for (unsigned i = 0; i < 512; i++)
		fake_machine_write_u64(machine, ROOT + i * 8, ROOT | PRESENT);
	set_paging(machine, 0, ROOT);
	expect_none(machine, "page tables");
}

static bool count_regs(void *data, unsigned vcpu, GError **error)
{
	(void)vcpu, (void)error;
	++*(unsigned *)data;
	return true;
}

/*
 * A search in full tables that map no kernel takes its time, during which the guest is held:
 * all vCPUs together get no more of it than one.
 */
static void test_cyclic_tables_of_many(void)
{
	enum { VCPUS = 2000 };
	const uint64_t data_only = UINT64_C(1) << 63;
	unsigned asked = 0;
	const struct fake_hooks hooks = { .regs = count_regs, .data = &asked };
	g_autoptr(vms_machine) machine = new_machine(VCPUS);
	fake_machine_set_hooks(machine, &hooks);
	for (unsigned i = 0; i < 512; i++)
		fake_machine_write_u64(machine, ROOT + i * 8, ROOT | PRESENT | data_only);
	for (unsigned i = 0; i < VCPUS; i++)
		set_paging(machine, i, ROOT);
	expect_none(machine, "page tables");
	g_assert_cmpuint(asked, <, VCPUS / 2);
}

/* Every page of memory is a VMCOREINFO that leads to a large image: not all are tried. */
static void test_many_vmcoreinfos(void)
{
	g_autoptr(vms_machine) machine = new_machine(2);
	map_image(machine);
	set_paging(machine, 0, TABLES);
	for (uint64_t pa = IMAGE_PA; pa < IMAGE_PA + N_PAGES * PAGE_2M; pa += 4096)
		write_vmcoreinfo(machine, pa, ROOT);
	uint64_t reads = fake_machine_reads(machine);
	expect_none(machine, "VMCOREINFO");
	g_assert_cmpuint(fake_machine_reads(machine) - reads, <, 1000);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/detect/by_vcpu", test_by_vcpu);
	g_test_add_func("/detect/by_scan", test_by_scan);
	g_test_add_func("/detect/core_note", test_core_note);
	g_test_add_func("/detect/core_without_note", test_core_without_note);
	g_test_add_func("/detect/core_without_vcpus", test_core_without_vcpus);
	g_test_add_func("/detect/none", test_none);
	g_test_add_func("/detect/none_answers", test_none_answers);
	g_test_add_func("/detect/cyclic_tables", test_cyclic_tables);
	g_test_add_func("/detect/cyclic_tables_of_many", test_cyclic_tables_of_many);
	g_test_add_func("/detect/many_vmcoreinfos", test_many_vmcoreinfos);
	return g_test_run();
}
