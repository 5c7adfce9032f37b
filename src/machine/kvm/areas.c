/* SPDX-License-Identifier: MIT */
#include "machine/kvm/areas.h"

#include "base/proc_text.h"
#include <string.h>

/* No process has higher addresses: their sums have 64 bits. */
#define ADDRESS_MAX (UINT64_C(1) << 57)
/* Less cannot be a machine's memory. */
#define AREA_MIN (UINT64_C(1) << 20)
/* How many areas to make guesses of: guest memory is among the largest. */
#define AREAS_MAX 12

/*
 * Where memory below 4 GiB ends: QEMU's q35, pc (large memory, microvm; Firecracker from 1.13,
 * Cloud Hypervisor, dragonball), crosvm, kvmtool, libkrun and Firecracker before, QEMU's pc.
 */
static const uint64_t low_ends[] = { 0x80000000, 0xc0000000, 0xd0000000, 0xe0000000 };

/* ---- areas --------------------------------------------------------------------------------- */

static bool may_be_memory(const struct vms_proc_mapping *mapping, bool writable)
{
	static const char *const others[] = { "[heap]", "[stack", "[v", "anon_inode:", "socket:" };
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		if (g_str_has_prefix(mapping->name, others[i]))
			return false;
	return mapping->is_readable && writable && mapping->end <= ADDRESS_MAX;
}

static void append_segment(struct vms_kvm_area *area, uint64_t hva, uint64_t size)
{
	if (area->n > 0 &&
	    area->segments[area->n - 1].hva + area->segments[area->n - 1].size == hva) {
		area->segments[area->n - 1].size += size;
	} else if (area->n == VMS_KVM_SEGMENTS_MAX) {
		return;
	} else {
		area->segments[area->n].hva = hva;
		area->segments[area->n++].size = size;
	}
	area->size += size;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct vms_proc_mapping *x = a, *y = b;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return (x->file_offset > y->file_offset) - (x->file_offset < y->file_offset);
}

static int compare_sizes(const void *a, const void *b)
{
	const struct vms_kvm_area *x = a, *y = b;
	return (x->size < y->size) - (x->size > y->size);
}

/* Anonymous memory. What follows without a gap is of another kind: the kernel joins what is alike.
 */
static void add_anonymous(GArray *areas, const struct vms_proc_mapping *mapping)
{
	struct vms_kvm_area area = { 0 };
	append_segment(&area, mapping->start, mapping->end - mapping->start);
	g_array_append_val(areas, area);
}

/* Parts of files, by file and offset. What follows in the file follows for the guest. */
static void add_files(GArray *areas, GArray *files)
{
	const struct vms_proc_mapping *last = NULL;
	g_array_sort(files, compare_offsets);
	for (guint i = 0; i < files->len; i++) {
		const struct vms_proc_mapping *mapping =
			&g_array_index(files, struct vms_proc_mapping, i);
		bool follows =
			last && last->device == mapping->device && last->inode == mapping->inode &&
			last->file_offset + (last->end - last->start) == mapping->file_offset;
		struct vms_kvm_area area = { 0 };
		if (!follows)
			g_array_append_val(areas, area);
		append_segment(&g_array_index(areas, struct vms_kvm_area, areas->len - 1),
			       mapping->start, mapping->end - mapping->start);
		last = mapping;
	}
}

static void drop_small(GArray *areas)
{
	for (guint i = areas->len; i > 0; i--)
		if (g_array_index(areas, struct vms_kvm_area, i - 1).size < AREA_MIN)
			g_array_remove_index(areas, i - 1);
	g_array_sort(areas, compare_sizes);
	if (areas->len > AREAS_MAX)
		g_array_set_size(areas, AREAS_MAX);
}

GArray *vms_kvm_list_areas(const char *maps)
{
	GArray *areas = g_array_new(FALSE, FALSE, sizeof(struct vms_kvm_area));
	g_autoptr(GArray) files = g_array_new(FALSE, FALSE, sizeof(struct vms_proc_mapping));
	g_auto(GStrv) lines = g_strsplit(maps, "\n", -1);
	for (char **line = lines; *line; line++) {
		struct vms_proc_mapping mapping;
		if (!vms_proc_parse_mapping(*line, &mapping) ||
		    !may_be_memory(&mapping, strstr(*line, " rw")))
			continue;
		if (mapping.inode == 0)
			add_anonymous(areas, &mapping);
		else
			g_array_append_val(files, mapping);
	}
	add_files(areas, files);
	drop_small(areas);
	return areas;
}

/* ---- guesses -------------------------------------------------------------------------------- */

/* Puts [from, from + size) of the area to `pa`. */
static void put(struct vms_kvm_guess *guess, uint64_t pa, const struct vms_kvm_area *area,
		uint64_t from, uint64_t size)
{
	uint64_t begin = 0; /* of the segment, in the area */
	for (unsigned i = 0; i < area->n && size > 0; i++) {
		const uint64_t end = begin + area->segments[i].size;
		if (from < end) {
			const uint64_t part = MIN(size, end - from);
			guess->places[guess->n++] =
				(struct vms_ram_place) { pa, part,
							 area->segments[i].hva + (from - begin) };
			pa += part;
			from += part;
			size -= part;
		}
		begin = end;
	}
}

/* One area that has the memory below and above 4 GiB, one behind the other. */
static void guess_split(GArray *guesses, const struct vms_kvm_area *area, uint64_t low,
			bool high_first)
{
	struct vms_kvm_guess guess = { 0 };
	const uint64_t high = area->size - low;
	put(&guess, 0, area, high_first ? high : 0, low);
	put(&guess, VMS_KVM_HIGH_PA, area, high_first ? 0 : low, high);
	g_array_append_val(guesses, guess);
}

/* One file, of which the memory above 4 GiB is mapped apart. */
static void guess_segments(GArray *guesses, const struct vms_kvm_area *area)
{
	uint64_t low = 0;
	for (unsigned i = 0; i + 1 < area->n; i++) {
		low += area->segments[i].size;
		if (low <= low_ends[G_N_ELEMENTS(low_ends) - 1])
			guess_split(guesses, area, low, false);
	}
}

static void guess_two(GArray *guesses, const struct vms_kvm_area *low,
		      const struct vms_kvm_area *high)
{
	struct vms_kvm_guess guess = { 0 };
	put(&guess, 0, low, 0, low->size);
	put(&guess, VMS_KVM_HIGH_PA, high, 0, high->size);
	g_array_append_val(guesses, guess);
}

GArray *vms_kvm_list_guesses(const GArray *areas)
{
	GArray *guesses = g_array_new(FALSE, FALSE, sizeof(struct vms_kvm_guess));
	const uint64_t last_end = low_ends[G_N_ELEMENTS(low_ends) - 1];
	for (guint i = 0; i < areas->len; i++) {
		const struct vms_kvm_area *area = &g_array_index(areas, struct vms_kvm_area, i);
		struct vms_kvm_guess alone = { 0 };
		put(&alone, 0, area, 0, area->size);
		if (area->size <= last_end)
			g_array_append_val(guesses, alone);
		for (size_t j = 0; j < G_N_ELEMENTS(low_ends) && area->size > low_ends[j]; j++) {
			guess_split(guesses, area, low_ends[j], false);
			guess_split(guesses, area, low_ends[j], true);
		}
		guess_segments(guesses, area);
		for (guint j = 0; j < areas->len && area->size <= last_end; j++)
			if (j != i)
				guess_two(guesses, area,
					  &g_array_index(areas, struct vms_kvm_area, j));
	}
	return guesses;
}
