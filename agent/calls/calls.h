/* SPDX-License-Identifier: MIT */
/*
 * Traces of calls: instruments the code while a client traces, and tracks what it reports.
 */
#pragma once

#include "agent/service.h"

extern const struct service calls_service;
