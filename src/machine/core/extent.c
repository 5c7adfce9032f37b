/* SPDX-License-Identifier: MIT */
#include "machine/core/extent.h"
#include "base/search.h"

#define EXTENT(array, i) (&g_array_index(array, struct vms_extent, i))

static uint64_t get_end(const struct vms_extent *extent)
{
	return extent->at + extent->size;
}

static uint64_t place_in_file(const struct vms_extent *extent, uint64_t at)
{
	bool zeros = extent->file_offset == VMS_EXTENT_ZEROS;
	return zeros ? VMS_EXTENT_ZEROS : extent->file_offset + (at - extent->at);
}

static gint compare_extents(gconstpointer a, gconstpointer b)
{
	const struct vms_extent *x = a, *y = b;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool is_sorted(const GArray *extents)
{
	for (guint i = 1; i < extents->len; i++) {
		if (compare_extents(EXTENT(extents, i - 1), EXTENT(extents, i)) > 0)
			return false;
	}
	return true;
}

static bool have_overlaps(const GArray *extents)
{
	for (guint i = 1; i < extents->len; i++) {
		if (EXTENT(extents, i)->at < get_end(EXTENT(extents, i - 1)))
			return true;
	}
	return false;
}

/* Appends an extent to the first `*n` of `extents`, or extends the last of these. */
static void append_extent(GArray *extents, guint *n, struct vms_extent extent)
{
	struct vms_extent *last = *n ? EXTENT(extents, *n - 1) : NULL;
	if (extent.size == 0)
		return;
	if (last && get_end(last) == extent.at &&
	    place_in_file(last, extent.at) == extent.file_offset)
		last->size += extent.size;
	else if (*n < extents->len)
		*EXTENT(extents, (*n)++) = extent;
	else
		g_array_append_val(extents, extent), ++*n;
}

/* A heap of the extents that begin before an address. The one with the lowest rank is on top. */
struct heap {
	const struct vms_extent **items;
	guint n;
};

static void swap_items(struct heap *heap, guint a, guint b)
{
	const struct vms_extent *item = heap->items[a];
	heap->items[a] = heap->items[b];
	heap->items[b] = item;
}

static void push_item(struct heap *heap, const struct vms_extent *extent)
{
	guint i = heap->n++;
	heap->items[i] = extent;
	for (; i > 0 && heap->items[i]->rank < heap->items[(i - 1) / 2]->rank; i = (i - 1) / 2)
		swap_items(heap, i, (i - 1) / 2);
}

static void pop_item(struct heap *heap)
{
	heap->items[0] = heap->items[--heap->n];
	for (guint i = 0, least = 0;; i = least) {
		for (guint child = 2 * i + 1; child <= 2 * i + 2 && child < heap->n; child++) {
			if (heap->items[child]->rank < heap->items[least]->rank)
				least = child;
		}
		if (least == i)
			return;
		swap_items(heap, i, least);
	}
}

/*
 * Removes overlaps. Goes through the addresses, and uses the extent with the lowest rank up to the
 * address where the next extent begins. Compares each new extent with the one that has the lowest
 * rank at that address, which finds contradictions.
 */
static bool cut_overlaps(GArray *extents, uint64_t *conflict)
{
	g_autoptr(GArray) all = g_array_copy(extents);
	g_autofree const struct vms_extent **items = g_new(const struct vms_extent *, all->len);
	struct heap heap = { items, 0 };
	bool agree = true;
	uint64_t at = 0;
	guint n = 0;
	g_array_set_size(extents, 0);
	for (guint i = 0; i < all->len || heap.n;) {
		while (heap.n && get_end(heap.items[0]) <= at)
			pop_item(&heap);
		const struct vms_extent *best = heap.n ? heap.items[0] : NULL;
		if (i < all->len && (!best || EXTENT(all, i)->at <= at)) {
			const struct vms_extent *next = EXTENT(all, i++);
			at = MAX(at, next->at);
			if (agree && best && place_in_file(best, at) != place_in_file(next, at)) {
				agree = false;
				*conflict = at;
			}
			push_item(&heap, next);
		} else if (best) {
			uint64_t stop = get_end(best);
			if (i < all->len)
				stop = MIN(stop, EXTENT(all, i)->at);
			append_extent(extents, &n,
				      (struct vms_extent) { at, stop - at, place_in_file(best, at),
							    best->rank });
			at = stop;
		}
	}
	return agree;
}

bool vms_extents_resolve(GArray *extents, uint64_t *conflict)
{
	if (!is_sorted(extents))
		g_array_sort(extents, compare_extents);
	if (have_overlaps(extents))
		return cut_overlaps(extents, conflict);
	guint n = 0;
	for (guint i = 0; i < extents->len; i++)
		append_extent(extents, &n, *EXTENT(extents, i));
	g_array_set_size(extents, n);
	return true;
}

/* Returns the index of the extent that contains `at`, or of the first one after it. */
static guint find_extent(const GArray *extents, uint64_t at)
{
	return (guint)VMS_SEARCH(extents->len, i, get_end(EXTENT(extents, i)) <= at);
}

bool vms_extents_at(const GArray *extents, uint64_t at, uint64_t size, struct vms_extent *ret)
{
	guint i = find_extent(extents, at);
	const struct vms_extent *found = i < extents->len ? EXTENT(extents, i) : NULL;
	*ret = (struct vms_extent) { at, size, VMS_EXTENT_ZEROS, 0 };
	if (found && found->at <= at) {
		ret->size = MIN(size, get_end(found) - at);
		ret->file_offset = place_in_file(found, at);
		return true;
	}
	if (found)
		ret->size = MIN(size, found->at - at);
	return false;
}
