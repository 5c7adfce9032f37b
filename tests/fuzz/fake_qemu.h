/* SPDX-License-Identifier: MIT */
/*
 * What the agent asks of QEMU, of retranslate.h and of kick.h, for a target whose one thread is the
 * clients and all vCPUs at once: nothing waits for a vCPU.
 */
#pragma once

#include <stdbool.h>

/*
 * True: vCPUs are kicked by code, and what is to be done when the code is translated anew waits for
 * fake_qemu_run. False: it is done at once.
 */
void fake_qemu_set_needs_code(bool needs_code);
/* A vCPU goes on: it does what the plugin waits for. */
void fake_qemu_run(void);
