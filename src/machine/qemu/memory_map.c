/* SPDX-License-Identifier: MIT */
/*
 * Where the guest has memory, and where that is in QEMU's process. It is read at the opening, and
 * again when QEMU tells of an event after which there may be more or less of it.
 */
#include "base/clock.h"
#include "machine/qemu/hmp.h"
#include "machine/qemu/qemu.h"

#include <string.h>
#include <vmscope/log.h>

/*
 * Maps of one machine, all of which stay until it is closed, since other threads read memory by
 * them. The guest can change its memory (where it has ROM shadowed), but not without end.
 */
#define MAPS_MAX 256
/* A guest causes such events as often as it likes. */
#define FOLLOW_NS (UINT64_C(1000) * 1000 * 1000)

struct vms_qemu_map {
	GArray *ranges;	     /* struct vms_range */
	GStringChunk *names; /* of the ranges */
	struct vms_ram ram;
};

static void free_map(void *data)
{
	struct vms_qemu_map *map = data;
	g_clear_pointer(&map->ranges, g_array_unref);
	g_string_chunk_free(map->names);
	vms_ram_close(&map->ram);
	g_free(map);
}

/* ---- where the guest has memory --------------------------------------- */

/* The memory of a map. Adjacent ranges of one name become one range. */
static GArray *join_memory(const GArray *ranges)
{
	GArray *memory = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	for (guint i = 0; i < ranges->len; i++) {
		const struct vms_range *range = &g_array_index(ranges, struct vms_range, i);
		struct vms_range *last =
			memory->len ? &g_array_index(memory, struct vms_range, memory->len - 1)
				    : NULL;
		if (range->kind == VMS_RANGE_MMIO)
			continue;
		if (last && last->pa + last->size == range->pa &&
		    strcmp(last->name, range->name) == 0)
			last->size += range->size;
		else
			g_array_append_vals(memory, range, 1);
	}
	return memory;
}

/* Compares the memory alone: the guest itself moves devices and makes memory writable. */
static bool have_same_memory(const GArray *before, const GArray *now)
{
	g_autoptr(GArray) x = join_memory(before), y = join_memory(now);
	bool same = x->len == y->len;
	for (guint i = 0; same && i < x->len; i++) {
		const struct vms_range *a = &g_array_index(x, struct vms_range, i);
		const struct vms_range *b = &g_array_index(y, struct vms_range, i);
		same = a->pa == b->pa && a->size == b->size && strcmp(a->name, b->name) == 0;
	}
	return same;
}

static struct vms_qemu_map *ask_map(struct vms_qemu *qemu, GError **error)
{
	g_autofree char *text = vms_qmp_hmp(&qemu->qmp, "info mtree -f", error);
	struct vms_qemu_map *map = g_new0(struct vms_qemu_map, 1);
	map->names = g_string_chunk_new(1024);
	if (text)
		map->ranges = vms_hmp_parse_mtree(text, map->names, error);
	if (!map->ranges)
		g_clear_pointer(&map, free_map);
	return map;
}

bool vms_qemu_check_ranges(struct vms_machine *machine, GError **error)
{
	if (!machine->ranges)
		return true;
	struct vms_qemu_map *now = ask_map((struct vms_qemu *)machine, error);
	if (!now)
		return false;
	bool same = have_same_memory(machine->ranges, now->ranges);
	free_map(now);
	if (!same)
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "%s has other memory than a moment ago: some was plugged, unplugged "
			    "or moved; try again",
			    machine->info.name);
	return same;
}

/* ---- where that is in QEMU's process ----------------------------------- */

/* Some commands are on their way at once: as many as the buffers of a socket hold for certain. */
#define ASKED_AT_ONCE 32u

/*
 * Asks where QEMU has mapped places, ASKED_AT_ONCE at most. Each is asked for: names are not
 * unique. Keeps those that QEMU tells. Returns how many.
 */
static size_t find_hvas(struct vms_qemu *qemu, struct vms_ram_place *places, size_t n)
{
	char *commands[ASKED_AT_ONCE], *texts[ASKED_AT_ONCE];
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		commands[i] = g_strdup_printf("gpa2hva 0x%" G_GINT64_MODIFIER "x", places[i].pa);
	vms_qmp_hmp_all(&qemu->qmp, commands, n, texts);
	for (size_t i = 0; i < n; i++) {
		struct vms_ram_place place = places[i];
		if (texts[i] && vms_hmp_parse_gpa2hva(texts[i], place.pa, &place.hva))
			places[found++] = place;
		g_free(commands[i]);
		g_free(texts[i]);
	}
	return found;
}

/* Drops parts that this user may not read. The engine reads them in another way. */
static void drop_unreadable(struct vms_ram *ram)
{
	uint8_t byte;
	for (guint i = 0; ram->parts && i < ram->parts->len; i++) {
		if (!vms_ram_read(ram, g_array_index(ram->parts, struct vms_ram_part, i).pa, &byte,
				  1))
			g_array_remove_index(ram->parts, i--);
	}
}

static void map_ram(struct vms_qemu *qemu, struct vms_qemu_map *map)
{
	size_t n = 0, found = 0;
	if (qemu->process.pid == 0)
		return;
	g_autofree struct vms_ram_place *places = g_new(struct vms_ram_place, map->ranges->len);
	for (guint i = 0; i < map->ranges->len; i++) {
		const struct vms_range *range = &g_array_index(map->ranges, struct vms_range, i);
		if (range->kind != VMS_RANGE_MMIO)
			places[n++] =
				(struct vms_ram_place) { .pa = range->pa, .size = range->size };
	}
	for (size_t i = 0; i < n; i += ASKED_AT_ONCE) {
		size_t part = MIN(n - i, ASKED_AT_ONCE), told = find_hvas(qemu, &places[i], part);
		memmove(&places[found], &places[i], told * sizeof(*places));
		found += told;
	}
	vms_ram_open(&map->ram, &qemu->process, places, found);
	drop_unreadable(&map->ram);
}

const struct vms_ram *vms_qemu_ram(struct vms_qemu *qemu)
{
	static const struct vms_ram none;
	const struct vms_qemu_map *map = g_atomic_pointer_get(&qemu->map);
	return map ? &map->ram : &none;
}

/* ---- as it is now ------------------------------------------------------ */

bool vms_qemu_update_ranges(struct vms_machine *machine, GError **error)
{
	struct vms_qemu *qemu = (struct vms_qemu *)machine;
	uint64_t changes = qemu->qmp.memory_changes;
	struct vms_qemu_map *map = ask_map(qemu, error);
	if (!map)
		return false;
	qemu->followed_changes = changes;
	qemu->followed_ns = vms_clock_now_ns();
	if (qemu->maps->len == MAPS_MAX ||
	    (qemu->map && have_same_memory(qemu->map->ranges, map->ranges))) {
		free_map(map);
		return true;
	}
	map_ram(qemu, map);
	g_ptr_array_add(qemu->maps, map);
	g_atomic_pointer_set(&qemu->map, map);
	g_atomic_pointer_set(&machine->ranges, map->ranges);
	return true;
}

void vms_qemu_follow_ranges(struct vms_qemu *qemu)
{
	g_autoptr(GError) error = NULL;
	if (qemu->qmp.memory_changes == qemu->followed_changes || !qemu->map ||
	    vms_clock_now_ns() - qemu->followed_ns < FOLLOW_NS)
		return;
	if (!vms_qemu_update_ranges(&qemu->machine, &error))
		vms_log(VMS_LOG_WARNING, "%s: its memory map cannot be read again: %s",
			qemu->machine.info.name, error->message);
}

void vms_qemu_open_map(struct vms_qemu *qemu)
{
	g_autoptr(GError) error = NULL;
	qemu->maps = g_ptr_array_new_with_free_func(free_map);
	if (!vms_qemu_update_ranges(&qemu->machine, &error))
		vms_log(VMS_LOG_WARNING, "%s: there is no memory map: %s", qemu->machine.info.name,
			error->message);
}

void vms_qemu_close_map(struct vms_qemu *qemu)
{
	qemu->machine.ranges = NULL;
	qemu->map = NULL;
	g_clear_pointer(&qemu->maps, g_ptr_array_unref);
}
