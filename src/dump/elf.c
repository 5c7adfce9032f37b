/* SPDX-License-Identifier: MIT */
/*
 * Writes a core file that is an ELF file: its header, the program headers, notes, and page-aligned
 * memory. If there are more program headers than the header can count, a section header counts
 * them. Everything in front of the memory is written last, but its size is known at the begin.
 */
#include "dump/layout.h"
#include "dump/notes.h"
#include "dump/state.h"

/* Headers are written as they lie in this host's memory. */
G_STATIC_ASSERT(G_BYTE_ORDER == G_LITTLE_ENDIAN);

struct elf_sink {
	struct vms_dump_sink sink;
	const struct vms_dump_state *state;
	struct vms_outfile *file;
	struct vms_dump_layout layout;
	uint64_t notes_at, memory_at; /* in the file */
};

static bool is_vbox(const struct elf_sink *elf)
{
	return elf->state->options->format == VMS_CORE_VBOX;
}

uint64_t vms_dump_layout_offset(const struct vms_dump_layout *layout, uint64_t pa)
{
	guint i = vms_dump_state_find(layout->state, pa);
	return layout->offsets[i] +
	       (pa - g_array_index(layout->state->memory, struct vms_range, i).pa);
}

/* ---- layout ----------------------------------------------------------- */

/* Gives each range its place. Pages of memory become pages of the file. */
static void place_memory(struct vms_dump_layout *layout)
{
	const GArray *memory = layout->state->memory;
	layout->offsets = g_new(uint64_t, memory->len);
	for (guint i = 0; i < memory->len; i++) {
		const struct vms_range *range = &g_array_index(memory, struct vms_range, i);
		layout->offsets[i] = layout->size + range->pa % VMS_DUMP_PAGE;
		layout->size = layout->offsets[i] + range->size;
		layout->size += -layout->size % VMS_DUMP_PAGE;
	}
}

static GByteArray *make_notes(const struct elf_sink *elf, const struct vms_dump_outcome *outcome)
{
	return is_vbox(elf) ? vms_dump_vbox_notes(elf->state, outcome)
			    : vms_dump_notes(elf->state, outcome);
}

/* Counts all segments, PT_NOTE included. */
static uint64_t count_segments(const struct elf_sink *elf)
{
	return 1 + (uint64_t)elf->layout.segments->len;
}

static bool needs_section_header(const struct elf_sink *elf)
{
	return count_segments(elf) >= PN_XNUM;
}

static void lay_out_file(struct elf_sink *elf)
{
	g_autoptr(GByteArray) notes = make_notes(elf, NULL);
	place_memory(&elf->layout);
	if (is_vbox(elf))
		vms_dump_vbox_segments(&elf->layout);
	else
		vms_dump_elf_segments(&elf->layout);
	elf->notes_at = sizeof(Elf64_Ehdr) + count_segments(elf) * sizeof(Elf64_Phdr) +
			(needs_section_header(elf) ? sizeof(Elf64_Shdr) : 0);
	elf->memory_at = elf->notes_at + notes->len + VMS_DUMP_UNREADABLE_TEXT;
	elf->memory_at += -elf->memory_at % VMS_DUMP_PAGE;
}

/* ---- memory ----------------------------------------------------------- */

/* Writes the runs of pages that are not zero. Zero pages stay holes. */
static bool write_unit(struct vms_dump_sink *sink, unsigned worker G_GNUC_UNUSED,
		       const struct vms_dump_unit *unit, GError **error)
{
	struct elf_sink *elf = (struct elf_sink *)sink;
	uint64_t offset = elf->memory_at + vms_dump_layout_offset(&elf->layout, unit->pa);
	size_t head = unit->pa % VMS_DUMP_PAGE; /* bytes of its first page before the unit */
	size_t end = head + unit->size, run = head;
	for (size_t at = 0; at < end; at += VMS_DUMP_PAGE) {
		size_t next = MIN(at + VMS_DUMP_PAGE, end);
		bool zero = unit->zero[at / VMS_DUMP_PAGE];
		size_t stop = zero ? MAX(at, head) : next;
		if ((zero || next == end) && stop > run &&
		    !vms_outfile_write_at(elf->file, offset + (run - head),
					  unit->data + (run - head), stop - run, error))
			return false;
		if (zero)
			run = next;
	}
	return true;
}

/* ---- headers ---------------------------------------------------------- */

static Elf64_Ehdr make_header(const struct elf_sink *elf)
{
	bool section = needs_section_header(elf);
	return (Elf64_Ehdr) {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_CORE,
		.e_machine = elf->state->arch->elf_machine,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = section ? PN_XNUM : (uint16_t)count_segments(elf),
		.e_shoff = section ? elf->notes_at - sizeof(Elf64_Shdr) : 0,
		.e_shentsize = section ? sizeof(Elf64_Shdr) : 0,
		.e_shnum = section,
	};
}

static bool write_headers(struct elf_sink *elf, size_t notes_size, GError **error)
{
	g_autoptr(GByteArray) headers = g_byte_array_new();
	Elf64_Ehdr header = make_header(elf);
	Elf64_Phdr note = {
		.p_type = PT_NOTE,
		.p_offset = elf->notes_at,
		.p_filesz = notes_size,
		.p_align = 4,
	};
	Elf64_Shdr section = { .sh_info = (uint32_t)count_segments(elf) };
	GArray *segments = elf->layout.segments;

	for (guint i = 0; i < segments->len; i++) {
		Elf64_Phdr *segment = &g_array_index(segments, Elf64_Phdr, i);
		if (segment->p_filesz > 0)
			segment->p_offset += elf->memory_at;
	}
	g_byte_array_append(headers, (const uint8_t *)&header, sizeof(header));
	g_byte_array_append(headers, (const uint8_t *)&note, sizeof(note));
	g_byte_array_append(headers, (const uint8_t *)segments->data,
			    segments->len * (guint)sizeof(Elf64_Phdr));
	if (needs_section_header(elf))
		g_byte_array_append(headers, (const uint8_t *)&section, sizeof(section));
	return vms_outfile_write_at(elf->file, 0, headers->data, headers->len, error);
}

static bool finish_file(struct vms_dump_sink *sink, const struct vms_dump_outcome *outcome,
			GError **error)
{
	struct elf_sink *elf = (struct elf_sink *)sink;
	g_autoptr(GByteArray) notes = make_notes(elf, outcome);
	return vms_outfile_set_size(elf->file, elf->memory_at + elf->layout.size, error) &&
	       vms_outfile_write_at(elf->file, elf->notes_at, notes->data, notes->len, error) &&
	       write_headers(elf, notes->len, error);
}

static void free_sink(struct vms_dump_sink *sink)
{
	struct elf_sink *elf = (struct elf_sink *)sink;
	g_free(elf->layout.offsets);
	g_array_unref(elf->layout.segments);
	g_free(elf);
}

struct vms_dump_sink *vms_dump_open_elf(const struct vms_dump_state *state,
					struct vms_outfile *file, unsigned workers G_GNUC_UNUSED,
					GError **error G_GNUC_UNUSED)
{
	struct elf_sink *elf = g_new0(struct elf_sink, 1);
	elf->sink = (struct vms_dump_sink) { .write = write_unit,
					     .finish = finish_file,
					     .free = free_sink };
	elf->state = elf->layout.state = state;
	elf->file = file;
	elf->layout.segments = g_array_new(FALSE, FALSE, sizeof(Elf64_Phdr));
	lay_out_file(elf);
	return &elf->sink;
}
