/* SPDX-License-Identifier: MIT */
/*
 * The engine for a bare gdb stub: registers and physical memory come through it,
 * from QEMU's the memory map too, and nothing else is known of the machine.
 */
#include "machine/engine.h"
#include "machine/qemu/gdb.h"
#include "machine/qemu/guard.h"
#include "machine/qemu/hmp.h"
#include <vmscope/log.h>

struct stub_machine {
	struct vms_machine machine;
	struct vms_gdb gdb;
	struct vms_guard *guard;
	char *name;
	GStringChunk *range_names;
	bool holding;	  /* we have stopped the machine */
	bool user_paused; /* it stopped without our doing */
};

static struct stub_machine *stub_of(struct vms_machine *machine)
{
	return (struct stub_machine *)machine;
}

/* Is the machine stopped, without our doing? It may be us who stop it, to find out. */
static bool find_paused(struct stub_machine *stub, GError **error)
{
	bool was_running = false;
	if (!stub->gdb.stopped && !vms_gdb_poll(&stub->gdb, error))
		return false;
	if (stub->gdb.stopped && (!vms_guard_hold(stub->guard, error) ||
				  !vms_gdb_probe(&stub->gdb, &was_running, error)))
		return false;
	stub->holding = was_running;
	stub->user_paused = stub->gdb.stopped && !was_running;
	if (stub->user_paused)
		vms_guard_release(stub->guard);
	return true;
}

static bool hold(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct stub_machine *stub = stub_of(machine);
	vms_gdb_forget_regs(&stub->gdb);
	if (!find_paused(stub, error))
		return false;
	if (stub->user_paused || stub->holding)
		return true;
	if (!vms_guard_hold(stub->guard, error))
		return false;
	stub->holding = true;
	return vms_gdb_stop(&stub->gdb, error);
}

static bool fail_released(struct stub_machine *stub, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s was resumed by the watchdog, since this program was stopped, while it was "
		    "held: what was read may be torn",
		    stub->name);
	return false;
}

static bool release(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct stub_machine *stub = stub_of(machine);
	if (!stub->holding)
		return true;
	if (!vms_guard_has_released(stub->guard) && !vms_gdb_resume(&stub->gdb, error))
		return false;
	/* A request that was sent since the guard released it may have stopped it again. */
	bool was_running;
	if (vms_guard_has_released(stub->guard) &&
	    (!vms_gdb_probe(&stub->gdb, &was_running, error) || !vms_gdb_resume(&stub->gdb, error)))
		return false;
	stub->holding = false;
	return vms_guard_release(stub->guard) || fail_released(stub, error);
}

/*
 * A request to a machine that somebody else had resumed has stopped it, with or
 * without a word: now we hold it. One that the guard has released, release() sees to.
 */
static void take_over(struct stub_machine *stub)
{
	if (vms_guard_has_released(stub->guard))
		return;
	if (!stub->gdb.stopped_by_request && !(stub->user_paused && stub->gdb.broken))
		return;
	stub->gdb.stopped_by_request = stub->user_paused = false;
	stub->holding = vms_guard_hold(stub->guard, NULL);
}

static bool regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	struct stub_machine *stub = stub_of(machine);
	if (vms_guard_has_released(stub->guard))
		return fail_released(stub, error);
	bool read = vms_gdb_regs(&stub->gdb, vcpu, ret, error);
	take_over(stub);
	return read;
}

static bool read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct stub_machine *stub = stub_of(machine);
	bool stopped = stub->gdb.stopped;
	if (!vms_machine_is_memory(machine, pa, size) || vms_guard_has_released(stub->guard) ||
	    (!stopped && !hold(machine, VMS_ALL_VCPUS, NULL)))
		return false;
	bool read = vms_gdb_read_phys(&stub->gdb, pa, buf, size, NULL);
	take_over(stub);
	return (stopped || release(machine, VMS_ALL_VCPUS, NULL)) && read;
}

static bool is_paused(struct vms_machine *machine)
{
	struct stub_machine *stub = stub_of(machine);
	if (stub->holding)
		return false;
	find_paused(stub, NULL);
	if (stub->holding)
		release(machine, VMS_ALL_VCPUS, NULL);
	return stub->user_paused;
}

static enum vms_machine_end ended(struct vms_machine *machine)
{
	is_paused(machine);
	return stub_of(machine)->gdb.broken ? VMS_MACHINE_GONE : VMS_MACHINE_GOES_ON;
}

/* A stub whose client just goes keeps a stopped machine stopped: what we hold, we detach from. */
static void close_machine(struct vms_machine *machine)
{
	struct stub_machine *stub = stub_of(machine);
	if (!stub->holding && stub->gdb.stopped)
		vms_gdb_leave_phys_mode(&stub->gdb, NULL);
	if (stub->holding && vms_gdb_detach(&stub->gdb, NULL))
		vms_guard_release(stub->guard);
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
	.read_phys = read_phys,
	.is_paused = is_paused,
	.ended = ended,
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

static bool open_connected(struct stub_machine *stub, GError **error)
{
	stub->guard = vms_guard_new_gdb(&stub->gdb.stream, error);
	if (!stub->guard || !vms_guard_hold(stub->guard, error))
		return false;
	stub->holding = true;
	if (!vms_gdb_open(&stub->gdb, error))
		return false;
	stub->machine.arch = stub->gdb.arch;
	stub->machine.n_vcpus = stub->gdb.threads->len;
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
	if (!vms_stream_connect(&stub->gdb.stream, "gdb stub", address, error) ||
	    !open_connected(stub, error)) {
		close_machine(&stub->machine);
		return NULL;
	}
	vms_machine_init(&stub->machine, &engine);
	return &stub->machine;
}
