/* SPDX-License-Identifier: MIT */
/*
 * Reads ELF cores of machines. PT_LOAD segments have memory by physical address. The same memory
 * may have several segments, one for each virtual address at which it is mapped. They share the
 * bytes of the file.
 */
#include "machine/core/core_engine.h"
#include "machine/core/vbox_format.h"
#include "machine/core/vmscope_note.h"
#include <elf.h>
#include <inttypes.h>

#define HEADERS_AT_ONCE	  4096
#define NOTE_SEGMENTS_MAX 1024
#define PA_MAX		  (UINT64_C(1) << 52) /* no processor addresses more memory */

bool vms_core_elf_is(const struct vms_core_file *file)
{
	uint8_t magic[SELFMAG];
	return vms_core_file_read(file, 0, magic, sizeof(magic)) &&
	       memcmp(magic, ELFMAG, sizeof(magic)) == 0;
}

/* ELF64 little-endian is read in place: its structures have no padding. */
G_STATIC_ASSERT(sizeof(Elf64_Ehdr) == 64 && sizeof(Elf64_Phdr) == 56 && sizeof(Elf64_Shdr) == 64);
G_STATIC_ASSERT(G_BYTE_ORDER == G_LITTLE_ENDIAN);

static bool check_header(struct vms_core_machine *core, const Elf64_Ehdr *header, GError **error)
{
	if (header->e_ident[EI_CLASS] != ELFCLASS64)
		return vms_core_refuse(
			core, VMS_ERROR_UNSUPPORTED, error,
			"it is not a 64-bit ELF file; 32-bit files are not supported");
	if (header->e_ident[EI_DATA] != ELFDATA2LSB)
		return vms_core_refuse(
			core, VMS_ERROR_UNSUPPORTED, error,
			"it is big-endian; only little-endian machines are supported");
	if (header->e_ident[EI_VERSION] > EV_CURRENT) /* VirtualBox writes 0 */
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error, "ELF version %u",
				       header->e_ident[EI_VERSION]);
	if (header->e_type != ET_CORE)
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error,
				       "it is an ELF file, but not a core (e_type %u)",
				       header->e_type);
	core->arch = vms_core_arch_of_elf(header->e_machine);
	if (!core->arch)
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error,
				       "its architecture (e_machine %u) is not supported",
				       header->e_machine);
	core->machine.arch = core->arch->arch;
	if (header->e_phentsize != sizeof(Elf64_Phdr))
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "program headers of %u bytes at offset 0x%zx",
				       header->e_phentsize, offsetof(Elf64_Ehdr, e_phentsize));
	return true;
}

/* Returns the number of program headers. A number that does not fit is in section header 0. */
static bool count_headers(const struct vms_core_machine *core, const Elf64_Ehdr *header,
			  uint64_t *ret, GError **error)
{
	Elf64_Shdr section;
	*ret = header->e_phnum;
	if (header->e_phnum == PN_XNUM) {
		if (!header->e_shoff ||
		    !vms_core_file_read(core->file, header->e_shoff, &section, sizeof(section)))
			return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
					       "no section header at offset 0x%" PRIx64
					       ", which has the number of program headers",
					       header->e_shoff);
		*ret = section.sh_info;
	}
	if (*ret > VMS_CORE_SEGMENTS_MAX)
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "%" PRIu64 " program headers are too many", *ret);
	return true;
}

static bool add_segment(struct vms_core_machine *core, const Elf64_Phdr *header, uint64_t at,
			GError **error)
{
	struct vms_core_segment segment = { header->p_paddr, header->p_vaddr, header->p_memsz,
					    header->p_filesz, header->p_offset };
	if (header->p_memsz == 0 ||
	    header->p_paddr == UINT64_MAX) /* known by virtual address only */
		return true;
	if (header->p_filesz > header->p_memsz || header->p_paddr > PA_MAX ||
	    header->p_memsz > PA_MAX - header->p_paddr || header->p_offset > INT64_MAX ||
	    header->p_filesz > INT64_MAX - header->p_offset)
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "the program header at offset 0x%" PRIx64
				       " has impossible sizes or addresses",
				       at);
	g_array_append_val(core->core.segments, segment);
	return true;
}

/* Reads all program headers. Makes segments of PT_LOAD, and lists PT_NOTE in `notes`. */
static bool read_headers(struct vms_core_machine *core, const Elf64_Ehdr *header, GArray *notes,
			 GError **error)
{
	uint64_t n, at = header->e_phoff;
	g_autofree Elf64_Phdr *block = g_new(Elf64_Phdr, HEADERS_AT_ONCE);
	if (!count_headers(core, header, &n, error))
		return false;
	for (uint64_t step; n; n -= step) {
		step = MIN(n, HEADERS_AT_ONCE);
		if (!vms_core_file_read(core->file, at, block, step * sizeof(*block)))
			return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
					       "the program headers at offset 0x%" PRIx64
					       " are beyond the end of the file",
					       at);
		for (uint64_t i = 0; i < step; i++, at += sizeof(*block)) {
			if (block[i].p_type == PT_LOAD && !add_segment(core, &block[i], at, error))
				return false;
			if (block[i].p_type == PT_NOTE && notes->len < NOTE_SEGMENTS_MAX)
				g_array_append_val(notes, block[i]);
		}
	}
	return true;
}

/*
 * Reads the notes of one segment, as far as they are in the file. `*budget` limits the bytes of all
 * notes, and is reduced.
 */
static bool read_notes(struct vms_core_machine *core, const Elf64_Phdr *header, uint64_t *budget,
		       GError **error)
{
	uint64_t end = vms_core_file_size(core->file);
	uint64_t inside = header->p_offset < end ? end - header->p_offset : 0;
	uint64_t size = MIN(header->p_filesz, inside);
	if (size < header->p_filesz)
		vms_core_damage(core, "the notes at offset 0x%" PRIx64 " are cut off",
				header->p_offset);
	if (size == 0)
		return true;
	g_autofree uint8_t *data =
		vms_core_file_load(core->file, header->p_offset, size, *budget, "the notes", error);
	if (!data)
		return false;
	*budget -= size;
	vms_core_notes(core, (struct vms_bytes) { data, size, vms_machine_budget(&core->machine) },
		       header->p_offset, header->p_align);
	return true;
}

/*
 * True if the file is the core of a process. Such a file has no physical addresses, and the kernel
 * adds the auxiliary vector and files of the process.
 */
static bool is_process_core(const struct vms_core_machine *core)
{
	const GArray *segments = core->core.segments, *notes = core->core.notes;
	for (guint i = 0; i < segments->len; i++) {
		if (g_array_index(segments, struct vms_core_segment, i).pa)
			return false;
	}
	for (guint i = 0; i < notes->len; i++) {
		const struct vms_core_note *note = &g_array_index(notes, struct vms_core_note, i);
		if (strcmp(note->owner, "CORE") == 0 &&
		    (note->type == NT_AUXV || note->type == NT_FILE || note->type == NT_PRPSINFO))
			return true;
	}
	return segments->len > 1;
}

static void set_variant(struct vms_core_machine *core)
{
	bool is_vbox = vms_core_has_note(core, VMS_VBOX_CORE) ||
		       vms_core_has_note(core, VMS_VBOX_OLD_CORE);
	core->core.format = is_vbox ? VMS_CORE_VBOX : VMS_CORE_ELF;
	if (is_vbox)
		core->core.variant = core->vbox == VMS_NOTE_VBOX_6   ? "VirtualBox 6"
				     : core->vbox == VMS_NOTE_VBOX_5 ? "VirtualBox 5"
								     : "VirtualBox of 2010";
	else if (vms_core_has_note(core, VMS_NOTE_OWNER))
		core->core.variant = "vmscope";
	else if (vms_core_has_note(core, "QEMU"))
		core->core.variant = "QEMU dump-guest-memory";
	else if (core->vmcoreinfo)
		core->core.variant = "Linux /proc/vmcore";
	else
		core->core.variant = "unknown writer";
}

/* True for device memory, which VirtualBox lists as segments without bytes in the file. */
static bool is_mmio(const struct vms_core_machine *core, const struct vms_core_segment *segment)
{
	return core->core.format == VMS_CORE_VBOX && segment->file_size == 0;
}

static void make_parts(struct vms_core_machine *core)
{
	GArray *segments = core->core.segments;
	uint64_t conflict = 0;
	for (guint i = 0; i < segments->len; i++) {
		const struct vms_core_segment *segment =
			&g_array_index(segments, struct vms_core_segment, i);
		struct vms_extent data = { segment->pa, segment->file_size, segment->file_offset,
					   i };
		struct vms_extent zeros = { segment->pa + segment->file_size,
					    segment->size - segment->file_size, VMS_EXTENT_ZEROS,
					    i };
		if (data.size)
			g_array_append_val(core->parts, data);
		if (zeros.size && !is_mmio(core, segment))
			g_array_append_val(core->parts, zeros);
	}
	if (!vms_extents_resolve(core->parts, &conflict))
		vms_core_damage(core,
				"segments contradict each other from physical address 0x%" PRIx64
				" on: the first one counts",
				conflict);
}

static void add_range(GArray *ranges, uint64_t pa, uint64_t size, enum vms_range_kind kind)
{
	struct vms_range range = { pa, size, kind, kind == VMS_RANGE_RAM ? "RAM" : "MMIO" };
	struct vms_range *last =
		ranges->len ? &g_array_index(ranges, struct vms_range, ranges->len - 1) : NULL;
	if (last && last->kind == kind && last->pa + last->size == pa)
		last->size += size;
	else
		g_array_append_val(ranges, range);
}

/* Adds device memory. Leaves out devices that overlap memory or each other. */
static void add_mmio(struct vms_core_machine *core)
{
	GArray *ranges = core->machine.ranges;
	g_autoptr(GArray) mmio = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	uint64_t end = 0;
	for (guint i = 0; i < core->core.segments->len; i++) {
		const struct vms_core_segment *segment =
			&g_array_index(core->core.segments, struct vms_core_segment, i);
		if (is_mmio(core, segment))
			add_range(mmio, segment->pa, segment->size, VMS_RANGE_MMIO);
	}
	g_array_sort(mmio, vms_range_compare);
	for (guint i = 0; i < mmio->len; i++) {
		const struct vms_range *range = &g_array_index(mmio, struct vms_range, i);
		struct vms_extent part;
		if (range->pa < end || vms_extents_at(core->parts, range->pa, range->size, &part) ||
		    part.size < range->size)
			continue;
		end = range->pa + range->size;
		g_array_append_val(ranges, *range);
	}
	g_array_sort(ranges, vms_range_compare);
}

static void make_ranges(struct vms_core_machine *core)
{
	for (guint i = 0; i < core->parts->len; i++) {
		const struct vms_extent *part = &g_array_index(core->parts, struct vms_extent, i);
		add_range(core->machine.ranges, part->at, part->size, VMS_RANGE_RAM);
		if (part->file_offset == VMS_EXTENT_ZEROS)
			core->core.left_out += part->size;
	}
	add_mmio(core);
}

/* Reports memory that is missing because the file ends too early. */
static void report_missing_memory(struct vms_core_machine *core)
{
	uint64_t end = vms_core_file_size(core->file);
	for (guint i = 0; i < core->parts->len; i++) {
		const struct vms_extent *part = &g_array_index(core->parts, struct vms_extent, i);
		if (part->file_offset == VMS_EXTENT_ZEROS ||
		    (part->file_offset <= end && part->size <= end - part->file_offset))
			continue;
		uint64_t inside = part->file_offset < end ? end - part->file_offset : 0;
		struct vms_range missing = { .pa = part->at + inside, .size = part->size - inside };
		g_array_append_val(core->core.unreadable, missing);
		vms_core_damage(
			core, "the file is cut off: memory 0x%" PRIx64 "-0x%" PRIx64 " is missing",
			missing.pa, missing.pa + missing.size - 1);
	}
}

bool vms_core_elf_open(struct vms_core_machine *core, GError **error)
{
	Elf64_Ehdr header;
	uint64_t budget = VMS_CORE_NOTES_MAX;
	g_autoptr(GArray) notes = g_array_new(FALSE, FALSE, sizeof(Elf64_Phdr));
	if (!vms_core_file_read(core->file, 0, &header, sizeof(header)))
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "it ends within the ELF header");
	if (!check_header(core, &header, error) || !read_headers(core, &header, notes, error))
		return false;
	for (guint i = 0; i < notes->len; i++) {
		if (!read_notes(core, &g_array_index(notes, Elf64_Phdr, i), &budget, error))
			return false;
	}
	if (is_process_core(core))
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error,
				       "it is the core of a process, not of a machine; use gdb");
	if (core->core.segments->len == 0)
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error, "it has no memory");
	core->parts = g_array_new(FALSE, FALSE, sizeof(struct vms_extent));
	set_variant(core);
	make_parts(core);
	make_ranges(core);
	report_missing_memory(core);
	return true;
}

bool vms_core_elf_read(struct vms_core_machine *core, uint64_t pa, void *buf, size_t size)
{
	for (uint8_t *at = buf; size;) {
		struct vms_extent part;
		if (!vms_extents_at(core->parts, pa, size, &part))
			return false;
		if (part.file_offset == VMS_EXTENT_ZEROS)
			memset(at, 0, part.size);
		else if (!vms_core_file_read(core->file, part.file_offset, at, part.size))
			return false;
		at += part.size;
		pa += part.size;
		size -= part.size;
	}
	return true;
}

void vms_core_elf_next_data(struct vms_core_machine *core, uint64_t pa, uint64_t end,
			    uint64_t *begin, uint64_t *stop)
{
	*begin = *stop = end;
	while (pa < end) {
		struct vms_extent part;
		bool is_data = vms_extents_at(core->parts, pa, end - pa, &part) &&
			       part.file_offset != VMS_EXTENT_ZEROS;
		uint64_t from = part.file_offset, to = from + part.size;
		if (is_data)
			vms_core_file_next_data(core->file, part.file_offset,
						part.file_offset + part.size, &from, &to);
		if (is_data && from < to) {
			*begin = pa + (from - part.file_offset);
			*stop = pa + (to - part.file_offset);
			return;
		}
		pa += part.size;
	}
}
