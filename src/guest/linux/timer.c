/* SPDX-License-Identifier: MIT */
/*
 * Active high-resolution timers. Each CPU has a structure with a base for each clock. A base has a
 * red-black tree of timers, sorted by expiry (include/linux/hrtimer_defs.h, timerqueue.h).
 */
#include "guest/linux/timer.h"
#include "guest/linux/member.h"
#include "guest/linux/percpu.h"
#include <inttypes.h>

#define BASES_LIMIT  16 /* the kernel has 8 */
#define TREE_DEPTH   64
#define TIMERS_LIMIT (1u << 16) /* of the whole guest */

struct layout {
	struct vms_btf_member bases, clock, root, old_root, left, right, node, expires, function;
	uint64_t base_stride;
};

#define AT(member) offsetof(struct layout, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "hrtimer_cpu_base", "clock_base", AT(bases), false },
	{ "hrtimer_clock_base", "clockid", AT(clock), false },
	{ "hrtimer_clock_base", "active.rb_root.rb_root.rb_node", AT(root), true },
	{ "hrtimer_clock_base", "active.head.rb_node", AT(old_root), true }, /* before 5.4 */
	{ "rb_node", "rb_left", AT(left), false },
	{ "rb_node", "rb_right", AT(right), false },
	{ "hrtimer", "node.node", AT(node), false },
	{ "hrtimer", "node.expires", AT(expires), false },
	{ "hrtimer", "function", AT(function), false },
};

/* A list of timers that is being read. */
struct reading {
	struct vms_memory *memory;
	struct layout layout;
	GArray *timers; /* struct vms_timer */
};

/* Returns false. */
static bool fail_malformed(unsigned cpu, const char *why, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED, "timers of the guest's CPU %u: %s", cpu,
		    why);
	return false;
}

/* Returns false. */
static bool fail_unreadable(unsigned cpu, uint64_t va, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "timers of the guest's CPU %u: cannot read the memory at 0x%" PRIx64, cpu, va);
	return false;
}

static bool add_timer(struct reading *reading, uint64_t va, struct vms_timer timer, GError **error)
{
	if (reading->timers->len == TIMERS_LIMIT)
		return fail_malformed(timer.cpu,
				      "there are more than can be, or they form a circle", error);
	if (!vms_member_read(reading->memory, va, &reading->layout.expires, &timer.expires_ns) ||
	    !vms_member_read(reading->memory, va, &reading->layout.function, &timer.function))
		return fail_unreadable(timer.cpu, va, error);
	g_array_append_val(reading->timers, timer);
	return true;
}

/* Adds all timers of the tree below `node`, the earliest first. `timer` has their CPU and clock. */
static bool read_tree(struct reading *reading, uint64_t node, struct vms_timer timer,
		      GError **error)
{
	uint64_t path[TREE_DEPTH] = { 0 };
	unsigned depth = 0;
	while (node || depth) {
		for (; node; depth++) {
			if (depth == TREE_DEPTH)
				return fail_malformed(timer.cpu, "their tree is too deep", error);
			path[depth] = node;
			if (!vms_member_read(reading->memory, node, &reading->layout.left, &node))
				return fail_unreadable(timer.cpu, path[depth], error);
		}
		uint64_t top = path[--depth];
		if (!add_timer(reading, top - reading->layout.node.offset, timer, error))
			return false;
		if (!vms_member_read(reading->memory, top, &reading->layout.right, &node))
			return fail_unreadable(timer.cpu, top, error);
	}
	return true;
}

static const char *get_clock_name(uint64_t id)
{
	switch (id) {
	case 0: return "realtime";
	case 1: return "monotonic";
	case 7: return "boottime";
	case 11: return "tai";
	default: return "unknown";
	}
}

static bool read_cpu(struct reading *reading, unsigned cpu, uint64_t va, GError **error)
{
	const struct layout *layout = &reading->layout;
	const struct vms_btf_member *root =
		vms_member_there(&layout->root) ? &layout->root : &layout->old_root;
	uint64_t n = MIN(layout->bases.size / layout->base_stride, BASES_LIMIT);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t base = va + layout->bases.offset + i * layout->base_stride, clock, node;
		if (!vms_member_read(reading->memory, base, &layout->clock, &clock) ||
		    !vms_member_read(reading->memory, base, root, &node))
			return fail_unreadable(cpu, base, error);
		struct vms_timer timer = { .cpu = cpu, .clock = get_clock_name(clock) };
		if (!read_tree(reading, node, timer, error))
			return false;
	}
	return true;
}

static bool read_cpus(struct vms_linux *guest, struct reading *reading, uint64_t bases,
		      GError **error)
{
	for (unsigned cpu = 0; cpu < vms_linux_cpus(guest); cpu++) {
		uint64_t offset;
		if (!vms_linux_cpu_offset(guest, cpu, &offset))
			return fail_unreadable(cpu, bases, error);
		if (!read_cpu(reading, cpu, bases + offset, error))
			return false;
	}
	return true;
}

static bool find_layout(const struct vms_linux *guest, struct layout *ret)
{
	return guest->btf &&
	       vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), ret) &&
	       vms_btf_size(guest->btf, "hrtimer_clock_base", &ret->base_stride) &&
	       ret->base_stride != 0 &&
	       (vms_member_there(&ret->root) || vms_member_there(&ret->old_root));
}

GArray *vms_linux_timers(void *system, GError **error)
{
	struct vms_linux *guest = system;
	uint64_t bases;
	struct reading reading = { .memory = guest->memory };
	if (!vms_linux_symbol(guest, "hrtimer_bases", &bases) ||
	    !find_layout(guest, &reading.layout)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "timers of the guest: its kernel (%s) has no symbols and types (BTF) "
			    "that tell where they are",
			    guest->release ? guest->release : "of unknown release");
		return NULL;
	}
	g_autoptr(GArray) timers = g_array_new(FALSE, FALSE, sizeof(struct vms_timer));
	reading.timers = timers;
	g_mutex_lock(&guest->lock);
	bool read = read_cpus(guest, &reading, bases, error);
	g_mutex_unlock(&guest->lock);
	return read ? g_steal_pointer(&timers) : NULL;
}
