/* SPDX-License-Identifier: MIT */
/* A request of a client, and the reply to it. */
#pragma once

#include "machine/agent/protocol.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <vmscope/error.h>

struct request {
	unsigned client;   /* index, below VMS_AGENT_MAX_CLIENTS */
	pid_t pid;	   /* of the client; 0: unknown */
	uint64_t features; /* enum vms_agent_feature; what the client can */
	const struct vms_agent_message *message;
	size_t size; /* bytes of the message */
	int fd;	     /* came with the message; -1: none; the server closes it */
};

struct reply {
	union {
		struct vms_agent_message message;
		struct vms_agent_failure failure;
		struct vms_agent_hello hello;
	};
	size_t size; /* 0: nothing is sent */
	int fds[3];  /* are sent with it; they stay their owner's */
	unsigned n_fds;
};

/*
 * Returns the first `size` bytes of the file that came with the request, from malloc. NULL: errno
 * tells.
 */
void *request_read_file(const struct request *request, size_t size);

void reply_ok(struct reply *reply);
void reply_error(struct reply *reply, enum vms_error code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);
