/* SPDX-License-Identifier: MIT */
#include "dump/layout.h"

static const struct vms_dump_mapping *mapping_at(const struct vms_dump_layout *layout, guint i)
{
	return &g_array_index(layout->state->mappings, struct vms_dump_mapping, i);
}

static bool is_direct(const struct vms_dump_layout *layout, const struct vms_dump_mapping *mapping)
{
	return layout->state->direct_map && mapping->va - mapping->pa == layout->state->direct_map;
}

static void add_segment(struct vms_dump_layout *layout, uint64_t va, uint64_t pa, uint64_t size)
{
	Elf64_Phdr segment = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W | PF_X,
		.p_offset = vms_dump_layout_offset(layout, pa),
		.p_vaddr = va,
		.p_paddr = pa,
		.p_filesz = size,
		.p_memsz = size,
		/* crash takes a file whose first segment is aligned for netdump's (is_netdump) */
		.p_align = 0,
	};
	g_array_append_val(layout->segments, segment);
}

/*
 * Physical memory, cut where the direct map begins or ends. The pages that the kernel has taken out
 * of its direct map are called by their physical address. *next: the first mapping that may
 * matter; those of the direct map are in physical order, too.
 */
static void add_range(struct vms_dump_layout *layout, const struct vms_range *range, guint *next)
{
	guint n = layout->state->mappings->len;
	uint64_t pa = range->pa, end = range->pa + range->size;
	while (pa < end) {
		const struct vms_dump_mapping *mapping =
			*next < n ? mapping_at(layout, *next) : NULL;
		if (mapping && (!is_direct(layout, mapping) || mapping->pa + mapping->size <= pa)) {
			++*next;
			continue;
		}
		bool mapped = mapping && mapping->pa <= pa;
		uint64_t stop = !mapping ? end : mapped ? mapping->pa + mapping->size : mapping->pa;
		stop = MIN(stop, end);
		add_segment(layout, mapped ? pa + layout->state->direct_map : pa, pa, stop - pa);
		pa = stop;
	}
}

/* makedumpfile takes the last segment below the kernel's image for one of the direct map. */
static void put_direct_map_last(struct vms_dump_layout *layout)
{
	GArray *segments = g_array_new(FALSE, FALSE, sizeof(Elf64_Phdr));
	for (unsigned pass = 0; pass < 2; pass++) {
		for (guint i = 0; i < layout->segments->len; i++) {
			const Elf64_Phdr *segment = &g_array_index(layout->segments, Elf64_Phdr, i);
			bool direct =
				segment->p_vaddr - segment->p_paddr == layout->state->direct_map;
			if (direct == (pass == 1))
				g_array_append_val(segments, *segment);
		}
	}
	g_array_unref(layout->segments);
	layout->segments = segments;
}

void vms_dump_elf_segments(struct vms_dump_layout *layout)
{
	const struct vms_dump_state *state = layout->state;
	guint next = 0;
	for (guint i = 0; i < state->memory->len; i++)
		add_range(layout, &g_array_index(state->memory, struct vms_range, i), &next);
	for (guint i = 0; i < state->mappings->len; i++) {
		const struct vms_dump_mapping *mapping = mapping_at(layout, i);
		if (!is_direct(layout, mapping))
			add_segment(layout, mapping->va, mapping->pa, mapping->size);
	}
	if (state->direct_map)
		put_direct_map_last(layout);
}
