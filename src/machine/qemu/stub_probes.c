/* SPDX-License-Identifier: MIT */
/*
 * Probes by breakpoints of QEMU's gdb stub. While there are breakpoints, the machine may stop by
 * itself at any moment, in the state `debug`. That stop is ours; the watchdog knows so by
 * `has_breakpoints`. QEMU's STOP event does not say why the machine stopped, so the tool looks at
 * once. All breakpoints are removed as soon as a migration or a similar job begins. docs/safety.md
 * lists what becomes of the machine in each state.
 *
 * No register of a vCPU is ever written, not even its program counter to skip an instruction: a
 * reset or the owner's `cont` may come between the look and the write.
 */
#include "machine/qemu/stub-private.h"

#include "base/clock.h"
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How often to look at a machine without an event. */
#define SLICE_NS UINT64_C(20000000)

bool vms_stub_is_ours(struct vms_qemu_stub *stub)
{
	const enum vms_standing standing = vms_stub_standing(stub);
	return standing == VMS_STANDS_BY_US || standing == VMS_STANDS_AT_HIT;
}

bool vms_stub_may_have_points(const struct vms_qemu_stub *stub)
{
	return stub->watchdog && atomic_load(&vms_watchdog_hold(stub->watchdog)->has_breakpoints);
}

/* Notes that somebody has resumed a machine that was left as it stood. */
static void note_end_of_leave(struct vms_qemu_stub *stub)
{
	struct vms_hold *hold = vms_stub_hold(stub);
	if (stub->qemu.qmp.resumes <= stub->left_resumes)
		return;
	atomic_store(&hold->is_left, false);
	atomic_store(&hold->halts, false);
}

/*
 * Notes that the machine is left as it stands, until there are more than `resumes` events of
 * RESUME: those that may be from before the stop do not count.
 */
static void leave_as_it_stands(struct vms_qemu_stub *stub, uint64_t resumes)
{
	stub->left_resumes = MAX(resumes, stub->expected_resumes);
	/* A sleeping guest wakes up without an event of that kind. */
	if (stub->state != VMS_RUN_SUSPENDED)
		atomic_store(&vms_stub_hold(stub)->is_left, true);
	vms_stop_probes_set_at_hit(&stub->probes, false);
}

/* True if QEMU has told of a stop that was not looked at yet: it may be a hit. */
static bool has_new_stop(const struct vms_qemu_stub *stub)
{
	return vms_stop_probes_is_at_hit(&stub->probes) ||
	       stub->qemu.qmp.stops != stub->looked_stops;
}

/* True if a machine in this state stands still by a breakpoint. `is_new`: see has_new_stop. */
static bool stands_at_hit(struct vms_qemu_stub *stub, enum vms_run_state state, bool is_new)
{
	const bool is_interrupted =
		stub->probes.is_interrupted && stub->qemu.qmp.resumes <= stub->expected_resumes;
	if (state == VMS_RUN_PAUSED)
		return is_interrupted;
	return vms_stub_owns_hits(stub) &&
	       (state == VMS_RUN_DEBUG || (is_new && !atomic_load(&vms_stub_hold(stub)->is_left) &&
					   vms_run_state_may_follow_hit(state)));
}

bool vms_stub_owns_hits(struct vms_qemu_stub *stub)
{
	if (!vms_stub_may_have_points(stub))
		return false;
	note_end_of_leave(stub);
	return vms_hold_owns_hits(vms_stub_hold(stub));
}

bool vms_stub_may_stand_at_hit(struct vms_qemu_stub *stub)
{
	const struct vms_qmp *qmp = &stub->qemu.qmp;
	if (!vms_stub_may_have_points(stub) || !stub->connected)
		return false;
	vms_qmp_poll(&stub->qemu.qmp);
	return vms_stub_owns_hits(stub) &&
	       (vms_stop_probes_is_at_hit(&stub->probes) ||
		(!qmp->running && qmp->resumes >= stub->expected_resumes &&
		 qmp->stops != stub->looked_stops));
}

static void wake_taker(struct vms_qemu_stub *stub)
{
	if (stub->wake >= 0)
		eventfd_write(stub->wake, 1);
}

void vms_stub_update_armed(struct vms_qemu_stub *stub)
{
	/* A stub that failed may have breakpoints that it did not tell of. */
	if (!vms_stub_may_have_points(stub) || vms_stop_probes_are_set(&stub->probes) ||
	    vms_stop_probes_is_at_hit(&stub->probes) || !stub->connected || stub->gdb.broken ||
	    vms_stub_is_owed(stub) || vms_stub_is_ours(stub))
		return;
	atomic_store(&vms_stub_hold(stub)->has_breakpoints, false);
	atomic_store(&vms_stub_hold(stub)->is_left, false);
	atomic_store(&vms_stub_hold(stub)->halts, false);
}

bool vms_stub_is_cleared(struct vms_qemu_stub *stub)
{
	return vms_stub_may_have_points(stub) && atomic_load(&vms_stub_hold(stub)->is_cleared);
}

/* The machine stands still by others. A debugger may have left it in `debug`: that is no hit. */
static void note_stop_of_others(struct vms_qemu_stub *stub, uint64_t resumes)
{
	stub->looked_stops = stub->qemu.qmp.stops;
	leave_as_it_stands(stub, resumes);
	if (stub->state == VMS_RUN_DEBUG)
		atomic_store(&vms_stub_hold(stub)->halts, true);
}

void vms_stub_note_others(struct vms_qemu_stub *stub, uint64_t resumes)
{
	if (vms_stub_may_have_points(stub))
		note_stop_of_others(stub, resumes);
}

/* ---- at a hit --------------------------------------------------------- */

/* The state in the monitor's answer to `info status`. */
static enum vms_run_state parse_status(const char *text)
{
	static const char label[] = "VM status: ";
	const char *status = strstr(text, label);
	return status ? vms_run_state_parse_status(status + strlen(label),
						   strlen(status + strlen(label)))
		      : VMS_RUN_UNKNOWN;
}

/* Makes the stop ours: the hold begins here. `state` is the machine's. */
static void begin_own_hold(struct vms_qemu_stub *stub, enum vms_standing standing,
			   enum vms_run_state state)
{
	vms_watchdog_begin_stop(stub->watchdog, stub->qemu.machine.hold_limit_ns);
	atomic_store(&stub->standing, standing);
	stub->state = state;
	stub->gdb.stopped = true;
	stub->gdb.stopped_by_request = false;
	vms_stub_set_check(stub);
}

/* Holds a machine that the look itself has stopped: somebody had resumed it. */
static void hold_stopped_by_look(struct vms_qemu_stub *stub)
{
	vms_stop_probes_set_at_hit(&stub->probes, false);
	stub->probes.is_interrupted = false;
	stub->asked_ns = 0;
	begin_own_hold(stub, VMS_STANDS_BY_US, VMS_RUN_RUNNING);
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = stub->qemu.qmp.resumes;
	stub->guest_stops = stub->qemu.qmp.undone_stops;
}

/* Holds a machine that a breakpoint has stopped. What came later may have changed its state. */
static bool hold_hit(struct vms_qemu_stub *stub, enum vms_run_state state, GError **error)
{
	/* A sleeping guest is let go by its state, which is asked for then. */
	const bool sleeps = state == VMS_RUN_SUSPENDED;
	begin_own_hold(stub, sleeps ? VMS_STANDS_BY_US : VMS_STANDS_AT_HIT, state);
	vms_stop_probes_set_at_hit(&stub->probes, true);
	stub->hit_resets = stub->qemu.qmp.resets;
	if (sleeps)
		stub->asked_ns = 0;
	if (sleeps || vms_stop_probes_arrive(&stub->probes, error))
		return true;
	vms_stub_abandon(stub, true);
	return false;
}

/* Remembers what QEMU has told up to a stop that may be a hit, as vms_stub_remember_events does. */
static void remember_hit(struct vms_qemu_stub *stub)
{
	/* A stop of the guest's that our last release has undone is to come into force now. */
	const uint64_t guest_stops =
		vms_stub_has_undone_stop(stub) ? stub->guest_stops : stub->qemu.qmp.undone_stops;
	vms_stub_remember_events(stub);
	stub->released = false;
	stub->resumes = MAX(stub->resumes, stub->expected_resumes);
	stub->guest_stops = guest_stops;
}

/* Asks for the state, and whether something is under way: see find_busy. */
static bool look(struct vms_qemu_stub *stub, enum vms_run_state *state, GError **error)
{
	const uint64_t asked_ns = vms_clock_now_ns();
	struct vms_gdb_look look;
	bool done = vms_gdb_look(&stub->gdb, &look, error);
	if (done) {
		*state = stub->state = parse_status(look.status);
		/* Without a migration so far, there is nothing that QMP would tell more of. */
		if (vms_qemu_knows_no_job(&stub->qemu) && vms_stub_has_no_migration(look.migration))
			stub->asked_ns = asked_ns;
	}
	vms_gdb_look_clear(&look);
	return done;
}

/*
 * Begins requests to a machine that nobody holds. If it runs, they stop it. Where our interrupt has
 * ended a step, it stands still by us all the same.
 */
static void begin_looking(struct vms_qemu_stub *stub)
{
	if (!stub->probes.is_interrupted)
		vms_qemu_begin_requests(stub, stub->qemu.qmp.running);
}

/* Gives up a stub that failed after begin_looking. */
static void abandon_looking(struct vms_qemu_stub *stub)
{
	vms_stub_abandon(stub, stub->gdb.stopped_by_request || stub->probes.is_interrupted);
}

bool vms_stub_hold_at_hit(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	const bool is_new = has_new_stop(stub);
	const uint64_t resumes = stub->qemu.qmp.resumes;
	*stopped = false;
	stub->qemu.machine.held_from_ns = vms_clock_now_ns();
	begin_looking(stub);
	remember_hit(stub);
	stub->looked_stops = stub->qemu.qmp.stops;
	enum vms_run_state state;
	if (!look(stub, &state, error)) {
		abandon_looking(stub);
		return false;
	}
	*stopped = true;
	if (stands_at_hit(stub, state, is_new) && !stub->gdb.stopped_by_request)
		return hold_hit(stub, state, error);
	if (stub->gdb.stopped_by_request) {
		hold_stopped_by_look(stub);
		return true;
	}
	*stopped = false;
	vms_stub_end_hold(stub);
	stub->probes.is_interrupted = false;
	leave_as_it_stands(stub, resumes);
	return true;
}

/*
 * What is under way, for which the breakpoints have to go: newly allocated, or NULL. A snapshot
 * that was saved between two looks may be loaded at any moment: see check_snapshots.
 */
static char *find_busy(struct vms_qemu_stub *stub)
{
	struct vms_qemu_condition now;
	vms_qmp_poll(&stub->qemu.qmp);
	vms_stub_look_for_snapshots(stub);
	if (stub->has_snapshot)
		return g_strdup("a snapshot of the machine");
	if (vms_clock_now_ns() < stub->asked_ns + VMS_STUB_FRESH_NS)
		return NULL;
	stub->asked_ns = vms_clock_now_ns();
	if (!vms_qemu_ask_busy(&stub->qemu, &now, NULL) || !*now.busy)
		return NULL;
	return g_strdup(now.busy);
}

/*
 * If somebody had resumed the machine, and a request has stopped it again: that stop is ours, and
 * their resume was before it.
 */
static void note_foreign_resume(struct vms_qemu_stub *stub)
{
	if (!stub->gdb.stopped_by_request)
		return;
	stub->gdb.stopped_by_request = false;
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = MAX(stub->resumes, stub->qemu.qmp.resumes);
}

/* Lets a machine go on that has been stepped over its places. */
static bool go_on(struct vms_qemu_stub *stub, GError **error)
{
	struct vms_gdb_departure departure = { 0 };
	note_foreign_resume(stub);
	const bool is_quick = vms_stub_may_cont_quickly(stub);
	if (is_quick)
		departure.go = "cont";
	stub->expected_resumes = stub->resumes + 1;
	if (!vms_stop_probes_depart(&stub->probes, &departure, error)) {
		vms_stub_abandon(stub, true);
		return false;
	}
	g_autofree char *refusal = departure.refusal;
	note_foreign_resume(stub);
	stub->released = is_quick && !*refusal;
	if (!stub->released)
		return vms_stub_release_stop(stub, error);
	atomic_store(&stub->standing, VMS_NOT_HELD);
	stub->gdb.stopped = false;
	vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
	vms_stub_end_hold(stub);
	return true;
}

/* Lets a machine go on that stands still by us, though nobody holds it. */
static void release_unheld(struct vms_qemu_stub *stub)
{
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = stub->qemu.qmp.resumes;
	begin_own_hold(stub, VMS_STANDS_BY_US, VMS_RUN_RUNNING);
	vms_stub_release_stop(stub, NULL);
}

/* Ends the hold of a machine that somebody else has stopped in a step: it stays as it is. */
static bool leave_to_others(struct vms_qemu_stub *stub, GError **error)
{
	struct vms_gdb_departure departure = { 0 };
	if (!vms_stub_end_hold(stub))
		return vms_stub_set_ended_error(stub, VMS_BY_WATCHDOG, error);
	atomic_store(&stub->standing, VMS_NOT_HELD);
	vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
	vms_hold_begin(vms_stub_hold(stub), VMS_HOLD_LOOKING, 0, 0);
	stub->gdb.stopped_by_request = false;
	if (!vms_stop_probes_depart(&stub->probes, &departure, error)) {
		vms_stub_abandon(stub, stub->gdb.stopped_by_request);
		return false;
	}
	/* The owner had resumed it just before. */
	if (stub->gdb.stopped_by_request)
		release_unheld(stub);
	else
		vms_hold_change(vms_stub_hold(stub), VMS_HOLD_LOOKING, VMS_HOLD_NONE);
	return true;
}

/* Leaves the machine stopped for its owner, as a hit has asked for. */
static bool halt(struct vms_qemu_stub *stub, GError **error)
{
	leave_as_it_stands(stub, stub->resumes);
	atomic_store(&vms_stub_hold(stub)->halts, true);
	return leave_to_others(stub, error);
}

/*
 * Notes what QEMU has told before our interrupt has ended a step: a snapshot, for example, stops
 * and resumes the machine in between.
 */
static void note_resumes_before(struct vms_qemu_stub *stub)
{
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = stub->qemu.qmp.resumes;
	stub->expected_resumes = stub->resumes;
}

/* Steps one vCPU. What QEMU has told of the step is no event of others. */
static bool step(struct vms_qemu_stub *stub, enum vms_stop_departure *departure, GError **error)
{
	unsigned n_steps = 0;
	bool done = vms_stop_probes_step(&stub->probes, departure, &n_steps, error);
	stub->resumes += n_steps;
	stub->expected_resumes = MAX(stub->expected_resumes, stub->resumes);
	if (done && stub->probes.is_interrupted)
		note_resumes_before(stub);
	return done;
}

/* Takes the breakpoints away, since something has begun, and lets the machine go on. */
static bool end_probes_at_hit(struct vms_qemu_stub *stub, const char *reason, GError **error)
{
	vms_stub_take_probes_away(stub, reason);
	return vms_stub_release_stop(stub, error);
}

/*
 * Steps over the places, and lets the machine go on. A step may take long, so that it is asked
 * before each whether something has begun: a step makes a machine run that stands still for the end
 * of its migration.
 */
static bool pass_places(struct vms_qemu_stub *stub, GError **error)
{
	enum vms_stop_departure departure = VMS_DEPART_AGAIN;
	while (departure == VMS_DEPART_AGAIN) {
		g_autofree char *reason = find_busy(stub);
		if (reason)
			return end_probes_at_hit(stub, reason, error);
		if (!step(stub, &departure, error)) {
			vms_stub_abandon(stub, true);
			return false;
		}
	}
	switch (departure) {
	case VMS_DEPART_NEVER: return halt(stub, error);
	case VMS_DEPART_STOPPED:
		leave_as_it_stands(stub, stub->resumes);
		return leave_to_others(stub, error);
	case VMS_DEPART_NOW: return go_on(stub, error);
	case VMS_DEPART_AGAIN:
	case VMS_DEPART_NOT_YET:
	default:
		atomic_store(&stub->standing, VMS_NOT_HELD);
		vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
		/* Else its state does not tell the watchdog that it stands still by us. */
		if (!stub->probes.is_interrupted)
			vms_stub_end_hold(stub);
		wake_taker(stub);
		return true;
	}
}

bool vms_stub_leave_hit(struct vms_qemu_stub *stub, GError **error)
{
	if (vms_hold_phase(atomic_load(&vms_stub_hold(stub)->word)) == VMS_HOLD_TAKEN ||
	    vms_stub_is_cleared(stub)) {
		vms_stub_abandon(stub, true);
		return vms_stub_set_ended_error(stub, VMS_BY_WATCHDOG, error);
	}
	bool done;
	if (!vms_gdb_leave_phys_mode(&stub->gdb, error)) {
		vms_stub_abandon(stub, true);
		return false;
	}
	vms_qmp_poll(&stub->qemu.qmp);
	if (stub->qemu.qmp.resets != stub->hit_resets)
		vms_stop_probes_forget_visits(&stub->probes);
	done = stub->qemu.qmp.guest_stops != stub->guest_stops
		       ? end_probes_at_hit(stub, "its guest's own stop", error)
		       : pass_places(stub, error);
	vms_stub_update_armed(stub);
	return done;
}

/* ---- breakpoints that have to go ---------------------------------------- */

void vms_stub_take_probes_away(struct vms_qemu_stub *stub, const char *reason)
{
	enum vms_run_state state;
	if (!vms_stub_may_have_points(stub) || !stub->connected || stub->gdb.broken ||
	    vms_stub_is_owed(stub))
		return;
	if (vms_stub_is_ours(stub)) {
		if (!vms_stop_probes_take_away(&stub->probes, g_strdup(reason), NULL))
			vms_stub_abandon(stub, true);
		return;
	}
	vms_qmp_poll(&stub->qemu.qmp);
	const bool is_new = has_new_stop(stub);
	begin_looking(stub);
	vms_stub_remember_events(stub);
	stub->guest_stops = stub->qemu.qmp.undone_stops;
	if (!vms_stop_probes_take_away(&stub->probes, g_strdup(reason), NULL) ||
	    !vms_qemu_ask_state(&stub->qemu, &state, NULL)) {
		abandon_looking(stub);
		return;
	}
	if (stub->gdb.stopped_by_request || stands_at_hit(stub, state, is_new))
		release_unheld(stub);
	else
		vms_stub_end_hold(stub);
	stub->probes.is_interrupted = false;
	vms_stub_update_armed(stub);
}

/* Removes by a new stub what the last one has left. *stopped: that has stopped the machine. */
static bool clear_by_new_stub(struct vms_qemu_stub *stub, bool is_hit, bool *stopped,
			      GError **error)
{
	const bool is_stepping = atomic_load(&vms_stub_hold(stub)->is_stepping);
	const uint64_t last_thread = atomic_load(&vms_stub_hold(stub)->last_thread);
	bool done = vms_qemu_add_stub(stub, stopped, error) &&
		    vms_gdb_clear_points(&stub->gdb, last_thread, error);
	*stopped |= stub->gdb.stopped_by_request;
	if (done && is_stepping && (is_hit || *stopped))
		done = vms_gdb_end_lost_steps(&stub->gdb, last_thread, error);
	*stopped |= stub->gdb.stopped_by_request;
	stub->gdb.stopped_by_request = false;
	if (!done)
		stub->gdb.broken = true;
	return done;
}

/* True if a breakpoint of ours has stopped the machine, as far as QEMU tells now. */
static bool ask_for_hit(struct vms_qemu_stub *stub, bool *is_hit, GError **error)
{
	enum vms_run_state state;
	if (!vms_qemu_ask_state(&stub->qemu, &state, error))
		return false;
	*is_hit |= stands_at_hit(stub, state, has_new_stop(stub));
	return true;
}

bool vms_stub_clear_lost_points(struct vms_qemu_stub *stub, GError **error)
{
	struct vms_hold *hold = vms_stub_hold(stub);
	bool is_hit = false, stopped = false;
	if (!vms_stub_may_have_points(stub))
		return true;
	if (!ask_for_hit(stub, &is_hit, error))
		return false;
	vms_hold_begin(hold, VMS_HOLD_LOOKING, 0, 0);
	/* The machine may have come to a breakpoint between that look and the new stub. */
	bool done = clear_by_new_stub(stub, is_hit, &stopped, error) &&
		    ask_for_hit(stub, &is_hit, error);
	stub->probes.is_interrupted = false;
	vms_stop_probes_are_gone(&stub->probes,
				 g_strdup(atomic_load(&hold->is_cleared)
						  ? "this program, which did not move"
						  : "a failure of QEMU's gdb stub"));
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = stub->qemu.qmp.resumes;
	stub->guest_stops = stub->qemu.qmp.undone_stops;
	if (is_hit || stopped)
		vms_stub_owe_release(stub);
	else if (done)
		vms_hold_change(hold, VMS_HOLD_LOOKING, VMS_HOLD_NONE);
	if (done)
		atomic_store(&hold->is_cleared, false);
	else
		stub->gdb.broken = true;
	return done;
}

/* True if the machine waits for somebody to take its hits, for longer than a hold may last. */
static bool waits_too_long(struct vms_qemu_stub *stub)
{
	const uint64_t now_ns = vms_clock_now_ns();
	if (!vms_stub_may_stand_at_hit(stub)) {
		stub->stands_since_ns = 0;
		return false;
	}
	if (!stub->stands_since_ns)
		stub->stands_since_ns = now_ns;
	wake_taker(stub);
	return now_ns > stub->stands_since_ns + stub->qemu.machine.hold_limit_ns;
}

void vms_stub_check_probes(struct vms_qemu_stub *stub)
{
	if (!vms_stub_may_have_points(stub))
		return;
	/* The watchdog wants to see that somebody looks, also while others have stopped it. */
	vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
	if (vms_stub_standing(stub) != VMS_NOT_HELD)
		return;
	/* The watchdog has taken them away. */
	const uint64_t word = atomic_load(&vms_stub_hold(stub)->word);
	if (vms_hold_phase(word) == VMS_HOLD_TAKEN || vms_stub_is_cleared(stub))
		vms_stub_abandon(stub, vms_hold_may_be_ours(vms_hold_phase(word)));
	if (stub->gdb.broken) {
		vms_stub_settle_release(stub, NULL);
		vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
		return;
	}
	g_autofree char *busy = find_busy(stub);
	if (busy)
		vms_stub_take_probes_away(stub, busy);
	else if (waits_too_long(stub))
		vms_stub_take_probes_away(stub, "hits that nobody has taken");
	if (vms_stub_is_owed(stub))
		vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
}

/* ---- operations of probes ----------------------------------------------- */

static uint64_t find_last_thread(const struct vms_gdb *gdb)
{
	uint64_t last = 0;
	for (unsigned i = 0; i < gdb->threads->len; i++)
		last = MAX(last, g_array_index(gdb->threads, uint64_t, i));
	return MIN(last, VMS_GDB_THREADS_MAX);
}

/* Refuses a machine from which nobody else could remove breakpoints that this program leaves. */
static bool check_monitor(const struct vms_qemu_stub *stub, GError **error)
{
	if (stub->qemu.qmp.stream.address.ss_family == AF_UNIX)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		"there can be no probes in %s: its monitor is no Unix socket, so that nobody could "
		"remove their breakpoints if vmscope were killed; start QEMU with vmscope's agent",
		stub->qemu.machine.info.name);
	return false;
}

/* QEMU aborts if a job loads a snapshot in the moment in which a breakpoint stops the machine. */
static bool check_snapshots(struct vms_qemu_stub *stub, GError **error)
{
	/* Those that are there have to be removed in any case. */
	if (vms_stub_may_have_points(stub))
		return true;
	vms_stub_look_for_snapshots(stub);
	if (!stub->has_snapshot)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		"there can be no breakpoints in %s: a disk of it holds a snapshot, and QEMU may "
		"abort where that is loaded at a hit; start QEMU with vmscope's agent",
		stub->qemu.machine.info.name);
	return false;
}

static bool begin_probes(struct vms_machine *machine, GError **error)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	if (!check_monitor(stub, error) || !check_snapshots(stub, error) ||
	    !vms_stub_check_watcher(stub, error))
		return false;
	if (vms_stub_is_monitor_only(stub)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_NOW,
			    "there can be no probes in %s in state %s: try again when it runs",
			    machine->info.name, vms_run_state_name(stub->state));
		return false;
	}
	if (!vms_stub_begin_requests(stub, error))
		return false;
	if (!vms_watchdog_share_stub(stub->watchdog, stub->gdb.stream.fd, error)) {
		vms_stub_end_requests(stub);
		return false;
	}
	stub->expected_resumes = MAX(stub->expected_resumes, stub->qemu.qmp.resumes);
	if (vms_stub_standing(stub) == VMS_STANDS_BY_OTHERS && !vms_stub_may_have_points(stub))
		note_stop_of_others(stub, stub->resumes);
	stub->probes.hold = vms_stub_hold(stub);
	atomic_store(&vms_stub_hold(stub)->seen_ns, vms_clock_now_ns());
	atomic_store(&vms_stub_hold(stub)->last_thread, find_last_thread(&stub->gdb));
	atomic_store(&vms_stub_hold(stub)->has_breakpoints, true);
	vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
	return true;
}

static void end_probes(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	if (stub->gdb.broken)
		vms_stub_abandon(stub, vms_stub_is_ours(stub) || stub->gdb.stopped_by_request);
	else
		vms_stub_end_requests(stub);
	vms_stub_update_armed(stub);
}

/* Looks at the machine without an event: one may have been missed. */
static bool is_in_debug(struct vms_qemu_stub *stub)
{
	enum vms_run_state state;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&stub->qemu.machine.lock);
	if (!vms_stub_owns_hits(stub) || stub->qemu.qmp.running ||
	    vms_stub_standing(stub) != VMS_NOT_HELD ||
	    !vms_qemu_ask_state(&stub->qemu, &state, NULL))
		return false;
	if (!stands_at_hit(stub, state, has_new_stop(stub)))
		return false;
	vms_stop_probes_set_at_hit(&stub->probes, true);
	return true;
}

static bool wait_for_stop(struct vms_machine *machine, uint64_t deadline_ns, bool *stands,
			  GError **error)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	struct pollfd pollers[] = { { .fd = stub->qemu.qmp.stream.fd, .events = POLLIN },
				    { .fd = stub->wake, .events = POLLIN } };
	uint64_t check_ns = vms_clock_now_ns() + SLICE_NS;
	for (;;) {
		eventfd_t count;
		const uint64_t now_ns = vms_clock_now_ns();
		if (vms_qemu_ended(machine) == VMS_MACHINE_GONE) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "%s has ended",
				    machine->info.name);
			return false;
		}
		g_mutex_lock(&machine->lock);
		*stands = vms_stub_may_stand_at_hit(stub);
		g_mutex_unlock(&machine->lock);
		if (*stands || now_ns >= deadline_ns || stub->probes.reason)
			return true;
		const uint64_t slice_ns = MIN(deadline_ns - now_ns, SLICE_NS);
		poll(pollers, G_N_ELEMENTS(pollers), (int)(slice_ns / 1000000) + 1);
		if (pollers[1].revents)
			eventfd_read(stub->wake, &count);
		if (vms_clock_now_ns() < check_ns)
			continue;
		check_ns = vms_clock_now_ns() + SLICE_NS;
		*stands = is_in_debug(stub);
		if (*stands)
			return true;
	}
}

static const struct vms_stop_operations operations = {
	.begin = begin_probes,
	.end = end_probes,
	.wait = wait_for_stop,
};

static struct vms_probes *arm(struct vms_machine *machine, const struct vms_probes_request *request,
			      GError **error)
{
	return vms_stop_probes_arm(&vms_stub_of(machine)->probes, request, error);
}

static bool take(struct vms_machine *machine, unsigned timeout_ms, GError **error)
{
	return vms_stop_probes_take(&vms_stub_of(machine)->probes, timeout_ms, error);
}

const struct vms_probe_engine vms_stub_probe_engine = {
	.arm = arm,
	.take = take,
	.disarm = vms_stop_probes_disarm,
	.is_armed = vms_stop_probes_is_armed,
	.counts = vms_stop_probes_counts,
	.free = vms_stop_probes_free,
};

void vms_stub_init_probes(struct vms_qemu_stub *stub)
{
	stub->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	vms_stop_probes_init(&stub->probes, &stub->qemu.machine, &stub->gdb, &operations);
	stub->probes.is_hardware = g_strcmp0(stub->qemu.machine.info.accelerator, "kvm") == 0;
}

void vms_stub_close_probes(struct vms_qemu_stub *stub)
{
	if (!stub->probes.machine)
		return;
	close(stub->wake);
	vms_stop_probes_clear(&stub->probes);
}
