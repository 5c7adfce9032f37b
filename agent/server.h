/* SPDX-License-Identifier: MIT */
/*
 * The agent's socket: one thread that talks with the clients.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <vmscope/error.h>

/* What a request is answered with. */
struct reply {
	union {
		struct vms_agent_message message;
		struct vms_agent_failure failure;
		struct vms_agent_hello hello;
	};
	size_t size; /* 0: nothing is sent */
	int fds[2];  /* sent with it; they stay the owner's */
	unsigned n_fds;
};

void reply_ok(struct reply *reply);
void reply_error(struct reply *reply, enum vms_error code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);

/* In the server's thread, and as it ends; 0: not known. */
pid_t server_client_pid(unsigned client);

/* `api` is that of QEMU. False: a message was printed. */
bool server_start(const char *path, unsigned api);
/* QEMU ends. */
void server_stop(void);
