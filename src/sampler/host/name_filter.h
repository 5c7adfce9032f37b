/* SPDX-License-Identifier: MIT */
/*
 * Which processes are sampled where programs are waited for by name: those that begin a program of
 * such a name, and all that they start.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

struct vms_name_filter;

struct vms_name_filter *vms_name_filter_new(void);
void vms_name_filter_free(struct vms_name_filter *filter);
/* Adds a name, or a path that ends with it. */
void vms_name_filter_add(struct vms_name_filter *filter, const char *name);

/* A process runs the program `comm`, with `threads` threads. True if it is sampled. */
bool vms_name_filter_note_program(struct vms_name_filter *filter, pid_t pid, const char *comm,
				  unsigned threads);
/* A process has started a thread, or another process. */
void vms_name_filter_note_birth(struct vms_name_filter *filter, pid_t pid, pid_t parent);
/* A thread of a process has ended. */
void vms_name_filter_note_exit(struct vms_name_filter *filter, pid_t pid);
/*
 * Forgets the members that are not alive, as their ends may have been lost with records of the
 * kernel. The call after the one that finds it does: the last records of a member may still come.
 */
void vms_name_filter_prune(struct vms_name_filter *filter, bool (*is_alive)(pid_t pid));
bool vms_name_filter_has(const struct vms_name_filter *filter, pid_t pid);
/* True if there was such a program, and all have ended. */
bool vms_name_filter_ended(const struct vms_name_filter *filter);
