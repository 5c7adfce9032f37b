/* SPDX-License-Identifier: MIT */
/* Holds of a machine's vCPUs: nested ones, brief ones, and their epochs. */
#include "base/priority.h"
#include "machine/refusal.h"
#include "machine/units.h"

/* How often to try to hold vCPUs that wait for one another, and how long to wait in between. */
#define HOLD_TRIES    100
#define HOLD_PAUSE_US 1000

/* ---- units -------------------------------------------------------------- */

bool vms_find_units(struct vms_machine *machine, int vcpu, unsigned *first, unsigned *end,
		    GError **error)
{
	if (vcpu != VMS_ALL_VCPUS && (vcpu < 0 || (unsigned)vcpu >= machine->n_vcpus)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "%s has no vCPU %d; it has %u, from 0", machine->info.name, vcpu,
			    machine->n_vcpus);
		return false;
	}
	bool each = machine->engine->holds_each;
	*first = each && vcpu >= 0 ? (unsigned)vcpu : 0;
	*end = !each || vcpu >= 0 ? *first + 1 : machine->n_vcpus;
	return true;
}

/* The vCPU by which an engine's functions know a unit. */
static int vcpu_of(const struct vms_machine *machine, unsigned unit)
{
	return machine->engine->holds_each ? (int)unit : VMS_ALL_VCPUS;
}

GMutex *vms_unit_lock(struct vms_machine *machine, unsigned unit)
{
	return machine->engine->holds_each ? &machine->holds[unit].lock : &machine->lock;
}

bool vms_unit_pin(struct vms_machine *machine, unsigned unit)
{
	struct vms_hold_state *state = &machine->holds[unit];
	if (state->is_brief && machine->engine->pin(machine, vcpu_of(machine, unit)))
		state->is_brief = false;
	return !state->is_brief;
}

/* ---- one unit ----------------------------------------------------------- */

static bool begin_hold(struct vms_machine *machine, unsigned unit, bool brief, GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	const struct vms_engine *engine = machine->engine;
	bool is_brief = brief && engine->hold_briefly;
	if (!(is_brief ? engine->hold_briefly : engine->hold)(machine, vcpu_of(machine, unit),
							      error))
		return false;
	state->is_brief = is_brief;
	atomic_store(&state->epoch, atomic_fetch_add(&machine->last_epoch, 1) + 1);
	return true;
}

/* ---- who holds the whole machine ------------------------------------------- */

static void set_holder(struct vms_machine *machine, pid_t tid)
{
	struct vms_holder *holder = &machine->holder;
	VMS_LOCKED(&holder->lock);
	if (holder->is_hurried)
		vms_thread_end_real_time(holder->tid);
	holder->is_hurried = false;
	holder->tid = tid;
}

void vms_machine_hurry_holder(struct vms_machine *machine)
{
	struct vms_holder *holder = &machine->holder;
	VMS_LOCKED(&holder->lock);
	if (holder->tid && !holder->is_hurried)
		holder->is_hurried = vms_thread_set_real_time(holder->tid);
}

/*
 * A thread that holds the whole machine must not be late: the guest stands still, and who ends a
 * hold that lasts too long waits for this thread's lock.
 */
static void begin_urgency(struct vms_machine *machine, struct vms_hold_state *state)
{
	state->usual_nice = vms_thread_set_urgent();
	state->is_urgent = true;
	set_holder(machine, gettid());
}

static void end_urgency(struct vms_machine *machine, struct vms_hold_state *state)
{
	if (!state->is_urgent)
		return;
	set_holder(machine, 0);
	vms_thread_set_nice(state->usual_nice);
	state->is_urgent = false;
}

static bool begin_urgent_hold(struct vms_machine *machine, unsigned unit, bool brief,
			      GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	if (!machine->engine->holds_each)
		begin_urgency(machine, state);
	if (begin_hold(machine, unit, brief, error))
		return true;
	end_urgency(machine, state);
	return false;
}

/* ---- holds of units --------------------------------------------------------- */

static bool refuse_hold(struct vms_machine *machine, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "cannot hold %s while it is observed: release it first", machine->info.name);
	return false;
}

bool vms_unit_set_gone_on(struct vms_machine *machine, unsigned unit, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_GONE_ON,
		    "vCPU %u of %s was held only briefly, and has gone on: hold it again", unit,
		    machine->info.name);
	return false;
}

static bool hold_unit(struct vms_machine *machine, unsigned unit, bool brief, GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	VMS_LOCKED(vms_unit_lock(machine, unit));
	if (state->depth == 0 && !begin_urgent_hold(machine, unit, brief, error))
		return false;
	if (state->is_observed)
		return refuse_hold(machine, error);
	if (!brief && !vms_unit_pin(machine, unit))
		return vms_unit_set_gone_on(machine, unit, error);
	state->depth++;
	return true;
}

static bool release_unit(struct vms_machine *machine, unsigned unit, GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	VMS_LOCKED(vms_unit_lock(machine, unit));
	if (--state->depth > 0)
		return true;
	state->is_brief = state->is_observed = false;
	atomic_store(&state->epoch, 0);
	bool released = machine->engine->release(machine, vcpu_of(machine, unit), error);
	end_urgency(machine, state);
	return released;
}

/* Releases all units. Gives the first error. */
static bool release_units(struct vms_machine *machine, unsigned first, unsigned end, GError **error)
{
	bool released = true;
	for (unsigned i = first; i < end; i++)
		released &= release_unit(machine, i, released ? error : NULL);
	return released;
}

/* Holds all units, or none of them. */
static bool hold_units(struct vms_machine *machine, unsigned first, unsigned end, bool brief,
		       GError **error)
{
	for (unsigned i = first; i < end; i++) {
		if (!hold_unit(machine, i, brief, error)) {
			release_units(machine, first, i, NULL);
			return false;
		}
	}
	return true;
}

/* Holds the units of `vcpu`, and tries again as long as they wait for one another. */
static bool hold_vcpu(struct vms_machine *machine, int vcpu, bool brief, GError **error)
{
	unsigned first, end;
	if (!vms_find_units(machine, vcpu, &first, &end, error))
		return false;
	if (vcpu == VMS_ALL_VCPUS && machine->engine->before_holding_all)
		machine->engine->before_holding_all(machine);
	for (unsigned tries = 1;; tries++) {
		GError *failure = NULL;
		if (hold_units(machine, first, end, brief, &failure))
			return true;
		if (!g_error_matches(failure, VMS_ERROR, VMS_ERROR_WAITING) ||
		    tries == HOLD_TRIES) {
			g_propagate_error(error, failure);
			return false;
		}
		g_error_free(failure);
		g_usleep(HOLD_PAUSE_US);
	}
}

bool vms_machine_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_vcpu(machine, vcpu, false, error);
}

/*
 * Joins those who observe the machine; with `begins`, it may be the first of them. Only engines
 * that hold all vCPUs at once can observe them: there is one unit.
 */
static bool join_observers(struct vms_machine *machine, bool begins)
{
	struct vms_hold_state *state = &machine->holds[0];
	VMS_LOCKED(vms_unit_lock(machine, 0));
	if (begins && state->depth == 0 && machine->engine->observe)
		state->is_observed = machine->engine->observe(machine, NULL);
	if (state->is_observed)
		state->depth++;
	return state->is_observed;
}

bool vms_machine_observe(struct vms_machine *machine, GError **error)
{
	GError *failure = NULL;
	if (hold_vcpu(machine, VMS_ALL_VCPUS, false, &failure))
		return true;
	/* While it is observed, it cannot be held. */
	if (join_observers(machine, vms_hold_was_refused(failure))) {
		g_error_free(failure);
		return true;
	}
	g_propagate_error(error, failure);
	return false;
}

bool vms_machine_hold_briefly(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_vcpu(machine, vcpu, true, error);
}

bool vms_machine_pin(struct vms_machine *machine, unsigned vcpu)
{
	VMS_LOCKED(vms_unit_lock(machine, vcpu));
	return vms_unit_pin(machine, vcpu);
}

bool vms_machine_release(struct vms_machine *machine, int vcpu, GError **error)
{
	unsigned first, end;
	if (!vms_find_units(machine, vcpu, &first, &end, error))
		return false;
	for (unsigned i = first; i < end; i++) {
		VMS_LOCKED(vms_unit_lock(machine, i));
		if (machine->holds[i].depth == 0) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
				    "cannot release %s: it is not held", machine->info.name);
			return false;
		}
	}
	return release_units(machine, first, end, error);
}

/* The epoch of several units is the latest one of theirs: since it began, all of them are held. */
uint64_t vms_machine_epoch(struct vms_machine *machine, int vcpu)
{
	unsigned first, end;
	uint64_t latest = 0;
	if (!vms_find_units(machine, vcpu, &first, &end, NULL))
		return 0;
	for (unsigned i = first; i < end; i++) {
		uint64_t epoch = atomic_load(&machine->holds[i].epoch);
		if (epoch == 0)
			return 0;
		latest = MAX(latest, epoch);
	}
	return latest;
}
