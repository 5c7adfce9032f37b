/* SPDX-License-Identifier: MIT */
/*
 * Units of a machine. A unit is what is held together: one vCPU if the engine holds each by itself,
 * else all vCPUs. Every unit has a lock, which is taken for all calls of the engine about it. For
 * the files that all engines share.
 */
#pragma once

#include "machine/engine.h"

/* Locks a mutex until the end of the block. */
#define VMS_LOCKED(mutex) G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(mutex)

/*
 * Gives the units [*first, *end) that `vcpu` stands for, which may be VMS_ALL_VCPUS. Errors:
 * INVALID_ARGUMENT (there is no such vCPU).
 */
bool vms_find_units(struct vms_machine *machine, int vcpu, unsigned *first, unsigned *end,
		    GError **error);
/* If the engine holds each vCPU, one that does not answer delays no other one. */
GMutex *vms_unit_lock(struct vms_machine *machine, unsigned unit);
/* Makes a brief hold last until its release. False if it has ended. Under the unit's lock. */
bool vms_unit_pin(struct vms_machine *machine, unsigned unit);
/* Sets the error of a brief hold that has ended. Returns false. */
bool vms_unit_set_gone_on(struct vms_machine *machine, unsigned unit, GError **error);
