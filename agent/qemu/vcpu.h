/* SPDX-License-Identifier: MIT */
/*
 * The vCPUs by QEMU's index: which threads run them, their registers, and whether they execute.
 */
#pragma once

#include "agent/qemu/arch.h"
#include "agent/qemu/qemu_plugin.h"
#include "machine/agent/protocol.h"

struct vcpu {
	unsigned index;
	uint32_t thread; /* id of the host thread that runs it */
	GMutex lock;	 /* of what follows up to `regs`, and of holds granted while it is halted */
	enum vms_agent_vcpu_state state;
	void *qemu; /* its CPUState, if QEMU's internals are used; else NULL */
	/* Registers that it halted with, or was held with last. */
	uint32_t has_regs[VMS_AGENT_MAX_REGS / 32];
	uint64_t regs[VMS_AGENT_MAX_REGS];

	_Atomic bool is_kicked; /* kicked, and has not come yet */

	/* Only for the vCPU's own thread. */
	struct qemu_plugin_register
		*handles[VMS_AGENT_MAX_REGS]; /* NULL: QEMU has no such register */
	int numbers[VMS_AGENT_MAX_REGS];      /* of registers, if internals are used; -1: as NULL */
	GByteArray *bytes;
};

/* False: no memory. */
bool vcpus_new(const struct arch *arch, unsigned max);
/* How many there can be: `max` of vcpus_new, VMS_AGENT_MAX_VCPUS at most. */
unsigned vcpus_max(void);
/* NULL: the index is too large. */
struct vcpu *vcpu_get(unsigned index);
/* True if there is such a vCPU now. The index is below vcpus_max. */
bool vcpu_is_there(unsigned index);
/*
 * True if QEMU runs all vCPUs in one thread. Then QEMU never reports one as idle: the instruction
 * that halts shows it, and where it checks its flag next it has woken up.
 */
bool vcpus_one_thread(void);
/*
 * True if QEMU runs several vCPUs in one thread. Then code must not be instrumented. QEMU up
 * to 11.1 compiles the number of the vCPU for which it translates into code that all vCPUs share,
 * as a constant. Multiplying it to find a scoreboard's element changes that constant for the
 * guest's own code too.
 */
bool vcpus_mixed_up(void);
/*
 * Called when a vCPU is idle, and when code is translated. A single vCPU with a thread of its own
 * is idle before it runs any code; so these two show whether there is such a thread.
 */
void vcpus_idle(void);
void vcpus_run(void);
/* The vCPU of this thread; NULL: none. If several share the thread, it is any of them. */
struct vcpu *vcpu_current(void);
const struct arch *vcpu_arch(void);

/* Reads a register, in a callback of the vCPU that may. False: there is no such register. */
bool vcpu_read(struct vcpu *vcpu, unsigned reg, uint64_t *ret);
/* The same by the vCPU's index. 0: there is no such register or vCPU. */
uint64_t vcpu_value(unsigned index, unsigned reg);
/* Returns argument `n`, 0 or 1, of the function that begins where the vCPU is. */
uint64_t vcpu_argument(struct vcpu *vcpu, unsigned n);
/* Reads all registers. */
void vcpu_read_all(struct vcpu *vcpu, uint32_t has_regs[VMS_AGENT_MAX_REGS / 32],
		   uint64_t regs[VMS_AGENT_MAX_REGS]);
/* Reads memory as this vCPU sees it, in one of its callbacks. False: it is not mapped. */
bool vcpu_read_memory(struct vcpu *vcpu, uint64_t va, void *buf, size_t size);

/* Called in the thread of a vCPU that QEMU has made. NULL: the index is too large. */
struct vcpu *vcpu_init(unsigned index);
/* QEMU removes a vCPU. */
void vcpu_exit(struct vcpu *vcpu);
