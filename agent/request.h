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
	uint64_t features; /* of the client: enum vms_agent_feature */
	const struct vms_agent_message *message;
	size_t size; /* bytes of the message */
	int fd;	     /* received with the message, closed by the server; -1: none */
};

struct reply {
	union {
		struct vms_agent_message message;
		struct vms_agent_failure failure;
		struct vms_agent_hello hello;
	};
	size_t size; /* 0: nothing is sent */
	int fds[3];  /* sent with the reply; their owner closes them */
	unsigned n_fds;
};

/*
 * Returns the first `size` bytes of the file that came with the request, allocated by malloc. NULL
 * with errno set.
 */
void *request_read_file(const struct request *request, size_t size);

void reply_ok(struct reply *reply);
void reply_error(struct reply *reply, enum vms_error code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);
