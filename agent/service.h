/* SPDX-License-Identifier: MIT */
/*
 * What a service of the agent offers to the server, to QEMU's callbacks and to the vCPUs. A
 * function that it does not need is NULL. The table of all services is in services.c.
 */
#pragma once

#include "request.h"
#include "vcpu.h"

struct service {
	/* The kinds of requests that it answers. */
	enum vms_agent_kind first_kind, last_kind;
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
};
