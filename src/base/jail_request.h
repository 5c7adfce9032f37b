/* SPDX-License-Identifier: MIT */
/* A request to a jail (base/jail.h). */
#pragma once

#include "base/file_source.h"
#include "base/jail_message.h"

struct vms_jail_request {
	uint32_t kind; /* of a service */
	const void *bytes;
	size_t size;
	const int *fds; /* the jail gets copies */
	size_t n_fds;
	/* What the jail may read while it works, without a descriptor. */
	const struct vms_file_source *sources;
	size_t n_sources;
	/*
	 * Opens a file that the jail asks for by a text, which is not trusted: it must only open
	 * what the jail may read whoever it is. Returns a descriptor, which is closed here, or -1.
	 * NULL: there is none.
	 */
	int (*open)(void *data, const char *name);
	void *data;
	/* What is left of it is the jail's. What the jail spends is counted. */
	struct vms_budget *budget;
};
