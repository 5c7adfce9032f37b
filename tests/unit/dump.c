/* SPDX-License-Identifier: MIT */
/* Core files of a machine made of a test's memory, read back with libelf. */
#include "arch/x86_64.h"
#include "base/clock.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "machine/engine.h"
#include <fcntl.h>
#include <gelf.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/dump.h>

#define KIB	   UINT64_C(1024)
#define MIB	   (1024 * KIB)
#define PAGE	   4096
#define LOW_SIZE   (8 * MIB)
#define HIGH_PA	   (16 * MIB)
#define HIGH_SIZE  (1 * MIB + 3 * PAGE + 100) /* its last page is not whole */
#define ROOT	   UINT64_C(0x1000)	      /* page tables, in low memory */
#define DIRECT	   UINT64_C(0xffff888000000000)
#define IMAGE_VA   UINT64_C(0xffffffff81000000)
#define IMAGE_PA   (4 * MIB)
#define VMCOREINFO "OSRELEASE=1.2.3\nKERNELOFFSET=0\n"

struct fixture {
	char *folder, *path;
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_dump_options options;
	struct vms_dump_result result;
	unsigned holds, releases;
	gint is_held; /* atomic */
	gint cancel;  /* atomic: nothing blocks, or can be read, any more */
	uint64_t unreadable, readable_again;
	bool gone;
};

/* ---- the machine ------------------------------------------------------ */

static void map(struct vms_machine *machine, uint64_t table, unsigned index, uint64_t entry)
{
	fake_machine_write_u64(machine, table + index * 8, entry);
}

/* The direct map of the first 6 MiB and of the high memory, and an image, in pages of 2 MiB. */
static void make_tables(struct vms_machine *machine)
{
	const uint64_t present = 3, large = 0x83;
	uint64_t direct_pud = ROOT + 0x1000, direct_pmd = ROOT + 0x2000, image_pud = ROOT + 0x3000,
		 image_pmd = ROOT + 0x4000;
	map(machine, ROOT, 0, direct_pud | present); /* the low half is none of the kernel's */
	map(machine, ROOT, DIRECT >> 39 & 511, direct_pud | present);
	map(machine, direct_pud, 0, direct_pmd | present);
	for (unsigned i = 0; i < 3; i++)
		map(machine, direct_pmd, i, i * 2 * MIB | large);
	map(machine, direct_pmd, HIGH_PA / (2 * MIB), HIGH_PA | large);
	map(machine, ROOT, IMAGE_VA >> 39 & 511, image_pud | present);
	map(machine, image_pud, IMAGE_VA >> 30 & 511, image_pmd | present);
	map(machine, image_pmd, IMAGE_VA >> 21 & 511, IMAGE_PA | large);
}

/* A quarter of the pages hold something. */
static void fill(struct vms_machine *machine, uint64_t pa, uint64_t end)
{
	for (; pa < end; pa += 4 * PAGE)
		fake_machine_write_u64(machine, pa + (pa >> 3) % (end - pa < PAGE ? 64 : 4000),
				       pa ^ 0x123456789abcdef);
}

static void set_up_vcpus(struct fixture *fixture)
{
	for (unsigned i = 0; i < 3; i++) {
		struct vms_regs *regs = fake_machine_regs(fixture->machine, i);
		vms_regs_set(regs, CR0, UINT64_C(1) << 31);
		vms_regs_set(regs, CR3, ROOT);
		vms_regs_set(regs, CR4, 1 << 5);
		vms_regs_set(regs, EFER, 1 << 10);
		vms_regs_set(regs, RIP, IMAGE_VA + i);
		vms_regs_set(regs, RSP, DIRECT + 0x2000 + i);
		vms_regs_set(regs, R15, 0x1500 + i);
	}
}

static bool count_hold(void *data, GError **error G_GNUC_UNUSED)
{
	struct fixture *fixture = data;
	fixture->holds++;
	g_atomic_int_set(&fixture->is_held, 1);
	return true;
}

static bool count_release(void *data, GError **error G_GNUC_UNUSED)
{
	struct fixture *fixture = data;
	fixture->releases++;
	g_atomic_int_set(&fixture->is_held, 0);
	return true;
}

static const struct fake_hooks counting = { .hold = count_hold, .release = count_release };

static void set_hooks(struct fixture *fixture, struct fake_hooks hooks)
{
	hooks.data = fixture;
	fake_machine_set_hooks(fixture->machine, &hooks);
}

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->folder = g_dir_make_tmp("vmscope-dump-XXXXXX", NULL);
	g_assert_nonnull(fixture->folder);
	fixture->path = g_build_filename(fixture->folder, "core", NULL);
	fixture->machine = fake_machine_new(&vms_arch_x86_64, 3);
	fake_machine_add_ram(fixture->machine, 0, LOW_SIZE);
	fake_machine_add_ram(fixture->machine, HIGH_PA, HIGH_SIZE);
	fake_machine_add_range(fixture->machine, 0xfee00000, 0x1000, VMS_RANGE_MMIO, "apic");
	fill(fixture->machine, 1 * MIB, LOW_SIZE);
	fill(fixture->machine, HIGH_PA, HIGH_PA + HIGH_SIZE);
	/* Something in the part of a page at the end. */
	fake_machine_write_u64(fixture->machine, HIGH_PA + HIGH_SIZE - 8, 0xe0e);
	make_tables(fixture->machine);
	set_up_vcpus(fixture);
	set_hooks(fixture, counting);
	fixture->guest = fake_guest_new(fixture->machine, VMS_GUEST_LINUX);
	fake_guest_add_current(fixture->guest, DIRECT + 0x2000, 4711, false);
	fake_guest_add_current(fixture->guest, DIRECT + 0x2001, 0, true);
	fake_guest_add_current(fixture->guest, DIRECT + 0x2002, 12, false);
	fake_guest_set_vmcoreinfo(fixture->guest, VMCOREINFO);
	fixture->options.size = sizeof(fixture->options);
	fixture->options.hold_limit_ns = UINT64_MAX; /* a slow machine must not matter */
}

static unsigned count_files(const struct fixture *fixture)
{
	g_autoptr(GDir) dir = g_dir_open(fixture->folder, 0, NULL);
	unsigned n = 0;
	while (g_dir_read_name(dir))
		n++;
	return n;
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_unlink(fixture->path);
	g_rmdir(fixture->folder);
	vms_dump_result_clear(&fixture->result);
	vms_guest_unref(fixture->guest);
	vms_machine_unref(fixture->machine);
	g_free(fixture->folder);
	g_free(fixture->path);
}

static bool dump(struct fixture *fixture, GError **error)
{
	vms_dump_result_clear(&fixture->result);
	g_autoptr(vms_dump) job = vms_dump_start(fixture->machine, fixture->guest, fixture->path,
						 &fixture->options, error);
	return job && vms_dump_finish(job, &fixture->result, error);
}

static void dump_well(struct fixture *fixture)
{
	g_autoptr(GError) error = NULL;
	dump(fixture, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(fixture->holds, ==, 1);
	g_assert_cmpuint(fixture->releases, ==, 1);
	g_assert_cmpuint(count_files(fixture), ==, 1);
}

/* Nothing is left behind, and the guest runs. */
static void dump_badly(struct fixture *fixture, int code, const char *word)
{
	g_autoptr(GError) error = NULL;
	g_assert_false(dump(fixture, &error));
	g_assert_error(error, VMS_ERROR, code);
	if (!strstr(error->message, word))
		g_error("\"%s\" does not say \"%s\"", error->message, word);
	g_assert_null(strchr(error->message, '\n'));
	g_assert_cmpuint(fixture->holds, ==, fixture->releases);
	g_assert_cmpuint(count_files(fixture), ==, 0);
}

/* ---- the file --------------------------------------------------------- */

struct core {
	gchar *bytes;
	gsize size;
	Elf *elf;
	size_t n;
	GElf_Phdr *segments;
};

static void open_core(struct core *core, const char *path)
{
	elf_version(EV_CURRENT);
	g_assert_true(g_file_get_contents(path, &core->bytes, &core->size, NULL));
	core->elf = elf_memory(core->bytes, core->size);
	g_assert_nonnull(core->elf);
	g_assert_cmpint(elf_getphdrnum(core->elf, &core->n), ==, 0);
	core->segments = g_new(GElf_Phdr, core->n);
	for (size_t i = 0; i < core->n; i++)
		g_assert_nonnull(gelf_getphdr(core->elf, (int)i, &core->segments[i]));
}

static void close_core(struct core *core)
{
	elf_end(core->elf);
	g_free(core->segments);
	g_free(core->bytes);
}

/* The content of the n-th note of that name and type, or NULL. */
static const char *find_note(const struct core *core, const char *owner, unsigned type, unsigned n,
			     size_t *size)
{
	g_assert_cmpuint(core->segments[0].p_type, ==, PT_NOTE);
	Elf_Data *data = elf_getdata_rawchunk(core->elf, (int64_t)core->segments[0].p_offset,
					      core->segments[0].p_filesz, ELF_T_NHDR);
	size_t offset = 0, name, content;
	GElf_Nhdr note;
	g_assert_nonnull(data);
	while ((offset = gelf_getnote(data, offset, &note, &name, &content)) > 0) {
		const char *bytes = data->d_buf;
		if (note.n_type == type && note.n_namesz - strlen(owner) <= 1 &&
		    strcmp(bytes + name, owner) == 0 && n-- == 0) {
			*size = note.n_descsz;
			return bytes + content;
		}
	}
	return NULL;
}

static uint64_t word_at(const char *bytes, size_t offset)
{
	uint64_t word;
	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* struct elf_prstatus of x86-64: pr_pid at 32, the registers at 112. */
static uint32_t pid_of(const struct core *core, unsigned vcpu)
{
	size_t size;
	const char *status = find_note(core, "CORE", NT_PRSTATUS, vcpu, &size);
	g_assert_nonnull(status);
	g_assert_cmpuint(size, ==, 336);
	g_assert_cmphex(word_at(status, 112 + 16 * 8), ==, IMAGE_VA + vcpu);
	g_assert_cmphex(word_at(status, 112 + 19 * 8), ==, DIRECT + 0x2000 + vcpu);
	g_assert_cmphex(word_at(status, 112), ==, 0x1500 + vcpu);
	return (uint32_t)word_at(status, 32);
}

/* Our own note's text; the caller frees it. */
static char *own_note(const struct core *core)
{
	size_t size;
	const char *text = find_note(core, "VMSCOPE", 0x564d5301, 0, &size);
	g_assert_nonnull(text);
	return g_strndup(text, size);
}

/* Is what a segment has in the file what the machine has in memory? */
static void check_content(const struct fixture *fixture, const struct core *core,
			  const GElf_Phdr *segment)
{
	g_assert_cmpuint(segment->p_offset, <=, core->size);
	g_assert_cmpuint(segment->p_filesz, <=, core->size - segment->p_offset);
	const uint8_t *memory = fake_machine_at(fixture->machine, segment->p_paddr);
	g_assert_cmpmem(core->bytes + segment->p_offset, segment->p_filesz, memory,
			segment->p_memsz);
	g_assert_cmpuint(segment->p_offset % PAGE, ==, segment->p_paddr % PAGE);
	/* Past headers and notes. */
	g_assert_cmpuint(segment->p_offset, >=,
			 core->segments[0].p_offset + core->segments[0].p_filesz);
}

static void check_segment(const GElf_Phdr *segment, uint64_t va, uint64_t pa, uint64_t size)
{
	g_assert_cmpuint(segment->p_type, ==, PT_LOAD);
	g_assert_cmphex(segment->p_vaddr, ==, va);
	g_assert_cmphex(segment->p_paddr, ==, pa);
	g_assert_cmphex(segment->p_filesz, ==, size);
}

/* ---- tests ------------------------------------------------------------ */

static void test_segments(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	GElf_Ehdr header;
	struct stat stat_buf;

	dump_well(fixture);
	open_core(&core, fixture->path);
	g_assert_nonnull(gelf_getehdr(core.elf, &header));
	g_assert_cmpuint(header.e_type, ==, ET_CORE);
	g_assert_cmpuint(header.e_machine, ==, EM_X86_64);
	g_assert_cmpuint(header.e_ident[EI_VERSION], ==, EV_CURRENT);
	/* Physical memory, cut where the direct map ends, which comes last; the kernel's image. */
	g_assert_cmpuint(core.n, ==, 5);
	check_segment(&core.segments[1], 6 * MIB, 6 * MIB, 2 * MIB);
	check_segment(&core.segments[2], IMAGE_VA, IMAGE_PA, 2 * MIB);
	check_segment(&core.segments[3], DIRECT, 0, 6 * MIB);
	check_segment(&core.segments[4], DIRECT + HIGH_PA, HIGH_PA, HIGH_SIZE);
	/* The same bytes of the file. */
	g_assert_cmphex(core.segments[2].p_offset, ==, core.segments[3].p_offset + IMAGE_PA);
	for (size_t i = 1; i < core.n; i++)
		check_content(fixture, &core, &core.segments[i]);
	close_core(&core);

	g_assert_cmpint(g_stat(fixture->path, &stat_buf), ==, 0);
	g_assert_cmpuint(stat_buf.st_mode & 07777, ==, 0600);
	g_assert_cmpuint(fixture->result.memory, ==, LOW_SIZE + HIGH_SIZE);
	g_assert_cmpuint(fixture->result.file_size, ==, (uint64_t)stat_buf.st_size);
	g_assert_cmpuint(fixture->result.vcpus, ==, 3);
	g_assert_cmpuint(fixture->result.unreadable, ==, 0);
	g_assert_cmpuint(fixture->result.held_ns, >, 0);
	g_assert_cmpuint(fixture->result.elapsed_ns, >=, fixture->result.held_ns);
}

static void test_notes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	size_t size;

	dump_well(fixture);
	open_core(&core, fixture->path);
	g_assert_cmpuint(pid_of(&core, 0), ==, 4711);
	g_assert_cmpuint(pid_of(&core, 1), ==, VMS_DUMP_IDLE_TID + 1);
	g_assert_cmpuint(pid_of(&core, 2), ==, 12);
	g_assert_null(find_note(&core, "CORE", NT_PRSTATUS, 3, &size));
	for (unsigned i = 0; i < 3; i++) {
		const char *state = find_note(&core, "QEMU", 0, i, &size);
		g_assert_nonnull(state);
		g_assert_cmpuint(size, ==, 440);
		g_assert_cmphex(word_at(state, 8 + 16 * 8), ==, IMAGE_VA + i);
	}
	const char *info = find_note(&core, "VMCOREINFO", 0, 0, &size);
	g_assert_cmpmem(info, size, VMCOREINFO, strlen(VMCOREINFO));
	g_autofree char *own = own_note(&core);
	g_auto(GStrv) lines = g_strsplit(own, "\n", -1);
	g_assert_true(g_str_has_prefix(lines[0], "writer=vmscope "));
	g_assert_cmpstr(lines[2], ==, "machine=fake");
	g_assert_cmpstr(lines[3], ==, "description=a fake machine");
	g_assert_cmpstr(lines[4], ==, "engine=fake");
	g_assert_true(g_str_has_prefix(lines[5], "held_ms="));
	g_assert_cmpstr(lines[6], ==, "range=0 800000 ram ram");
	g_assert_cmpstr(lines[7], ==, "range=1000000 103064 ram ram");
	g_assert_cmpstr(lines[8], ==, "range=fee00000 1000 mmio apic");
	/* What NT_PRSTATUS and QEMU's note lack; then what they show and the machine does not tell.
	 */
	for (unsigned i = 0; i < 3; i++) {
		g_autofree char *registers = g_strdup_printf("registers=%u efer=400", i);
		g_autofree char *unknown = g_strdup_printf("unknown=%u rax rbx ", i);
		g_assert_cmpstr(lines[9 + i], ==, registers);
		g_assert_true(g_str_has_prefix(lines[12 + i], unknown));
		g_assert_nonnull(strstr(lines[12 + i], " r14 eflags "));
		g_assert_null(strstr(lines[12 + i], "lstar"));
	}
	g_assert_cmpstr(lines[15], ==, "");
	/* It comes first. */
	const char *first = core.bytes + core.segments[0].p_offset + sizeof(Elf64_Nhdr);
	g_assert_cmpstr(first, ==, "VMSCOPE");
	close_core(&core);
}

/* What is known of a vCPU is known with its value, what is not is not. */
static void check_registers(struct vms_machine *machine, const struct fixture *fixture)
{
	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct vms_regs *before = fake_machine_regs(fixture->machine, i);
		struct vms_regs after;
		g_assert_true(vms_machine_all_regs(machine, i, &after, NULL));
		for (unsigned reg = 0; reg < N_REGS; reg++) {
			g_assert_cmpint(vms_regs_have(&after, reg), ==, vms_regs_have(before, reg));
			if (vms_regs_have(before, reg))
				g_assert_cmphex(after.value[reg], ==, before->value[reg]);
		}
	}
}

/* Through files of all layouts, each made of the one before. */
static void check_layouts(struct fixture *fixture)
{
	static const enum vms_core_format formats[] = { VMS_CORE_ELF, VMS_CORE_VBOX, VMS_CORE_KDUMP,
							VMS_CORE_VBOX, VMS_CORE_ELF };
	g_autoptr(vms_machine) machine = vms_machine_ref(fixture->machine);
	fixture->options.overwrite = true;
	for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
		g_autoptr(GError) error = NULL;
		g_auto(vms_dump_result) result = { 0 };
		fixture->options.format = formats[i];
		g_autoptr(vms_dump) dump = vms_dump_start(machine, fixture->guest, fixture->path,
							  &fixture->options, &error);
		vms_dump_finish(dump, &result, &error);
		g_assert_no_error(error);
		vms_machine_unref(machine);
		machine = vms_machine_open_core(fixture->path, &error);
		g_assert_no_error(error);
		g_assert_cmpuint(vms_machine_core(machine)->damage->len, ==, 0);
		check_registers(machine, fixture);
	}
}

static void test_unknown_registers(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	check_layouts(fixture);
	/* CR8 has no place in any of them but in our note. */
	vms_regs_set(fake_machine_regs(fixture->machine, 1), CR8, 7);
	vms_regs_set(fake_machine_regs(fixture->machine, 2), LSTAR, IMAGE_VA);
	check_layouts(fixture);
}

static bool is_made_up(const struct fixture *fixture, const char *name)
{
	return g_ptr_array_find_with_equal_func(fixture->result.made_up, name, g_str_equal, NULL);
}

/* What is not known of every vCPU and shown of all, is told. */
static void test_made_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	for (unsigned vcpu = 0; vcpu < 3; vcpu++) {
		for (unsigned reg = 0; reg < N_REGS; reg++)
			vms_regs_set(fake_machine_regs(fixture->machine, vcpu), reg, reg);
	}
	fixture->options.format = VMS_CORE_VBOX;
	dump_well(fixture);
	g_assert_cmpuint(fixture->result.made_up->len, ==, 0);

	vms_regs_forget(fake_machine_regs(fixture->machine, 1), LSTAR);
	vms_regs_forget(fake_machine_regs(fixture->machine, 2), CR8);
	fixture->options.overwrite = true;
	g_assert_true(dump(fixture, NULL));
	g_assert_cmpuint(fixture->result.made_up->len, ==, 1);
	g_assert_true(is_made_up(fixture, "lstar"));

	fixture->options.format = VMS_CORE_ELF;
	g_assert_true(dump(fixture, NULL));
	g_assert_cmpuint(fixture->result.made_up->len, ==, 0);
}

/* How threads are called where nothing, or not everything, is known of them. */
static void test_thread_ids(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	fixture->options.threads = VMS_DUMP_THREADS_VCPU;
	dump_well(fixture);
	open_core(&core, fixture->path);
	for (unsigned i = 0; i < 3; i++)
		g_assert_cmpuint(pid_of(&core, i), ==, i + 1);
	close_core(&core);

	fixture->options =
		(struct vms_dump_options) { .size = sizeof(fixture->options), .overwrite = true };
	vms_guest_unref(fixture->guest);
	fixture->guest = fake_guest_new(fixture->machine, VMS_GUEST_NONE);
	g_assert_true(dump(fixture, NULL));
	open_core(&core, fixture->path);
	for (unsigned i = 0; i < 3; i++)
		g_assert_cmpuint(pid_of(&core, i), ==, i + 1);
	close_core(&core);

	fake_guest_recognise(fixture->guest);
	fake_guest_add_current(fixture->guest, DIRECT + 0x2001, 2, false);
	g_assert_true(dump(fixture, NULL));
	open_core(&core, fixture->path);
	g_assert_cmpuint(pid_of(&core, 0), ==, VMS_DUMP_IDLE_TID);
	g_assert_cmpuint(pid_of(&core, 1), ==, 2);
	g_assert_cmpuint(pid_of(&core, 2), ==, VMS_DUMP_IDLE_TID + 2);
	close_core(&core);
}

/* Without Linux memory is called by its physical address; the kernel half is listed besides. */
static void test_bare(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	vms_guest_unref(fixture->guest);
	fixture->guest = fake_guest_new(fixture->machine, VMS_GUEST_NONE);
	dump_well(fixture);
	open_core(&core, fixture->path);
	g_assert_cmpuint(core.n, ==, 6);
	check_segment(&core.segments[1], 0, 0, LOW_SIZE);
	check_segment(&core.segments[2], HIGH_PA, HIGH_PA, HIGH_SIZE);
	check_segment(&core.segments[3], DIRECT, 0, 6 * MIB);
	check_segment(&core.segments[4], DIRECT + HIGH_PA, HIGH_PA, HIGH_SIZE);
	check_segment(&core.segments[5], IMAGE_VA, IMAGE_PA, 2 * MIB);
	for (size_t i = 1; i < core.n; i++)
		check_content(fixture, &core, &core.segments[i]);
	close_core(&core);
}

/* Pages of zeros take no room on the disk. */
static void test_holes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct stat stat_buf;
	uint64_t used = 0;
	static const uint8_t zeros[PAGE];
	const uint64_t begins[] = { 0, HIGH_PA }, sizes[] = { LOW_SIZE, HIGH_SIZE };
	for (unsigned i = 0; i < 2; i++) {
		for (uint64_t at = 0; at < sizes[i]; at += PAGE) {
			size_t size = MIN(PAGE, sizes[i] - at);
			if (memcmp(fake_machine_at(fixture->machine, begins[i] + at), zeros, size))
				used += size;
		}
	}
	dump_well(fixture);
	g_assert_cmpuint(fixture->result.zeros, ==, LOW_SIZE + HIGH_SIZE - used);
	g_assert_cmpuint(fixture->result.written, >=, used);
	g_assert_cmpuint(fixture->result.written, <, used + 64 * KIB);
	g_assert_cmpint(g_stat(fixture->path, &stat_buf), ==, 0);
	g_assert_cmpuint((uint64_t)stat_buf.st_blocks * 512, <, used + 1 * MIB);
}

static void know_no_data_at_2_mib(void *data G_GNUC_UNUSED, uint64_t pa, uint64_t end,
				  uint64_t *begin, uint64_t *stop)
{
	if (pa < 2 * MIB) {
		*stop = MIN(end, 2 * MIB);
	} else if (pa < 3 * MIB) {
		/* In the middle of a page. */
		*begin = MIN(end, 3 * MIB + 100);
		*stop = MIN(end, 3 * MIB + 200);
	}
}

/* Memory that is known to be zeros is not even read; what shares a page with data is. */
static void test_known_zeros(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	struct fake_hooks hooks = counting;
	hooks.next_data = know_no_data_at_2_mib;
	set_hooks(fixture, hooks);
	fake_machine_write_u64(fixture->machine, 2 * MIB + 100, 1);
	fake_machine_write_u64(fixture->machine, 3 * MIB, 2);
	dump_well(fixture);
	memset(fake_machine_at(fixture->machine, 2 * MIB), 0, 1 * MIB);
	open_core(&core, fixture->path);
	for (size_t i = 1; i < core.n; i++)
		check_content(fixture, &core, &core.segments[i]);
	close_core(&core);
}

static bool refuse_some(void *data, uint64_t pa, size_t size)
{
	const struct fixture *fixture = data;
	return pa >= fixture->readable_again || pa + size <= fixture->unreadable;
}

/* Listed once, as joined ranges; zeros in the file; what shares their unit is there. */
static void test_unreadable(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	struct fake_hooks hooks = counting;
	hooks.read = refuse_some;
	set_hooks(fixture, hooks);
	fixture->unreadable = 2 * MIB - 3 * PAGE;
	fixture->readable_again = 3 * MIB + PAGE;
	uint64_t size = fixture->readable_again - fixture->unreadable;
	dump_well(fixture);
	memset(fake_machine_at(fixture->machine, fixture->unreadable), 0, size);
	g_assert_cmpuint(fixture->result.unreadable, ==, size);
	g_assert_cmpuint(fixture->result.unreadable_at->len, ==, 1);
	const struct vms_range *range =
		&g_array_index(fixture->result.unreadable_at, struct vms_range, 0);
	g_assert_cmphex(range->pa, ==, fixture->unreadable);
	g_assert_cmphex(range->size, ==, size);
	open_core(&core, fixture->path);
	for (size_t i = 1; i < core.n; i++)
		check_content(fixture, &core, &core.segments[i]);
	g_autofree char *own = own_note(&core);
	g_assert_nonnull(strstr(own, "\nunreadable=1fd000 104000\n"));
	close_core(&core);
}

/* What an earlier dump could not read stays known when its file is converted. */
static void test_unreadable_before(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_range before[] = { { 5 * MIB, 2 * PAGE, VMS_RANGE_RAM, NULL },
					    { 3 * MIB, PAGE, VMS_RANGE_RAM, NULL } };
	struct vms_core source = { .unreadable = g_array_new(FALSE, FALSE, sizeof(*before)),
				   .facts = g_ptr_array_new() };
	struct fake_hooks hooks = counting;
	struct core core;
	g_array_append_vals(source.unreadable, before, G_N_ELEMENTS(before));
	fixture->machine->core = &source;
	fixture->machine->info.is_core = true;
	hooks.read = refuse_some;
	set_hooks(fixture, hooks);
	fixture->unreadable = 3 * MIB + PAGE;
	fixture->readable_again = 3 * MIB + 3 * PAGE;
	dump_well(fixture);
	g_assert_cmpuint(fixture->result.held_ns, ==, 0);
	g_assert_cmpuint(fixture->result.unreadable, ==, 5 * PAGE);
	g_assert_cmpuint(fixture->result.unreadable_at->len, ==, 2);
	open_core(&core, fixture->path);
	g_autofree char *own = own_note(&core);
	g_assert_nonnull(strstr(own, "\nunreadable=300000 3000\nunreadable=500000 2000\n"));
	close_core(&core);
	fixture->machine->core = NULL;
	g_array_unref(source.unreadable);
	g_ptr_array_unref(source.facts);
}

/* What is noted of the machine, and when, stays known; of a file of others it never was. */
static void check_origin(struct fixture *fixture, const char *writer, const char *expected)
{
	const char *facts[] = { "machine=utsname's",
				writer,
				"time=2001-02-03T04:05:06Z",
				"machine=guest",
				"description=a guest",
				"engine=qemu",
				"held_ms=7.001" };
	struct vms_core source = { .unreadable =
					   g_array_new(FALSE, FALSE, sizeof(struct vms_range)),
				   .facts = g_ptr_array_new() };
	struct core core;
	for (size_t i = 0; i < G_N_ELEMENTS(facts); i++)
		g_ptr_array_add(source.facts, (void *)facts[i]);
	fixture->machine->core = &source;
	fixture->machine->info.is_core = true;
	dump_well(fixture);
	open_core(&core, fixture->path);
	g_autofree char *own = own_note(&core);
	g_assert_nonnull(strstr(own, expected));
	close_core(&core);
	fixture->machine->core = NULL;
	g_array_unref(source.unreadable);
	g_ptr_array_unref(source.facts);
}

static void test_origin(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	check_origin(fixture, "writer=vmscope 0.0.9",
		     "\ntime=2001-02-03T04:05:06Z\nmachine=guest\ndescription=a guest\n"
		     "engine=qemu\nheld_ms=7.001\nconverted=20");
}

static void test_origin_of_others(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	check_origin(fixture, "writer=other",
		     "\nmachine=fake\ndescription=a fake machine\nengine=fake\nconverted=20");
}

static void check_many_ranges(struct fixture *fixture, unsigned n)
{
	Elf64_Ehdr header;
	struct core core;
	unlink(fixture->path);
	fixture->holds = fixture->releases = 0;
	fake_machine_clear_ranges(fixture->machine);
	for (unsigned i = 0; i < n; i++)
		fake_machine_add_range(fixture->machine, 64 * i, 16, VMS_RANGE_RAM, "ram");
	memset(fake_machine_at(fixture->machine, 0), 0, 64 * n);
	fake_machine_write_u64(fixture->machine, 0, 0x1234);
	fake_machine_write_u64(fixture->machine, 64 * (n - 1) + 8, 0x5678);
	dump_well(fixture);
	g_assert_cmpuint(fixture->result.memory, ==, 16 * n);
	open_core(&core, fixture->path);
	memcpy(&header, core.bytes, sizeof(header));
	g_assert_cmpuint(header.e_phnum, ==, MIN(n + 1, PN_XNUM));
	g_assert_true((header.e_shnum > 0) == (n + 1 >= PN_XNUM));
	g_assert_cmpuint(core.n, ==, n + 1);
	for (unsigned i = 0; i < n; i++) {
		check_segment(&core.segments[i + 1], 64 * i, 64 * i, 16);
		check_content(fixture, &core, &core.segments[i + 1]);
	}
	close_core(&core);
}

/* More than the header can count: a section header does. The notes are a segment, too. */
static void test_many_ranges(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	check_many_ranges(fixture, PN_XNUM - 2);
	check_many_ranges(fixture, PN_XNUM - 1);
	check_many_ranges(fixture, 70000);
}

/* Where the kernel has its pages, a user's in all of the address space: the walk gives up. */
static void test_endless_tables(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t user = 7;
	for (unsigned i = 0; i < 512; i++)
		map(fixture->machine, ROOT, i, ROOT | user);
	dump_well(fixture);
}

/* Ranges that touch are one segment, as are their units. */
static void test_touching(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	fake_machine_clear_ranges(fixture->machine);
	fake_machine_add_range(fixture->machine, MIB, 3 * PAGE, VMS_RANGE_RAM, "ram");
	fake_machine_add_range(fixture->machine, MIB + 3 * PAGE, PAGE, VMS_RANGE_ROM, "rom");
	fake_machine_add_range(fixture->machine, MIB + 4 * PAGE, PAGE, VMS_RANGE_MMIO, "device");
	fake_machine_add_range(fixture->machine, MIB + 5 * PAGE, PAGE, VMS_RANGE_RAM, "ram");
	dump_well(fixture);
	open_core(&core, fixture->path);
	g_assert_cmpuint(core.n, ==, 3);
	check_segment(&core.segments[1], DIRECT + MIB, MIB, 4 * PAGE);
	check_segment(&core.segments[2], DIRECT + MIB + 5 * PAGE, MIB + 5 * PAGE, PAGE);
	for (size_t i = 1; i < core.n; i++)
		check_content(fixture, &core, &core.segments[i]);
	close_core(&core);
}

/* ---- what goes wrong -------------------------------------------------- */

static void test_no_map(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fake_machine_clear_ranges(fixture->machine);
	dump_badly(fixture, VMS_ERROR_UNSUPPORTED, "no memory map");
	g_assert_cmpuint(fixture->holds, ==, 0);
	fake_machine_add_range(fixture->machine, UINT64_MAX - 100, 101, VMS_RANGE_RAM, "ram");
	dump_badly(fixture, VMS_ERROR_UNSUPPORTED, "no machine has");
}

static void test_exists(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *content = NULL;
	g_assert_true(g_file_set_contents(fixture->path, "mine", -1, NULL));
	g_assert_false(dump(fixture, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_EXISTS);
	g_assert_cmpuint(fixture->holds, ==, 0);
	g_assert_true(g_file_get_contents(fixture->path, &content, NULL, NULL));
	g_assert_cmpstr(content, ==, "mine");
	fixture->options.overwrite = true;
	dump_well(fixture);
}

/* The largest file is smaller than what is needed: said at once, and how much that is. */
static void test_too_large(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct rlimit old, small;
	signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
	small = (struct rlimit) { 5 * MIB, old.rlim_max };
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
	dump_badly(fixture, VMS_ERROR_IO, "it needs up to 9.0 MiB");
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return written;
}

/* Makes the process alone with its mounts, as the same user. */
static bool have_own_mounts(void)
{
	g_autofree char *uid = g_strdup_printf("0 %u 1", (unsigned)geteuid());
	g_autofree char *gid = g_strdup_printf("0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", uid) && write_text("/proc/self/gid_map", gid) &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#define USED_SIZE (6 * MIB)

/* The machine has never used memory from here on. */
static void know_no_data_above(void *data G_GNUC_UNUSED, uint64_t pa, uint64_t end, uint64_t *begin,
			       uint64_t *stop)
{
	*begin = pa < USED_SIZE ? pa : end;
	*stop = pa < USED_SIZE ? MIN(end, USED_SIZE) : end;
}

/* Of an error that says so, in MiB. */
static double needed_of(const GError *error)
{
	const char *at = strstr(error->message, "No space left on device; it needs up to ");
	g_assert_nonnull(at);
	return g_ascii_strtod(at + strlen("No space left on device; it needs up to "), NULL);
}

/*
 * On a disk that has room for less than what is not zero. Needed is no less than what the file
 * would take, and nothing is counted of what was never used.
 */
static int dump_to_small_disk(struct fixture *fixture)
{
	struct fake_hooks hooks = counting;
	GError *error = NULL;
	hooks.next_data = know_no_data_above;
	set_hooks(fixture, hooks);
	fake_machine_add_range(fixture->machine, 4096 * MIB, 65536 * MIB, VMS_RANGE_RAM, "unused");
	if (!have_own_mounts() || mount("none", fixture->folder, "tmpfs", 0, "size=1m") < 0)
		return 77;
	g_assert_false(dump(fixture, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	/* A quarter of 1 to 6 MiB; what is read while this is counted, counts as a whole. */
	g_assert_cmpfloat(needed_of(error), >=, 5.0 / 4 - 0.05);
	g_assert_cmpfloat(needed_of(error), <=, 32);
	g_error_free(error);
	return fixture->releases != 1;
}

/* The disk is full in the middle: nothing is left behind, and the guest runs. */
static void test_full(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int status;
	pid_t child = fork();
	g_assert_cmpint(child, >=, 0);
	if (child == 0)
		_exit(dump_to_small_disk(fixture));
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		g_test_skip("this user may not have mounts of its own");
	else
		g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

static bool refuse(void *data G_GNUC_UNUSED, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT, "it does not answer");
	return false;
}

static bool refuse_regs(void *data, unsigned vcpu, GError **error)
{
	return vcpu == 0 || refuse(data, error);
}

static bool release_torn(void *data, GError **error)
{
	count_release(data, NULL);
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE, "it was resumed");
	return false;
}

static void test_machine_refuses(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct fake_hooks hooks = counting;
	hooks.hold = refuse;
	set_hooks(fixture, hooks);
	dump_badly(fixture, VMS_ERROR_TIMEOUT, "does not answer");
	hooks.hold = count_hold;
	hooks.regs = refuse_regs;
	set_hooks(fixture, hooks);
	dump_badly(fixture, VMS_ERROR_TIMEOUT, "does not answer");
	hooks.regs = NULL;
	hooks.release = release_torn;
	set_hooks(fixture, hooks);
	dump_badly(fixture, VMS_ERROR_INVALID_STATE, "resumed");
}

/* From an address on nothing can be read any more, not even what could be before. */
static bool die_at(void *data, uint64_t pa, size_t size)
{
	struct fixture *fixture = data;
	if (g_atomic_int_get(&fixture->is_held) && pa + size > fixture->unreadable)
		g_atomic_int_set(&fixture->cancel, 1);
	return !g_atomic_int_get(&fixture->cancel);
}

/* Its memory goes before anything says so; then the whole machine does. */
static void test_gone(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct fake_hooks hooks = counting;
	hooks.read = die_at;
	set_hooks(fixture, hooks);
	fixture->unreadable = 3 * MIB;
	dump_badly(fixture, VMS_ERROR_CLOSED, "gone");
}

static enum vms_machine_end ended(void *data)
{
	const struct fixture *fixture = data;
	return fixture->gone ? VMS_MACHINE_GONE : VMS_MACHINE_GOES_ON;
}

static uint64_t resets(void *data)
{
	const struct fixture *fixture = data;
	return !fixture->gone;
}

/* A machine that was reset since its guest was looked for, and one that has gone. */
static void test_ended(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct fake_hooks hooks = counting;
	hooks.ended = ended;
	hooks.resets = resets;
	set_hooks(fixture, hooks);
	dump_badly(fixture, VMS_ERROR_INVALID_STATE, "reset");
	fixture->gone = true;
	dump_badly(fixture, VMS_ERROR_CLOSED, "gone");
}

/* A guest's memory that cannot be read as long as it is held, and nobody says so. */
static bool block_held(void *data, uint64_t pa, size_t size G_GNUC_UNUSED)
{
	struct fixture *fixture = data;
	while (pa >= HIGH_PA && g_atomic_int_get(&fixture->is_held) &&
	       !g_atomic_int_get(&fixture->cancel))
		g_thread_yield();
	return true;
}

static void set_blocking(struct fixture *fixture)
{
	struct fake_hooks hooks = counting;
	hooks.read = block_held;
	set_hooks(fixture, hooks);
}

/* Who asks for the progress and stops the dump is not waited for, nor does he wait. */
static void test_stop(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	struct vms_dump_progress progress = { 0 };
	set_blocking(fixture);
	g_autoptr(vms_dump) job = vms_dump_start(fixture->machine, fixture->guest, fixture->path,
						 &fixture->options, &error);
	g_assert_no_error(error);
	while (progress.phase != VMS_DUMP_COPYING || progress.done < LOW_SIZE) {
		g_assert_false(vms_dump_wait(job, vms_clock_now_ns()));
		vms_dump_progress(job, &progress);
		g_assert_cmpuint(progress.done, <=, progress.total);
		g_assert_cmpuint(progress.elapsed_ns, >, 0);
	}
	g_assert_cmpuint(progress.total, ==, LOW_SIZE + HIGH_SIZE);
	vms_dump_stop(job);
	g_assert_true(vms_dump_wait(job, UINT64_MAX));
	g_assert_cmpuint(fixture->releases, ==, 1);
	g_assert_false(vms_dump_finish(job, &fixture->result, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CANCELLED);
	g_clear_pointer(&job, vms_dump_free);
	g_assert_cmpuint(fixture->holds, ==, 1);
	g_assert_cmpuint(count_files(fixture), ==, 0);
}

/* At its limit the hold ends, whatever the threads wait for. */
static void test_hold_limit(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	set_blocking(fixture);
	fixture->options.hold_limit_ns = 100 * 1000000;
	dump_badly(fixture, VMS_ERROR_TIMEOUT, "it was held up to the limit");
	g_assert_cmpuint(fixture->holds, ==, 1);
	/* A guest that its user has paused is not spared. */
	g_atomic_int_set(&fixture->cancel, 1);
	fixture->machine->info.is_core = true;
	g_assert_true(dump(fixture, NULL));
}

static bool read_slowly(void *data, uint64_t pa G_GNUC_UNUSED, size_t size G_GNUC_UNUSED)
{
	const struct fixture *fixture = data;
	if (!g_atomic_int_get(&fixture->is_held))
		g_usleep(1000);
	return true;
}

/* What would take too long is not even begun. */
static void test_too_long(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct fake_hooks hooks = counting;
	hooks.read = read_slowly;
	set_hooks(fixture, hooks);
	fixture->options.hold_limit_ns = 1000000;
	dump_badly(fixture, VMS_ERROR_TIMEOUT, "longer than the limit");
	g_assert_cmpuint(fixture->holds, ==, 0);
}

/* ---- VirtualBox ------------------------------------------------------- */

static uint32_t word32_at(const char *bytes, size_t offset)
{
	uint32_t word;
	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* By the format's own description: a name without NUL, padded to 8, and so the content. */
static const char *check_vbox_note(const char *note, const char *name, uint32_t type, uint32_t size)
{
	char padded[8] = { 0 };
	memcpy(padded, name, strlen(name));
	g_assert_cmpuint(word32_at(note, 0), ==, strlen(name));
	g_assert_cmpuint(word32_at(note, 4), ==, size);
	g_assert_cmphex(word32_at(note, 8), ==, type);
	g_assert_cmpmem(note + 12, 8, padded, 8);
	return note + 20;
}

static void check_vbox_segment(const struct core *core, size_t i, uint64_t pa, uint64_t size,
			       uint64_t file_size)
{
	const GElf_Phdr *segment = &core->segments[i];
	check_segment(segment, 0, pa, file_size);
	g_assert_cmphex(segment->p_memsz, ==, size);
	g_assert_cmpuint(segment->p_align, ==, 0);
	g_assert_cmpuint(segment->p_flags, ==, PF_R);
}

static void test_vbox(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct core core;
	fixture->options.format = VMS_CORE_VBOX;
	dump_well(fixture);
	open_core(&core, fixture->path);
	const char *note = core.bytes + core.segments[0].p_offset;
	const char *content = check_vbox_note(note, "VBCORE", 0xb00, 24);
	const uint32_t expected[] = { 0xc01ac0de, 0x00010006, 24 };
	g_assert_cmpmem(content, sizeof(expected), expected, sizeof(expected));
	g_assert_cmpuint(word32_at(content, 20), ==, 3);
	note = content + 24;
	for (unsigned i = 0; i < 3; i++) {
		content = check_vbox_note(note, "VBCPU", 0xb01, 8776);
		g_assert_cmphex(word_at(content, 0x70), ==, IMAGE_VA + i);
		g_assert_cmphex(word_at(content, 0x130), ==, ROOT);
		note = content + 8776;
	}
	/* VirtualBox's notes come first; ours tells what they cannot. */
	check_vbox_note(note, "VMSCOPE", 0x564d5301, (word32_at(note, 4) + 7) / 8 * 8);
	g_autofree char *own = own_note(&core);
	g_assert_nonnull(strstr(own, "\nrange=fee00000 1000 mmio apic\n"));
	g_assert_nonnull(strstr(own, " lstar "));
	g_assert_cmpuint(core.n, ==, 4);
	check_vbox_segment(&core, 1, 0, LOW_SIZE, LOW_SIZE);
	check_vbox_segment(&core, 2, HIGH_PA, HIGH_SIZE, HIGH_SIZE);
	check_vbox_segment(&core, 3, 0xfee00000, 0x1000, 0);
	check_content(fixture, &core, &core.segments[1]);
	check_content(fixture, &core, &core.segments[2]);
	close_core(&core);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct fixture *fixture, gconstpointer data);
	} tests[] = {
		{ "/dump/segments", test_segments },
		{ "/dump/notes", test_notes },
		{ "/dump/unknown-registers", test_unknown_registers },
		{ "/dump/made-up", test_made_up },
		{ "/dump/thread-ids", test_thread_ids },
		{ "/dump/bare", test_bare },
		{ "/dump/holes", test_holes },
		{ "/dump/known-zeros", test_known_zeros },
		{ "/dump/unreadable", test_unreadable },
		{ "/dump/unreadable-before", test_unreadable_before },
		{ "/dump/origin", test_origin },
		{ "/dump/origin-of-others", test_origin_of_others },
		{ "/dump/many-ranges", test_many_ranges },
		{ "/dump/touching", test_touching },
		{ "/dump/no-map", test_no_map },
		{ "/dump/exists", test_exists },
		{ "/dump/full", test_full },
		{ "/dump/too-large", test_too_large },
		{ "/dump/machine-refuses", test_machine_refuses },
		{ "/dump/gone", test_gone },
		{ "/dump/ended", test_ended },
		{ "/dump/stop", test_stop },
		{ "/dump/hold-limit", test_hold_limit },
		{ "/dump/too-long", test_too_long },
		{ "/dump/vbox", test_vbox },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].name, struct fixture, NULL, set_up, tests[i].run, tear_down);
	if (g_test_slow())
		g_test_add("/dump/endless-tables", struct fixture, NULL, set_up,
			   test_endless_tables, tear_down);
	return g_test_run();
}
