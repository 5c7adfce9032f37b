/* SPDX-License-Identifier: MIT */
/* Probes for clients, as machine/agent/protocol.h says. */
#pragma once

#include "agent/service.h"

extern const struct service probes_service;
