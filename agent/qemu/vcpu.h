/* SPDX-License-Identifier: MIT */
/*
 * The vCPUs, by QEMU's index: their threads, their registers, and whether they execute.
 */
#pragma once

#include "agent/qemu/arch.h"
#include "agent/qemu/qemu_plugin.h"
#include "machine/agent/protocol.h"
#include "probe/wide.h"

struct vcpu {
	unsigned index;
	uint32_t thread; /* id of the host thread that runs it */
	GMutex lock;	 /* guards the members up to `regs`, and holds granted while it is halted */
	enum vms_agent_vcpu_state state;
	void *qemu; /* its CPUState, if QEMU's internals are used; else NULL */
	/* Its registers at the last halt or hold. */
	uint32_t has_regs[VMS_AGENT_MAX_REGS / 32];
	uint64_t regs[VMS_AGENT_MAX_REGS];

	_Atomic bool is_kicked; /* kicked, and has not answered yet */

	/* Only for the vCPU's own thread. */
	/* NULL: QEMU has no such register. */
	struct qemu_plugin_register *handles[VMS_AGENT_MAX_REGS];
	/* Numbers of registers, if QEMU's internals are used; -1: QEMU has no such register. */
	int numbers[VMS_AGENT_MAX_REGS];
	struct qemu_plugin_register *wide_handles[VMS_WIDE_MAX]; /* the same of wide registers */
	int wide_numbers[VMS_WIDE_MAX];
	GByteArray *bytes;
};

/* False if there is no memory. */
bool vcpus_new(const struct arch *arch, unsigned max);
/* Returns how many vCPUs there can be: `max` of vcpus_new, VMS_AGENT_MAX_VCPUS at most. */
unsigned vcpus_max(void);
/* Returns a vCPU by its index. NULL if the index is too large. */
struct vcpu *vcpu_get(unsigned index);
/* True if there is such a vCPU now. The index is below vcpus_max. */
bool vcpu_is_there(unsigned index);
/*
 * True if QEMU runs all vCPUs in one thread. Then QEMU never reports a vCPU as idle. Instead, the
 * instruction that halts shows that it halts, and its next check of the flag shows that it
 * continues.
 */
bool vcpus_one_thread(void);
/*
 * True if QEMU runs several vCPUs in one thread. Then code must not be instrumented: QEMU up
 * to 11.1 puts the index of one vCPU as a constant into code that all vCPUs share. The
 * multiplication that finds a scoreboard's element also changes that constant for the guest's own
 * code.
 */
bool vcpus_mixed_up(void);
/*
 * Must be called when a vCPU is idle, and when code is translated. A single vCPU with its own
 * thread is idle before it runs any code. So the order of these calls shows whether it has one.
 */
void vcpus_idle(void);
void vcpus_run(void);
/* Returns the vCPU of this thread, or NULL. If several share the thread, returns any of them. */
struct vcpu *vcpu_current(void);
const struct arch *vcpu_arch(void);

/*
 * Reads a register, in a callback of the vCPU that may read registers. False if there is no such
 * register.
 */
bool vcpu_read(struct vcpu *vcpu, unsigned reg, uint64_t *ret);
/* The same by the vCPU's index. Returns 0 if there is no such register or vCPU. */
uint64_t vcpu_value(unsigned index, unsigned reg);
/* Returns argument `n`, 0 or 1, of a function. The vCPU is at the function's begin. */
uint64_t vcpu_argument(struct vcpu *vcpu, unsigned n);
/* Reads all registers. */
void vcpu_read_all(struct vcpu *vcpu, uint32_t has_regs[VMS_AGENT_MAX_REGS / 32],
		   uint64_t regs[VMS_AGENT_MAX_REGS]);
/* Reads virtual memory of this vCPU, in one of its callbacks. False if it is not mapped. */
bool vcpu_read_memory(struct vcpu *vcpu, uint64_t va, void *buf, size_t size);

/* Calls `each` with every register that has a handle, in the vCPU's thread. */
void vcpu_each_handle(void (*each)(const char *name, struct qemu_plugin_register *handle,
				   void *data),
		      void *data);

/* Initialises a vCPU that QEMU has created, in its thread. NULL if the index is too large. */
struct vcpu *vcpu_init(unsigned index);
/* Must be called when QEMU removes a vCPU. */
void vcpu_exit(struct vcpu *vcpu);
