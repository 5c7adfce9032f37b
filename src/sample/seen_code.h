/* SPDX-License-Identifier: MIT */
/*
 * The processes, mappings and functions of a guest that recorded samples were in. The session gets
 * each process and mapping at the first sample in it, and the names at the end, from the guest's
 * symbolizer: the guest may have ended then. Only one thread at a time may use it.
 */
#pragma once

#include "sampler/engine.h"
#include <vmscope/symbolizer.h>

struct vms_seen_code;

/*
 * Keeps a reference to `symbolizer`, to which the spaces and code numbers of the samples belong.
 * Files get numbers above `files_before`.
 */
struct vms_seen_code *vms_seen_code_new(struct vms_sampler *sampler,
					struct vms_symbolizer *symbolizer, uint32_t files_before);
void vms_seen_code_free(struct vms_seen_code *seen);
/* Notes the addresses of a sample. True if some were not seen before. */
bool vms_seen_code_note(struct vms_seen_code *seen, const struct vms_sample_record *sample);
/* Records all files and names in the session. Returns the highest number of a file. */
uint32_t vms_seen_code_finish(struct vms_seen_code *seen);
