/* SPDX-License-Identifier: MIT */
/* What is kept of a recording whose disk is full. */
#pragma once

#include "base/outfile.h"
#include <glib.h>

/* Cuts a recording behind the last whole record in its first `limit` bytes. */
bool recording_cut(struct vms_outfile *file, uint64_t limit, GError **error);

/*
 * Appends the records of names. If the disk has no room for them, samples at the end make room, at
 * most half of the recording. If that is not enough, the names are left out. A warning says either.
 */
bool recording_add_names(struct vms_outfile *file, const GByteArray *names, GError **error);
