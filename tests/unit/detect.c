/* SPDX-License-Identifier: MIT */
/* Detection of a Linux kernel in a machine of the test's own: page tables, image, VMCOREINFO. */
#include "guest/linux/detect.h"
#include "arch/x86_64.h"
#include "btf_encoder.h"
#include "fake_machine.h"
#include "guest/guest-private.h"
#include "guest/linux/linux.h"
#include "guest/symbols.h"
#include "guest/unwind_info.h"
#include "kallsyms_encoder.h"
#include "machine/engine.h"

#define TABLES	  UINT64_C(0x100000) /* page tables, one page each */
#define ROOT	  (TABLES + 0x1000)
#define IMAGE_PA  UINT64_C(0x1000000)
#define IMAGE_VA  UINT64_C(0xffffffff9a200000)
#define PAGE_2M	  UINT64_C(0x200000)
#define N_PAGES	  3
#define BANNER	  "Linux version 5.4.7-tiny (me@here) (cc) #3 SMP Mon Jan 1"
#define INFO_PA	  UINT64_C(0x150000)
#define KALLSYMS  0x10000 /* offsets in the image */
#define BTF	  0x100000
#define OWN_ROOT  (2 * PAGE_2M + 0x1000)
#define OWN_INFO  (2 * PAGE_2M + 0x2000) /* a pointer to VMCOREINFO, and that */
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

static uint64_t get_resets(void *data)
{
	return *(const uint64_t *)data;
}

/* After a reset all that is known is void; the symbol files are for what runs then. */
static void test_reset(void)
{
	const uint64_t address = UINT64_C(0x123000);
	uint64_t resets = 0, base = 0;
	const char *name;
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = new_machine(1);
	fake_machine_set_hooks(machine,
			       &(struct fake_hooks) { .resets = get_resets, .data = &resets });
	map_image(machine);
	write_banner(machine);
	set_paging(machine, 0, ROOT);
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, NULL);
	struct vms_symbol_file *file = vms_symbol_file_open("/proc/self/exe", &error);
	g_assert_no_error(error);
	g_assert_true(vms_guest_add_symbols(guest, file, &address, NULL));
	g_assert_false(vms_guest_is_stale(guest));
	resets++;
	g_assert_true(vms_guest_is_stale(guest));

	g_autoptr(vms_guest) anew = vms_guest_detect_anew(guest, &error);
	g_assert_no_error(error);
	g_assert_false(vms_guest_is_stale(anew));
	check_linux(anew, "page tables of a vCPU");
	vms_symbol_table_unref(vms_guest_symbol_file(anew, 0, &name, &base));
	g_assert_cmpstr(name, ==, "exe");
	g_assert_cmphex(base, ==, address);
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
	g_assert_null(vms_symbolizer_process(vms_guest_symbolizer(guest), 0));
	vms_guest_note_address(guest, memory, NULL, 0x1000);
	vms_guest_note_address(guest, memory, &stranger, 0x1000);
	g_assert_null(vms_guest_timers(guest, NULL));
	g_assert_null(vms_guest_clocks(guest, NULL));
	size_t n;
	g_assert_null(vms_guest_modules(guest, &n));
	g_assert_cmpuint(n, ==, 0);
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

/* ---- a kernel that changes while it is looked at ---------------------- */

struct changing {
	struct vms_machine *machine;
	bool can_observe;
	unsigned observed;
	unsigned holds, valid_from; /* BTF makes sense from that hold on */
	uint64_t tables, size;	    /* page tables that vanish with each release */
	const enum vms_error *refusal;
	unsigned torn; /* so many holds end before their release */
	bool has_ended;
};

static enum vms_machine_end on_ended(void *data)
{
	const struct changing *changing = data;
	return changing->has_ended ? VMS_MACHINE_GONE : VMS_MACHINE_GOES_ON;
}

static bool on_hold(void *data, GError **error)
{
	struct changing *changing = data;
	changing->holds++;
	if (changing->refusal) {
		g_set_error(error, VMS_ERROR, (int)*changing->refusal, "refused");
		return false;
	}
	if (changing->holds == changing->valid_from)
		*(uint8_t *)fake_machine_at(changing->machine, IMAGE_PA + BTF) ^= 0xff;
	return true;
}

static bool on_release(void *data, GError **error)
{
	struct changing *changing = data;
	if (changing->holds <= changing->torn) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE, "torn");
		return false;
	}
	if (changing->tables)
		memset(fake_machine_at(changing->machine, changing->tables), 0x6b, changing->size);
	return true;
}

/* The process that is seen the first time has ended, and the one of the second has not. */
static bool on_observe(void *data, GError **error G_GNUC_UNUSED)
{
	struct changing *changing = data;
	const uint8_t *own = fake_machine_at(changing->machine, IMAGE_PA + OWN_ROOT);
	uint8_t *root = fake_machine_at(changing->machine, ROOT);
	if (++changing->observed == 1)
		memset(root, 0, 4096);
	else
		memcpy(root, own, 4096);
	return true;
}

static void write_kallsyms(struct vms_machine *machine, const char *root_symbol, size_t btf_size)
{
	const struct kallsyms_shape shape = {
		ORDER_SEQS_LAST, KIND_BASE_RELATIVE, true, false, 8, 4, 0
	};
	g_autoptr(GPtrArray) sources = kallsyms_sources_new();
	struct kallsyms_blob blob;
	kallsyms_add_source(sources, "_text", 'T', IMAGE_VA);
	for (unsigned i = 1; i < 300; i++) {
		g_autofree char *name = g_strdup_printf("function_%u", i);
		kallsyms_add_source(sources, name, 't', IMAGE_VA + i * 16);
	}
	kallsyms_add_source(sources, "__start_BTF", 'D', IMAGE_VA + BTF);
	kallsyms_add_source(sources, "__stop_BTF", 'D', IMAGE_VA + BTF + btf_size);
	kallsyms_add_source(sources, root_symbol, 'D', IMAGE_VA + OWN_ROOT);
	kallsyms_add_source(sources, "vmcoreinfo_data", 'D', IMAGE_VA + OWN_INFO);
	kallsyms_add_source(sources, "_end", 'B', IMAGE_VA + N_PAGES * PAGE_2M);
	kallsyms_encode(&blob, &shape, sources, IMAGE_VA);
	memcpy(fake_machine_at(machine, IMAGE_PA + KALLSYMS), blob.bytes->data, blob.bytes->len);
	g_byte_array_unref(blob.bytes);
}

/* A kernel with symbols, types and page tables of its own, which has those of `root` in common. */
static struct vms_machine *new_changing(struct changing *changing, const char *root_symbol)
{
	const struct fake_hooks hooks = {
		.hold = on_hold,
		.release = on_release,
		.observe = changing->can_observe ? on_observe : NULL,
		.ended = on_ended,
		.data = changing,
	};
	struct encoder encoder = encoder_new();
	const struct encoder_member member = { "pid", 0, 4 };
	put_structure(&encoder, "task_struct", 8, 1, &member);
	g_autoptr(GByteArray) btf = finish(&encoder);
	struct vms_machine *machine = new_machine(2);
	fake_machine_set_hooks(machine, &hooks);
	changing->machine = machine;
	map_image(machine);
	write_banner(machine);
	write_kallsyms(machine, root_symbol, btf->len);
	memcpy(fake_machine_at(machine, IMAGE_PA + BTF), btf->data, btf->len);
	memcpy(fake_machine_at(machine, IMAGE_PA + OWN_ROOT), fake_machine_at(machine, ROOT), 4096);
	set_paging(machine, 0, ROOT);
	return machine;
}

static void ignore_symbol(const struct vms_symbol *symbol G_GNUC_UNUSED,
			  const char *module G_GNUC_UNUSED, void *data G_GNUC_UNUSED)
{
}

static struct vms_guest *detect(struct vms_machine *machine)
{
	g_autoptr(GError) error = NULL;
	struct vms_guest *guest = vms_guest_detect(machine, &error);
	g_assert_no_error(error);
	g_assert_cmpint(vms_guest_kind(guest), ==, VMS_GUEST_LINUX);
	g_assert_cmpuint(vms_guest_lookup(guest, "function_7", ignore_symbol, NULL), ==, 1);
	return guest;
}

/* The process that the vCPU runs ends when the vCPU goes on. */
static void test_process_ends(void)
{
	struct changing changing = { .tables = ROOT, .size = 4096 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_true(vms_guest_info(guest)->types);
	g_assert_null(vms_guest_why(guest));
	g_assert_cmpuint(changing.holds, ==, 1);
}

/* What a guest knew of names is there when guest and machine are gone. */
static void test_names_stay(void)
{
	struct changing changing = { .tables = ROOT, .size = 4096 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(vms_guest) guest = detect(machine);
	g_autoptr(vms_symbolizer) symbolizer = vms_symbolizer_ref(vms_guest_symbolizer(guest));
	uint64_t start, end;
	struct vms_symbol symbol;
	struct vms_location location;
	g_autoptr(vms_symbol_table) symbols = vms_guest_kernel_symbols(guest, &start, &end);
	g_assert_true(vms_symbol_table_lookup(symbols, "function_7", &symbol));
	g_clear_pointer(&symbols, vms_symbol_table_unref);
	g_clear_pointer(&guest, vms_guest_unref);
	g_clear_pointer(&machine, vms_machine_unref);
	g_assert_true(vms_symbolizer_locate(symbolizer, VMS_KERNEL_SPACE, 0, symbol.va, &location));
	g_assert_cmpstr(location.symbol, ==, "function_7");
	g_assert_cmphex(location.start, ==, symbol.va);
}

/* The same in user mode, where page table isolation shows nothing of the kernel but its entry. */
static void test_isolated_process_ends(void)
{
	struct changing changing = { .tables = TABLES, .size = 2 * 4096 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	memcpy(fake_machine_at(machine, TABLES), fake_machine_at(machine, ROOT), 4096);
	memset(fake_machine_at(machine, ROOT), 0, 4096);
	fake_machine_write_u64(machine, TABLES, IMAGE_PA | PRESENT);
	fake_machine_write_u64(machine, ROOT, IMAGE_PA | PRESENT);
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_true(vms_guest_info(guest)->types);
	g_assert_null(vms_guest_why(guest));
	g_assert_cmpuint(changing.holds, ==, 1);
}

/* Symbols of functions only: where the kernel's tables are, VMCOREINFO tells. */
static void test_root_by_vmcoreinfo(void)
{
	struct changing changing = { 0 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "another");
	g_autofree char *why = NULL;
	struct vms_linux *guest = vms_linux_detect(machine, &why, NULL);
	g_assert_nonnull(guest);
	g_assert_false(guest->has_own_tables);
	vms_linux_free(guest);
	write_vmcoreinfo(machine, IMAGE_PA + OWN_INFO + 0x1000, IMAGE_PA + OWN_ROOT);
	fake_machine_write_u64(machine, IMAGE_PA + OWN_INFO, IMAGE_VA + OWN_INFO + 0x1000);
	guest = vms_linux_detect(machine, &why, NULL);
	g_assert_true(guest->has_own_tables);
	g_assert_cmphex(vms_memory_regs(guest->memory)->value[CR3], ==, IMAGE_PA + OWN_ROOT);
	vms_linux_free(guest);
}

/* What is not understood at first is looked at again, and found, or said to be missing. */
static void test_looks_again(void)
{
	struct changing changing = { .valid_from = 3 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	*(uint8_t *)fake_machine_at(machine, IMAGE_PA + BTF) ^= 0xff;
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_true(vms_guest_info(guest)->types);
	g_assert_null(vms_guest_why(guest));
	g_assert_cmpuint(changing.holds, ==, 3);
}

static void test_says_what_is_missing(void)
{
	struct changing changing = { .valid_from = 4 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	*(uint8_t *)fake_machine_at(machine, IMAGE_PA + BTF) ^= 0xff;
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_false(vms_guest_info(guest)->types);
	g_assert_nonnull(strstr(vms_guest_why(guest), "BTF"));
	g_assert_nonnull(strstr(vms_guest_why(guest), "no tasks"));
	g_assert_false(vms_guest_is_complete(guest));
	g_assert_cmpuint(changing.holds, ==, 3);
}

/* A kernel is not blamed for what a machine that ends meanwhile does not show. */
static void test_machine_ends(void)
{
	struct changing changing = { .valid_from = 4, .has_ended = true };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(GError) error = NULL;
	*(uint8_t *)fake_machine_at(machine, IMAGE_PA + BTF) ^= 0xff;
	g_assert_null(vms_guest_detect(machine, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CLOSED);
	g_assert_cmpuint(changing.holds, ==, 1);
}

/* A machine that cannot be held now is read all the same. */
static void check_refused_hold(enum vms_error refusal)
{
	struct changing changing = { .refusal = &refusal };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_guest_detect(machine, &error));
	g_assert_error(error, VMS_ERROR, (int)refusal);
	g_assert_cmpstr(error->message, ==, "refused");
	g_clear_error(&error);

	write_vmcoreinfo(machine, INFO_PA, IMAGE_PA + OWN_ROOT);
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_cmpstr(vms_guest_info(guest)->found_by, ==, "VMCOREINFO in memory");
	g_assert_true(vms_guest_info(guest)->types);
	g_assert_null(vms_guest_why(guest));
}

static void test_refused_hold(void)
{
	check_refused_hold(VMS_ERROR_NOT_NOW);
	check_refused_hold(VMS_ERROR_WATCHED);
	check_refused_hold(VMS_ERROR_BUSY);
}

/* A machine that has gone is not read, although a search of its memory would lead to a kernel. */
static void test_gone(void)
{
	enum vms_error refusal = VMS_ERROR_CLOSED;
	struct changing changing = { .refusal = &refusal };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(GError) error = NULL;
	write_vmcoreinfo(machine, INFO_PA, IMAGE_PA + OWN_ROOT);
	g_assert_null(vms_guest_detect(machine, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CLOSED);
}

/* A machine that must not be held is observed, more than once if need be. */
static void check_observed(enum vms_error refusal)
{
	struct changing changing = { .refusal = &refusal, .can_observe = true };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_true(vms_guest_info(guest)->types);
	g_assert_null(vms_guest_why(guest));
	g_assert_cmpuint(changing.observed, ==, 2);
}

static void test_observed(void)
{
	check_observed(VMS_ERROR_NOT_NOW);
	check_observed(VMS_ERROR_WATCHED);
	check_observed(VMS_ERROR_BUSY);
}

static void test_torn_hold(void)
{
	struct changing changing = { .torn = 2 };
	g_autoptr(vms_machine) machine = new_changing(&changing, "init_top_pgt");
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_guest) guest = detect(machine);
	g_assert_null(vms_guest_why(guest));
	g_assert_cmpuint(changing.holds, ==, 3);

	changing = (struct changing) { .machine = machine, .torn = 3 };
	g_assert_null(vms_guest_detect(machine, &error));
	g_assert_cmpstr(error->message, ==, "torn");
	g_assert_cmpuint(changing.holds, ==, 3);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/detect/by_vcpu", test_by_vcpu);
	g_test_add_func("/detect/reset", test_reset);
	g_test_add_func("/detect/by_scan", test_by_scan);
	g_test_add_func("/detect/core_note", test_core_note);
	g_test_add_func("/detect/core_without_note", test_core_without_note);
	g_test_add_func("/detect/core_without_vcpus", test_core_without_vcpus);
	g_test_add_func("/detect/none", test_none);
	g_test_add_func("/detect/none_answers", test_none_answers);
	g_test_add_func("/detect/cyclic_tables", test_cyclic_tables);
	if (g_test_slow())
		g_test_add_func("/detect/cyclic_tables_of_many", test_cyclic_tables_of_many);
	g_test_add_func("/detect/many_vmcoreinfos", test_many_vmcoreinfos);
	g_test_add_func("/detect/process_ends", test_process_ends);
	g_test_add_func("/detect/names-stay", test_names_stay);
	g_test_add_func("/detect/isolated_process_ends", test_isolated_process_ends);
	g_test_add_func("/detect/root_by_vmcoreinfo", test_root_by_vmcoreinfo);
	g_test_add_func("/detect/looks_again", test_looks_again);
	g_test_add_func("/detect/says_what_is_missing", test_says_what_is_missing);
	g_test_add_func("/detect/machine_ends", test_machine_ends);
	g_test_add_func("/detect/refused_hold", test_refused_hold);
	g_test_add_func("/detect/gone", test_gone);
	g_test_add_func("/detect/observed", test_observed);
	g_test_add_func("/detect/torn_hold", test_torn_hold);
	return g_test_run();
}
