/* SPDX-License-Identifier: MIT */
/* Puts the callbacks of probes into code. */
#pragma once

#include "agent/qemu/qemu_plugin.h"

/* Instruments a block of code for the current plan. In the callback of translation. */
void probes_instrument(struct qemu_plugin_tb *tb);
