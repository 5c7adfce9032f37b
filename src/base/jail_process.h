/* SPDX-License-Identifier: MIT */
/* Inside of a jail: services that interpret what requests bring. */
#pragma once

#include "base/bytes.h"
#include "base/jail.h"

/* A request. */
struct vms_jail_work {
	uint32_t kind;
	struct vms_bytes bytes;
	int *fds; /* are closed after it; a service that keeps one puts -1 in its place */
	size_t n_fds;
	const struct vms_file_source *sources; /* until the end of the request */
	size_t n_sources;
	/* Lives as long as the jail. Each request brings what is left of it. */
	struct vms_budget *budget;
	GByteArray *answer;
};

struct vms_jail_service {
	const char *name;
	uint32_t first_kind, last_kind; /* of requests */
	/* The state of the service, which lives as long as the jail. Both may be NULL. */
	void *(*begin)(struct vms_budget *budget);
	void (*end)(void *state);
	bool (*serve)(void *state, struct vms_jail_work *work, GError **error);
};

/*
 * Confines this process, and serves requests until its user goes away. `services` ends with NULL.
 * Returns the exit status.
 */
int vms_jail_serve(const struct vms_jail_service *const *services);
