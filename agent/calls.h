/* SPDX-License-Identifier: MIT */
/*
 * Tracing calls: instruments the code while a client traces, and follows what it tells.
 */
#pragma once

#include "server.h"
#include "vcpu.h"

/* When QEMU installs the plugin, after vcpus_new. False: no memory. */
bool calls_init(void);
/* Is there a trace, for which code has to be instrumented? */
bool calls_need_code(void);
/* Of a block of code that is being translated. */
void calls_translate(struct qemu_plugin_tb *tb);
/* When a vCPU comes, in its thread, and when it goes, in QEMU's main thread. */
void calls_vcpu_init(struct vcpu *vcpu);
void calls_vcpu_exit(struct vcpu *vcpu);
/*
 * Answers a message of kind VMS_AGENT_CALLS_…, which is `size` bytes long. `fd` is the file that
 * came with it or -1; the server closes it. In the server's thread.
 */
void calls_request(unsigned client, const struct vms_agent_message *message, size_t size, int fd,
		   struct reply *reply);
/* In the server's thread. */
void calls_client_gone(unsigned client);
/* QEMU ends. */
void calls_exit(void);
