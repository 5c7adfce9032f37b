/* SPDX-License-Identifier: MIT */
/*
 * Traces of calls: instruments the code while a client traces, and tracks what it reports.
 */
#pragma once

#include "service.h"

extern const struct service calls_service;

/* Called when QEMU installs the plugin, after vcpus_new. False: no memory. */
bool calls_init(void);
/* Ends the trace when QEMU ends. */
void calls_exit(void);
