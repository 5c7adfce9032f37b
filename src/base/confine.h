/* SPDX-License-Identifier: MIT */
/*
 * Takes all rights from this process: what it parses may be made to take it over. Afterwards it
 * can compute, and read and write the descriptors that it has.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Confines this process and all its threads for good. No file can be opened or made, nothing
 * executed, traced, signalled or connected to, and no process started; each attempt fails with
 * EPERM. Data are limited to `memory` bytes. The process ends when its parent does.
 *
 * Called while there is one thread. Errors: UNSUPPORTED (the kernel has no seccomp filters), IO.
 * Landlock (since Linux 5.13) is a second wall, which older kernels lack.
 */
bool vms_confine_process(uint64_t memory, GError **error);
