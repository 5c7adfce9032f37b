/* SPDX-License-Identifier: MIT */
/*
 * Makes QEMU drop all translated code, so that it is translated again and instrumented for the
 * services that are active then.
 */
#pragma once

#include "agent/qemu/qemu_plugin.h"

/*
 * `register_callbacks` registers all callbacks again, because QEMU drops them together with the
 * code. Called once, before anything else here.
 */
void retranslate_init(qemu_plugin_id_t id, void (*register_callbacks)(void));
/*
 * Makes QEMU translate all code again. `done` (or NULL) is called once, in any thread, at a moment
 * when no vCPU is in guest code and no translated code exists. No code is translated before `done`
 * returns. This happens soon; but if vCPUs are kicked by code and all are halted, only when one
 * continues. If no code was translated yet, `done` is called before this function returns. The
 * calls of `done` keep their order. Any thread.
 */
void retranslate_code(void (*done)(void *data), void *data);
/* Requests QEMU's reset if retranslate_code has asked for one. Called in a callback of a vCPU. */
void retranslate_in_vcpu(void);
/* Notes that QEMU translates code. Called in the callback of translation. */
void retranslate_note_code(void);
