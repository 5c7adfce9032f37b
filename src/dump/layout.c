/* SPDX-License-Identifier: MIT */
#include "dump/layout.h"

static const struct vms_dump_mapping *get_mapping(const struct vms_dump_layout *layout, guint i)
{
	return &g_array_index(layout->state->mappings, struct vms_dump_mapping, i);
}

static bool is_direct(const struct vms_dump_layout *layout, const struct vms_dump_mapping *mapping)
{
	return layout->state->direct_map && mapping->va - mapping->pa == layout->state->direct_map;
}

static void add_segment(const struct vms_dump_layout *layout, GArray *segments, uint64_t va,
			uint64_t pa, uint64_t size)
{
	Elf64_Phdr segment = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W | PF_X,
		.p_offset = vms_dump_layout_offset(layout, pa),
		.p_vaddr = va,
		.p_paddr = pa,
		.p_filesz = size,
		.p_memsz = size,
		/* If p_align of the first segment is set, crash assumes netdump (is_netdump). */
		.p_align = 0,
	};
	g_array_append_val(segments, segment);
}

/*
 * Adds the segments of a range of physical memory. The range is cut where the direct map begins or
 * ends. Parts in the direct map go to `direct`. Segments of other parts have the physical address
 * as virtual address: the kernel has taken them out of its direct map. *next is the index of the
 * first mapping that this range or a later one may need: the mappings of the direct map are sorted
 * by physical address too.
 */
static void add_range(const struct vms_dump_layout *layout, GArray *direct,
		      const struct vms_range *range, guint *next)
{
	guint n = layout->state->mappings->len;
	uint64_t pa = range->pa, end = range->pa + range->size;
	while (pa < end) {
		const struct vms_dump_mapping *mapping =
			*next < n ? get_mapping(layout, *next) : NULL;
		if (mapping && (!is_direct(layout, mapping) || mapping->pa + mapping->size <= pa)) {
			++*next;
			continue;
		}
		bool mapped = mapping && mapping->pa <= pa;
		uint64_t stop = !mapping ? end : mapped ? mapping->pa + mapping->size : mapping->pa;
		stop = MIN(stop, end);
		if (mapped)
			add_segment(layout, direct, pa + layout->state->direct_map, pa, stop - pa);
		else
			add_segment(layout, layout->segments, pa, pa, stop - pa);
		pa = stop;
	}
}

/*
 * The segments of the direct map come last, because makedumpfile takes the last segment below the
 * kernel's image for one of the direct map.
 */
void vms_dump_elf_segments(struct vms_dump_layout *layout)
{
	const struct vms_dump_state *state = layout->state;
	g_autoptr(GArray) direct = g_array_new(FALSE, FALSE, sizeof(Elf64_Phdr));
	guint next = 0;
	for (guint i = 0; i < state->memory->len; i++)
		add_range(layout, direct, &g_array_index(state->memory, struct vms_range, i),
			  &next);
	for (guint i = 0; i < state->mappings->len; i++) {
		const struct vms_dump_mapping *mapping = get_mapping(layout, i);
		if (!is_direct(layout, mapping))
			add_segment(layout, layout->segments, mapping->va, mapping->pa,
				    mapping->size);
	}
	g_array_append_vals(layout->segments, direct->data, direct->len);
}
