/* SPDX-License-Identifier: MIT */
/*
 * Traces of calls: instruments code while a client traces, and tracks the calls.
 */
#pragma once

#include "agent/service.h"

extern const struct service calls_service;
