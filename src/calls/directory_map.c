/* SPDX-License-Identifier: MIT */
/*
 * Gives images their places in a trace. An image has one place, or several if it grew. The mappings
 * of an image in all processes lead to its places.
 */
#include "base/keyed_hash.h"
#include "base/search.h"
#include "calls/directory-private.h"

#include <string.h>

/*
 * Room for images that cannot have the addresses at which they are mapped. Neither x86-64 nor
 * aarch64 uses these addresses by itself.
 */
#define ROOM_START UINT64_C(0x200000000000)
#define ROOM_END   UINT64_C(0x400000000000)
#define ROOM_STEP  (UINT64_C(1) << 21)
/*
 * Room for strays: addresses that no mapping has. They move here if they are in an image's place,
 * because they would get its names.
 */
#define STRAY_START    ROOM_END
#define STRAY_MASK     ((UINT64_C(1) << 40) - 1)
#define STRAY_SHIFT    21 /* strays are remembered in pieces of 2 MiB */
#define STRAYS_LIMIT   (1 << 16)
#define PLACES_LIMIT   (1 << 14)
#define MAPPINGS_LIMIT (1 << 20) /* in all processes */
#define SIZE_LIMIT     (UINT64_C(1) << 36)
#define ASK_SHIFT      16 /* lookups are remembered in pieces of 64 KiB */
#define ASK_LIMIT      1024

/* ---- places ----------------------------------------------------------- */

struct vms_calls_places *vms_calls_places_new(void)
{
	struct vms_calls_places *places = g_new0(struct vms_calls_places, 1);
	places->list = g_array_new(false, false, sizeof(struct vms_calls_place));
	places->sorted = g_array_new(false, false, sizeof(struct vms_calls_place));
	places->strays = g_hash_table_new(vms_hash_direct, NULL);
	places->next = ROOM_START;
	places->changed = true;
	return places;
}

void vms_calls_places_free(struct vms_calls_places *places)
{
	g_array_unref(places->list);
	g_array_unref(places->sorted);
	g_hash_table_unref(places->strays);
	g_free(places);
}

static struct vms_calls_place *get_place(const struct vms_calls_places *places, guint i)
{
	return &g_array_index(places->list, struct vms_calls_place, i);
}

/* Returns the index by address of the first place that ends beyond `va`. */
static guint find_place_index(const struct vms_calls_places *places, uint64_t va)
{
	return (guint)VMS_SEARCH(places->sorted->len, i,
				 g_array_index(places->sorted, struct vms_calls_place, i).end <=
					 va);
}

/* Finds a place that overlaps [start, end), or NULL. */
static const struct vms_calls_place *find_place(const struct vms_calls_places *places,
						uint64_t start, uint64_t end)
{
	const guint i = find_place_index(places, start);
	if (i == places->sorted->len)
		return NULL;
	const struct vms_calls_place *place =
		&g_array_index(places->sorted, struct vms_calls_place, i);
	return place->start < end ? place : NULL;
}

static bool has_strays(const struct vms_calls_places *places, uint64_t start, uint64_t end)
{
	for (uint64_t piece = start >> STRAY_SHIFT; piece <= (end - 1) >> STRAY_SHIFT; piece++)
		if (g_hash_table_contains(places->strays, (gpointer)(uintptr_t)piece))
			return true;
	return false;
}

/* Finds free room for `size` bytes. False if there is none. */
static bool find_room(struct vms_calls_places *places, uint64_t size, uint64_t *ret)
{
	while (places->next + size <= ROOM_END) {
		uint64_t start = places->next;
		const struct vms_calls_place *there = find_place(places, start, start + size);
		uint64_t end = there ? there->end : start + size;
		places->next = (end + ROOM_STEP - 1) & ~(ROOM_STEP - 1);
		if (!there) {
			*ret = start;
			return true;
		}
	}
	return false;
}

/*
 * Finds a place that has the first `size` bytes of an image: *ret is the address of its offset 0.
 * False if there is none. Then *number is the number of places that the image has.
 */
static bool find_image_place(const struct vms_calls_places *places,
			     const struct vms_calls_image *image, uint64_t size, uint64_t *ret,
			     unsigned *number)
{
	*number = 0;
	for (guint i = 0; i < places->list->len; i++) {
		const struct vms_calls_place *place = get_place(places, i);
		if (place->image != image)
			continue;
		(*number)++;
		*ret = place->start;
		if (place->end - place->start >= size)
			return true;
	}
	return false;
}

/* Adds a place for the image of a mapping: where it is mapped if these addresses are free. */
static bool add_place(struct vms_calls_places *places, const struct vms_calls_mapping *mapping,
		      bool is_kernel, unsigned number, uint64_t *ret)
{
	uint64_t size = mapping->offset + (mapping->end - mapping->start);
	uint64_t start = mapping->start - mapping->offset;
	bool stays = mapping->start >= mapping->offset &&
		     !find_place(places, start, mapping->end) &&
		     (is_kernel || !has_strays(places, start, mapping->end));
	if (places->list->len == PLACES_LIMIT || (!stays && !find_room(places, size, &start)))
		return false;
	const struct vms_calls_place place = { start, start + size, mapping->image, number };
	g_array_append_val(places->list, place);
	g_array_insert_val(places->sorted, find_place_index(places, start), place);
	places->changed = true;
	*ret = start;
	return true;
}

uint64_t vms_calls_places_move_stray(struct vms_calls_places *places, uint64_t va, bool of_process)
{
	if (find_place(places, va, va + 1))
		return STRAY_START | (va & STRAY_MASK);
	/*
	 * Code of a process may still become known, and then its mapping gets this place. Code of
	 * no known process stays unknown, so no image may come here.
	 */
	if (!of_process && g_hash_table_size(places->strays) < STRAYS_LIMIT)
		g_hash_table_add(places->strays, (gpointer)(uintptr_t)(va >> STRAY_SHIFT));
	return va;
}

GString *vms_calls_places_text(const struct vms_calls_places *places)
{
	/* uftrace needs a stack to know which addresses are those of its own kernel traces. */
	GString *text = g_string_new("7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n");
	for (guint i = 0; i < places->list->len; i++) {
		const struct vms_calls_place *place = get_place(places, i);
		g_string_append_printf(text,
				       "%012" G_GINT64_MODIFIER "x-%012" G_GINT64_MODIFIER
				       "x r-xp 00000000 00:00 0 guest",
				       place->start, place->end);
		/* uftrace would join neighbours with the same path. */
		if (place->number > 0)
			g_string_append_printf(text, "%u", place->number);
		g_string_append_printf(text, ":%s/%s\n", place->image->folder, place->image->name);
	}
	return text;
}

/* ---- mappings --------------------------------------------------------- */

struct vms_calls_mappings *vms_calls_mappings_make(struct vms_calls_places *places, bool is_kernel)
{
	struct vms_calls_mappings *mappings = g_new0(struct vms_calls_mappings, 1);
	mappings->refs = 1;
	mappings->places = places;
	mappings->is_kernel = is_kernel;
	mappings->list = g_array_new(false, false, sizeof(struct vms_calls_mapping));
	mappings->asked = g_hash_table_new(vms_hash_direct, NULL);
	return mappings;
}

struct vms_calls_mappings *vms_calls_mappings_ref(struct vms_calls_mappings *mappings)
{
	mappings->refs++;
	return mappings;
}

void vms_calls_mappings_unref(struct vms_calls_mappings *mappings)
{
	if (!mappings || --mappings->refs > 0)
		return;
	vms_calls_mappings_clear(mappings);
	g_array_unref(mappings->list);
	g_hash_table_unref(mappings->asked);
	g_free(mappings);
}

static struct vms_calls_mapping *get_mapping(const struct vms_calls_mappings *mappings, guint i)
{
	return &g_array_index(mappings->list, struct vms_calls_mapping, i);
}

/* Returns the index of the first mapping that ends beyond `va`. */
static guint find_mapping_index(const struct vms_calls_mappings *mappings, uint64_t va)
{
	return (guint)VMS_SEARCH(mappings->list->len, i,
				 get_mapping(mappings, (guint)i)->end <= va);
}

const struct vms_calls_mapping *vms_calls_mappings_find(const struct vms_calls_mappings *mappings,
							uint64_t va)
{
	guint i = find_mapping_index(mappings, va);
	if (i == mappings->list->len || get_mapping(mappings, i)->start > va)
		return NULL;
	return get_mapping(mappings, i);
}

/* Inserts a mapping in place of all mappings that it overlaps. */
static void insert_mapping(struct vms_calls_mappings *mappings,
			   const struct vms_calls_mapping *mapping)
{
	guint begin = find_mapping_index(mappings, mapping->start), end = begin;
	while (end < mappings->list->len && get_mapping(mappings, end)->start < mapping->end)
		end++;
	if (end > begin)
		g_array_remove_range(mappings->list, begin, end - begin);
	mappings->places->n_mappings += 1 - (end - begin);
	g_array_insert_val(mappings->list, begin, *mapping);
}

bool vms_calls_mappings_add(struct vms_calls_mappings *mappings, uint64_t start, uint64_t end,
			    uint64_t offset, struct vms_calls_image *image)
{
	const uint64_t size = end - start;
	if (end <= start || size > SIZE_LIMIT || offset > SIZE_LIMIT)
		return false;
	struct vms_calls_mapping mapping = {
		.start = start & VMS_CALLS_ADDRESS_MASK,
		.end = (start & VMS_CALLS_ADDRESS_MASK) + size,
		.offset = offset,
		.image = image,
	};
	const struct vms_calls_mapping *known = vms_calls_mappings_find(mappings, mapping.start);
	if (known && known->start == mapping.start && known->end == mapping.end &&
	    known->offset == offset && known->image == image)
		return true;
	unsigned number;
	if (mappings->places->n_mappings >= MAPPINGS_LIMIT ||
	    (!find_image_place(mappings->places, image, offset + size, &mapping.place, &number) &&
	     !add_place(mappings->places, &mapping, mappings->is_kernel, number, &mapping.place)))
		return false;
	mapping.place += offset;
	insert_mapping(mappings, &mapping);
	return true;
}

void vms_calls_mappings_clear(struct vms_calls_mappings *mappings)
{
	mappings->places->n_mappings -= mappings->list->len;
	g_array_set_size(mappings->list, 0);
	g_hash_table_remove_all(mappings->asked);
}

bool vms_calls_mappings_note_question(struct vms_calls_mappings *mappings, uint64_t va)
{
	return g_hash_table_size(mappings->asked) < ASK_LIMIT &&
	       g_hash_table_add(mappings->asked, (gpointer)(uintptr_t)(va >> ASK_SHIFT));
}
