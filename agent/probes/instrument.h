/* SPDX-License-Identifier: MIT */
/* Adds the callbacks of probes to code. */
#pragma once

#include "agent/qemu/qemu_plugin.h"

/* Instruments a block of code for the current plan. Called in the callback of translation. */
void probes_instrument(struct qemu_plugin_tb *tb);
