/* SPDX-License-Identifier: MIT */
/*
 * Has QEMU forget all translated code, so that it is translated anew and instrumented for what is
 * wanted then.
 */
#pragma once

#include "agent/qemu/qemu_plugin.h"

/*
 * QEMU drops all callbacks when it forgets the code: `register_callbacks` registers them again.
 * Called once, before anything else here.
 */
void retranslate_init(qemu_plugin_id_t id, void (*register_callbacks)(void));
/*
 * Has all code translated anew. `done` is called once, in some thread, at a moment when no vCPU is
 * in guest code, no code is translated, and none is translated again before `done` returns. That is
 * soon, or, if vCPUs are kicked by code and all are halted, when one goes on. If it is known that
 * no code was translated yet, `done` is called before this function returns. The calls of `done`
 * keep their order. NULL: nothing is called. From any thread.
 */
void retranslate_code(void (*done)(void *data), void *data);
/* Does what is asked for by retranslate_code. In a callback of a vCPU. */
void retranslate_in_vcpu(void);
/* Notes that QEMU translates code. In the callback of translation. */
void retranslate_note_code(void);
