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

#include "base/jail_request.h"

struct vms_jail;

/* The first argument of the program when it is started as a jail. */
#define VMS_JAIL_ARGUMENT "--serve-as-jail"

/*
 * Makes a jail, whose process is started by the first request. `what` is a noun for messages, as
 * "the guest's disks". NULL if the budget names no program.
 */
struct vms_jail *vms_jail_new(struct vms_budget *budget, const char *what);
/* Both take NULL. The last one ends the process. */
struct vms_jail *vms_jail_ref(struct vms_jail *jail);
void vms_jail_unref(struct vms_jail *jail);

/*
 * Has a request served, and appends the answer to `answer`, whose bytes are not trusted. Requests
 * of several threads are served one after the other. Errors: those that the service sets; BUDGET;
 * CANCELLED; CLOSED (the jail has died, or did not answer in time: the next request starts another
 * one, three times in all); PROTOCOL; IO.
 */
bool vms_jail_call(struct vms_jail *jail, const struct vms_jail_request *request,
		   GByteArray *answer, GError **error);
/*
 * True if an error of vms_jail_call says that the jail has ended before it was done, by itself or
 * as somebody has asked for the end. What it should have read is lost, and has to be told.
 */
bool vms_jail_has_died(const GError *error);
