/* SPDX-License-Identifier: MIT */
/* Turns of a client after every so many instructions of a vCPU: see machine/agent/protocol.h. */
#pragma once

#include "agent/service.h"

extern const struct service period_service;
