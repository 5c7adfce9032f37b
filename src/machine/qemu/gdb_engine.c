/* SPDX-License-Identifier: MIT */
/*
 * The engine for a bare gdb stub. Registers and physical memory come from the stub. QEMU's stub
 * also gives the memory map, by the monitor behind it. Nothing else is known of the machine.
 */
#include "arch/x86_64.h"
#include "base/clock.h"
#include "base/timer.h"
#include "machine/engine.h"
#include "machine/gdb/gdb.h"
#include "machine/qemu/hmp.h"
#include "machine/qemu/run_state.h"
#include "machine/qemu/watchdog.h"
#include <errno.h>
#include <string.h>
#include <vmscope/log.h>

struct stub_machine {
	struct vms_machine machine;
	struct vms_gdb gdb;
	struct vms_watchdog *watchdog;
	char *name;
	GStringChunk *range_names;
	/* QEMU's monitor answers behind the stub: it tells the state, and releases the machine. */
	bool has_monitor;
	bool held;		 /* between bare_hold() and bare_release() */
	bool holding;		 /* the machine stands still by a stop of ours */
	atomic_bool user_paused; /* the machine stands still by somebody else's stop */
	uint64_t wait_ns;	 /* hold nothing before that time: a migration was under way */
	struct vms_timer *timer; /* checks holds that last; only with a monitor */
	const char *end_cause;	 /* what has ended the hold before its release, or NULL */
};

/* How long to leave a machine that is migrated alone: only a stop shows whether that is over. */
#define MIGRATION_WAIT_NS UINT64_C(1000000000)
/* Poll interval for the end of a migration that has stopped the machine. */
#define MIGRATION_POLL_US 50000
/* How often to check, during a hold, whether a migration begins. */
#define CHECK_NS UINT64_C(5000000)
static const char by_timer[] = "released for a migration, or at the limit of a hold,";
static const char by_watchdog[] = "resumed by the watchdog, since this program did not move,";

static struct stub_machine *stub_of(struct vms_machine *machine)
{
	return (struct stub_machine *)machine;
}

static struct vms_hold *hold_of(struct stub_machine *stub)
{
	return vms_watchdog_hold(stub->watchdog);
}

static bool was_taken_by_watchdog(struct stub_machine *stub)
{
	return vms_hold_phase(atomic_load(&hold_of(stub)->word)) == VMS_HOLD_TAKEN;
}

/* While others have stopped the machine. A plain stub does not tell whose a stop is. */
static enum vms_hold_phase looking_phase(const struct stub_machine *stub)
{
	return stub->has_monitor ? VMS_HOLD_LOOKING : VMS_HOLD_NONE;
}

/* ---- by QEMU's monitor ------------------------------------------------- */

/* Runs a command of the monitor. Returns the rest of the line after `label` in its answer. */
static char *ask_monitor(struct stub_machine *stub, const char *command, const char *label,
			 GError **error)
{
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, command, error);
	const char *found = text ? strstr(text, label) : NULL;
	if (!found) {
		if (text)
			vms_gdb_fail(&stub->gdb, VMS_ERROR_PROTOCOL,
				     "cannot understand its monitor's answer", error);
		return NULL;
	}
	found += strlen(label);
	return g_strndup(found, strcspn(found, "\r\n"));
}

/* Asks for the run state. */
static bool ask_state(struct stub_machine *stub, enum vms_run_state *ret, GError **error)
{
	g_autofree char *status = ask_monitor(stub, "info status", "VM status: ", error);
	if (!status)
		return false;
	*ret = vms_run_state_parse_status(status, strlen(status));
	return true;
}

/* True if a migration is under way. False also if the monitor does not answer. */
static bool is_migrating(struct stub_machine *stub, char **status)
{
	*status = ask_monitor(stub, "info migrate", "tatus: ", NULL);
	if (*status)
		g_strdelimit(*status, " \t", '\0');
	return *status && vms_migration_is_active(*status);
}

static bool run_monitor(struct stub_machine *stub, const char *command, GError **error)
{
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, command, error);
	return text;
}

/*
 * Undoes our stop, if the machine still stands still because of it. If a migration is about to end,
 * it waits for that end: the stub serves one client, so nobody else can release the machine later.
 */
static bool undo_stop(struct stub_machine *stub, GError **error)
{
	enum vms_run_state state;
	enum vms_release_way way;
	while (ask_state(stub, &state, error)) {
		way = vms_run_state_release_way(state, false);
		if (way == VMS_RELEASE_NOTHING)
			return true;
		if (way != VMS_RELEASE_LATER)
			return (way != VMS_RELEASE_STOP_CONT || run_monitor(stub, "stop", error)) &&
			       run_monitor(stub, "cont", error);
		g_usleep(MIGRATION_POLL_US);
	}
	return false;
}

/* ---- hold and release -------------------------------------------------- */

/* Stops the machine. *was_running is false if somebody else had stopped it already. */
static bool stop_machine(struct stub_machine *stub, bool *was_running, GError **error)
{
	*was_running = true;
	if (stub->has_monitor)
		return vms_gdb_interrupt(&stub->gdb, true, was_running, error);
	if (!stub->gdb.stopped && !vms_gdb_poll(&stub->gdb, error))
		return false;
	return stub->gdb.stopped ? vms_gdb_probe(&stub->gdb, was_running, error)
				 : vms_gdb_stop(&stub->gdb, error);
}

static bool refuse_migrating(struct stub_machine *stub, const char *status, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_NOW,
		    "cannot hold %s while it is migrated (%s): try again when that is over",
		    stub->name, status);
	return false;
}

static bool end_hold(struct stub_machine *stub, GError **error);
static bool yield_to_watchdog(struct stub_machine *stub, GError **error);

/* Called by the timer, in its thread. Ends a hold if a migration begins, or at the limit. */
static void check_hold(void *data)
{
	struct stub_machine *stub = data;
	const struct vms_hold *hold = hold_of(stub);
	g_autofree char *status = NULL;
	vms_machine_hurry_holder(&stub->machine);
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&stub->machine.lock);
	if (!stub->holding || was_taken_by_watchdog(stub))
		return;
	bool is_long =
		vms_clock_now_ns() > atomic_load(&hold->begin_ns) + atomic_load(&hold->limit_ns);
	if (!is_long && !is_migrating(stub, &status))
		vms_timer_set(stub->timer, CHECK_NS);
	else if (end_hold(stub, NULL))
		stub->end_cause = by_timer;
}

static bool begin_hold(struct stub_machine *stub, GError **error)
{
	g_autofree char *migration = NULL;
	bool was_running;
	if (vms_clock_now_ns() < stub->wait_ns)
		return refuse_migrating(stub, "as of a second ago", error);
	stub->end_cause = NULL;
	vms_gdb_forget_regs(&stub->gdb);
	if (!vms_watchdog_check(stub->watchdog, error))
		return false;
	vms_watchdog_begin_stop(stub->watchdog, stub->machine.hold_limit_ns);
	bool stopped = stop_machine(stub, &was_running, error);
	if (was_taken_by_watchdog(stub))
		return yield_to_watchdog(stub, error);
	if (!stopped)
		return false;
	stub->holding = was_running;
	atomic_store(&stub->user_paused, !was_running);
	if (!was_running) {
		vms_hold_change(hold_of(stub), VMS_HOLD_HELD, looking_phase(stub));
		return true;
	}
	if (!stub->has_monitor)
		return true;
	if (!is_migrating(stub, &migration)) {
		vms_timer_set(stub->timer, CHECK_NS);
		return true;
	}
	stub->wait_ns = vms_clock_now_ns() + MIGRATION_WAIT_NS;
	return end_hold(stub, error) && refuse_migrating(stub, migration, error);
}

static bool bare_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	stub_of(machine)->held = begin_hold(stub_of(machine), error);
	return stub_of(machine)->held;
}

/* Sets the error for a hold that ended before its release. Returns false. */
static bool set_ended_error(struct stub_machine *stub, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s was %s while it was held: what was read may be torn", stub->name,
		    stub->end_cause);
	return false;
}

/*
 * Stops the machine again after the watchdog has released it through our connection. Since then
 * answers cannot be told from each other, and a request of ours may have stopped the machine again.
 */
static bool resync_after_watchdog(struct stub_machine *stub, GError **error)
{
	bool was_running;
	stub->end_cause = by_watchdog;
	vms_watchdog_wait(stub->watchdog);
	vms_watchdog_begin_stop(stub->watchdog, stub->machine.hold_limit_ns);
	return stub->has_monitor ? vms_gdb_resync(&stub->gdb, error)
				 : vms_gdb_probe(&stub->gdb, &was_running, error);
}

static bool resume_machine(struct stub_machine *stub, GError **error)
{
	return vms_gdb_leave_phys_mode(&stub->gdb, error) &&
	       (stub->has_monitor ? undo_stop(stub, error) : vms_gdb_resume(&stub->gdb, error));
}

static bool end_hold(struct stub_machine *stub, GError **error)
{
	bool done = !stub->holding;
	if (done)
		vms_hold_change(hold_of(stub), VMS_HOLD_LOOKING, VMS_HOLD_NONE);
	while (!done) {
		g_autoptr(GError) failure = NULL;
		if (was_taken_by_watchdog(stub) && !resync_after_watchdog(stub, error))
			return false;
		done = resume_machine(stub, &failure) &&
		       vms_hold_change(hold_of(stub), VMS_HOLD_HELD, VMS_HOLD_NONE);
		/* If the watchdog has taken the hold meanwhile, start again. */
		if (!done && !was_taken_by_watchdog(stub)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return false;
		}
	}
	stub->gdb.stopped = stub->holding = false;
	if (stub->timer)
		vms_timer_set(stub->timer, 0);
	return !stub->end_cause || set_ended_error(stub, error);
}

static bool bare_release(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	stub_of(machine)->held = false;
	return end_hold(stub_of(machine), error);
}

/*
 * Ends the hold after the watchdog has taken the machine in the middle of a request. Returns false,
 * with the error of that.
 */
static bool yield_to_watchdog(struct stub_machine *stub, GError **error)
{
	g_clear_error(error);
	stub->holding = true; /* the request may have stopped the machine again */
	return end_hold(stub, error);
}

/*
 * Makes a stop ours that a request has caused: somebody else had stopped the machine and resumed it
 * again. QEMU's stub says so; another stub may only leave the connection broken.
 */
static void take_over_stop(struct stub_machine *stub)
{
	bool lost = !stub->has_monitor && stub->user_paused && stub->gdb.broken;
	if (!stub->gdb.stopped_by_request && !lost)
		return;
	stub->gdb.stopped_by_request = false;
	atomic_store(&stub->user_paused, false);
	vms_watchdog_begin_stop(stub->watchdog, stub->machine.hold_limit_ns);
	stub->holding = true;
}

static bool bare_read_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			   GError **error)
{
	struct stub_machine *stub = stub_of(machine);
	if (stub->end_cause)
		return set_ended_error(stub, error);
	bool read = vms_gdb_regs(&stub->gdb, vcpu, ret, error);
	if (was_taken_by_watchdog(stub))
		return yield_to_watchdog(stub, error);
	take_over_stop(stub);
	return read;
}

/* Are these, as the monitor prints them, the registers that the stub has given for the vCPU? */
static bool are_same(const struct vms_regs *told, const struct vms_regs *regs)
{
	static const unsigned compared[] = { RIP, RSP, CS, CR0, CR3 };
	for (size_t i = 0; i < G_N_ELEMENTS(compared); i++) {
		unsigned reg = compared[i];
		if (!vms_regs_have(regs, reg) || told->value[reg] != regs->value[reg])
			return false;
	}
	return true;
}

/*
 * Segments, which the stub does not tell, by QEMU's monitor behind it: since 7.2 it takes a vCPU's
 * number. Where it does not, or numbers them in another way, they stay unknown.
 */
static bool bare_read_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
				  GError **error)
{
	struct stub_machine *stub = stub_of(machine);
	struct vms_regs told = { 0 };
	if (stub->end_cause)
		return set_ended_error(stub, error);
	if (!stub->has_monitor || machine->arch != &vms_arch_x86_64)
		return true;
	g_autofree char *command = g_strdup_printf("info registers %u", vcpu);
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, command, error);
	if (was_taken_by_watchdog(stub))
		return yield_to_watchdog(stub, error);
	take_over_stop(stub);
	if (text && vms_hmp_parse_x86_64_general(text, &told) && are_same(&told, ret))
		vms_hmp_parse_x86_64_registers(text, ret);
	return text;
}

static bool bare_read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct stub_machine *stub = stub_of(machine);
	bool was_held = stub->held;
	if ((was_held && stub->end_cause) || !vms_machine_is_memory(machine, pa, size) ||
	    (!was_held && !bare_hold(machine, VMS_ALL_VCPUS, NULL)))
		return false;
	bool read = vms_gdb_read_phys(&stub->gdb, pa, buf, size, NULL);
	/* The release does not do that for a machine that others have stopped. */
	if (!stub->holding)
		vms_gdb_leave_phys_mode(&stub->gdb, NULL);
	if (was_taken_by_watchdog(stub))
		read = yield_to_watchdog(stub, NULL);
	else
		take_over_stop(stub);
	return (was_held || bare_release(machine, VMS_ALL_VCPUS, NULL)) && read;
}

/* As of the last hold, because a request would stop the machine. */
static bool bare_is_paused(struct vms_machine *machine)
{
	return stub_of(machine)->user_paused;
}

static enum vms_machine_end bare_get_end(struct vms_machine *machine)
{
	return stub_of(machine)->gdb.broken ? VMS_MACHINE_GONE : VMS_MACHINE_GOES_ON;
}

/* The timer's thread may set the timer until it has ended: the pointer stays valid until then. */
static void bare_end_threads(struct vms_machine *machine)
{
	struct stub_machine *stub = stub_of(machine);
	vms_timer_free(stub->timer);
	stub->timer = NULL;
}

/*
 * Releases a machine that we hold: when its client just goes, a stub leaves a stopped machine
 * stopped. A stub without QEMU's monitor resumes it when the client detaches.
 */
static void bare_close(struct vms_machine *machine)
{
	struct stub_machine *stub = stub_of(machine);
	if (stub->holding && vms_gdb_leave_phys_mode(&stub->gdb, NULL) &&
	    (stub->has_monitor ? undo_stop(stub, NULL) : vms_gdb_detach(&stub->gdb, NULL)))
		vms_hold_begin(hold_of(stub), VMS_HOLD_NONE, 0, 0);
	bool is_late = stub->gdb.stream.is_late;
	vms_gdb_close(&stub->gdb); /* it knows the watchdog's hold */
	vms_watchdog_free(stub->watchdog, is_late);
	g_clear_pointer(&machine->ranges, g_array_unref);
	g_string_chunk_free(stub->range_names);
	g_free(stub->name);
	g_free(stub);
}

static const struct vms_engine engine = {
	.name = "gdb",
	.hold = bare_hold,
	.release = bare_release,
	.regs = bare_read_regs,
	.system_regs = bare_read_system_regs,
	.read_phys = bare_read_phys,
	.held_read_max = VMS_GDB_HELD_READ_MAX,
	.is_paused = bare_is_paused,
	.ended = bare_get_end,
	.end_threads = bare_end_threads,
	.close = bare_close,
};

/* Reads the memory map by QEMU's monitor behind the stub. Other stubs have another one, or none. */
static void read_memory_map(struct stub_machine *stub)
{
	g_autoptr(GError) failure = NULL;
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, "info mtree -f", &failure);
	if (text)
		stub->machine.ranges = vms_hmp_parse_mtree(text, stub->range_names, &failure);
	if (!stub->machine.ranges)
		vms_log(VMS_LOG_INFO, "%s: there is no memory map: %s", stub->name,
			failure->message);
}

/*
 * Finds out whether QEMU's monitor answers behind the stub. With it an interrupt request can
 * precede every request, and a release can look at the state first. It also tells whether the
 * machine stood still before our connection came.
 */
static bool find_monitor(struct stub_machine *stub, GError **error)
{
	enum vms_run_state state;
	stub->has_monitor = stub->gdb.has_phys_mode && ask_state(stub, &state, NULL);
	stub->gdb.interrupts = stub->has_monitor;
	if (!stub->has_monitor)
		return true;
	vms_watchdog_set_monitor(stub->watchdog);
	stub->timer = vms_timer_new("vms-hold", check_hold, stub, error);
	stub->holding = state == VMS_RUN_PAUSED;
	atomic_store(&stub->user_paused, !stub->holding);
	if (!stub->holding)
		vms_hold_change(hold_of(stub), VMS_HOLD_HELD, VMS_HOLD_LOOKING);
	return stub->timer;
}

/* Starts the watchdog before the connection, because a stub stops its machine when a client comes.
 */
static int start_bare_watchdog(struct vms_stream *stream, void *data)
{
	struct stub_machine *stub = data;
	vms_watchdog_free(stub->watchdog, stub->gdb.stream.is_late);
	stub->watchdog = vms_watchdog_new_gdb(stream, NULL);
	if (!stub->watchdog)
		return EAGAIN;
	vms_watchdog_begin_stop(stub->watchdog, VMS_HOLD_LIMIT_NS);
	return 0;
}

static bool open_connected(struct stub_machine *stub, GError **error)
{
	stub->holding = true;
	stub->gdb.hold = hold_of(stub);
	/* The state first: a reset that comes before looks as if the machine had never run. */
	if (!vms_gdb_greet(&stub->gdb, error) || !find_monitor(stub, error) ||
	    !vms_gdb_identify(&stub->gdb, error))
		return false;
	stub->machine.arch = stub->gdb.arch;
	stub->machine.n_vcpus = stub->gdb.threads->len;
	read_memory_map(stub);
	return end_hold(stub, error);
}

struct vms_machine *vms_machine_open_gdb(const char *address, GError **error)
{
	struct stub_machine *stub = g_new0(struct stub_machine, 1);
	stub->name = g_strdup(address);
	stub->range_names = g_string_chunk_new(256);
	stub->machine.info = (struct vms_machine_info) { .name = stub->name,
							 .engine = "gdb",
							 .description = "gdb remote stub" };
	stub->gdb.stream.before_connect = start_bare_watchdog;
	stub->gdb.stream.data = stub;
	if (!vms_stream_connect(&stub->gdb.stream, "gdb stub", address, error) ||
	    !open_connected(stub, error)) {
		bare_close(&stub->machine);
		return NULL;
	}
	stub->gdb.stream.give_up_ns = &stub->machine.give_up_ns;
	vms_machine_init(&stub->machine, &engine);
	return &stub->machine;
}
