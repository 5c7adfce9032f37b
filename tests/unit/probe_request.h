/* SPDX-License-Identifier: MIT */
/* Asks the agent's code for a set of probes, as a client does. */
#pragma once

#include "agent/probes/set.h"

/* Sends options and the first `size` bytes of a file. NULL: it was refused; the reply says why. */
struct probe_set *probe_request_send(const struct vms_agent_probes *options, const void *file,
				     size_t size, unsigned vcpus, struct reply *reply);
