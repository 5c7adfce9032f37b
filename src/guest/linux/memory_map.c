/* SPDX-License-Identifier: MIT */
/*
 * x86-64: what the firmware has told the kernel is in its variable e820_table, a pointer to a
 * number and so many packed entries (arch/x86/include/asm/e820/types.h, Linux 4.12 and newer).
 * Memory that is plugged in later is not in it.
 */
#include "guest/linux/memory_map.h"

#include <string.h>
#include <vmscope/log.h>

#define E820_RAM 1
/* More than any kernel has: 128 and three for each of 1024 NUMA nodes. */
#define ENTRIES_MAX 3200

struct e820_entry {
	uint64_t pa, size;
	uint32_t type;
} __attribute__((packed));

static bool is_in_map(struct vms_machine *machine, uint64_t pa, uint64_t size)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	/* Ranges that follow each other without a gap may each have a part of it. */
	for (size_t i = 0; i < n && size > 0; i++) {
		if (pa < ranges[i].pa || pa - ranges[i].pa >= ranges[i].size)
			continue;
		const uint64_t part = MIN(size, ranges[i].size - (pa - ranges[i].pa));
		pa += part;
		size -= part;
	}
	return size == 0;
}

static bool check_entry(struct vms_linux *guest, const struct e820_entry *entry, GError **error)
{
	const struct vms_machine_info *info = vms_machine_info(guest->machine);
	if (entry->type != E820_RAM || is_in_map(guest->machine, entry->pa, entry->size))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "the kernel has memory at %#" G_GINT64_MODIFIER "x, of %#" G_GINT64_MODIFIER
		    "x bytes, that was not found in process %d, whose monitor does not say where "
		    "it is; give all of it by --memory PA:SIZE@VA",
		    entry->pa, entry->size, (int)info->pid);
	return false;
}

static struct e820_entry *read_entries(struct vms_linux *guest, uint32_t *n)
{
	uint64_t variable, table;
	if (!vms_linux_symbol(guest, "e820_table", &variable) ||
	    !vms_memory_read_u64(guest->memory, variable, &table) ||
	    !vms_memory_read(guest->memory, table, n, sizeof(*n)) || *n == 0 || *n > ENTRIES_MAX)
		return NULL;
	struct e820_entry *entries = g_new(struct e820_entry, *n);
	if (!vms_memory_read(guest->memory, table + sizeof(*n), entries, *n * sizeof(*entries)))
		g_clear_pointer(&entries, g_free);
	return entries;
}

bool vms_linux_check_memory_map(struct vms_linux *guest, GError **error)
{
	uint32_t n = 0;
	if (!vms_machine_info(guest->machine)->has_inferred_map)
		return true;
	g_autofree struct e820_entry *entries = read_entries(guest, &n);
	if (!entries)
		vms_log(VMS_LOG_INFO,
			"the kernel does not tell which memory it has: page tables alone prove "
			"the memory map");
	for (uint32_t i = 0; entries && i < n; i++)
		if (!check_entry(guest, &entries[i], error))
			return false;
	return true;
}
