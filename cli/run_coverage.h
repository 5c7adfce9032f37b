/* SPDX-License-Identifier: MIT */
#pragma once

#include "coverage_job.h"

/*
 * Starts the session's command and measures its guest's coverage from the first instruction to
 * QEMU's end.
 * Writes the table into `path`, and sets session->status to QEMU's exit status. Fails if the guest
 * never ran.
 */
bool cover_new_qemu(struct session *session, const struct coverage_words *words, const char *path,
		    GError **error);
