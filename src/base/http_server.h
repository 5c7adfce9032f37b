/* SPDX-License-Identifier: MIT */
/*
 * Answers HTTP requests on a listening socket that any process of this host may connect to. All is
 * done by the thread that runs the default GMainContext, in small steps that never wait: each
 * connection is a buffer for its request, and the offset up to which its answer is sent. There is a
 * limit of connections; the kernel keeps further ones waiting. Nothing that clients do starts a
 * thread, or costs more memory than that.
 *
 * Threads: only the one that runs the default GMainContext.
 */
#pragma once

#include "base/http_request.h"

/* Browsers open some connections that they may never use. */
#define VMS_HTTP_CONNECTIONS 64

/* What a client is sent. */
struct vms_http_answer {
	char *head; /* status line, fields and blank line, newly allocated: the server frees it */
	const char *body; /* stays valid as long as the server; NULL: none */
	size_t body_size;
	unsigned kind; /* the caller's */
};

struct vms_http_calls {
	/* May the client of this connection ask anything? If not, nothing is read of it. */
	bool (*may_connect)(int fd, void *data);
	/* Makes the answer to a request; NULL: the request is malformed. */
	void (*answer)(const struct vms_http_request *request, struct vms_http_answer *ret,
		       void *data);
	/* The answer has been sent, or its client has gone. */
	void (*finish)(const struct vms_http_answer *answer, void *data);
};

struct vms_http_server;

/*
 * Takes the listening socket, which must be non-blocking. `calls` and `data` must outlive the
 * server. Never NULL.
 */
struct vms_http_server *vms_http_server_new(int listener, const struct vms_http_calls *calls,
					    void *data);
/* Closes the socket and all connections, and calls `finish` for answers that were being sent. */
void vms_http_server_free(struct vms_http_server *server);
