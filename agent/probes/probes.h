/* SPDX-License-Identifier: MIT */
/* Probes for clients, as described in machine/agent/protocol.h. */
#pragma once

#include "agent/service.h"

extern const struct service probes_service;
