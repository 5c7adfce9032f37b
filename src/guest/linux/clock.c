/* SPDX-License-Identifier: MIT */
/*
 * The clocks of a kernel: the clock source that it counts time by, and the clock event device of
 * each CPU with its next event (kernel/time/clocksource.c, tick-internal.h).
 */
#include "guest/linux/clock.h"
#include "guest/linux/member.h"
#include "guest/linux/percpu.h"

struct layout {
	struct vms_btf_member source_name, source_rating, device, device_name, device_rating, next,
		kept;
};

#define AT(member) offsetof(struct layout, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "clocksource", "name", AT(source_name), false },
	{ "clocksource", "rating", AT(source_rating), false },
	{ "tick_device", "evtdev", AT(device), false },
	{ "clock_event_device", "name", AT(device_name), false },
	{ "clock_event_device", "rating", AT(device_rating), false },
	{ "clock_event_device", "next_event", AT(next), false },
	{ "timekeeper", "tkr_mono.clock", AT(kept), true },
};

/* Reads the clock at `va`. The member `name` points to its name. */
static bool read_clock(struct vms_memory *memory, uint64_t va, const struct vms_btf_member *name,
		       const struct vms_btf_member *rating, struct vms_clock *ret)
{
	uint64_t name_va, value;
	if (!vms_member_read(memory, va, name, &name_va) ||
	    !vms_member_read(memory, va, rating, &value) ||
	    !vms_memory_read_string(memory, name_va, ret->name, sizeof(ret->name)))
		return false;
	ret->rating = (uint32_t)value;
	return true;
}

/* Finds the clock source in use: by its own pointer or, if that is not known, by the timekeeper. */
static bool find_source(struct vms_linux *guest, const struct layout *layout, uint64_t *ret)
{
	uint64_t pointer, keeper;
	if (vms_linux_symbol(guest, "curr_clocksource", &pointer))
		return vms_memory_read_u64(guest->memory, pointer, ret);
	return vms_member_there(&layout->kept) && vms_linux_symbol(guest, "timekeeper", &keeper) &&
	       vms_member_read(guest->memory, keeper, &layout->kept, ret);
}

static void add_source(struct vms_linux *guest, const struct layout *layout, GArray *clocks)
{
	struct vms_clock clock = { .cpu = VMS_ALL_VCPUS };
	uint64_t va;
	if (find_source(guest, layout, &va) &&
	    read_clock(guest->memory, va, &layout->source_name, &layout->source_rating, &clock))
		g_array_append_val(clocks, clock);
}

/* Adds the clock event device of a CPU. A CPU that is offline has none. */
static void add_device(struct vms_linux *guest, const struct layout *layout, unsigned cpu,
		       uint64_t tick_device, GArray *clocks)
{
	struct vms_clock clock = { .cpu = (int)cpu };
	uint64_t va;
	if (vms_member_read(guest->memory, tick_device, &layout->device, &va) && va != 0 &&
	    read_clock(guest->memory, va, &layout->device_name, &layout->device_rating, &clock) &&
	    vms_member_read(guest->memory, va, &layout->next, &clock.next_event_ns))
		g_array_append_val(clocks, clock);
}

GArray *vms_linux_clocks(void *system, GError **error)
{
	struct vms_linux *guest = system;
	struct layout layout;
	uint64_t devices;
	if (!guest->btf || !vms_linux_symbol(guest, "tick_cpu_device", &devices) ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &layout)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "clocks of the guest: its kernel (%s) has no symbols and types (BTF) "
			    "that tell where they are",
			    guest->release ? guest->release : "of unknown release");
		return NULL;
	}
	GArray *clocks = g_array_new(FALSE, FALSE, sizeof(struct vms_clock));
	g_mutex_lock(&guest->lock);
	add_source(guest, &layout, clocks);
	for (unsigned cpu = 0; cpu < vms_linux_cpus(guest); cpu++) {
		uint64_t offset;
		if (vms_linux_cpu_offset(guest, cpu, &offset))
			add_device(guest, &layout, cpu, devices + offset, clocks);
	}
	g_mutex_unlock(&guest->lock);
	return clocks;
}
