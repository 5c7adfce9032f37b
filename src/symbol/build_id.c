/* SPDX-License-Identifier: MIT */
#include "symbol/build_id.h"
#include "base/bytes.h"
#include <elf.h>

#define SEGMENTS_LIMIT 64	   /* real files have about a dozen */
#define NOTES_LIMIT    (64u << 10) /* bytes of a segment of notes */

/* Where things are in a header, whose layout depends on the size of addresses. */
struct layout {
	size_t segments, segment_size, n_segments; /* in the file's header */
	size_t segment_bytes, offset, file_size;   /* in a segment's */
	bool is_wide;
};

static const struct layout layouts[] = {
	[ELFCLASS32] = { offsetof(Elf32_Ehdr, e_phoff), offsetof(Elf32_Ehdr, e_phentsize),
			 offsetof(Elf32_Ehdr, e_phnum), sizeof(Elf32_Phdr),
			 offsetof(Elf32_Phdr, p_offset), offsetof(Elf32_Phdr, p_filesz), false },
	[ELFCLASS64] = { offsetof(Elf64_Ehdr, e_phoff), offsetof(Elf64_Ehdr, e_phentsize),
			 offsetof(Elf64_Ehdr, e_phnum), sizeof(Elf64_Phdr),
			 offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_filesz), true },
};

static uint64_t get_number(struct vms_bytes bytes, size_t at, const struct layout *layout)
{
	uint64_t wide;
	uint32_t narrow;
	if (layout->is_wide)
		return vms_bytes_u64(bytes, at, &wide) ? wide : 0;
	return vms_bytes_u32(bytes, at, &narrow) ? narrow : 0;
}

static void write_hex(struct vms_bytes bytes, char *ret)
{
	for (size_t i = 0; i < bytes.size; i++)
		g_snprintf(ret + 2 * i, 3, "%02x", bytes.data[i]);
}

/* Finds NT_GNU_BUILD_ID among the notes. */
static bool find_among_notes(struct vms_bytes notes, char *ret)
{
	uint64_t at = 0;
	Elf64_Nhdr note; /* the same in files of 32 bits */
	struct vms_bytes part;
	while (vms_bytes_slice(notes, at, sizeof(note), &part) &&
	       vms_budget_step(notes.budget, 1)) {
		memcpy(&note, part.data, sizeof(note));
		const uint64_t name = at + sizeof(note);
		const uint64_t desc = name + ((uint64_t)note.n_namesz + 3) / 4 * 4;
		if (!vms_bytes_has(notes, desc, note.n_descsz))
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    memcmp(notes.data + name, "GNU", sizeof("GNU")) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= VMS_BUILD_ID_MAX) {
			write_hex((struct vms_bytes) { notes.data + desc, note.n_descsz, NULL },
				  ret);
			return true;
		}
		at = desc + ((uint64_t)note.n_descsz + 3) / 4 * 4;
	}
	return false;
}

static bool find_in_segment(const struct vms_file_source *source, uint64_t offset, uint64_t size,
			    char *ret)
{
	if (size == 0 || size > NOTES_LIMIT)
		return false;
	g_autofree uint8_t *notes = g_malloc(size);
	return vms_file_source_read(source, offset, notes, size) &&
	       find_among_notes((struct vms_bytes) { notes, size, source->budget }, ret);
}

bool vms_build_id_find(const struct vms_file_source *source, char ret[2 * VMS_BUILD_ID_MAX + 1])
{
	uint8_t header[sizeof(Elf64_Ehdr)], segments[SEGMENTS_LIMIT * sizeof(Elf64_Phdr)];
	const struct vms_bytes bytes = { header, sizeof(header), source->budget };
	uint16_t size, n;
	uint32_t type;
	ret[0] = '\0';
	if (!vms_file_source_read(source, 0, header, sizeof(header)) ||
	    memcmp(header, ELFMAG, SELFMAG) != 0 || header[EI_DATA] != ELFDATA2LSB ||
	    (header[EI_CLASS] != ELFCLASS32 && header[EI_CLASS] != ELFCLASS64))
		return false;
	const struct layout *layout = &layouts[header[EI_CLASS]];
	if (!vms_bytes_u16(bytes, layout->segment_size, &size) || size != layout->segment_bytes ||
	    !vms_bytes_u16(bytes, layout->n_segments, &n))
		return false;
	const struct vms_bytes list = { segments, MIN(n, SEGMENTS_LIMIT) * layout->segment_bytes,
					source->budget };
	if (!vms_file_source_read(source, get_number(bytes, layout->segments, layout), segments,
				  list.size))
		return false;
	for (size_t at = 0; at < list.size; at += layout->segment_bytes)
		if (vms_bytes_u32(list, at, &type) && type == PT_NOTE &&
		    find_in_segment(source, get_number(list, at + layout->offset, layout),
				    get_number(list, at + layout->file_size, layout), ret))
			return true;
	return false;
}

uint64_t vms_file_stamp(const struct stat *status)
{
	const uint64_t facts[] = {
		status->st_dev,
		status->st_ino,
		(uint64_t)status->st_size,
		(uint64_t)status->st_mtim.tv_sec,
		(uint64_t)status->st_mtim.tv_nsec,
		(uint64_t)status->st_ctim.tv_sec,
		(uint64_t)status->st_ctim.tv_nsec,
	};
	uint64_t stamp = UINT64_C(0xcbf29ce484222325); /* FNV-1a, by words */
	for (size_t i = 0; i < G_N_ELEMENTS(facts); i++)
		stamp = (stamp ^ facts[i]) * UINT64_C(0x100000001b3);
	return MAX(stamp, 1);
}
