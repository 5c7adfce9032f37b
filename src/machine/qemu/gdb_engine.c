/* SPDX-License-Identifier: MIT */
/*
 * The engine for a bare gdb stub: registers and physical memory come through it,
 * from QEMU's the memory map too, and nothing else is known of the machine.
 */
#include "arch/x86_64.h"
#include "base/clock.h"
#include "base/timer.h"
#include "machine/engine.h"
#include "machine/qemu/gdb.h"
#include "machine/qemu/guard.h"
#include "machine/qemu/hmp.h"
#include "machine/qemu/run_state.h"
#include <errno.h>
#include <string.h>
#include <vmscope/log.h>

struct stub_machine {
	struct vms_machine machine;
	struct vms_gdb gdb;
	struct vms_guard *guard;
	char *name;
	GStringChunk *range_names;
	bool has_monitor; /* QEMU's, behind the stub: it tells the state, and lets the machine go on
			   */
	bool holding;	  /* we have stopped the machine */
	atomic_bool user_paused; /* it stands still without our doing */
	uint64_t wait_ns;	 /* no hold before that: a migration was under way */
	struct vms_timer *timer; /* looks at holds that last; with a monitor */
	const char *end_cause;	 /* how a hold has ended, without its holder; NULL */
};

/* A machine that is migrated is not stopped more often than this, to see whether that is over. */
#define MIGRATION_WAIT_NS UINT64_C(1000000000)
#define MIGRATION_POLL_US 50000
static const char by_timer[] = "let go for a migration, or at the limit of a hold,";
static const char by_watchdog[] = "resumed by the watchdog, since this program did not move,";
/* How often it is looked, in a hold that lasts, whether a migration begins. */
#define LOOK_NS UINT64_C(5000000)

static struct stub_machine *stub_of(struct vms_machine *machine)
{
	return (struct stub_machine *)machine;
}

static struct vms_hold *hold_of(struct stub_machine *stub)
{
	return vms_guard_hold(stub->guard);
}

static bool was_taken(struct stub_machine *stub)
{
	return vms_hold_phase(atomic_load(&hold_of(stub)->word)) == VMS_HOLD_TAKEN;
}

/* ---- by QEMU's monitor ------------------------------------------------- */

/* The word behind `label` in what a command of the monitor prints; NULL where there is none. */
static char *ask_monitor(struct stub_machine *stub, const char *command, const char *label,
			 GError **error)
{
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, command, error);
	const char *found = text ? strstr(text, label) : NULL;
	if (!found) {
		if (text)
			vms_gdb_fail(&stub->gdb, VMS_ERROR_PROTOCOL,
				     "its monitor's answer is not understood", error);
		return NULL;
	}
	found += strlen(label);
	return g_strndup(found, strcspn(found, "\r\n"));
}

/* "running", "paused", or "paused (suspended)". */
static bool ask_state(struct stub_machine *stub, enum vms_run_state *ret, GError **error)
{
	g_autofree char *status = ask_monitor(stub, "info status", "VM status: ", error);
	if (!status)
		return false;
	char *name = strchr(status, '(');
	name = name ? name + 1 : status;
	*ret = vms_run_state_parse(name, strcspn(name, ")"));
	return true;
}

/* Is a migration under way? Without an answer it is not. */
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
 * Undoes our stop, if it is still that by which the machine stands still. It waits for a migration
 * that is about to end: nobody else can look at this stub meanwhile.
 */
static bool undo_stop(struct stub_machine *stub, GError **error)
{
	enum vms_run_state state;
	enum vms_release_way way;
	while (ask_state(stub, &state, error)) {
		way = vms_run_state_release_way(state);
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

/* Is the machine stopped, without our doing? It may be us who stop it, to find out. */
static bool stop(struct stub_machine *stub, bool *was_running, GError **error)
{
	*was_running = true;
	if (stub->has_monitor)
		return vms_gdb_interrupt(&stub->gdb, was_running, error);
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

static bool release(struct vms_machine *machine, int vcpu, GError **error);
static bool yield(struct stub_machine *stub, GError **error);

/* Called by the timer, in its thread: a migration that begins, or the limit, ends a hold. */
static void look_at_hold(void *data)
{
	struct stub_machine *stub = data;
	const struct vms_hold *hold = hold_of(stub);
	g_autofree char *status = NULL;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&stub->machine.lock);
	if (!stub->holding || was_taken(stub))
		return;
	bool is_long =
		vms_clock_now_ns() > atomic_load(&hold->begin_ns) + atomic_load(&hold->limit_ns);
	if (!is_long && !is_migrating(stub, &status))
		vms_timer_set(stub->timer, LOOK_NS);
	else if (release(&stub->machine, VMS_ALL_VCPUS, NULL))
		stub->end_cause = by_timer;
}

static bool hold(struct vms_machine *machine, int vcpu, GError **error)
{
	struct stub_machine *stub = stub_of(machine);
	g_autofree char *migration = NULL;
	bool was_running;
	if (vms_clock_now_ns() < stub->wait_ns)
		return refuse_migrating(stub, "as of a second ago", error);
	stub->end_cause = NULL;
	vms_gdb_forget_regs(&stub->gdb);
	if (!vms_guard_check(stub->guard, error))
		return false;
	vms_hold_begin(hold_of(stub), VMS_HOLD_HELD, vms_clock_now_ns(), machine->hold_limit_ns);
	bool stopped = stop(stub, &was_running, error);
	if (was_taken(stub))
		return yield(stub, error);
	if (!stopped)
		return false;
	stub->holding = was_running;
	atomic_store(&stub->user_paused, !was_running);
	if (!was_running) {
		vms_hold_change(hold_of(stub), VMS_HOLD_HELD, VMS_HOLD_NONE);
		return true;
	}
	if (!stub->has_monitor)
		return true;
	if (!is_migrating(stub, &migration)) {
		vms_timer_set(stub->timer, LOOK_NS);
		return true;
	}
	stub->wait_ns = vms_clock_now_ns() + MIGRATION_WAIT_NS;
	return release(machine, vcpu, error) && refuse_migrating(stub, migration, error);
}

static bool fail_ended(struct stub_machine *stub, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s was %s while it was held: what was read may be torn", stub->name,
		    stub->end_cause);
	return false;
}

/*
 * The watchdog has let the machine go through our connection. Answers are out of step since then,
 * and what we have said may have stopped the machine again.
 */
static bool get_into_step(struct stub_machine *stub, GError **error)
{
	bool was_running;
	stub->end_cause = by_watchdog;
	vms_guard_wait(stub->guard);
	vms_hold_begin(hold_of(stub), VMS_HOLD_HELD, vms_clock_now_ns(),
		       stub->machine.hold_limit_ns);
	return stub->has_monitor ? vms_gdb_resync(&stub->gdb, error)
				 : vms_gdb_probe(&stub->gdb, &was_running, error);
}

static bool let_go(struct stub_machine *stub, GError **error)
{
	return vms_gdb_leave_phys_mode(&stub->gdb, error) &&
	       (stub->has_monitor ? undo_stop(stub, error) : vms_gdb_resume(&stub->gdb, error));
}

static bool release(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct stub_machine *stub = stub_of(machine);
	bool done = !stub->holding;
	while (!done) {
		g_autoptr(GError) failure = NULL;
		if (was_taken(stub) && !get_into_step(stub, error))
			return false;
		done = let_go(stub, &failure) &&
		       vms_hold_change(hold_of(stub), VMS_HOLD_HELD, VMS_HOLD_NONE);
		/* The watchdog may have come between. */
		if (!done && !was_taken(stub)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return false;
		}
	}
	stub->gdb.stopped = stub->holding = false;
	if (stub->timer)
		vms_timer_set(stub->timer, 0);
	return !stub->end_cause || fail_ended(stub, error);
}

/* The watchdog has taken the machine in the middle of a request, which says false with that. */
static bool yield(struct stub_machine *stub, GError **error)
{
	g_clear_error(error);
	stub->holding = true; /* nobody knows better */
	return release(&stub->machine, VMS_ALL_VCPUS, error);
}

/*
 * A request to a machine that somebody else had resumed has stopped it, with or
 * without a word: now we hold it.
 */
static void take_over(struct stub_machine *stub)
{
	bool lost = !stub->has_monitor && stub->user_paused && stub->gdb.broken;
	if (!stub->gdb.stopped_by_request && !lost)
		return;
	stub->gdb.stopped_by_request = false;
	atomic_store(&stub->user_paused, false);
	vms_hold_begin(hold_of(stub), VMS_HOLD_HELD, vms_clock_now_ns(),
		       stub->machine.hold_limit_ns);
	stub->holding = true;
}

static bool regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	struct stub_machine *stub = stub_of(machine);
	if (stub->end_cause)
		return fail_ended(stub, error);
	bool read = vms_gdb_regs(&stub->gdb, vcpu, ret, error);
	if (was_taken(stub))
		return yield(stub, error);
	take_over(stub);
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
static bool system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			GError **error)
{
	struct stub_machine *stub = stub_of(machine);
	struct vms_regs told = { 0 };
	if (stub->end_cause)
		return fail_ended(stub, error);
	if (!stub->has_monitor || machine->arch != &vms_arch_x86_64)
		return true;
	g_autofree char *command = g_strdup_printf("info registers %u", vcpu);
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, command, error);
	if (was_taken(stub))
		return yield(stub, error);
	take_over(stub);
	if (text && vms_hmp_parse_x86_64_general(text, &told) && are_same(&told, ret))
		vms_hmp_parse_x86_64_registers(text, ret);
	return text;
}

static bool read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct stub_machine *stub = stub_of(machine);
	bool was_held = stub->holding || stub->user_paused;
	if (stub->end_cause || !vms_machine_is_memory(machine, pa, size))
		return false;
	if (!was_held && !hold(machine, VMS_ALL_VCPUS, NULL)) {
		stub->end_cause = NULL;
		return false;
	}
	bool read = vms_gdb_read_phys(&stub->gdb, pa, buf, size, NULL);
	/* No release does that for a machine that others have stopped. */
	if (!stub->holding)
		vms_gdb_leave_phys_mode(&stub->gdb, NULL);
	if (was_taken(stub))
		read = yield(stub, NULL);
	else
		take_over(stub);
	if (was_held)
		return read;
	read &= release(machine, VMS_ALL_VCPUS, NULL);
	stub->end_cause = NULL;
	return read;
}

/* As of the last hold: to ask is to stop the machine. */
static bool is_paused(struct vms_machine *machine)
{
	return stub_of(machine)->user_paused;
}

static enum vms_machine_end ended(struct vms_machine *machine)
{
	return stub_of(machine)->gdb.broken ? VMS_MACHINE_GONE : VMS_MACHINE_GOES_ON;
}

/*
 * A stub whose client just goes keeps a stopped machine stopped: what we hold, we let go. One that
 * knows no more than the protocol is detached from.
 */
static void end_threads(struct vms_machine *machine)
{
	vms_timer_free(g_steal_pointer(&stub_of(machine)->timer));
}

static void close_machine(struct vms_machine *machine)
{
	struct stub_machine *stub = stub_of(machine);
	if (stub->holding && vms_gdb_leave_phys_mode(&stub->gdb, NULL) &&
	    (stub->has_monitor ? undo_stop(stub, NULL) : vms_gdb_detach(&stub->gdb, NULL)))
		vms_hold_begin(hold_of(stub), VMS_HOLD_NONE, 0, 0);
	vms_guard_free(stub->guard);
	vms_gdb_close(&stub->gdb);
	g_clear_pointer(&machine->ranges, g_array_unref);
	g_string_chunk_free(stub->range_names);
	g_free(stub->name);
	g_free(stub);
}

static const struct vms_engine engine = {
	.name = "gdb",
	.hold = hold,
	.release = release,
	.regs = regs,
	.system_regs = system_regs,
	.read_phys = read_phys,
	.is_paused = is_paused,
	.ended = ended,
	.end_threads = end_threads,
	.close = close_machine,
};

/* QEMU's monitor answers behind its stub too. Other stubs have another, or none. */
static void read_map(struct stub_machine *stub)
{
	g_autoptr(GError) failure = NULL;
	g_autofree char *text = vms_gdb_monitor(&stub->gdb, "info mtree -f", &failure);
	if (text)
		stub->machine.ranges = vms_hmp_parse_mtree(text, stub->range_names, &failure);
	if (!stub->machine.ranges)
		vms_log(VMS_LOG_INFO, "no memory map: %s", failure->message);
}

/*
 * With QEMU's monitor every request can go along with an interrupt request, and a release can look
 * at the state before. It also tells of a machine that our connection has not stopped.
 */
static bool find_monitor(struct stub_machine *stub, GError **error)
{
	enum vms_run_state state;
	stub->has_monitor = stub->gdb.has_phys_mode && ask_state(stub, &state, NULL);
	stub->gdb.interrupts = stub->has_monitor;
	if (!stub->has_monitor)
		return true;
	vms_guard_set_monitor(stub->guard);
	stub->timer = vms_timer_new("vms-hold", look_at_hold, stub, error);
	stub->holding = state == VMS_RUN_PAUSED;
	atomic_store(&stub->user_paused, !stub->holding);
	if (!stub->holding)
		vms_hold_change(hold_of(stub), VMS_HOLD_HELD, VMS_HOLD_NONE);
	return stub->timer;
}

/* A stub stops its machine as soon as somebody connects: the watchdog is there before. */
static int start_guard(struct vms_stream *stream, void *data)
{
	struct stub_machine *stub = data;
	vms_guard_free(stub->guard);
	stub->guard = vms_guard_new_gdb(stream, NULL);
	if (!stub->guard)
		return EAGAIN;
	vms_hold_begin(hold_of(stub), VMS_HOLD_HELD, vms_clock_now_ns(), VMS_HOLD_LIMIT_NS);
	return 0;
}

static bool open_connected(struct stub_machine *stub, GError **error)
{
	stub->holding = true;
	stub->gdb.hold = hold_of(stub);
	if (!vms_gdb_open(&stub->gdb, error))
		return false;
	stub->machine.arch = stub->gdb.arch;
	stub->machine.n_vcpus = stub->gdb.threads->len;
	if (!find_monitor(stub, error))
		return false;
	read_map(stub);
	return release(&stub->machine, VMS_ALL_VCPUS, error);
}

struct vms_machine *vms_machine_open_gdb(const char *address, GError **error)
{
	struct stub_machine *stub = g_new0(struct stub_machine, 1);
	stub->name = g_strdup(address);
	stub->range_names = g_string_chunk_new(256);
	stub->machine.info = (struct vms_machine_info) { .name = stub->name,
							 .engine = "gdb",
							 .description = "gdb remote stub" };
	stub->gdb.stream.before_connect = start_guard;
	stub->gdb.stream.data = stub;
	if (!vms_stream_connect(&stub->gdb.stream, "gdb stub", address, error) ||
	    !open_connected(stub, error)) {
		close_machine(&stub->machine);
		return NULL;
	}
	vms_machine_init(&stub->machine, &engine);
	return &stub->machine;
}
