/* SPDX-License-Identifier: MIT */
/* Messages between a jail and the process that uses it, over a stream socket. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both ends are the same program, so the structs go as they are. */
enum vms_jail_message_kind {
	VMS_JAIL_REQUEST = 0x4a61696c, /* to the jail; with descriptors */
	VMS_JAIL_READ,		       /* from the jail: bytes of a source */
	VMS_JAIL_OPEN,		       /* from the jail: a file by what names it */
	VMS_JAIL_BYTES,		       /* to the jail: the answer to these; with a descriptor */
	VMS_JAIL_LOG,		       /* from the jail */
	VMS_JAIL_LOSS,		       /* from the jail: what was left out, and why */
	VMS_JAIL_ANSWER,	       /* from the jail: the end of a request */
};

#define VMS_JAIL_FDS	 64 /* of a request */
#define VMS_JAIL_SOURCES 8  /* of a request */

/* Limits of the payload of a message: those of a piece, and those of requests and answers. */
#define VMS_JAIL_PIECE (UINT32_C(1) << 20)
#define VMS_JAIL_LIMIT (UINT64_C(1) << 30)

struct vms_jail_message {
	uint32_t kind;
	uint32_t service;   /* of a request: the service's kind; of a log: the level */
	uint32_t log_level; /* of a request: up to which messages are wanted */
	uint64_t size;	    /* bytes that follow */
	uint32_t n_fds, n_sources;
	/* Of a request: what is left, and the sizes of the sources. Of an answer: what was spent.
	 */
	uint64_t steps, bytes, items;
	double steps_per_ns; /* of a request: that are added while time passes */
	uint64_t source_sizes[VMS_JAIL_SOURCES];
	uint64_t source, offset; /* of a read; its length is in `steps` */
	uint32_t done;		 /* of an answer, and of bytes: false is a failure */
	uint32_t code;		 /* of a failure; the payload is its message */
	uint32_t used_up;	 /* of an answer: units that did not suffice, a bit each */
};

/*
 * Sends a message with its payload and descriptors. Gives up at `deadline_ns` (UINT64_MAX: never).
 * 0, or a number of errno(3).
 */
int vms_jail_send(int fd, const struct vms_jail_message *message, const void *payload,
		  const int *fds, uint64_t deadline_ns);
/*
 * Receives a message without its payload. `fds` has room for VMS_JAIL_FDS descriptors, of which
 * `*n_fds` come; NULL: none are taken. EPIPE: the peer has closed.
 */
int vms_jail_receive(int fd, struct vms_jail_message *message, int *fds, size_t *n_fds,
		     uint64_t deadline_ns);
/* Receives bytes of a payload. */
int vms_jail_receive_bytes(int fd, void *bytes, size_t size, uint64_t deadline_ns);
