/* SPDX-License-Identifier: MIT */
/* Registers of held vCPUs: what the engine tells, and what was learnt or is assumed elsewhere. */
#include "machine/units.h"
#include <string.h>
#include <vmscope/log.h>

void vms_machine_add_regs(struct vms_machine *machine, unsigned vcpu, const struct vms_regs *learnt)
{
	if (!machine->learnt)
		machine->learnt = g_new0(struct vms_regs, machine->n_vcpus);
	machine->learnt[vcpu] = *learnt;
}

/* Adds the registers that the engine does not know but that were learnt, or assumed, elsewhere. */
static void complete_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *regs)
{
	for (unsigned i = 0; machine->learnt && i < machine->arch->n_regs; i++) {
		if (!vms_regs_have(regs, i))
			vms_regs_copy(regs, &machine->learnt[vcpu], i);
	}
}

/*
 * Reads the registers that are slow to read. The engine gets them by a connection that all vCPUs
 * share, so this takes the machine's lock, too.
 */
static bool get_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	const struct vms_engine *engine = machine->engine;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker =
		engine->holds_each ? g_mutex_locker_new(&machine->lock) : NULL;
	return !engine->system_regs || engine->system_regs(machine, vcpu, ret, error);
}

static void tell_assumed_mode(struct vms_machine *machine, unsigned vcpu,
			      const struct vms_regs *regs)
{
	struct vms_code_mode mode;
	vms_arch_code_mode(machine->arch, regs, &mode);
	if (!mode.is_certain && !atomic_exchange(&machine->told_mode, true))
		vms_log(VMS_LOG_WARNING,
			"%s: vCPU %u is not in 64-bit mode, and its segments cannot be asked for: "
			"taken for %u-bit code whose addresses count from 0",
			machine->info.name, vcpu, mode.bits);
}

/* A vCPU that has not moved since, as one that waits for good, has the same segments. */
static bool recall_segments(struct vms_machine *machine, unsigned vcpu, struct vms_regs *regs)
{
	const struct vms_seen_regs *seen = machine->seen[vcpu];
	if (!seen || memcmp(&seen->given, regs, sizeof(*regs)) != 0)
		return false;
	*regs = seen->all;
	return true;
}

static void remember_segments(struct vms_machine *machine, unsigned vcpu,
			      const struct vms_regs *given, const struct vms_regs *all)
{
	if (!machine->seen[vcpu])
		machine->seen[vcpu] = g_new(struct vms_seen_regs, 1);
	*machine->seen[vcpu] = (struct vms_seen_regs) { *given, *all };
}

/*
 * Outside of 64-bit mode addresses count from segments: nothing can be understood without them.
 * Where the engine does not tell them, the usual is assumed. Asking takes longer than a brief hold.
 */
static bool add_segments(struct vms_machine *machine, unsigned vcpu, unsigned unit,
			 struct vms_regs *regs, GError **error)
{
	const struct vms_arch *arch = machine->arch;
	struct vms_regs more = *regs;
	if (!arch->lacks_segments || !arch->lacks_segments(regs) ||
	    recall_segments(machine, vcpu, regs))
		return true;
	if (!vms_unit_pin(machine, unit))
		return vms_unit_set_gone_on(machine, unit, error);
	if (get_system_regs(machine, vcpu, &more, NULL)) {
		remember_segments(machine, vcpu, regs, &more);
		*regs = more;
	}
	tell_assumed_mode(machine, vcpu, regs);
	return true;
}

/* Finds the unit of a vCPU whose registers are to be read. */
static bool find_unit(struct vms_machine *machine, unsigned vcpu, unsigned *unit, GError **error)
{
	unsigned end;
	return vms_find_units(machine, vcpu < machine->n_vcpus ? (int)vcpu : G_MAXINT, unit, &end,
			      error);
}

/* Locks the unit of a vCPU, which must be held. NULL if it is not held, or there is no such vCPU.
 */
static GMutexLocker *lock_held_unit(struct vms_machine *machine, unsigned vcpu, unsigned *unit,
				    GError **error)
{
	if (!find_unit(machine, vcpu, unit, error))
		return NULL;
	GMutexLocker *locker = g_mutex_locker_new(vms_unit_lock(machine, *unit));
	if (machine->holds[*unit].depth > 0)
		return locker;
	g_mutex_locker_free(locker);
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "cannot read registers of vCPU %u of %s: it is not held", vcpu,
		    machine->info.name);
	return NULL;
}

enum which_regs { STACK_REGS, GENERAL_REGS, ALL_REGS };

static bool get_regs(struct vms_machine *machine, unsigned vcpu, enum which_regs which,
		     struct vms_regs *ret, GError **error)
{
	const struct vms_engine *engine = machine->engine;
	const bool only_stack = which == STACK_REGS && engine->stack_regs;
	const bool all = which == ALL_REGS;
	unsigned unit;
	g_autoptr(GMutexLocker) locker = lock_held_unit(machine, vcpu, &unit, error);
	if (!locker)
		return false;
	if (!(only_stack ? engine->stack_regs : engine->regs)(machine, vcpu, ret, error) ||
	    (all && !get_system_regs(machine, vcpu, ret, error)))
		return false;
	complete_regs(machine, vcpu, ret);
	return all || add_segments(machine, vcpu, unit, ret, error);
}

bool vms_machine_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		      GError **error)
{
	return get_regs(machine, vcpu, GENERAL_REGS, ret, error);
}

bool vms_machine_stack_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	return get_regs(machine, vcpu, STACK_REGS, ret, error);
}

bool vms_machine_all_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	return get_regs(machine, vcpu, ALL_REGS, ret, error);
}

bool vms_machine_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			   GError **error)
{
	unsigned unit;
	g_autoptr(GMutexLocker) locker = lock_held_unit(machine, vcpu, &unit, error);
	if (!locker)
		return false;
	if (machine->engine->wide_regs)
		return machine->engine->wide_regs(machine, vcpu, ret, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "%s: registers of more than 64 bits cannot be read (%s)", machine->info.name,
		    machine->engine->name);
	return false;
}
