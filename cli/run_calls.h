/* SPDX-License-Identifier: MIT */
/* vmscope run --calls: stays beside the QEMU that it starts and traces its calls. */
#pragma once

#include "calls_options.h"
#include "session.h"

/*
 * Starts the session's command, traces its guest from the first instruction into a directory, and
 * waits for QEMU's end; session->status is QEMU's then. Fails when the guest was never let go.
 */
bool run_calls(struct session *session, const struct calls_words *words, const char *directory,
	       GError **error);
