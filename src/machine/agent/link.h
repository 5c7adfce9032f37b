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
 * Errors: as vms_stream_connect, BUSY (it has the maximum number of clients), UNSUPPORTED (another
 * version of the protocol), PERMISSION (another process listens, or one that is not visible),
 * PROTOCOL, TIMEOUT, CLOSED.
 */
struct vms_agent_link *vms_agent_link_open(const char *path, pid_t pid, GError **error);
/* Ends all holds and the trace of this link. NULL is allowed. */
void vms_agent_link_close(struct vms_agent_link *link);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_agent_link, vms_agent_link_close)

/* True if the agent has closed the connection, as it does when QEMU ends. */
bool vms_agent_link_is_closed(const struct vms_agent_link *link);

/*
 * Checks that the agent has a feature, which an older one may lack. Errors: UNSUPPORTED (the
 * message says what is missing and what helps).
 */
bool vms_agent_link_require(const struct vms_agent_link *link, enum vms_agent_feature feature,
			    GError **error);

/*
 * Sends a message of `size` bytes, and fills in its magic number. `fd`, unless -1, is sent with it;
 * the caller still owns it. Several threads may send requests without a reply. Errors: TIMEOUT,
 * CLOSED.
 */
bool vms_agent_send(struct vms_agent_link *link, struct vms_agent_message *message, size_t size,
		    int fd, GError **error);
/*
 * Receives the OK to a request, with `n_fds` descriptors (3 at most). The caller owns them; they
 * are close-on-exec. `deadline_ns` is of CLOCK_MONOTONIC. The stream's descriptor can be polled.
 * Errors: that of the agent, TIMEOUT, CLOSED, PROTOCOL.
 */
bool vms_agent_receive(struct vms_agent_link *link, uint64_t deadline_ns, int *fds, unsigned n_fds,
		       GError **error);
/* Sends a request and receives the reply, which must arrive within VMS_STREAM_TIMEOUT_MS. */
bool vms_agent_request(struct vms_agent_link *link, struct vms_agent_message *message, size_t size,
		       int fd, int *reply_fds, unsigned n_reply_fds, GError **error);

/*
 * Maps a file that the agent has sent: exactly `size` bytes, readable and writable. The file must
 * be sealed against shrinking, because otherwise a read could kill this process. The caller unmaps
 * it with munmap. Errors: PROTOCOL, IO.
 */
void *vms_agent_map(const struct vms_agent_link *link, int fd, uint64_t size, GError **error);
/*
 * Makes a file in memory with a copy of `data`, to be sent with a message. Returns a descriptor,
 * which the caller owns, or -1. Errors: IO.
 */
int vms_agent_make_file(const void *data, size_t size, GError **error);
