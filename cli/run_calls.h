/* SPDX-License-Identifier: MIT */
/* vmscope run --calls: starts a QEMU, stays beside it and traces its guest's calls. */
#pragma once

#include "calls_options.h"
#include "session.h"

/*
 * Starts the session's command and traces its guest from the first instruction into a directory.
 * Waits for QEMU's end and sets session->status to QEMU's exit status. Fails if the guest never
 * ran.
 */
bool trace_new_qemu(struct session *session, const struct calls_words *words, const char *directory,
		    GError **error);
