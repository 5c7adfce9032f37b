/* SPDX-License-Identifier: MIT */
/*
 * Traces of calls: instruments the code while a client traces, and tracks what it reports.
 */
#pragma once

#include "request.h"
#include "vcpu.h"

/* Called when QEMU installs the plugin, after vcpus_new. False: no memory. */
bool calls_init(void);
/* True if there is a trace, for which code must be instrumented. */
bool calls_need_code(void);
/* Instruments a block. In the callback of translation. */
void calls_translate(struct qemu_plugin_tb *tb);
/* When QEMU makes a vCPU, in the vCPU's thread. */
void calls_vcpu_init(struct vcpu *vcpu);
/* When QEMU removes one, in QEMU's main thread. */
void calls_vcpu_exit(struct vcpu *vcpu);
/* Answers a request of kind VMS_AGENT_CALLS_…. In the server's thread. */
void calls_request(const struct request *request, struct reply *reply);
/* Ends what the client has begun. In the server's thread. */
void calls_client_gone(unsigned client);
/* Ends the trace when QEMU ends. */
void calls_exit(void);
