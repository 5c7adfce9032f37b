/* SPDX-License-Identifier: MIT */
/*
 * Makes the table of functions of a file without .eh_frame_hdr, as static programs are. The section
 * header tells how long .eh_frame is.
 */
#include "unwind/cfi-private.h"

#define SECTION_LIMIT (UINT64_C(16) << 20) /* bytes; longer ones are of files with a header */
#define PART	      4096u
/*
 * How many bytes may be read for each byte of a section. Each function's entry leads to one that it
 * shares with others, which is read again: it has some 24 bytes in all files that linkers make.
 */
#define READS 16u

struct section {
	uint64_t va;
	struct vms_bytes bytes;
	uint64_t left; /* bytes that may still be read */
};

static bool read_section(void *data, uint64_t va, void *buf, size_t size)
{
	struct section *section = data;
	struct vms_bytes part;
	if (size > section->left)
		return false;
	section->left -= size;
	if (va < section->va || !vms_bytes_slice(section->bytes, va - section->va, size, &part))
		return false;
	memcpy(buf, part.data, size);
	return true;
}

static int compare_lines(const void *a, const void *b)
{
	const struct vms_cfi_line *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Adds a line for each entry, up to the first that makes no sense. */
static void add_lines(struct section *section, bool is_aarch64, GArray *lines)
{
	const struct vms_reader reader = { read_section, section };
	uint64_t at = 0;
	uint32_t size, cie;
	while (vms_bytes_u32(section->bytes, at, &size) && size != 0 &&
	       vms_bytes_u32(section->bytes, at + sizeof(size), &cie)) {
		struct vms_cfi_entry entry;
		const struct vms_cfi_line line = { 0, section->va + at };
		if (cie != 0 &&
		    vms_cfi_entry_read(&reader, line.entry, is_aarch64, &entry) == VMS_CFI_FOUND) {
			g_array_append_val(lines, line);
			g_array_index(lines, struct vms_cfi_line, lines->len - 1).start =
				entry.start;
		}
		if (cie != 0)
			vms_cfi_entry_clear(&entry);
		at += sizeof(size) + (uint64_t)size;
	}
}

enum vms_cfi_result vms_cfi_scan(const struct vms_reader *file, uint64_t va, uint64_t size,
				 bool is_aarch64, GArray *lines)
{
	if (size > SECTION_LIMIT)
		return VMS_CFI_BAD;
	g_autofree uint8_t *bytes = g_malloc(size + 1);
	for (uint64_t at = 0; at < size;) {
		const uint64_t part = MIN(size - at, PART - (va + at) % PART);
		if (!file->read(file->data, va + at, bytes + at, part))
			return VMS_CFI_MISSING;
		at += part;
	}
	struct section section = { va, { bytes, size }, size * READS };
	add_lines(&section, is_aarch64, lines);
	g_array_sort(lines, compare_lines);
	return VMS_CFI_FOUND;
}
