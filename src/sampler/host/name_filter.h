/* SPDX-License-Identifier: MIT */
/*
 * The members of targets by name: processes that begin a program with one of the names, and all
 * processes that these start.
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

/* Notes that a process runs the program `comm`, with `threads` threads. True if it is a member. */
bool vms_name_filter_note_program(struct vms_name_filter *filter, pid_t pid, const char *comm,
				  unsigned threads);
/* Notes that a process has started a thread, or another process. */
void vms_name_filter_note_birth(struct vms_name_filter *filter, pid_t pid, pid_t parent);
/* Notes that a thread of a process has ended. */
void vms_name_filter_note_exit(struct vms_name_filter *filter, pid_t pid);
/*
 * Removes members that are not alive, because the records of their ends may be lost. A member is
 * removed by the second call that finds it dead, because its last records may still arrive.
 */
void vms_name_filter_prune(struct vms_name_filter *filter, bool (*is_alive)(pid_t pid));
bool vms_name_filter_has(const struct vms_name_filter *filter, pid_t pid);
/* True if there was such a program, and all have ended. */
bool vms_name_filter_ended(const struct vms_name_filter *filter);
