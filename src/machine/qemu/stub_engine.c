/* SPDX-License-Identifier: MIT */
/* The engine for a QEMU whose registers, stops and goes come from a gdb stub that is added to it.
 */
#include "machine/qemu/stub.h"

#include <string.h>
#include <vmscope/log.h>

static struct vms_qemu_stub *stub_of(struct vms_machine *machine)
{
	return (struct vms_qemu_stub *)machine;
}

/*
 * Is the machine, which we do not hold, paused? A stop shows on either
 * connection, our own ones too, possibly late; the status, asked for, is sure
 * and comes after every earlier event.
 */
static bool settle(struct vms_qemu_stub *stub, GError **error)
{
	vms_qmp_poll(&stub->qemu.qmp);
	if (!stub->gdb.stopped && !vms_gdb_poll(&stub->gdb, error))
		return false;
	if (!stub->gdb.stopped && stub->qemu.qmp.running)
		return true;
	vms_autojson *status = vms_qmp_execute(&stub->qemu.qmp, "query-status", NULL, -1, error);
	if (!status)
		return false;
	vms_json_bool(status, "running", &stub->qemu.qmp.running);
	stub->user_paused = stub->gdb.stopped = !stub->qemu.qmp.running;
	stub->resumes = stub->qemu.qmp.resumes;
	return true;
}

static bool resume_by_qmp(struct vms_qemu_stub *stub)
{
	vms_autojson *resumed = vms_qmp_execute(&stub->qemu.qmp, "cont", NULL, -1, NULL);
	return resumed != NULL;
}

/*
 * After the stub failed: it goes, and the machine must run again. What does not
 * succeed here the guard does, when the machine is closed.
 */
static void abandon(struct vms_qemu_stub *stub)
{
	stub->gdb.broken = true;
	vms_qemu_remove_stub(stub, NULL);
	if (stub->holding && resume_by_qmp(stub)) {
		stub->holding = false;
		vms_guard_release(stub->guard);
	}
}

static bool hold(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct vms_qemu_stub *stub = stub_of(machine);
	vms_gdb_forget_regs(&stub->gdb);
	if (!settle(stub, error))
		return false;
	if (stub->user_paused)
		return true;
	if (!vms_guard_hold(stub->guard, error))
		return false;
	stub->holding = true;
	if (!vms_gdb_stop(&stub->gdb, error)) {
		abandon(stub);
		return false;
	}
	/* Stopped by an I/O error or a panic of the guest: not ours to resume. */
	if (stub->gdb.signal == VMS_GDB_SIGINT)
		return true;
	stub->holding = false;
	vms_guard_release(stub->guard);
	return settle(stub, error);
}

static bool fail_released(struct vms_qemu_stub *stub, const char *by, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s was resumed by %s while it was held: what was read may be torn",
		    stub->qemu.machine.info.name, by);
	return false;
}

#define BY_WATCHDOG "the watchdog, since this program was stopped,"

/* Does a machine that is held stand still, so that its stub can be asked? */
static bool check_still(struct vms_qemu_stub *stub, GError **error)
{
	if (stub->holding)
		return !vms_guard_has_released(stub->guard) ||
		       fail_released(stub, BY_WATCHDOG, error);
	vms_qmp_poll(&stub->qemu.qmp);
	return !stub->qemu.qmp.running || fail_released(stub, "somebody else", error);
}

/*
 * After requests to the stub. When the user had paused the machine and resumed it
 * at the last moment, a request has stopped it, with or without a word from the
 * stub: now it is us who hold it.
 */
static void take_over(struct vms_qemu_stub *stub)
{
	if (!stub->user_paused || (!stub->gdb.stopped_by_request && !stub->gdb.broken))
		return;
	vms_qmp_poll(&stub->qemu.qmp);
	if (stub->qemu.qmp.resumes == stub->resumes)
		return;
	stub->gdb.stopped_by_request = false;
	stub->user_paused = false;
	stub->holding = vms_guard_hold(stub->guard, NULL);
}

static bool release(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct vms_qemu_stub *stub = stub_of(machine);
	if (!stub->holding)
		return check_still(stub, error) &&
		       (stub->gdb.broken || vms_gdb_leave_phys_mode(&stub->gdb, error));
	if (vms_guard_has_released(stub->guard)) {
		/* A request that was sent since then has stopped it again. */
		resume_by_qmp(stub);
		stub->holding = stub->gdb.stopped = false;
		vms_guard_release(stub->guard);
		return fail_released(stub, BY_WATCHDOG, error);
	}
	if (!vms_gdb_resume(&stub->gdb, error)) {
		abandon(stub);
		return false;
	}
	stub->holding = false;
	/* Had the guard resumed it just before, the stub has stopped it by our request. */
	if (!vms_guard_release(stub->guard)) {
		resume_by_qmp(stub);
		return fail_released(stub, BY_WATCHDOG, error);
	}
	vms_qmp_poll(&stub->qemu.qmp);
	return true;
}

static bool regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	struct vms_qemu_stub *stub = stub_of(machine);
	if (!check_still(stub, error))
		return false;
	bool read = vms_gdb_regs(&stub->gdb, vcpu, ret, error);
	take_over(stub);
	return read;
}

/* On x86-64 the stub does not tell them; the monitor is exact while the machine is stopped. */
static bool system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			GError **error)
{
	struct vms_qemu_stub *stub = stub_of(machine);
	if (!check_still(stub, error))
		return false;
	if (machine->arch != &vms_arch_x86_64)
		return vms_gdb_system_regs(&stub->gdb, vcpu, ret, error);
	return vms_qemu_system_regs(machine, vcpu, ret, error);
}

/* Through the stub, which answers for a stopped machine only. */
static bool read_by_stub(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct vms_qemu_stub *stub = stub_of(machine);
	if (!vms_machine_is_memory(machine, pa, size))
		return false;
	if (!stub->told_slow) {
		stub->told_slow = true;
		vms_log(VMS_LOG_WARNING,
			"%s: memory is read through the gdb stub, which is slow; reading it from "
			"QEMU itself needs the same user or root",
			machine->info.name);
	}
	bool stopped = stub->gdb.stopped;
	if (stopped ? !check_still(stub, NULL) : !hold(machine, VMS_ALL_VCPUS, NULL))
		return false;
	bool read = vms_gdb_read_phys(&stub->gdb, pa, buf, size, NULL);
	take_over(stub);
	return (stopped || release(machine, VMS_ALL_VCPUS, NULL)) && read;
}

/* What cannot be read although its place in QEMU is known is gone with QEMU. */
static bool read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return !vms_ram_covers(&stub_of(machine)->qemu.ram, pa, size) &&
	       read_by_stub(machine, pa, buf, size);
}

static bool is_paused(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = stub_of(machine);
	if (!stub->holding)
		settle(stub, NULL);
	return stub->user_paused;
}

static enum vms_machine_end ended(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = stub_of(machine);
	return stub->gdb.broken ? VMS_MACHINE_GONE : vms_qemu_ended(machine);
}

static void close_machine(struct vms_machine *machine)
{
	struct vms_qemu_stub *stub = stub_of(machine);
	if (stub->holding)
		release(machine, VMS_ALL_VCPUS, NULL);
	vms_qemu_remove_stub(stub, NULL);
	vms_guard_free(stub->guard);
	vms_qemu_close(&stub->qemu);
	g_free(stub);
}

static const struct vms_engine engine = {
	.name = "qemu",
	.hold = hold,
	.release = release,
	.regs = regs,
	.system_regs = system_regs,
	.read_ram = vms_qemu_read_ram,
	.read_parts = vms_qemu_read_parts,
	.next_data = vms_qemu_next_data,
	.read_phys = read_phys,
	.is_paused = is_paused,
	.ended = ended,
	.resets = vms_qemu_resets,
	.item_text = vms_qemu_item_text,
	.close = close_machine,
};

/*
 * Proves that the process and the places are right: what lies there must be
 * what the stub shows. The machine is stopped. A part that may not be read is left to the stub.
 */
static void check_ram(struct vms_qemu_stub *stub)
{
	GArray *parts = stub->qemu.ram.parts;
	for (guint i = 0; parts && i < parts->len; i++) {
		const struct vms_ram_part *part = &g_array_index(parts, struct vms_ram_part, i);
		uint8_t ours[64], theirs[64];
		size_t size = MIN(sizeof(ours), part->size);
		if (!vms_gdb_read_phys(&stub->gdb, part->pa, theirs, size, NULL))
			continue;
		if (!vms_ram_read(&stub->qemu.ram, part->pa, ours, size))
			g_array_remove_index(parts, i--);
		else if (memcmp(ours, theirs, size) != 0)
			g_array_set_size(parts, 0);
	}
}

static bool open_connected(struct vms_qemu_stub *stub, GError **error)
{
	struct vms_machine *machine = &stub->qemu.machine;
	if (!vms_qemu_add_stub(stub, error))
		return false;
	check_ram(stub);
	machine->arch = stub->gdb.arch;
	machine->n_vcpus = MIN(machine->n_vcpus, stub->gdb.threads->len);
	return !stub->holding || release(machine, VMS_ALL_VCPUS, error);
}

struct vms_machine *vms_machine_open_qmp(const char *address, GError **error)
{
	const char *const addresses[] = { address, NULL };
	return vms_qemu_stub_open(addresses, 0, error);
}

struct vms_machine *vms_qemu_stub_open(const char *const *addresses, pid_t pid, GError **error)
{
	struct vms_qemu_stub *stub = g_new0(struct vms_qemu_stub, 1);
	if (!vms_qemu_open(&stub->qemu, addresses, pid, error) || !open_connected(stub, error)) {
		if (stub->holding)
			abandon(stub);
		close_machine(&stub->qemu.machine);
		return NULL;
	}
	vms_machine_init(&stub->qemu.machine, &engine);
	return &stub->qemu.machine;
}
