/* SPDX-License-Identifier: MIT */
/* Runs the programs of places at which vCPUs have stopped, and hands their values out. */
#include "machine/gdb/stop_probes-private.h"

#include "base/clock.h"
#include "base/priority.h"
#include <string.h>

/* A program to be run at this stop. */
struct due {
	struct vms_stop_set *set;
	unsigned place, vcpu;
};

/* Lists what is to be run for one vCPU. */
static void list_due_of(struct vms_stop_probes *all, unsigned index, GArray *list)
{
	const struct vms_stop_vcpu *vcpu = &all->vcpus[index];
	const bool after = vcpu->state == VMS_STOP_STEPPED;
	if (vcpu->state != VMS_STOP_ARRIVED && !after)
		return;
	for (unsigned i = 0; i < all->sets->len; i++) {
		struct vms_stop_set *set = all->sets->pdata[i];
		if (set->vcpu != VMS_ALL_VCPUS && set->vcpu != (int)index)
			continue;
		for (size_t j = 0; j < set->n; j++) {
			const struct due due = { set, (unsigned)j, index };
			if (set->places[j].va == vcpu->visit.pc && set->places[j].after == after)
				g_array_append_val(list, due);
		}
	}
}

/* Lists what is to be run at this stop. Notes that it was handed out. */
static GArray *take_due(struct vms_stop_probes *all)
{
	VMS_STOP_LOCK(&all->machine->lock);
	GArray *list = g_array_new(FALSE, FALSE, sizeof(struct due));
	if (!vms_stop_probes_is_at_hit(all))
		return list;
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		struct vms_stop_vcpu *vcpu = &all->vcpus[i];
		list_due_of(all, i, list);
		if (vcpu->state == VMS_STOP_ARRIVED) {
			vcpu->state = VMS_STOP_HANDED_OUT;
			vcpu->is_pending = true;
			vcpu->pending = vcpu->visit;
		} else if (vcpu->state == VMS_STOP_STEPPED) {
			vcpu->state = VMS_STOP_FREE;
		}
	}
	return list;
}

/* The wide registers of a vCPU at a stop. They are read when the first program needs them. */
struct vcpu_wide {
	bool is_tried;
	struct vms_wide_regs regs;
};

/* What the programs of a vCPU read. */
struct vcpu_input {
	struct vms_machine *machine;
	unsigned vcpu;
	const struct vms_regs *regs;
	struct vms_memory *memory;
	struct vcpu_wide *wide;
};

static bool read_register(void *data, unsigned reg, uint64_t *ret)
{
	const struct vcpu_input *input = data;
	if (!vms_regs_have(input->regs, reg))
		return false;
	*ret = input->regs->value[reg];
	return true;
}

static bool read_memory(void *data, uint64_t va, void *buf, size_t size)
{
	const struct vcpu_input *input = data;
	return vms_memory_read(input->memory, va, buf, size);
}

static bool read_wide(void *data, unsigned number, void *buf, size_t size)
{
	const struct vcpu_input *input = data;
	struct vcpu_wide *wide = input->wide;
	if (!wide->is_tried &&
	    !vms_machine_wide_regs(input->machine, input->vcpu, &wide->regs, NULL))
		memset(wide->regs.size, 0, sizeof(wide->regs.size));
	wide->is_tried = true;
	return vms_wide_get(&wide->regs, number, 0, buf, size);
}

/* The memory of a vCPU at this stop. */
static struct vms_memory *memory_of(struct vms_stop_probes *all, unsigned vcpu,
				    const struct vms_regs *regs)
{
	if (!all->memories)
		all->memories = g_new0(struct vms_memory *, all->machine->n_vcpus);
	if (!all->memories[vcpu])
		all->memories[vcpu] = vms_memory_new(all->machine, regs);
	else
		vms_memory_set_regs(all->memories[vcpu], regs);
	return all->memories[vcpu];
}

/* Counts a hit, and ends its set with the last one. Returns its number. */
static uint64_t count_hit(struct vms_stop_set *set)
{
	const uint64_t number = atomic_fetch_add(&set->hits, 1) + 1;
	if (number == set->max_hits) {
		VMS_STOP_LOCK(&set->all->machine->lock);
		vms_stop_end_set(set);
	}
	return number;
}

/* Runs one program, and hands its values out. */
static void run_due(struct vms_stop_probes *all, const struct due *due, const struct vms_regs *regs,
		    struct vcpu_wide *wide)
{
	struct vms_stop_set *set = due->set;
	const struct vms_place *place = &set->places[due->place];
	struct vcpu_input data = { all->machine, due->vcpu, regs, memory_of(all, due->vcpu, regs),
				   wide };
	const struct vms_program_input input = {
		.reg = read_register,
		.read = read_memory,
		.data = &data,
		.vcpu = due->vcpu,
		.wide = read_wide,
	};
	struct vms_hit hit = {
		.time_ns = all->time_ns,
		.place = due->place,
		.vcpu = due->vcpu,
		.regs = regs,
	};
	if (!atomic_load(&set->is_armed))
		return;
	if (!all->output)
		all->output = g_malloc(VMS_PROGRAM_OUTPUT_MAX);
	switch (vms_program_run(place->program, &input, all->output, &hit.size)) {
	case VMS_PROGRAM_REJECTED: atomic_fetch_add(&set->rejected, 1); return;
	case VMS_PROGRAM_UNKNOWN: atomic_fetch_add(&set->unknown, 1); return;
	case VMS_PROGRAM_COMPLETE:
	default: break;
	}
	hit.number = count_hit(set);
	hit.values = all->output;
	all->halts |= place->halts;
	set->hit(&hit, set->data);
}

/* Forgets the visit of a vCPU that could not be read, so that it is a hit when it comes back. */
static void forget_visit(struct vms_stop_probes *all, unsigned vcpu)
{
	VMS_STOP_LOCK(&all->machine->lock);
	all->vcpus[vcpu].state = VMS_STOP_FREE;
	all->vcpus[vcpu].is_pending = false;
}

/*
 * Runs what is due in the held machine. If the hold has ended, since somebody has resumed the
 * machine, registers cannot be read: the vCPU stops at the same place once more.
 */
static bool hand_out(struct vms_stop_probes *all)
{
	g_autoptr(GArray) list = take_due(all);
	struct vms_regs regs;
	struct vcpu_wide wide;
	bool is_read = false;
	for (unsigned i = 0; i < list->len; i++) {
		const struct due *due = &g_array_index(list, struct due, i);
		const bool is_next = i == 0 || due->vcpu != due[-1].vcpu;
		if (is_next) {
			is_read = vms_machine_regs(all->machine, due->vcpu, &regs, NULL);
			wide.is_tried = false;
		}
		if (is_read)
			run_due(all, due, &regs, &wide);
		else if (is_next)
			forget_visit(all, due->vcpu);
	}
	return list->len;
}

/* True if there are programs to be run after the instructions that vCPUs have executed. */
static bool has_stepped(struct vms_stop_probes *all)
{
	VMS_STOP_LOCK(&all->machine->lock);
	return vms_stop_probes_is_at_hit(all) && vms_stop_has_state(all, VMS_STOP_STEPPED);
}

/* Deals with a machine that may stand at a breakpoint. Sets *any if there were hits. */
static bool deal_with_stop(struct vms_stop_probes *all, bool *any, GError **error)
{
	VMS_STOP_LOCK(&all->taking);
	do {
		if (!vms_machine_hold(all->machine, VMS_ALL_VCPUS, error))
			return false;
		*any |= hand_out(all);
		if (!vms_machine_release(all->machine, VMS_ALL_VCPUS, error))
			return false;
	} while (has_stepped(all));
	return true;
}

/* Returns false, with an error, if all places were taken away. */
static bool check_reason(struct vms_stop_probes *all, GError **error)
{
	VMS_STOP_LOCK(&all->machine->lock);
	return vms_stop_check_reason(all, all->reason, error);
}

static bool take(struct vms_stop_probes *all, unsigned timeout_ms, GError **error)
{
	const uint64_t deadline_ns = vms_clock_now_ns() + timeout_ms * UINT64_C(1000000);
	bool any = false;
	do {
		bool stands = false;
		if (!check_reason(all, error) ||
		    !all->operations->wait(all->machine, deadline_ns, &stands, error))
			return false;
		g_autoptr(GError) failure = NULL;
		if (stands && !deal_with_stop(all, &any, &failure)) {
			if (!check_reason(all, error))
				return false;
			if (vms_machine_ended(all->machine) == VMS_MACHINE_GONE) {
				g_propagate_error(error, g_steal_pointer(&failure));
				return false;
			}
		}
	} while (!any && vms_clock_now_ns() < deadline_ns);
	return true;
}

/* The machine stands still until its stop is seen, so the thread runs before others all the time.
 */
bool vms_stop_probes_take(struct vms_stop_probes *all, unsigned timeout_ms, GError **error)
{
	const int usual_nice = vms_thread_set_urgent();
	const bool done = take(all, timeout_ms, error);
	vms_thread_set_nice(usual_nice);
	return done;
}
