/* SPDX-License-Identifier: MIT */
/*
 * The client's end of the connection to an agent (protocol.h): the agent's hello, the memory that
 * it shares, and messages in both directions. Every size and number that the agent sends is
 * checked. Holds and a trace end with the link that began them, so a program that holds vCPUs and
 * traces opens two links.
 */
#pragma once

#include "base/stream.h"
#include "machine/agent/protocol.h"
#include "machine/host/identity.h"
#include <sys/types.h>

typedef struct vms_agent_link {
	struct vms_stream stream;
	struct vms_agent_hello hello;
	struct vms_host_identity process; /* the QEMU */
	struct vms_agent_shared *shared;
} vms_agent_link;

/*
 * Connects to the agent's socket. `pid`: the process that must listen there; 0: any.
 * Errors: as vms_stream_connect, BUSY (it has as many clients as it can), UNSUPPORTED (it speaks
 * another version), PERMISSION (another process is there, or none that can be seen), PROTOCOL,
 * TIMEOUT, CLOSED.
 */
struct vms_agent_link *vms_agent_link_open(const char *path, pid_t pid, GError **error);
/* Ends all holds and the trace of this link. NULL is allowed. */
void vms_agent_link_close(struct vms_agent_link *link);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_agent_link, vms_agent_link_close)

/* True if the agent has closed the connection, as it does when QEMU ends. */
bool vms_agent_link_is_closed(const struct vms_agent_link *link);

/*
 * Checks that the agent can do something, which an older one may not. Errors: UNSUPPORTED (it
 * cannot; the message says what is missing and what helps).
 */
bool vms_agent_link_require(const struct vms_agent_link *link, enum vms_agent_feature feature,
			    GError **error);

/*
 * Sends a message of `size` bytes; fills in its magic number. `fd`, unless -1, is passed along and
 * stays the caller's. Requests without a reply may be sent by several threads. Errors: TIMEOUT,
 * CLOSED.
 */
bool vms_agent_send(struct vms_agent_link *link, struct vms_agent_message *message, size_t size,
		    int fd, GError **error);
/*
 * Receives the OK to a request, and the `n_fds` descriptors that come with it (3 at most), which
 * are the caller's, close-on-exec. `deadline_ns` by CLOCK_MONOTONIC; the stream's descriptor can be
 * polled. Errors: what the agent says, TIMEOUT, CLOSED, PROTOCOL.
 */
bool vms_agent_receive(struct vms_agent_link *link, uint64_t deadline_ns, int *fds, unsigned n_fds,
		       GError **error);
/* Sends and receives. The reply must come within VMS_STREAM_TIMEOUT_MS. */
bool vms_agent_request(struct vms_agent_link *link, struct vms_agent_message *message, size_t size,
		       int fd, int *reply_fds, unsigned n_reply_fds, GError **error);

/*
 * Maps a file that the agent sent: exactly `size` bytes, readable and writable. The file must be
 * sealed against shrinking, because a read could kill this process otherwise. The caller unmaps it
 * by munmap. Errors: PROTOCOL, IO.
 */
void *vms_agent_map(const struct vms_agent_link *link, int fd, uint64_t size, GError **error);
/*
 * Makes a file in memory that holds `data`, to be sent along with a message. Returns a descriptor,
 * which is the caller's; -1: error IO.
 */
int vms_agent_make_file(const void *data, size_t size, GError **error);
