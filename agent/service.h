/* SPDX-License-Identifier: MIT */
/*
 * What a service of the agent offers to the server, to QEMU's callbacks and to the vCPUs. A
 * function that it does not need is NULL. The table of all services is in services.c.
 */
#pragma once

#include "agent/qemu/vcpu.h"
#include "agent/request.h"

struct service {
	/* The kinds of requests that it answers. */
	enum vms_agent_kind first_kind, last_kind;
	/* Prepares the service. Called once, when QEMU installs the plugin. False: no memory. */
	bool (*init)(void);
	/* QEMU ends. Called once, in some thread of QEMU's, while the server still runs. */
	void (*quit)(void);
	/* Answers a request, in the server's thread. The client may not have said hello. */
	void (*answer)(const struct request *request, struct reply *reply);
	/* Ends what a client has begun, in the server's thread. */
	void (*client_gone)(unsigned client);
	/* True if code must be instrumented now. */
	bool (*needs_code)(void);
	/* Instruments a block of code, in the callback of translation. */
	void (*translate)(struct qemu_plugin_tb *tb);
	/* QEMU has made a vCPU, in its thread. */
	void (*vcpu_begins)(struct vcpu *vcpu);
	/* QEMU removes a vCPU, in QEMU's main thread. */
	void (*vcpu_ends)(struct vcpu *vcpu);
	/*
	 * A vCPU was kicked, in its thread. The function may wait. True: it has waited for a
	 * client, and is called again before the vCPU executes more.
	 */
	bool (*vcpu_kicked)(struct vcpu *vcpu);
	/* A vCPU halts, in its thread. `next`: where it goes on; 0: its registers tell. */
	void (*vcpu_halts)(struct vcpu *vcpu, uint64_t next);
	/* A vCPU goes on after a halt, in its thread. */
	void (*vcpu_resumes)(struct vcpu *vcpu);
};
