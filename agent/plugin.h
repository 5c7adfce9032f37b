/* SPDX-License-Identifier: MIT */
/*
 * The plugin as QEMU sees it: takes QEMU's callbacks and hands them on.
 */
#pragma once

#include "qemu_plugin.h"

/*
 * Calls `function` once in a callback of some vCPU: soon, or, where vCPUs are called by code and
 * all are halted, when one goes on. From any thread.
 */
void plugin_run_in_vcpu(void (*function)(void *data), void *data);
/*
 * Has all code translated anew. `done` is called once, in some thread, when no vCPU is in guest
 * code, none is translated, and before any is again: soon, or as above; at once (before this
 * returns) where it is known that none was translated yet. NULL: there is nothing to do. One after
 * the other. From any thread.
 */
void plugin_retranslate(void (*done)(void *data), void *data);
