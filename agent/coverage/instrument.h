/* SPDX-License-Identifier: MIT */
/* Makes translated code mark which instructions run. */
#pragma once

#include "agent/coverage/blocks.h"
#include "agent/qemu/qemu_plugin.h"

struct coverage {
	struct blocks blocks;
	uint64_t from, to; /* addresses that begin and end it; 0: none */
	uint64_t look;	   /* address of code that asks for a look; 0: none */
	int wake, woken;   /* both ends of a socket; `woken` is sent to the client */
	enum vms_agent_coverage_state state;
	bool has_begun; /* code is instrumented */
	unsigned client;
	int pid; /* of that client; 0: unknown */
};

/* Must have succeeded once before code is instrumented. False if there is no memory. */
bool coverage_instrument_init(void);
/* Functions that are called before an instruction, and before its mark is set. */
struct coverage_callbacks {
	qemu_plugin_vcpu_udata_cb from, to, look;
};
/* Instruments a block of code, in the callback of translation. The coverage's lock is held. */
void coverage_instrument(struct coverage *coverage, struct qemu_plugin_tb *tb,
			 const struct coverage_callbacks *callbacks);
