/* SPDX-License-Identifier: MIT */
/* The sampler sessions of a recording: one, or that of a host and that of a guest. */
#pragma once

#include "base/outfile.h"
#include <vmscope/sampler.h>

struct recorder {
	struct vms_sampler *samplers[2]; /* that of the host comes first, if there are two */
	size_t n;
	char *full; /* the error, if the disk was full; the file has what was written before */
};

void recorder_add(struct recorder *recorder, struct vms_sampler *sampler);
/* Frees the sessions and the error. */
void recorder_clear(struct recorder *recorder);

/*
 * Writes what the sessions sample into a file, until the targets of one have ended, the time is
 * over, or a signal comes (see interrupts.h). Then all are stopped. If the disk is full, they are
 * stopped, too, and the file has whole records of what was sampled before; it fails only if that is
 * nothing.
 */
bool recorder_write(struct recorder *recorder, struct vms_outfile *file, uint64_t duration_ns,
		    GError **error);
/* Returns why recording has ended before its targets, newly allocated, or NULL. */
char *recorder_failure(const struct recorder *recorder);
