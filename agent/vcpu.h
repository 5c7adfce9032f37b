/* SPDX-License-Identifier: MIT */
/*
 * The vCPUs, by QEMU's index: which threads run them, their registers, and whether they execute.
 */
#pragma once

#include "arch.h"
#include "machine/agent/protocol.h"
#include "qemu_plugin.h"

struct vcpu {
	unsigned index;
	uint32_t thread; /* the host thread that runs it */
	GMutex lock;	 /* of what follows, and of holds that are granted while it is halted */
	enum vms_agent_vcpu_state state;
	void *qemu; /* its CPUState, if QEMU's internals are used (kick.c); NULL: there is none */
	/* What it halted with. */
	uint32_t has_regs[VMS_AGENT_MAX_REGS / 32];
	uint64_t regs[VMS_AGENT_MAX_REGS];

	_Atomic bool is_kicked; /* and has not come yet */

	/* Its own thread's. */
	struct qemu_plugin_register *handles[VMS_AGENT_MAX_REGS]; /* NULL: QEMU has no such */
	GByteArray *bytes;
};

bool vcpus_new(const struct arch *arch, unsigned max);
/* Up to `max` of vcpus_new. */
unsigned vcpus_max(void);
/* NULL beyond that. */
struct vcpu *vcpu_get(unsigned index);
/*
 * Does QEMU run all in one thread? Such a one is never reported to idle: what halts is seen by its
 * instruction, what wakes up where it next looks at its flag.
 */
bool vcpus_one_thread(void);
/*
 * Does it run several in one thread? Then code must not be instrumented: QEMU up to 11.1 compiles
 * the number of the vCPU for which it translates into code that all of them share, as a constant,
 * and multiplying it to find a scoreboard's element changes that constant for the guest's own code,
 * too.
 */
bool vcpus_mixed_up(void);
/* In callbacks that say so. Threads of single vCPUs idle before they run any code. */
void vcpus_idle(void);
void vcpus_run(void);
/* In a vCPU's thread, NULL in others; where several are run in one, any of them. */
struct vcpu *vcpu_current(void);
const struct arch *vcpu_arch(void);

/* In a callback of the vCPU that may read registers. False: there is no such. */
bool vcpu_read(struct vcpu *vcpu, unsigned reg, uint64_t *ret);
/* The same by index; 0 where there is no such. */
uint64_t vcpu_value(unsigned index, unsigned reg);
/* All of them. */
void vcpu_read_all(struct vcpu *vcpu, uint32_t has_regs[VMS_AGENT_MAX_REGS / 32],
		   uint64_t regs[VMS_AGENT_MAX_REGS]);
/* Memory as this vCPU sees it, in its callback. */
bool vcpu_read_memory(struct vcpu *vcpu, uint64_t va, void *buf, size_t size);

/* In plugin.c's callbacks. */
struct vcpu *vcpu_init(unsigned index);
