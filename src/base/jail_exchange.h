/* SPDX-License-Identifier: MIT */
/*
 * A request to a jail and its answer, over the jail's socket. What comes from there is not trusted.
 */
#pragma once

#include "base/jail_request.h"
#include <sys/types.h>

/* What a jail keeps from request to request. */
struct vms_jail_holding {
	struct vms_budget *budget; /* that is charged for it; not owned */
	uint64_t bytes;
};

/*
 * Sends a request to the process `pid` behind `fd`, serves what the jail asks for meanwhile, and
 * takes the answer. If the service has failed, `*is_served` is false, and the error is its own.
 * Returns 0, or a number of errno(3) if there is no answer: ETIMEDOUT, EPIPE, EPROTO, others. Then
 * the jail cannot be used any more.
 */
int vms_jail_exchange(int fd, pid_t pid, const struct vms_jail_request *request,
		      uint64_t deadline_ns, struct vms_jail_holding *holding, GByteArray *answer,
		      bool *is_served, GError **error);
