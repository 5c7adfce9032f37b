/* SPDX-License-Identifier: MIT */
/*
 * The code of a guest that recorded samples were in. It tells the session of each process and
 * mapping when a sample is first in it, and of the names at the end, from the guest's symbolizer:
 * the guest may be gone then. One thread at a time.
 */
#pragma once

#include "sampler/engine.h"
#include <vmscope/symbolizer.h>

struct vms_seen_code;

/*
 * Keeps a reference to `symbolizer`, which the samples' spaces and code numbers are of. Its files
 * have numbers above `files_before`.
 */
struct vms_seen_code *vms_seen_code_new(struct vms_sampler *sampler,
					struct vms_symbolizer *symbolizer, uint32_t files_before);
void vms_seen_code_free(struct vms_seen_code *seen);
/* Notes the addresses of a sample. True if some were not seen before. */
bool vms_seen_code_note(struct vms_seen_code *seen, const struct vms_sample_record *sample);
/* Tells the session of all files and names. Returns the highest number of a file. */
uint32_t vms_seen_code_finish(struct vms_seen_code *seen);
