/* SPDX-License-Identifier: MIT */
/*
 * A jail: a process without rights (confine.h) that interprets data of others. It gets descriptors
 * and a budget, and gives back plain bytes. Whoever takes it over by such data gets nothing; its
 * death is an error of the request.
 *
 * The jail executes the program that the budget names (vms_budget_options.jail). That program calls
 * vms_jail_serve (jail_process.h) at once. Without such a program there is no jail, and callers
 * interpret in place.
 */
#pragma once

#include "base/budget.h"
#include "base/file_source.h"
#include "base/jail_message.h"

struct vms_jail;

/* The first argument of the program when it is started as a jail. */
#define VMS_JAIL_ARGUMENT "--serve-as-jail"

struct vms_jail_request {
	uint32_t kind; /* of a service */
	const void *bytes;
	size_t size;
	const int *fds; /* the jail gets copies */
	size_t n_fds;
	/* What the jail may read while it works, without a descriptor. */
	const struct vms_file_source *sources;
	size_t n_sources;
	/* What is left of it is the jail's. What the jail spends is counted. */
	struct vms_budget *budget;
};

/*
 * Makes a jail, whose process is started by the first request. `what` is a noun for messages, as
 * "the guest's disks". NULL if the budget names no program.
 */
struct vms_jail *vms_jail_new(struct vms_budget *budget, const char *what);
/* Ends the process. */
void vms_jail_free(struct vms_jail *jail);

/*
 * Has a request served, and appends the answer to `answer`, whose bytes are not trusted. Requests
 * of several threads are served one after the other. Errors: those that the service sets; BUDGET;
 * CANCELLED; CLOSED (the jail has died, or did not answer in time: the next request starts another
 * one, three times in all); PROTOCOL; IO.
 */
bool vms_jail_call(struct vms_jail *jail, const struct vms_jail_request *request,
		   GByteArray *answer, GError **error);
