/* SPDX-License-Identifier: MIT */
/* ELF cores: built here header by header, read as machines. */
#include "arch/x86_64.h"
#include "machine/core/vmscope_note.h"
#include "memory_file.h"
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>
#include <unistd.h>
#include <vmscope/core.h>
#include <vmscope/guest.h>

#define PAGE 4096U

/* ---- an encoder ------------------------------------------------------- */

/* A core file that is being put together: header, program headers, notes, memory. */
typedef struct builder {
	Elf64_Ehdr header;
	GArray *segments; /* Elf64_Phdr; offsets of PT_LOAD count from the begin of the memory */
	GByteArray *notes, *memory;
	unsigned note_align;
	bool extended; /* PN_XNUM */
} builder;

static void builder_clear(builder *b)
{
	g_array_unref(b->segments);
	g_byte_array_unref(b->notes);
	g_byte_array_unref(b->memory);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(builder, builder_clear)

static builder builder_new(void)
{
	builder b = { .header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
				  .e_type = ET_CORE,
				  .e_machine = EM_X86_64,
				  .e_version = 1,
				  .e_phoff = sizeof(Elf64_Ehdr),
				  .e_ehsize = sizeof(Elf64_Ehdr),
				  .e_phentsize = sizeof(Elf64_Phdr) },
		      .segments = g_array_new(FALSE, FALSE, sizeof(Elf64_Phdr)),
		      .notes = g_byte_array_new(),
		      .memory = g_byte_array_new(),
		      .note_align = 4 };
	return b;
}

static Elf64_Phdr *add_load(builder *b, uint64_t pa, uint64_t va, uint64_t offset,
			    uint64_t file_size, uint64_t size)
{
	Elf64_Phdr load = { .p_type = PT_LOAD,
			    .p_paddr = pa,
			    .p_vaddr = va,
			    .p_offset = offset,
			    .p_filesz = file_size,
			    .p_memsz = size };
	g_array_append_val(b->segments, load);
	return &g_array_index(b->segments, Elf64_Phdr, b->segments->len - 1);
}

/* Memory that the file holds: `size` bytes of `value`. */
static void add_memory(builder *b, uint64_t pa, uint64_t va, uint64_t size, uint8_t value)
{
	guint offset = b->memory->len;
	add_load(b, pa, va, offset, size, size);
	g_byte_array_set_size(b->memory, offset + (guint)size);
	memset(b->memory->data + offset, value, size);
}

static void pad(GByteArray *bytes, unsigned align)
{
	static const guint8 zeros[8];
	g_byte_array_append(bytes, zeros, (align - bytes->len % align) % align);
}

static void add_note(builder *b, const char *name, uint32_t name_size, uint32_t type,
		     const void *content, uint32_t size)
{
	uint32_t header[] = { name_size, size, type };
	g_byte_array_append(b->notes, (const guint8 *)header, sizeof(header));
	g_byte_array_append(b->notes, (const guint8 *)name, name_size);
	pad(b->notes, b->note_align);
	g_byte_array_append(b->notes, content, size);
	pad(b->notes, b->note_align);
}

static void add_text_note(builder *b, const char *name, uint32_t type, const char *text)
{
	add_note(b, name, (uint32_t)strlen(name) + 1, type, text, (uint32_t)strlen(text));
}

static void add_prstatus(builder *b, int pid, uint64_t rip)
{
	struct elf_prstatus status = { .pr_pid = pid };
	struct user_regs_struct regs = {
		.rip = rip, .rsp = rip + 1, .cs = 0x10, .gs_base = 77, .fs_base = 55
	};
	memcpy(&status.pr_reg, &regs, sizeof(regs));
	add_note(b, "CORE", 5, NT_PRSTATUS, &status, sizeof(status));
}

/* QEMU's: general registers, rip and rflags; segments; cr0 to cr4; kernel_gs_base. */
static void add_qemu(builder *b, uint64_t rip, uint64_t cr3)
{
	struct {
		uint32_t version, size;
		uint64_t general[18];
		struct {
			uint32_t selector, limit, flags, pad;
			uint64_t base;
		} segments[10];
		uint64_t cr[5], kernel_gs_base;
	} state = { .version = 1, .size = 440 };
	g_assert_cmpuint(sizeof(state), ==, 440);
	state.general[16] = rip;
	state.segments[4].base = 0xabc; /* gs */
	state.cr[0] = 0x80050033;
	state.cr[3] = cr3;
	state.cr[4] = 0x20;
	add_note(b, "QEMU", 5, 0, &state, sizeof(state));
}

static GByteArray *build(const builder *b)
{
	GByteArray *out = g_byte_array_new();
	Elf64_Ehdr header = b->header;
	Elf64_Shdr section = { .sh_info = b->segments->len + 1 };
	uint64_t sections = sizeof(header) + (b->segments->len + 1) * sizeof(Elf64_Phdr);
	uint64_t notes = sections + (b->extended ? sizeof(section) : 0);
	Elf64_Phdr note = { .p_type = PT_NOTE,
			    .p_offset = notes,
			    .p_filesz = b->notes->len,
			    .p_align = b->note_align };
	if (!header.e_phnum)
		header.e_phnum = b->extended ? PN_XNUM : (uint16_t)(b->segments->len + 1);
	if (b->extended)
		header.e_shoff = sections;
	g_byte_array_append(out, (const guint8 *)&header, sizeof(header));
	g_byte_array_append(out, (const guint8 *)&note, sizeof(note));
	for (guint i = 0; i < b->segments->len; i++) {
		Elf64_Phdr load = g_array_index(b->segments, Elf64_Phdr, i);
		if (load.p_type == PT_LOAD)
			load.p_offset += notes + b->notes->len;
		g_byte_array_append(out, (const guint8 *)&load, sizeof(load));
	}
	if (b->extended)
		g_byte_array_append(out, (const guint8 *)&section, sizeof(section));
	g_byte_array_append(out, b->notes->data, b->notes->len);
	g_byte_array_append(out, b->memory->data, b->memory->len);
	return out;
}

static struct vms_machine *open_bytes(const GByteArray *bytes, guint size, GError **error)
{
	g_autoptr(memory_file) file = memory_file_new(bytes->data, MIN(size, bytes->len));
	return vms_machine_open_core(file->path, error);
}

static struct vms_machine *open_built(const builder *b)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(GByteArray) bytes = build(b);
	struct vms_machine *machine = open_bytes(bytes, G_MAXUINT, &error);
	g_assert_no_error(error);
	return machine;
}

/* ---- what is asked of a machine --------------------------------------- */

static int byte_at(struct vms_machine *machine, uint64_t pa)
{
	uint8_t byte;
	return vms_machine_read_phys(machine, pa, &byte, 1) ? byte : -1;
}

static struct vms_regs regs_of(struct vms_machine *machine, unsigned vcpu)
{
	g_autoptr(GError) error = NULL;
	struct vms_regs regs;
	vms_machine_all_regs(machine, vcpu, &regs, &error);
	g_assert_no_error(error);
	return regs;
}

static void check_damage(struct vms_machine *machine, const char *expected)
{
	const struct vms_core *core = vms_machine_core(machine);
	for (guint i = 0; !expected && i < core->damage->len; i++)
		g_test_message("damage: %s", (const char *)core->damage->pdata[i]);
	g_assert_cmpuint(core->damage->len, ==, expected ? 1 : 0);
	if (expected)
		g_assert_nonnull(strstr(core->damage->pdata[0], expected));
}

static void check_range(struct vms_machine *machine, size_t index, uint64_t pa, uint64_t size,
			enum vms_range_kind kind)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	g_assert_cmpuint(index, <, n);
	g_assert_cmphex(ranges[index].pa, ==, pa);
	g_assert_cmphex(ranges[index].size, ==, size);
	g_assert_cmpint((int)ranges[index].kind, ==, (int)kind);
}

static size_t n_ranges(struct vms_machine *machine)
{
	size_t n;
	vms_machine_ranges(machine, &n);
	return n;
}

/* ---- tests ------------------------------------------------------------ */

static void test_qemu(void)
{
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 1, 0x111);
	add_prstatus(&b, 2, 0x222);
	add_qemu(&b, 0x111, 0x1000);
	add_qemu(&b, 0x222, 0x2000);
	add_memory(&b, 0, 0, 2 * PAGE, 1);
	add_memory(&b, 2 * PAGE, 0, PAGE, 2);
	add_memory(&b, UINT64_C(1) << 32, 0, PAGE, 3);
	g_autoptr(vms_machine) machine = open_built(&b);
	const struct vms_machine_info *info = vms_machine_info(machine);
	const struct vms_core *core = vms_machine_core(machine);
	check_damage(machine, NULL);
	g_assert_cmpstr(info->engine, ==, "core");
	g_assert_cmpstr(info->description, ==, "QEMU dump-guest-memory, ELF");
	g_assert_true(info->is_core);
	g_assert_true(vms_machine_is_paused(machine));
	g_assert_cmpint((int)vms_machine_ended(machine), ==, VMS_MACHINE_GOES_ON);
	g_assert_cmpuint(vms_machine_epoch(machine, VMS_ALL_VCPUS), !=, 0);
	g_assert_cmpint((int)core->format, ==, VMS_CORE_ELF);
	g_assert_cmpuint(core->notes->len, ==, 4);
	g_assert_cmpstr(g_array_index(core->notes, struct vms_core_note, 3).owner, ==, "QEMU");
	g_assert_cmpuint(g_array_index(core->notes, struct vms_core_note, 3).size, ==, 440);
	g_assert_cmpuint(core->segments->len, ==, 3);

	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 2);
	struct vms_regs regs = regs_of(machine, 1);
	g_assert_cmphex(regs.value[RIP], ==, 0x222);
	g_assert_cmphex(regs.value[RSP], ==, 0);
	g_assert_cmphex(regs.value[CR3], ==, 0x2000);
	g_assert_cmphex(regs.value[GS_BASE], ==, 0xabc);
	g_assert_false(vms_regs_have(&regs, EFER)); /* QEMU's note has no place for it */
	g_assert_cmphex(regs_of(machine, 0).value[CR3], ==, 0x1000);

	g_assert_cmpuint(n_ranges(machine), ==, 2);
	check_range(machine, 0, 0, 3 * PAGE, VMS_RANGE_RAM);
	check_range(machine, 1, UINT64_C(1) << 32, PAGE, VMS_RANGE_RAM);
	uint8_t bytes[4];
	g_assert_true(vms_machine_read_phys(machine, 2 * PAGE - 2, bytes, 4));
	g_assert_cmpmem(bytes, 4, "\1\1\2\2", 4);
	g_assert_cmpint(byte_at(machine, (UINT64_C(1) << 32) + PAGE - 1), ==, 3);
	g_assert_cmpint(byte_at(machine, 3 * PAGE), ==, -1);
	g_assert_cmpint(byte_at(machine, UINT64_MAX), ==, -1);
	g_assert_false(vms_machine_read_phys(machine, 3 * PAGE - 2, bytes, 4));
}

/* With paging, QEMU lists memory once for every address that it is mapped at. */
static void test_mapped_twice(void)
{
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 1, 0);
	add_memory(&b, 4 * PAGE, 0xffff888000004000, 4 * PAGE, 7);
	add_load(&b, 5 * PAGE, 0xffffc90000000000, PAGE, PAGE, PAGE);
	add_load(&b, 4 * PAGE, 0xffffffff81000000, 0, 2 * PAGE, 2 * PAGE);
	add_load(&b, 6 * PAGE, 0x400000, 2 * PAGE, 2 * PAGE, 2 * PAGE);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpuint(vms_machine_core(machine)->segments->len, ==, 4);
	g_assert_cmpuint(n_ranges(machine), ==, 1);
	check_range(machine, 0, 4 * PAGE, 4 * PAGE, VMS_RANGE_RAM);
	g_assert_cmpint(byte_at(machine, 8 * PAGE - 1), ==, 7);
}

static void test_contradicting(void)
{
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 1, 0);
	add_memory(&b, 2 * PAGE, 0, 2 * PAGE, 1);
	add_memory(&b, 0, 0, 6 * PAGE, 2);
	add_memory(&b, PAGE, 0, PAGE, 3);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "physical address 0x1000");
	static const int expected[] = { 2, 2, 1, 1, 2, 2, -1 };
	for (unsigned i = 0; i < G_N_ELEMENTS(expected); i++)
		g_assert_cmpint(byte_at(machine, i * PAGE), ==, expected[i]);
	g_assert_cmpuint(n_ranges(machine), ==, 1);
}

static void test_zeros(void)
{
	g_auto(builder) b = builder_new();
	uint64_t begin, stop;
	add_prstatus(&b, 1, 0);
	add_memory(&b, 0, 0, PAGE, 9);
	add_load(&b, PAGE, 0, 0, 0, PAGE);
	add_load(&b, 4 * PAGE, 0, 0, PAGE, 3 * PAGE);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpuint(vms_machine_core(machine)->left_out, ==, 3 * PAGE);
	g_assert_cmpint(byte_at(machine, PAGE - 1), ==, 9);
	g_assert_cmpint(byte_at(machine, PAGE), ==, 0);
	g_assert_cmpint(byte_at(machine, 5 * PAGE - 1), ==, 9);
	g_assert_cmpint(byte_at(machine, 7 * PAGE - 1), ==, 0);
	check_range(machine, 0, 0, 2 * PAGE, VMS_RANGE_RAM);
	check_range(machine, 1, 4 * PAGE, 3 * PAGE, VMS_RANGE_RAM);
	g_assert_true(vms_machine_next_data(machine, 0, 8 * PAGE, &begin, &stop));
	g_assert_cmphex(begin, ==, 0);
	g_assert_cmphex(stop, ==, PAGE);
	g_assert_true(vms_machine_next_data(machine, PAGE, 8 * PAGE, &begin, &stop));
	g_assert_cmphex(begin, ==, 4 * PAGE);
	g_assert_cmphex(stop, ==, 5 * PAGE);
	g_assert_false(vms_machine_next_data(machine, 5 * PAGE, 8 * PAGE, &begin, &stop));
}

/* More zeros than anybody can look at one by one: searching the memory for a kernel ends. */
static void test_endless_zeros(void)
{
	g_auto(builder) b = builder_new();
	g_autoptr(GError) error = NULL;
	add_prstatus(&b, 1, 0);
	add_memory(&b, 0, 0, PAGE, 9);
	add_load(&b, PAGE, 0, 0, 0, (UINT64_C(1) << 52) - 2 * PAGE);
	g_autoptr(vms_machine) machine = open_built(&b);
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, &error);
	g_assert_no_error(error);
	g_assert_cmpint((int)vms_guest_kind(guest), ==, VMS_GUEST_NONE);
}

/* Holes of the file are known to be zeros without being read. */
static void test_sparse(void)
{
	enum { PAGES = 64, DATA = 40 };
	g_auto(builder) b = builder_new();
	uint64_t begin, stop;
	add_prstatus(&b, 1, 0);
	add_load(&b, 0, 0, 0, PAGES * PAGE, PAGES * PAGE);
	g_autoptr(GByteArray) bytes = build(&b);
	uint64_t start = bytes->len;
	g_autoptr(memory_file) file = memory_file_new(bytes->data, bytes->len);
	memory_file_put(file, start + DATA * PAGE, "data", 4);
	g_assert_cmpint(ftruncate(file->fd, (off_t)(start + PAGES * PAGE)), ==, 0);
	g_autoptr(vms_machine) machine = vms_machine_open_core(file->path, NULL);
	g_assert_true(vms_machine_next_data(machine, 2 * PAGE, PAGES * PAGE, &begin, &stop));
	g_assert_cmphex(begin, <=, DATA * PAGE);
	g_assert_cmphex(begin, >, (DATA - 2) * PAGE);
	g_assert_cmphex(stop, >=, DATA * PAGE + 4);
	g_assert_cmphex(stop, <, (DATA + 2) * PAGE);
	g_assert_false(vms_machine_next_data(machine, stop, PAGES * PAGE, &begin, &stop));
	g_assert_cmpint(byte_at(machine, DATA * PAGE), ==, 'd');
	g_assert_cmpint(byte_at(machine, PAGES * PAGE - 1), ==, 0);
}

static void test_many_segments(void)
{
	enum { N = 70000 };
	g_auto(builder) b = builder_new();
	b.extended = true;
	add_prstatus(&b, 1, 0);
	add_memory(&b, 0, 0, PAGE, 5);
	for (uint64_t i = N - 1; i > 0; i--)
		add_load(&b, i * 2 * PAGE, 0, i % PAGE, 1, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpuint(n_ranges(machine), ==, N);
	g_assert_cmpint(byte_at(machine, (N - 1) * 2 * PAGE), ==, 5);
	g_assert_cmpint(byte_at(machine, (N - 1) * 2 * PAGE + 1), ==, -1);
}

static void test_cut_off(void)
{
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 1, 0);
	add_memory(&b, 0, 0, 2 * PAGE, 1);
	add_memory(&b, 8 * PAGE, 0, 2 * PAGE, 2);
	g_autoptr(GByteArray) bytes = build(&b);
	g_autoptr(vms_machine) machine = open_bytes(bytes, bytes->len - PAGE - 1, NULL);
	check_damage(machine, "0x8fff-0x9fff");
	const GArray *missing = vms_machine_core(machine)->unreadable;
	g_assert_cmpuint(missing->len, ==, 1);
	g_assert_cmphex(g_array_index(missing, struct vms_range, 0).pa, ==, 0x8fff);
	g_assert_cmphex(g_array_index(missing, struct vms_range, 0).size, ==, 0x1001);
	g_assert_cmpint(byte_at(machine, 9 * PAGE - 2), ==, 2);
	g_assert_cmpint(byte_at(machine, 9 * PAGE - 1), ==, -1);
	g_assert_cmpint(byte_at(machine, 0), ==, 1);
}

/* Wherever it ends, it is opened or refused, and tells that something is missing. */
static void test_cut_off_anywhere(void)
{
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 1, 0);
	add_qemu(&b, 0, 0);
	add_memory(&b, 0, 0, 64, 1);
	g_autoptr(GByteArray) bytes = build(&b);
	for (guint size = 0; size < bytes->len; size++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(vms_machine) machine = open_bytes(bytes, size, &error);
		if (machine)
			g_assert_cmpuint(vms_machine_core(machine)->damage->len, >, 0);
		else
			g_assert_nonnull(strstr(error->message, "/proc/self/fd/"));
	}
}

struct refusal {
	enum vms_error code;
	const char *why;
	void (*spoil)(builder *b);
};

static Elf64_Phdr *first(builder *b)
{
	return &g_array_index(b->segments, Elf64_Phdr, 0);
}

static void spoil_class(builder *b)
{
	b->header.e_ident[EI_CLASS] = ELFCLASS32;
}
static void spoil_data(builder *b)
{
	b->header.e_ident[EI_DATA] = ELFDATA2MSB;
}
static void spoil_version(builder *b)
{
	b->header.e_ident[EI_VERSION] = 2;
}
static void spoil_type(builder *b)
{
	b->header.e_type = ET_EXEC;
}
static void spoil_machine(builder *b)
{
	b->header.e_machine = EM_S390;
}
static void spoil_entry(builder *b)
{
	b->header.e_phentsize = 32;
}
static void spoil_magic(builder *b)
{
	b->header.e_ident[0] = 'E';
}
static void spoil_table(builder *b)
{
	b->header.e_phoff = UINT64_MAX - 64;
}
static void spoil_number(builder *b)
{
	b->header.e_phnum = 1000;
}
static void spoil_extended(builder *b)
{
	b->header.e_phnum = PN_XNUM;
}
static void spoil_pa(builder *b)
{
	first(b)->p_paddr = UINT64_MAX - 1;
}
static void spoil_size(builder *b)
{
	first(b)->p_memsz = UINT64_MAX;
}
static void spoil_file_size(builder *b)
{
	first(b)->p_filesz = PAGE + 1;
}
static void spoil_both(builder *b)
{
	first(b)->p_filesz = first(b)->p_memsz = UINT64_MAX;
}
static void spoil_offset(builder *b)
{
	first(b)->p_offset = UINT64_MAX - PAGE - 4096;
}
static void spoil_memory(builder *b)
{
	g_array_set_size(b->segments, 0);
}
static void spoil_physical(builder *b)
{
	first(b)->p_paddr = UINT64_MAX;
}

static void test_refused(void)
{
	static const struct refusal refusals[] = {
		{ VMS_ERROR_UNSUPPORTED, "64-bit", spoil_class },
		{ VMS_ERROR_UNSUPPORTED, "big-endian", spoil_data },
		{ VMS_ERROR_UNSUPPORTED, "version 2", spoil_version },
		{ VMS_ERROR_UNSUPPORTED, "not a core", spoil_type },
		{ VMS_ERROR_UNSUPPORTED, "22", spoil_machine },
		{ VMS_ERROR_UNSUPPORTED, "neither ELF", spoil_magic },
		{ VMS_ERROR_UNSUPPORTED, "no memory", spoil_memory },
		{ VMS_ERROR_UNSUPPORTED, "no memory", spoil_physical },
		{ VMS_ERROR_MALFORMED, "offset 0x36", spoil_entry },
		{ VMS_ERROR_MALFORMED, "offset 0xffffffffffffffbf", spoil_table },
		{ VMS_ERROR_MALFORMED, "offset 0x40", spoil_number },
		{ VMS_ERROR_MALFORMED, "offset 0x0", spoil_extended },
		{ VMS_ERROR_MALFORMED, "offset 0x78", spoil_pa },
		{ VMS_ERROR_MALFORMED, "offset 0x78", spoil_size },
		{ VMS_ERROR_MALFORMED, "offset 0x78", spoil_file_size },
		{ VMS_ERROR_MALFORMED, "offset 0x78", spoil_both },
		{ VMS_ERROR_MALFORMED, "offset 0x78", spoil_offset },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(refusals); i++) {
		g_auto(builder) b = builder_new();
		g_autoptr(GError) error = NULL;
		add_prstatus(&b, 1, 0);
		add_memory(&b, PAGE, 0, PAGE, 1);
		refusals[i].spoil(&b);
		g_autoptr(GByteArray) bytes = build(&b);
		g_assert_null(open_bytes(bytes, G_MAXUINT, &error));
		g_test_message("%s", error->message);
		g_assert_error(error, VMS_ERROR, (int)refusals[i].code);
		g_assert_nonnull(strstr(error->message, refusals[i].why));
	}
}

static void test_too_many_segments(void)
{
	g_auto(builder) b = builder_new();
	g_autoptr(GError) error = NULL;
	b.extended = true;
	add_memory(&b, 0, 0, PAGE, 1);
	g_autoptr(GByteArray) bytes = build(&b);
	uint32_t n = UINT32_MAX; /* sh_info of the section header behind two program headers */
	memcpy(bytes->data + 64 + 2 * 56 + 44, &n, sizeof(n));
	g_assert_null(open_bytes(bytes, G_MAXUINT, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_assert_nonnull(strstr(error->message, "4294967295"));
}

static void test_process(void)
{
	for (unsigned by_note = 0; by_note < 2; by_note++) {
		g_auto(builder) b = builder_new();
		g_autoptr(GError) error = NULL;
		add_prstatus(&b, 1, 0);
		add_memory(&b, 0, 0x400000, PAGE, 1);
		if (by_note)
			add_text_note(&b, "CORE", NT_AUXV, "auxv");
		else
			add_memory(&b, 0, 0x500000, PAGE, 2);
		g_autoptr(GByteArray) bytes = build(&b);
		g_assert_null(open_bytes(bytes, G_MAXUINT, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
		g_assert_nonnull(strstr(error->message, "process"));
	}
}

static void test_linux(void)
{
	static const char info[] = "OSRELEASE=6.1.0\0PAGESIZE=4096\n\0\0";
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 4711, 0x111);
	add_note(&b, "VMCOREINFO", 11, 0, info, sizeof(info));
	add_memory(&b, PAGE, 0xffff888000001000, PAGE, 1);
	add_load(&b, UINT64_MAX, 0xffffc90000000000, 0, PAGE, PAGE);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpstr(vms_machine_info(machine)->description, ==, "Linux /proc/vmcore, ELF");
	g_assert_cmpstr(vms_machine_vmcoreinfo(machine), ==, "OSRELEASE=6.1.0\nPAGESIZE=4096\n");
	struct vms_regs regs = regs_of(machine, 0);
	g_assert_cmphex(regs.value[RIP], ==, 0x111);
	g_assert_cmphex(regs.value[FS_BASE], ==, 55);
	g_assert_false(vms_regs_have(&regs, GS_BASE)); /* it is the user's */
	g_assert_false(vms_regs_have(&regs, CR3));
	g_assert_false(vms_regs_have(&regs, EFER));
	g_assert_cmpuint(n_ranges(machine), ==, 1);
	/* What is learnt elsewhere completes it. */
	vms_regs_set(&regs, CR3, 0x1234000);
	vms_machine_add_regs(machine, 0, &regs);
	g_assert_cmphex(regs_of(machine, 0).value[CR3], ==, 0x1234000);
}

static void test_long_vmcoreinfo(void)
{
	g_auto(builder) b = builder_new();
	g_autofree char *text = g_strnfill(65537, 'x');
	add_prstatus(&b, 1, 0);
	add_text_note(&b, "VMCOREINFO", 0, text);
	add_memory(&b, PAGE, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "65537");
	g_assert_null(vms_machine_vmcoreinfo(machine));
}

static void test_no_vcpus(void)
{
	g_auto(builder) b = builder_new();
	add_memory(&b, PAGE, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "no registers");
	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 1);
	struct vms_regs regs = regs_of(machine, 0);
	for (unsigned i = 0; i < N_REGS; i++)
		g_assert_false(vms_regs_have(&regs, i));
	g_assert_cmpint(byte_at(machine, PAGE), ==, 1);
}

/* ---- VirtualBox ------------------------------------------------------- */

#define VBOX_RIP 0x70
#define VBOX_CR3 0x130

static void add_vbox(builder *b, uint32_t format, uint32_t size)
{
	uint32_t descriptor[] = { 0xc01ac0de, format, 24, 0x06010010, 140961, 2 };
	g_autofree uint8_t *vcpu = g_malloc0(size);
	b->header.e_ident[EI_VERSION] = 0;
	add_note(b, "VBCORE\0", 8, 0xb00, descriptor, sizeof(descriptor));
	memcpy(b->notes->data + b->notes->len - 24 - 8 - 12, "\6\0\0\0", 4); /* without the NUL */
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t rip = 0x1000 + i, cr3 = 0x2000 + i;
		memcpy(vcpu + VBOX_RIP, &rip, 8);
		memcpy(vcpu + VBOX_CR3, &cr3, 8);
		add_note(b, "VBCPU\0\0", 8, 0xb01, vcpu, size);
		memcpy(b->notes->data + b->notes->len - size - 8 - 12, "\5\0\0\0", 4);
	}
	add_memory(b, 0, 0, 2 * PAGE, 1);
	add_load(b, 0xe0000000, 0, 2 * PAGE, 0, 16 * PAGE);
	add_memory(b, UINT64_C(1) << 32, 0, PAGE, 2);
	add_load(b, 0xd0000000, 0, 0, 0, PAGE);
	add_load(b, PAGE, 0, 0, 0, PAGE);	/* over memory */
	add_load(b, 0xe0001000, 0, 0, 0, PAGE); /* over a device */
}

static void check_vbox(uint32_t format, uint32_t size, const char *description)
{
	g_auto(builder) b = builder_new();
	add_vbox(&b, format, size);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpstr(vms_machine_info(machine)->description, ==, description);
	g_assert_cmpint((int)vms_machine_core(machine)->format, ==, VMS_CORE_VBOX);
	g_assert_cmpstr(vms_machine_core(machine)->facts->pdata[0], ==,
			"virtualbox=6.1.16 r140961");
	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 2);
	g_assert_cmphex(regs_of(machine, 1).value[RIP], ==, 0x1001);
	g_assert_cmphex(regs_of(machine, 1).value[CR3], ==, 0x2001);
	g_assert_cmpuint(n_ranges(machine), ==, 4);
	check_range(machine, 0, 0, 2 * PAGE, VMS_RANGE_RAM);
	check_range(machine, 1, 0xd0000000, PAGE, VMS_RANGE_MMIO);
	check_range(machine, 2, 0xe0000000, 16 * PAGE, VMS_RANGE_MMIO);
	check_range(machine, 3, UINT64_C(1) << 32, PAGE, VMS_RANGE_RAM);
	g_assert_cmpint(byte_at(machine, PAGE), ==, 1);
	g_assert_cmpint(byte_at(machine, 0xe0000000), ==, -1);
	g_assert_cmpint(byte_at(machine, UINT64_C(1) << 32), ==, 2);
}

static void test_vbox(void)
{
	check_vbox(0x00010006, 8776, "VirtualBox 6 core");
	check_vbox(0x00010005, 8768, "VirtualBox 5 core");
}

/* The first format: names with their NUL, four-byte alignment, struct CPUMCTX. */
static void add_vbox_2010(builder *b, uint32_t size)
{
	uint32_t descriptor[] = { 0xc01ac0de, 20, 0x03020000, 1, 1 };
	g_autofree uint8_t *vcpu = g_malloc0(size);
	uint64_t rip = 0x1234, cr3 = 0x5000;
	memcpy(vcpu + 616, &rip, 8);
	memcpy(vcpu + 800, &cr3, 8);
	add_note(b, "VBOXCORE", 9, 0xb00, descriptor, sizeof(descriptor));
	add_note(b, "VBOXCPU", 8, 0xb01, vcpu, size);
	add_memory(b, 0, 0, PAGE, 4);
}

static void test_vbox_2010(void)
{
	g_auto(builder) b = builder_new();
	add_vbox_2010(&b, 1024);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpstr(vms_machine_info(machine)->description, ==, "VirtualBox of 2010 core");
	g_assert_cmphex(regs_of(machine, 0).value[RIP], ==, 0x1234);
	g_assert_cmphex(regs_of(machine, 0).value[CR3], ==, 0x5000);
	g_assert_cmpint(byte_at(machine, 0), ==, 4);
}

/* A CPU context of another size is another version's: nothing is guessed. */
static void test_vbox_unknown(void)
{
	g_auto(builder) b = builder_new();
	add_vbox_2010(&b, 1088);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "registers of vCPU 0 are not known");
	struct vms_regs regs = regs_of(machine, 0);
	g_assert_false(vms_regs_have(&regs, RIP));
	g_assert_cmpint(byte_at(machine, 0), ==, 4);
}

/* ---- notes ------------------------------------------------------------ */

static void add_writer_note(builder *b, const char *text)
{
	add_text_note(b, VMS_NOTE_OWNER, VMS_NOTE_TYPE, text);
}

static void test_writer_note(void)
{
	g_auto(builder) b = builder_new();
	add_prstatus(&b, 1, 0);
	add_writer_note(&b, "writer=vmscope 0.1.0\nmachine=deb\33ian\n"
			    "range=0 1000 ram pc.ram\nrange=1000 2000 rom pc.bios\n"
			    "range=fee00000 1000 mmio apic msi\nrange=100000000 800 ram pc.ram\n"
			    "registers=0 efer=d01 lstar=ffffffff81000000\n"
			    "unreadable=800 10\nfuture=kept");
	add_memory(&b, 0, 0, 3 * PAGE, 1);
	add_memory(&b, UINT64_C(1) << 32, 0, 0x800, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	const struct vms_core *core = vms_machine_core(machine);
	size_t n;
	check_damage(machine, NULL);
	g_assert_cmpstr(vms_machine_info(machine)->description, ==, "vmscope, ELF");
	g_assert_cmpuint(n_ranges(machine), ==, 4);
	check_range(machine, 0, 0, 0x1000, VMS_RANGE_RAM);
	check_range(machine, 1, 0x1000, 0x2000, VMS_RANGE_ROM);
	check_range(machine, 2, 0xfee00000, 0x1000, VMS_RANGE_MMIO);
	check_range(machine, 3, UINT64_C(1) << 32, 0x800, VMS_RANGE_RAM);
	g_assert_cmpstr(vms_machine_ranges(machine, &n)[2].name, ==, "apic msi");
	g_assert_cmphex(regs_of(machine, 0).value[EFER], ==, 0xd01);
	g_assert_cmphex(regs_of(machine, 0).value[LSTAR], ==, 0xffffffff81000000);
	g_assert_cmpuint(core->unreadable->len, ==, 1);
	g_assert_cmphex(g_array_index(core->unreadable, struct vms_range, 0).pa, ==, 0x800);
	g_assert_cmpuint(core->facts->len, ==, 3);
	g_assert_cmpstr(core->facts->pdata[0], ==, "writer=vmscope 0.1.0");
	g_assert_cmpstr(core->facts->pdata[1], ==, "machine=deb?ian");
	g_assert_cmpstr(core->facts->pdata[2], ==, "future=kept");
}

/* Before or after the notes that it speaks of; a vCPU that is in no other note is none. */
static void check_noted_registers(bool first)
{
	const char *text = "registers=0 lstar=123\nunknown=0 cr3 rsp\nunknown=1 rip\n";
	g_auto(builder) b = builder_new();
	if (first)
		add_writer_note(&b, text);
	add_prstatus(&b, 1, 0x111);
	add_qemu(&b, 0x111, 0x1000);
	if (!first)
		add_writer_note(&b, text);
	add_memory(&b, 0, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "the writer's note has registers of vCPU 1");
	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 1);
	struct vms_regs regs = regs_of(machine, 0);
	g_assert_cmphex(regs.value[RIP], ==, 0x111);
	g_assert_cmphex(regs.value[LSTAR], ==, 0x123);
	g_assert_false(vms_regs_have(&regs, CR3));
	g_assert_false(vms_regs_have(&regs, RSP));
	g_assert_true(vms_regs_have(&regs, RAX));
}

static void test_noted_registers(void)
{
	check_noted_registers(true);
	check_noted_registers(false);
}

/* Names that are alike by the usual hash of strings, of which "ab" and "bA" have the same. */
static void test_writer_note_alike(void)
{
	enum { PAIRS = 18, N = 1 << PAIRS };
	g_auto(builder) b = builder_new();
	g_autoptr(GString) text = g_string_new(NULL);
	for (unsigned i = 0; i < N; i++) {
		g_string_append(text, "range=0 1000 ram ");
		for (unsigned pair = 0; pair < PAIRS; pair++)
			g_string_append(text, i >> pair & 1 ? "ab" : "bA");
		g_string_append_c(text, '\n');
	}
	add_prstatus(&b, 1, 0);
	add_writer_note(&b, text->str);
	add_memory(&b, 0, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "memory map");
}

/* A map that is not that of the file's memory does not count. */
static void test_writer_note_wrong(void)
{
	static const char *const texts[] = {
		"range=0 2000 ram a\n",
		"range=0 1000 ram a\nrange=5000 1000 ram b\n",
		"range=1000 1000 ram a\n",
		"range=0 1000 mmio a\n",
		"range=0 1000 ram a\nrange=0 1000 ram a\n",
		"range=5000 1000 mmio b\nrange=0 1000 ram a\n",
		"range=fffffffffffff000 1000 ram a\nrange=0 1000 ram a\n",
	};
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_auto(builder) b = builder_new();
		add_prstatus(&b, 1, 0);
		add_writer_note(&b, texts[i]);
		add_memory(&b, 0, 0, PAGE, 1);
		g_autoptr(vms_machine) machine = open_built(&b);
		check_damage(machine, "memory map");
		g_assert_cmpuint(n_ranges(machine), ==, 1);
		check_range(machine, 0, 0, PAGE, VMS_RANGE_RAM);
	}
}

static void test_writer_note_nonsense(void)
{
	static const char *const texts[] = {
		"range=\n",
		"range=0\n",
		"range=0 1000\n",
		"range=0 0 ram a\n",
		"range=x 1000 ram a\n",
		"range=0 1000 flash a\n",
		"range=0 -1 ram a\n",
		"range=1000 ffffffffffffffff ram a\n",
		"unreadable=5\n",
		"unreadable=5 5 x\n",
		"registers=\n",
		"registers=x rip=1\n",
		"registers=8192 rip=1\n",
		"unknown=\n",
		"unknown=0 nothing\n",
		"unknown=0 rip=1\n",
		"registers=-1 rip=1\n",
		"registers=0 nothing=1\n",
		"registers=0 rip\n",
		"registers=0 rip=10000000000000000\n",
	};
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_auto(builder) b = builder_new();
		add_prstatus(&b, 1, 0);
		add_writer_note(&b, texts[i]);
		add_memory(&b, 0, 0, PAGE, 1);
		g_autoptr(vms_machine) machine = open_built(&b);
		check_damage(machine, "malformed line");
		g_assert_cmpuint(vms_machine_core(machine)->unreadable->len, ==, 0);
		check_range(machine, 0, 0, PAGE, VMS_RANGE_RAM);
	}
}

/* A note that claims more than there is ends the notes; what came before is good. */
static void test_lying_sizes(void)
{
	static const uint32_t sizes[][2] = {
		{ 5, UINT32_MAX }, { UINT32_MAX, 5 },	  { UINT32_MAX, UINT32_MAX },
		{ 5, 337 },	   { UINT32_MAX - 3, 0 }, { 350, 0 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		g_auto(builder) b = builder_new();
		add_prstatus(&b, 1, 0x111);
		guint second = b.notes->len;
		add_prstatus(&b, 2, 0x222);
		memcpy(b.notes->data + second, sizes[i], sizeof(sizes[i]));
		add_memory(&b, 0, 0, PAGE, 1);
		g_autoptr(vms_machine) machine = open_built(&b);
		check_damage(machine, "cut off");
		g_assert_cmpuint(vms_machine_vcpus(machine), ==, 1);
		g_assert_cmphex(regs_of(machine, 0).value[RIP], ==, 0x111);
	}
}

static void test_short_note(void)
{
	g_auto(builder) b = builder_new();
	add_text_note(&b, "CORE", NT_PRSTATUS, "short");
	add_prstatus(&b, 2, 0x222);
	add_memory(&b, 0, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, "vCPU 0");
	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 2);
	g_assert_cmphex(regs_of(machine, 1).value[RIP], ==, 0x222);
}

static void test_note_alignment(void)
{
	g_auto(builder) b = builder_new();
	b.note_align = 8;
	add_text_note(&b, "LINUX", 1, "odd");
	add_prstatus(&b, 1, 0x111);
	add_text_note(&b, "LINUX", 1, "");
	add_prstatus(&b, 2, 0x222);
	pad(b.notes, 8);
	g_byte_array_append(b.notes, (const guint8 *)"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	add_memory(&b, 0, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	check_damage(machine, NULL);
	g_assert_cmpuint(vms_machine_core(machine)->notes->len, ==, 4);
	g_assert_cmphex(regs_of(machine, 1).value[RIP], ==, 0x222);
}

static void test_too_many_notes(void)
{
	g_auto(builder) b = builder_new();
	for (unsigned i = 0; i < 40000; i++)
		add_text_note(&b, "x", 1, "");
	add_memory(&b, PAGE, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	const struct vms_core *core = vms_machine_core(machine);
	g_assert_cmpuint(core->notes->len, ==, 32768);
	g_assert_nonnull(strstr(core->damage->pdata[0], "32768"));
}

/* A file with much damage tells the first of it, and how much more there is. */
static void test_too_many_vcpus(void)
{
	g_auto(builder) b = builder_new();
	for (unsigned i = 0; i < 8200; i++)
		add_text_note(&b, "CORE", NT_PRSTATUS, "");
	add_memory(&b, PAGE, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	g_assert_cmpuint(vms_machine_vcpus(machine), ==, 8192);
}

/* `n` more segments with the same notes. */
static void add_note_segments(builder *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		add_load(b, 0, 0, 0, 0, 0)->p_type = PT_NOTE;
	for (guint i = 0; i < b->segments->len; i++) {
		Elf64_Phdr *segment = &g_array_index(b->segments, Elf64_Phdr, i);
		if (segment->p_type != PT_NOTE)
			continue;
		segment->p_offset = sizeof(Elf64_Ehdr) + (b->segments->len + 1) * sizeof(*segment);
		segment->p_filesz = b->notes->len;
	}
}

static void test_too_many_note_segments(void)
{
	g_auto(builder) b = builder_new();
	add_text_note(&b, "x", 1, "");
	add_memory(&b, PAGE, 0, PAGE, 1);
	add_note_segments(&b, 1100);
	g_autoptr(vms_machine) machine = open_built(&b);
	g_assert_cmpuint(vms_machine_core(machine)->notes->len, ==, 1024);
}

/* All notes together may have 64 MiB. */
static void test_too_large_notes(void)
{
	const uint32_t size = 40 << 20;
	g_autofree uint8_t *content = g_malloc0(size);
	for (unsigned more = 0; more < 2; more++) {
		g_auto(builder) b = builder_new();
		g_autoptr(GError) error = NULL;
		add_note(&b, "x", 2, 1, content, size);
		add_memory(&b, PAGE, 0, PAGE, 1);
		add_note_segments(&b, more);
		g_autoptr(GByteArray) bytes = build(&b);
		g_autoptr(vms_machine) machine = open_bytes(bytes, bytes->len, &error);
		g_assert_true((machine == NULL) == (more == 1));
		if (more)
			g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	}
}

static void test_too_many_facts(void)
{
	g_auto(builder) b = builder_new();
	g_autoptr(GString) text = g_string_new(NULL);
	for (unsigned i = 0; i < 100; i++)
		g_string_append_printf(text, "key%u=value\n", i);
	add_writer_note(&b, text->str);
	add_memory(&b, PAGE, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	g_assert_cmpuint(vms_machine_core(machine)->facts->len, ==, 64);
}

static void test_much_damage(void)
{
	g_auto(builder) b = builder_new();
	for (unsigned i = 0; i < 100; i++)
		add_text_note(&b, "CORE", NT_PRSTATUS, "short");
	add_memory(&b, PAGE, 0, PAGE, 1);
	g_autoptr(vms_machine) machine = open_built(&b);
	const struct vms_core *core = vms_machine_core(machine);
	g_assert_cmpuint(core->damage->len, ==, 65);
	g_assert_nonnull(strstr(core->damage->pdata[64], "36 more"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/core_elf/qemu", test_qemu);
	g_test_add_func("/core_elf/mapped-twice", test_mapped_twice);
	g_test_add_func("/core_elf/contradicting", test_contradicting);
	g_test_add_func("/core_elf/zeros", test_zeros);
	g_test_add_func("/core_elf/endless-zeros", test_endless_zeros);
	g_test_add_func("/core_elf/sparse", test_sparse);
	g_test_add_func("/core_elf/many-segments", test_many_segments);
	g_test_add_func("/core_elf/cut-off", test_cut_off);
	g_test_add_func("/core_elf/cut-off-anywhere", test_cut_off_anywhere);
	g_test_add_func("/core_elf/refused", test_refused);
	g_test_add_func("/core_elf/too-many-segments", test_too_many_segments);
	g_test_add_func("/core_elf/process", test_process);
	g_test_add_func("/core_elf/linux", test_linux);
	g_test_add_func("/core_elf/long-vmcoreinfo", test_long_vmcoreinfo);
	g_test_add_func("/core_elf/no-vcpus", test_no_vcpus);
	g_test_add_func("/core_elf/vbox", test_vbox);
	g_test_add_func("/core_elf/vbox-2010", test_vbox_2010);
	g_test_add_func("/core_elf/vbox-unknown", test_vbox_unknown);
	g_test_add_func("/core_elf/writer-note", test_writer_note);
	g_test_add_func("/core_elf/noted-registers", test_noted_registers);
	g_test_add_func("/core_elf/writer-note-alike", test_writer_note_alike);
	g_test_add_func("/core_elf/writer-note-wrong", test_writer_note_wrong);
	g_test_add_func("/core_elf/writer-note-nonsense", test_writer_note_nonsense);
	g_test_add_func("/core_elf/lying-sizes", test_lying_sizes);
	g_test_add_func("/core_elf/short-note", test_short_note);
	g_test_add_func("/core_elf/note-alignment", test_note_alignment);
	g_test_add_func("/core_elf/too-many-notes", test_too_many_notes);
	g_test_add_func("/core_elf/too-many-vcpus", test_too_many_vcpus);
	g_test_add_func("/core_elf/too-many-note-segments", test_too_many_note_segments);
	g_test_add_func("/core_elf/too-large-notes", test_too_large_notes);
	g_test_add_func("/core_elf/too-many-facts", test_too_many_facts);
	g_test_add_func("/core_elf/much-damage", test_much_damage);
	return g_test_run();
}
