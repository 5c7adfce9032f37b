/* SPDX-License-Identifier: MIT */
/*
 * What the engine of a QEMU's stub is made of: holds (stub_engine.c), releases (stub_release.c) and
 * probes (stub_probes.c).
 */
#pragma once

#include "machine/qemu/stub.h"

/*
 * How long a condition stays valid after QEMU was asked for it: in that time no migration can begin
 * and end. The quickest of many migrations, of a guest of 16 MiB to a file in memory, took 4.4 ms
 * (QEMU 10.0).
 */
#define VMS_STUB_FRESH_NS UINT64_C(2000000)
/*
 * How often to check, during a hold or while there are breakpoints, whether that has to end, for
 * example for a migration.
 */
#define VMS_STUB_CHECK_NS UINT64_C(2000000)
/* How long to wait before trying again what QEMU did not carry out, as a release. */
#define VMS_STUB_RETRY_NS UINT64_C(100000000)
/* For vms_stub_set_ended_error. */
#define VMS_BY_OTHERS	"was resumed by somebody else"
#define VMS_BY_WATCHDOG "was resumed by the watchdog, since this program did not move,"

static inline struct vms_qemu_stub *vms_stub_of(struct vms_machine *machine)
{
	return (struct vms_qemu_stub *)machine;
}

static inline const char *vms_stub_name(const struct vms_qemu_stub *stub)
{
	return stub->qemu.machine.info.name;
}

/* ---- holds: all under the machine's lock -------------------------------- */

enum vms_standing vms_stub_standing(struct vms_qemu_stub *stub);
struct vms_hold *vms_stub_hold(struct vms_qemu_stub *stub);
/* Remembers the counts of events, to see later what has happened since. */
void vms_stub_remember_events(struct vms_qemu_stub *stub);
/* True if somebody has resumed the machine since our stop: what it stands still by is not ours. */
bool vms_stub_was_resumed_by_others(const struct vms_qemu_stub *stub);
/* Tells the watchdog that the hold is over. False if the watchdog had ended the hold already. */
bool vms_stub_end_hold(struct vms_qemu_stub *stub);
/* True if the last answers of QEMU tell for certain that `cont` undoes our stop, and only that. */
bool vms_stub_may_cont_quickly(struct vms_qemu_stub *stub);

/*
 * True if the guest has asked to be stopped, by a shutdown or a panic, between our decision to end
 * the last hold and QEMU's `cont`: QEMU drops that of a machine that stands still.
 */
bool vms_stub_has_undone_stop(const struct vms_qemu_stub *stub);
/* Stops a machine whose own stop was dropped so. True: it was, and it stands still again. */
bool vms_stub_stop_again(struct vms_qemu_stub *stub);
/* Resumes a machine that fell asleep in the moment of the last hold, and is in this state now. */
bool vms_stub_mend_sleep(struct vms_qemu_stub *stub, enum vms_run_state state, GError **error);

enum vms_undone { VMS_STOP_UNDONE, VMS_STOP_ENDED_BY_OTHERS, VMS_STOP_REFUSED };
/* Undoes our stop, if the machine still stands still because of it. */
enum vms_undone vms_stub_undo_stop(struct vms_qemu_stub *stub, GError **error);
bool vms_stub_is_owed(struct vms_qemu_stub *stub);
/*
 * Notes a release that QEMU did not carry out, because it is stalled or something else has to end
 * first. The timer tries it again, and so does every later hold, and the watchdog when this program
 * ends.
 */
void vms_stub_owe_release(struct vms_qemu_stub *stub);
/*
 * Carries out a release that is owed. A stub that does not answer is removed first: a request that
 * is still under way would stop the machine again.
 */
bool vms_stub_settle_release(struct vms_qemu_stub *stub, GError **error);
/* Releases a machine that we have stopped. */
bool vms_stub_release_stop(struct vms_qemu_stub *stub, GError **error);
/* Gives up a stub that failed. Releases the machine if it may stand still by our stop. */
void vms_stub_abandon(struct vms_qemu_stub *stub, bool may_be_ours);
/* Sets the error for a hold that ended before its release. Returns false. */
bool vms_stub_set_ended_error(struct vms_qemu_stub *stub, const char *how, GError **error);
/* Refuses to stop a machine that another client watches, unless that is allowed. */
bool vms_stub_check_watcher(struct vms_qemu_stub *stub, GError **error);
/* Looks whether a disk holds a snapshot, if that may have changed: `has_snapshot` tells. */
void vms_stub_look_for_snapshots(struct vms_qemu_stub *stub);
/* Makes sure that the stub can be used, and adds it if it is not there yet. */
bool vms_stub_begin_requests(struct vms_qemu_stub *stub, GError **error);
void vms_stub_end_requests(struct vms_qemu_stub *stub);
/* Fails if the held machine does not stand still any more, so that its stub must not be used. */
bool vms_stub_check_still(struct vms_qemu_stub *stub, GError **error);
/* True if only QEMU's monitor may be used to read registers. */
bool vms_stub_is_monitor_only(struct vms_qemu_stub *stub);

/* ---- whether a hold has to end: all but vms_stub_check_hold under the machine's lock -- */

/* Called by the timer, in its thread. Tries again what is owed, and ends a hold that has to end. */
void vms_stub_check_hold(void *stub);
/*
 * Sets the timer for a hold of ours that begins, or may have begun. What QEMU was asked in an
 * earlier one is forgotten.
 */
void vms_stub_set_check(struct vms_qemu_stub *stub);
/* True if the monitor's text of `info migrate` tells of no migration, not even of an ended one. */
bool vms_stub_has_no_migration(const char *migration);
/*
 * Notes what the monitor has said to `info migrate` in a stop of ours, which is as good for the
 * release as what QEMU was asked before. If it tells of a migration, QEMU has to be asked more.
 */
void vms_stub_note_migration(struct vms_qemu_stub *stub, const char *migration);
/*
 * Takes the answer if it has come: it is as good for the release as the one that was waited for
 * before the stop. ret->busy tells what is under way, or is "".
 */
void vms_stub_take_answer(struct vms_qemu_stub *stub, struct vms_qemu_condition *ret);
/* True if a stub was given up that QEMU has not removed yet. In a hold of ours, the release does.
 */
bool vms_stub_has_failed_stub(struct vms_qemu_stub *stub);

/* ---- registers: all under the machine's lock (stub_registers.c) --------- */

/* Functions of struct vms_engine. */
bool vms_stub_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		   GError **error);
bool vms_stub_stack_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			 GError **error);
bool vms_stub_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error);
bool vms_stub_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			GError **error);
/*
 * Finds out, once, where QEMU has the registers in its memory, if that can be. Takes a few
 * milliseconds, so it is called before a stop.
 */
void vms_stub_find_state(struct vms_qemu_stub *stub);
/* True if the next hold reads registers from QEMU's memory, so that the stub need not tell them. */
bool vms_stub_reads_state(const struct vms_qemu_stub *stub);
/* Forgets the registers of the last hold. */
void vms_stub_forget_state(struct vms_qemu_stub *stub);

/* ---- probes: all under the machine's lock ------------------------------- */

extern const struct vms_probe_engine vms_stub_probe_engine;
void vms_stub_init_probes(struct vms_qemu_stub *stub);
void vms_stub_close_probes(struct vms_qemu_stub *stub);
/* True if the held machine stands still by us. */
bool vms_stub_is_ours(struct vms_qemu_stub *stub);
/* True if QEMU's state `debug` is a stop of ours. */
bool vms_stub_owns_hits(struct vms_qemu_stub *stub);
/* True if a breakpoint of ours may have stopped the machine, as far as events have told. */
bool vms_stub_may_stand_at_hit(struct vms_qemu_stub *stub);
/*
 * Begins a hold of a machine that a breakpoint may have stopped. *stopped is false if the machine
 * is stopped by somebody else: then it is left so. If it runs, it is stopped.
 */
bool vms_stub_hold_at_hit(struct vms_qemu_stub *stub, bool *stopped, GError **error);
/* Ends it: the machine goes on if all hits were handed out. */
bool vms_stub_leave_hit(struct vms_qemu_stub *stub, GError **error);
/* Looks whether the breakpoints of a machine that is not held have to go. For the timer. */
void vms_stub_check_probes(struct vms_qemu_stub *stub);
/*
 * Takes all breakpoints away from the machine, which we hold or nobody does. Then it goes on unless
 * we hold it.
 */
void vms_stub_take_probes_away(struct vms_qemu_stub *stub, const char *reason);
/* Removes breakpoints that a stub has left which failed. Adds the stub anew for that. */
bool vms_stub_clear_lost_points(struct vms_qemu_stub *stub, GError **error);
/*
 * Notes that others have stopped the machine, which may have breakpoints of ours. `resumes`: events
 * of RESUME before it was seen.
 */
void vms_stub_note_others(struct vms_qemu_stub *stub, uint64_t resumes);
/* True if there may be breakpoints of ours in the machine: the timer has to look after them. */
bool vms_stub_may_have_points(const struct vms_qemu_stub *stub);
/* True if the watchdog has removed the breakpoints. */
bool vms_stub_is_cleared(struct vms_qemu_stub *stub);
/* Tells the watchdog when there are no breakpoints any more. */
void vms_stub_update_armed(struct vms_qemu_stub *stub);
