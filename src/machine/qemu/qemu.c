/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qemu.h"
#include "machine/qemu/hmp.h"

#include <string.h>
#include <vmscope/log.h>

static struct vms_qemu *qemu_of(struct vms_machine *machine)
{
	return (struct vms_qemu *)machine;
}

/*
 * Is the machine, which we do not hold, paused? A stop shows on either
 * connection, our own ones too, possibly late; the status, asked for, is sure
 * and comes after every earlier event.
 */
static bool settle(struct vms_qemu *qemu, GError **error)
{
	vms_qmp_poll(&qemu->qmp);
	if (!qemu->gdb.stopped && !vms_gdb_poll(&qemu->gdb, error))
		return false;
	if (!qemu->gdb.stopped && qemu->qmp.running)
		return true;
	vms_autojson *status = vms_qmp_execute(&qemu->qmp, "query-status", NULL, -1, error);
	if (!status)
		return false;
	vms_json_bool(status, "running", &qemu->qmp.running);
	qemu->user_paused = qemu->gdb.stopped = !qemu->qmp.running;
	qemu->resumes = qemu->qmp.resumes;
	return true;
}

static bool resume_by_qmp(struct vms_qemu *qemu)
{
	vms_autojson *resumed = vms_qmp_execute(&qemu->qmp, "cont", NULL, -1, NULL);
	return resumed != NULL;
}

/*
 * After the stub failed: it goes, and the machine must run again. What does not
 * succeed here the guard does, when the machine is closed.
 */
static void abandon(struct vms_qemu *qemu)
{
	qemu->gdb.broken = true;
	vms_qemu_remove_stub(qemu, NULL);
	if (qemu->holding && resume_by_qmp(qemu)) {
		qemu->holding = false;
		vms_guard_release(qemu->guard);
	}
}

static bool hold(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct vms_qemu *qemu = qemu_of(machine);
	vms_gdb_forget_regs(&qemu->gdb);
	if (!settle(qemu, error))
		return false;
	if (qemu->user_paused)
		return true;
	if (!vms_guard_hold(qemu->guard, error))
		return false;
	qemu->holding = true;
	if (!vms_gdb_stop(&qemu->gdb, error)) {
		abandon(qemu);
		return false;
	}
	/* Stopped by an I/O error or a panic of the guest: not ours to resume. */
	if (qemu->gdb.signal == VMS_GDB_SIGINT)
		return true;
	qemu->holding = false;
	vms_guard_release(qemu->guard);
	return settle(qemu, error);
}

static bool fail_released(struct vms_qemu *qemu, const char *by, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s was resumed by %s while it was held: what was read may be torn",
		    qemu->machine.info.name, by);
	return false;
}

#define BY_WATCHDOG "the watchdog, since this program was stopped,"

/* Does a machine that is held stand still, so that its stub can be asked? */
static bool check_still(struct vms_qemu *qemu, GError **error)
{
	if (qemu->holding)
		return !vms_guard_has_released(qemu->guard) ||
		       fail_released(qemu, BY_WATCHDOG, error);
	vms_qmp_poll(&qemu->qmp);
	return !qemu->qmp.running || fail_released(qemu, "somebody else", error);
}

/*
 * After requests to the stub. When the user had paused the machine and resumed it
 * at the last moment, a request has stopped it, with or without a word from the
 * stub: now it is us who hold it.
 */
static void take_over(struct vms_qemu *qemu)
{
	if (!qemu->user_paused || (!qemu->gdb.stopped_by_request && !qemu->gdb.broken))
		return;
	vms_qmp_poll(&qemu->qmp);
	if (qemu->qmp.resumes == qemu->resumes)
		return;
	qemu->gdb.stopped_by_request = false;
	qemu->user_paused = false;
	qemu->holding = vms_guard_hold(qemu->guard, NULL);
}

static bool release(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)vcpu;
	struct vms_qemu *qemu = qemu_of(machine);
	if (!qemu->holding)
		return check_still(qemu, error) &&
		       (qemu->gdb.broken || vms_gdb_leave_phys_mode(&qemu->gdb, error));
	if (vms_guard_has_released(qemu->guard)) {
		/* A request that was sent since then has stopped it again. */
		resume_by_qmp(qemu);
		qemu->holding = qemu->gdb.stopped = false;
		vms_guard_release(qemu->guard);
		return fail_released(qemu, BY_WATCHDOG, error);
	}
	if (!vms_gdb_resume(&qemu->gdb, error)) {
		abandon(qemu);
		return false;
	}
	qemu->holding = false;
	/* Had the guard resumed it just before, the stub has stopped it by our request. */
	if (!vms_guard_release(qemu->guard)) {
		resume_by_qmp(qemu);
		return fail_released(qemu, BY_WATCHDOG, error);
	}
	vms_qmp_poll(&qemu->qmp);
	return true;
}

static bool regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (!check_still(qemu, error))
		return false;
	bool read = vms_gdb_regs(&qemu->gdb, vcpu, ret, error);
	take_over(qemu);
	return read;
}

/* On x86-64 the stub does not tell them; the monitor is exact while the machine is stopped. */
static bool system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			GError **error)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (!check_still(qemu, error))
		return false;
	if (machine->arch != &vms_arch_x86_64)
		return vms_gdb_system_regs(&qemu->gdb, vcpu, ret, error);
	g_autofree char *text = vms_qmp_hmp_vcpu(&qemu->qmp, "info registers", vcpu, error);
	if (!text)
		return false;
	if (!vms_hmp_parse_x86_64_registers(text, ret) && !qemu->told_registers) {
		qemu->told_registers = true;
		vms_log(VMS_LOG_INFO,
			"%s: no segments and debug registers: cannot understand QEMU's "
			"`info registers`",
			machine->info.name);
	}
	return true;
}

/* Through the stub, which answers for a stopped machine only. */
static bool read_by_stub(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (!vms_machine_is_memory(machine, pa, size))
		return false;
	if (!qemu->told_slow) {
		qemu->told_slow = true;
		vms_log(VMS_LOG_WARNING,
			"%s: memory is read through the gdb stub, which is slow; reading it from "
			"QEMU itself needs the same user or root",
			machine->info.name);
	}
	bool stopped = qemu->gdb.stopped;
	if (stopped ? !check_still(qemu, NULL) : !hold(machine, VMS_ALL_VCPUS, NULL))
		return false;
	bool read = vms_gdb_read_phys(&qemu->gdb, pa, buf, size, NULL);
	take_over(qemu);
	return (stopped || release(machine, VMS_ALL_VCPUS, NULL)) && read;
}

static bool read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return vms_ram_read(&qemu_of(machine)->ram, pa, buf, size);
}

static void next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
		      uint64_t *stop)
{
	vms_ram_next_data(&qemu_of(machine)->ram, pa, end, begin, stop);
}

/* What cannot be read although its place in QEMU is known is gone with QEMU. */
static bool read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return !vms_ram_covers(&qemu_of(machine)->ram, pa, size) &&
	       read_by_stub(machine, pa, buf, size);
}

static bool is_paused(struct vms_machine *machine)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (!qemu->holding)
		settle(qemu, NULL);
	return qemu->user_paused;
}

static enum vms_machine_end ended(struct vms_machine *machine)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (!vms_qmp_poll(&qemu->qmp) || qemu->qmp.has_shut_down || qemu->gdb.broken)
		return VMS_MACHINE_GONE;
	return qemu->qmp.was_reset ? VMS_MACHINE_RESET : VMS_MACHINE_GOES_ON;
}

static void close_machine(struct vms_machine *machine)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (qemu->holding)
		release(machine, VMS_ALL_VCPUS, NULL);
	vms_qemu_remove_stub(qemu, NULL);
	vms_guard_free(qemu->guard);
	vms_qmp_close(&qemu->qmp);
	g_clear_pointer(&machine->ranges, g_array_unref);
	g_free(machine->vcpu_threads);
	vms_ram_close(&qemu->ram);
	g_string_chunk_free(qemu->strings);
	g_free(qemu);
}

static const struct vms_engine engine = {
	.name = "qemu",
	.hold = hold,
	.release = release,
	.regs = regs,
	.system_regs = system_regs,
	.read_ram = read_ram,
	.next_data = next_data,
	.read_phys = read_phys,
	.is_paused = is_paused,
	.ended = ended,
	.item_text = vms_qemu_item_text,
	.close = close_machine,
};

/*
 * Proves that the process and the places are right: what lies there must be
 * what the stub shows. The machine is stopped. A part that may not be read is left to the stub.
 */
static void check_ram(struct vms_qemu *qemu)
{
	GArray *parts = qemu->ram.parts;
	for (guint i = 0; parts && i < parts->len; i++) {
		const struct vms_ram_part *part = &g_array_index(parts, struct vms_ram_part, i);
		uint8_t ours[64], theirs[64];
		size_t size = MIN(sizeof(ours), part->size);
		if (!vms_gdb_read_phys(&qemu->gdb, part->pa, theirs, size, NULL))
			continue;
		if (!vms_ram_read(&qemu->ram, part->pa, ours, size))
			g_array_remove_index(parts, i--);
		else if (memcmp(ours, theirs, size) != 0)
			g_array_set_size(parts, 0);
	}
}

static bool open_connected(struct vms_qemu *qemu, GError **error)
{
	if (!vms_qmp_open(&qemu->qmp, error) || !vms_qemu_identify(qemu, error))
		return false;
	vms_qemu_map_ram(qemu);
	if (!vms_qemu_add_stub(qemu, error))
		return false;
	check_ram(qemu);
	qemu->machine.arch = qemu->gdb.arch;
	qemu->machine.n_vcpus = MIN(qemu->machine.n_vcpus, qemu->gdb.threads->len);
	qemu->machine.items = vms_qemu_items;
	qemu->machine.n_items = vms_qemu_n_items;
	return !qemu->holding || release(&qemu->machine, VMS_ALL_VCPUS, error);
}

struct vms_machine *vms_machine_open_qmp(const char *address, GError **error)
{
	return vms_qemu_open(address, 0, error);
}

struct vms_machine *vms_qemu_open(const char *address, pid_t pid, GError **error)
{
	struct vms_qemu *qemu = g_new0(struct vms_qemu, 1);
	qemu->machine.info.pid = pid;
	qemu->strings = g_string_chunk_new(1024);
	if (!vms_stream_connect(&qemu->qmp.stream, "QMP socket", address, error) ||
	    !open_connected(qemu, error)) {
		if (qemu->holding)
			abandon(qemu);
		close_machine(&qemu->machine);
		return NULL;
	}
	vms_machine_init(&qemu->machine, &engine);
	return &qemu->machine;
}
