/* SPDX-License-Identifier: MIT */
/*
 * Registers of a machine that the gdb stub holds. Three sources have them: the stub, QEMU's
 * monitor, and QEMU's memory.
 *
 * A walk of stacks needs the registers of all vCPUs, as soon as possible after the stop. To print
 * them takes the stub some 50 us per vCPU. So they are read from QEMU's memory by one system call,
 * if it was proved that they are there (vcpu_state.c): at one stop, both sources had the same
 * values for all vCPUs. This is proved again from time to time. It only works under TCG: with KVM
 * the registers are in QEMU's memory only after somebody has asked QEMU for them.
 */
#include "machine/qemu/stub-private.h"

#include <vmscope/log.h>

#define PROOF_HOLDS 256 /* how many holds a proof is good for */
#define PROOFS_MAX  16	/* how many proofs may fail before no more are tried */

/* ---- from QEMU's memory ------------------------------------------------- */

static bool may_read_state(const struct vms_qemu_stub *stub)
{
	return stub->qemu.machine.arch == &vms_arch_x86_64 &&
	       g_strcmp0(stub->qemu.machine.info.accelerator, "tcg") == 0;
}

void vms_stub_find_state(struct vms_qemu_stub *stub)
{
	if (!may_read_state(stub) || stub->state_regs)
		return;
	stub->state_regs = g_new0(struct vms_regs, MAX(stub->qemu.machine.n_vcpus, 1));
	stub->proofs_left = vms_vcpu_state_find(&stub->qemu) ? PROOFS_MAX : 0;
}

bool vms_stub_reads_state(const struct vms_qemu_stub *stub)
{
	return stub->proof_holds > 0;
}

void vms_stub_forget_state(struct vms_qemu_stub *stub)
{
	stub->has_state_regs = false;
	stub->proof_holds -= stub->proof_holds > 0;
}

/* Compares the registers of all vCPUs that the stub tells with those in QEMU's memory. */
static bool prove_state(struct vms_qemu_stub *stub)
{
	const unsigned n = stub->qemu.machine.n_vcpus;
	stub->proofs_left--;
	for (unsigned i = 0; i < n; i++)
		if (i >= stub->gdb.threads->len ||
		    !vms_gdb_regs(&stub->gdb, i, &stub->state_regs[i], NULL))
			return false;
	if (!vms_vcpu_state_prove(&stub->qemu, stub->state_regs, n))
		return false;
	if (!stub->told_state)
		vms_log(VMS_LOG_DEBUG, "%s: registers for stacks are read from QEMU's memory",
			vms_stub_name(stub));
	stub->told_state = true;
	stub->proofs_left = PROOFS_MAX;
	stub->proof_holds = PROOF_HOLDS;
	return true;
}

/* Reads the registers of all vCPUs from QEMU's memory. False if that cannot be done. */
static bool read_state(struct vms_qemu_stub *stub)
{
	if (stub->has_state_regs)
		return true;
	if (stub->proof_holds > 0) {
		stub->has_state_regs = vms_vcpu_state_read(&stub->qemu, stub->state_regs,
							   stub->qemu.machine.n_vcpus);
		if (!stub->has_state_regs)
			stub->proof_holds = 0;
	} else if (stub->proofs_left > 0) {
		stub->has_state_regs = prove_state(stub);
	}
	return stub->has_state_regs;
}

bool vms_stub_stack_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			 GError **error)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	if (!stub->state_regs || vms_stub_standing(stub) != VMS_STANDS_BY_US ||
	    !vms_stub_begin_requests(stub, NULL))
		return vms_stub_regs(machine, vcpu, ret, error);
	const bool is_read = read_state(stub);
	vms_stub_end_requests(stub);
	if (!is_read)
		return vms_stub_regs(machine, vcpu, ret, error);
	*ret = stub->state_regs[vcpu];
	return true;
}

/* ---- from the stub and the monitor ------------------------------------- */

bool vms_stub_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	bool monitor_knows = machine->arch == &vms_arch_x86_64;
	GError *failure = NULL;
	if (vms_stub_is_monitor_only(stub))
		return (monitor_knows || vms_stub_check_watcher(stub, error)) &&
		       vms_qemu_monitor_regs(machine, vcpu, ret, error);
	if (!vms_stub_begin_requests(stub, &failure)) {
		/* QEMU's only stub is somebody else's: a debugger has stopped the machine. */
		bool taken = g_error_matches(failure, VMS_ERROR, VMS_ERROR_BUSY);
		if (taken && monitor_knows && vms_qemu_monitor_regs(machine, vcpu, ret, NULL)) {
			g_error_free(failure);
			return true;
		}
		g_propagate_error(error, failure);
		return false;
	}
	bool read = vcpu < stub->gdb.threads->len
			    ? vms_gdb_regs(&stub->gdb, vcpu, ret, error)
			    : vms_gdb_fail(&stub->gdb, VMS_ERROR_NOT_FOUND,
					   "the vCPU is not there any more", error);
	vms_stub_end_requests(stub);
	return read;
}

/* On x86-64 only the monitor has these. What it tells is exact while the machine is stopped. */
bool vms_stub_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	if (machine->arch == &vms_arch_x86_64) {
		bool runs_on = vms_stub_standing(stub) == VMS_RUNS_ON;
		if ((!runs_on && !vms_stub_check_still(stub, error)) ||
		    !vms_qemu_system_regs(machine, vcpu, ret, error))
			return false;
		if (!runs_on)
			vms_qemu_add_state_regs(&stub->qemu, vcpu, ret);
		return true;
	}
	if (!vms_stub_begin_requests(stub, error))
		return false;
	bool read = vms_gdb_system_regs(&stub->gdb, vcpu, ret, error);
	vms_stub_end_requests(stub);
	return read;
}

/*
 * On x86-64 the monitor has them. The stub lacks most of them, and before QEMU 8.0 it has those of
 * x87 in another order.
 */
bool vms_stub_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			GError **error)
{
	struct vms_qemu_stub *stub = vms_stub_of(machine);
	if (machine->arch == &vms_arch_x86_64)
		return (vms_stub_standing(stub) == VMS_RUNS_ON ||
			vms_stub_check_still(stub, error)) &&
		       vms_qemu_wide_regs(machine, vcpu, ret, error);
	if (!vms_stub_begin_requests(stub, error))
		return false;
	bool read = vms_gdb_wide_regs(&stub->gdb, vcpu, ret, error);
	vms_stub_end_requests(stub);
	return read;
}
