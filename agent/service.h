/* SPDX-License-Identifier: MIT */
/*
 * The functions of a service, which the server, QEMU's callbacks and the vCPUs call. A function
 * that a service does not need is NULL. A service names a function after the member: hold_answer,
 * hold_vcpu_begins. The table of all services is in services.c.
 */
#pragma once

#include "agent/qemu/vcpu.h"
#include "agent/request.h"

struct service {
	/* The kinds of requests that it answers. */
	enum vms_agent_kind first_kind, last_kind;
	/*
	 * Prepares the service. Called once, when QEMU installs the plugin. False if there is no
	 * memory.
	 */
	bool (*init)(void);
	/* QEMU exits. Called once, in any thread of QEMU, while the server still runs. */
	void (*quit)(void);
	/* Answers a request, in the server's thread. The client may not have sent a hello. */
	void (*answer)(const struct request *request, struct reply *reply);
	/* A client is gone: ends all that it has begun. Called in the server's thread. */
	void (*client_gone)(unsigned client);
	/* True if code must be instrumented now. */
	bool (*needs_code)(void);
	/* Instruments a block of code. Called in the callback of translation. */
	void (*translate)(struct qemu_plugin_tb *tb);
	/* QEMU has created a vCPU. Called in the vCPU's thread. */
	void (*vcpu_begins)(struct vcpu *vcpu);
	/* QEMU removes a vCPU. Called in QEMU's main thread. */
	void (*vcpu_ends)(struct vcpu *vcpu);
	/*
	 * A vCPU was kicked. Called in the vCPU's thread. The function may wait for a client. If it
	 * returns true, it is called again before the vCPU executes more.
	 */
	bool (*vcpu_kicked)(struct vcpu *vcpu);
	/*
	 * A vCPU halts. Called in the vCPU's thread. `next` is the address where it will continue;
	 * 0: its program counter has that address.
	 */
	void (*vcpu_halts)(struct vcpu *vcpu, uint64_t next);
	/* A vCPU continues after a halt. Called in the vCPU's thread. */
	void (*vcpu_resumes)(struct vcpu *vcpu);
};
