/* SPDX-License-Identifier: MIT */
/* What becomes of vCPUs of a stopped machine that stand at places. */
#include "machine/gdb/stop_probes-private.h"

#include "base/clock.h"

/*
 * How long a step may take: a busy host may have no processor for the vCPU. An instruction that
 * waits for an interrupt gets none during a step, and has not ended when we interrupt it.
 */
#define STEP_NS	     UINT64_C(1000000000)
#define WAIT_STEP_NS UINT64_C(20000000)
/* How often to step an instruction that repeats itself at the same address. */
#define STEPS_MAX 64

static struct vms_stop_visit visit_of(const struct vms_stop_probes *all,
				      const struct vms_regs *regs)
{
	const struct vms_arch *arch = all->machine->arch;
	return (struct vms_stop_visit) {
		.pc = vms_arch_code_address(arch, regs),
		.sp = regs->value[arch->sp],
		.root = regs->value[arch->space],
	};
}

static bool is_same_visit(const struct vms_stop_visit *a, const struct vms_stop_visit *b)
{
	return a->pc == b->pc && a->sp == b->sp && a->root == b->root;
}

bool vms_stop_probes_arrive(struct vms_stop_probes *all, GError **error)
{
	all->time_ns = vms_clock_now_ns();
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		struct vms_stop_vcpu *vcpu = &all->vcpus[i];
		struct vms_regs regs;
		if (vcpu->state == VMS_STOP_STEPPED)
			continue;
		if (!vms_gdb_regs(all->gdb, i, &regs, error))
			return false;
		vcpu->visit = visit_of(all, &regs);
		const struct vms_gdb_point *point = vms_stop_find_point(all, vcpu->visit.pc);
		if (!point)
			vcpu->state = VMS_STOP_FREE;
		else
			vcpu->state = VMS_STOP_ARRIVED;
		vcpu->is_known = vcpu->is_pending && is_same_visit(&vcpu->pending, &vcpu->visit);
		if (point && vcpu->is_known)
			vcpu->state = VMS_STOP_HANDED_OUT;
	}
	vms_stop_probes_set_at_hit(all, true);
	return true;
}

static unsigned count_state(const struct vms_stop_probes *all, enum vms_stop_state state)
{
	unsigned n = 0;
	for (unsigned i = 0; i < all->machine->n_vcpus; i++)
		n += all->vcpus[i].state == state;
	return n;
}

bool vms_stop_has_state(const struct vms_stop_probes *all, enum vms_stop_state state)
{
	return count_state(all, state) > 0;
}

/* True if a place for after the instruction is wanted there. */
static bool has_place_after(const struct vms_stop_probes *all, uint64_t va)
{
	for (unsigned i = 0; i < all->sets->len; i++) {
		const struct vms_stop_set *set = all->sets->pdata[i];
		for (size_t j = 0; atomic_load(&set->is_armed) && j < set->n; j++)
			if (set->places[j].va == va && set->places[j].after)
				return true;
	}
	return false;
}

/* Reads the pc of a vCPU that has been stepped. */
static bool read_pc(struct vms_stop_probes *all, unsigned vcpu, uint64_t *pc, GError **error)
{
	struct vms_gdb_departure look = { .vcpu = (int)vcpu };
	if (!vms_gdb_depart(all->gdb, &look, NULL, 0, error))
		return false;
	*pc = look.pc;
	return true;
}

/*
 * Steps one vCPU over its place. An instruction that repeats itself is stepped until it ends; if
 * that takes too many steps, it goes on as a visit that was counted. Under TCG (from QEMU 6.2 on) a
 * step does not heed the breakpoint, which can stay then: no vCPU misses it, whoever resumes the
 * machine meanwhile.
 */
static bool step_vcpu(struct vms_stop_probes *all, unsigned index, enum vms_gdb_step_end *end,
		      unsigned *n_steps, GError **error)
{
	struct vms_stop_vcpu *vcpu = &all->vcpus[index];
	struct vms_gdb_point *point = vms_stop_find_point(all, vcpu->visit.pc);
	struct vms_gdb_step step = { .vcpu = index };
	uint64_t pc = vcpu->visit.pc;
	/* Where nothing more is done for it, the pc is read along with the departure. */
	const bool is_last = !vcpu->is_known && count_state(all, VMS_STOP_HANDED_OUT) == 1 &&
			     !vms_stop_has_state(all, VMS_STOP_STEPPED) &&
			     !has_place_after(all, pc);
	vcpu->state = VMS_STOP_FREE;
	*end = VMS_STEP_DONE;
	if (!point || point->is_unwanted) {
		vcpu->is_pending = false;
		return true;
	}
	for (unsigned i = 0; i < STEPS_MAX && pc == vcpu->visit.pc; i++) {
		step.removes = point->is_hardware || i > 0;
		step.limit_ns = point->waits ? WAIT_STEP_NS : STEP_NS;
		if (!vms_gdb_step(all->gdb, &step, point, error))
			return false;
		++*n_steps;
		*end = step.end;
		all->is_interrupted = step.end == VMS_STEP_INTERRUPTED;
		if (step.end == VMS_STEP_STOPPED)
			return true;
		if (is_last && step.pc == pc && step.end == VMS_STEP_DONE) {
			all->departing = (int)index;
			return true;
		}
		if (!read_pc(all, index, &pc, error))
			return false;
		/* Somebody has resumed the machine before: it was another instruction. */
		if (step.pc != vcpu->visit.pc)
			return true;
		if (step.end != VMS_STEP_INTERRUPTED)
			continue;
		/* Else the vCPU had no processor of the host's, and comes back. */
		point->waits |= pc != step.pc || vcpu->is_known;
		break;
	}
	if (pc == vcpu->visit.pc)
		return true;
	vcpu->is_pending = false;
	if (has_place_after(all, vcpu->visit.pc))
		vcpu->state = VMS_STOP_STEPPED;
	return true;
}

/* Frees the vCPUs whose hits nobody wants any more, so that the machine does not wait for them. */
static void free_unwanted(struct vms_stop_probes *all)
{
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		struct vms_stop_vcpu *vcpu = &all->vcpus[i];
		const bool is_wanted_here = vcpu->state == VMS_STOP_STEPPED
						    ? has_place_after(all, vcpu->visit.pc)
						    : vms_stop_is_wanted(all, vcpu->visit.pc);
		if (vcpu->state != VMS_STOP_FREE && !is_wanted_here) {
			vcpu->state = VMS_STOP_FREE;
			vcpu->is_pending = false;
		}
	}
}

bool vms_stop_probes_step(struct vms_stop_probes *all, enum vms_stop_departure *ret,
			  unsigned *n_steps, GError **error)
{
	enum vms_gdb_step_end end;
	*ret = VMS_DEPART_NOT_YET;
	all->departing = -1;
	free_unwanted(all);
	if (vms_stop_has_state(all, VMS_STOP_ARRIVED) || vms_stop_has_state(all, VMS_STOP_STEPPED))
		return true;
	*ret = VMS_DEPART_NEVER;
	if (all->halts)
		return true;
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		if (all->vcpus[i].state != VMS_STOP_HANDED_OUT)
			continue;
		if (!step_vcpu(all, i, &end, n_steps, error))
			return false;
		*ret = end == VMS_STEP_STOPPED ? VMS_DEPART_STOPPED : VMS_DEPART_AGAIN;
		if (end == VMS_STEP_STOPPED || vms_stop_has_state(all, VMS_STOP_HANDED_OUT))
			return true;
	}
	*ret = vms_stop_has_state(all, VMS_STOP_STEPPED) ? VMS_DEPART_NOT_YET : VMS_DEPART_NOW;
	return true;
}

bool vms_stop_probes_depart(struct vms_stop_probes *all, struct vms_gdb_departure *departure,
			    GError **error)
{
	struct vms_stop_vcpu *vcpu = all->departing >= 0 ? &all->vcpus[all->departing] : NULL;
	departure->vcpu = all->departing;
	all->departing = -1;
	all->halts = all->is_interrupted = false;
	if (!vms_gdb_depart(all->gdb, departure, vms_stop_points(all), all->points->len, error))
		return false;
	if (vcpu && departure->pc != vcpu->visit.pc)
		vcpu->is_pending = false;
	vms_stop_drop_points(all);
	vms_stop_probes_set_at_hit(all, false);
	return true;
}

void vms_stop_probes_forget_visits(struct vms_stop_probes *all)
{
	for (unsigned i = 0; all->vcpus && i < all->machine->n_vcpus; i++)
		all->vcpus[i] = (struct vms_stop_vcpu) { 0 };
}

void vms_stop_probes_are_gone(struct vms_stop_probes *all, char *reason)
{
	for (unsigned i = 0; i < all->sets->len; i++) {
		struct vms_stop_set *set = all->sets->pdata[i];
		if (atomic_load(&set->is_armed) && !set->reason)
			set->reason = g_strdup(reason);
		vms_stop_end_set(set);
	}
	g_array_set_size(all->points, 0);
	vms_stop_probes_forget_visits(all);
	all->halts = false;
	all->departing = -1;
	vms_stop_probes_set_at_hit(all, false);
	g_free(all->reason);
	all->reason = reason;
}

bool vms_stop_probes_take_away(struct vms_stop_probes *all, char *reason, GError **error)
{
	bool done =
		vms_gdb_set_points(all->gdb, vms_stop_points(all), all->points->len, false, error);
	vms_stop_probes_are_gone(all, reason);
	return done;
}
