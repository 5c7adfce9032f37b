/* SPDX-License-Identifier: MIT */
/* Makes translated code count its instructions. */
#pragma once

#include "agent/qemu/qemu_plugin.h"

/* Must have succeeded once before code is instrumented. False if there is no memory. */
bool period_instrument_init(void);
/*
 * Instruments a block, in the callback of translation: before the instruction that completes a
 * period, `turn` is called with its address.
 */
void period_instrument(struct qemu_plugin_tb *tb, uint64_t instructions,
		       qemu_plugin_vcpu_udata_cb turn);
/* The next instruction of a vCPU is the first of a period. */
void period_count_anew(unsigned vcpu);
