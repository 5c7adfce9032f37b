/* SPDX-License-Identifier: MIT */
/*
 * Asks the servers of DEBUGINFOD_URLS for files with symbols, by build id. elfutils' program
 * debuginfod-find does it, as a child: a server that hangs can be given up at any moment, and the
 * tool needs no library for the network.
 *
 * Threads: one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vms_debuginfod;

enum vms_debuginfod_answer {
	VMS_DEBUGINFOD_MISSING, /* no server has it, or none answers */
	VMS_DEBUGINFOD_PENDING,
	VMS_DEBUGINFOD_FOUND,
};

/* Returns NULL if DEBUGINFOD_URLS names no server. */
struct vms_debuginfod *vms_debuginfod_new(void);
/* Ends the children that still ask. */
void vms_debuginfod_free(struct vms_debuginfod *servers);
/*
 * Asks for the file with the symbols of a build id, once for each, and returns at once. Call it
 * again while it is PENDING. If it is FOUND, `*path` is a file of this host: what is in it may be
 * anything. `servers` owns the path.
 */
enum vms_debuginfod_answer vms_debuginfod_find(struct vms_debuginfod *servers, const char *build_id,
					       const char **path);
/* Waits until nothing is pending any more, or until `deadline_ns`: what is late then is MISSING. */
void vms_debuginfod_wait(struct vms_debuginfod *servers, uint64_t deadline_ns);
