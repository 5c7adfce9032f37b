/* SPDX-License-Identifier: MIT */
/*
 * The process that --task names for a flow: by its pid, or by the name of its program. With
 * --pending it may begin later, and be another one after it has ended.
 */
#pragma once

#include "session.h"

struct flow_process {
	const char *name; /* NULL: it is given by `pid` */
	uint64_t pid;	  /* of the present process if it is given by name */
	bool is_there;
	struct vms_task task;		 /* if it is there */
	uint64_t stamp;			 /* of its mappings at the last check */
	const struct vms_process *space; /* names its addresses; NULL: it is not there */
};

/* Parses the text of --task. Nothing is looked for yet. Errors: usage. */
bool flow_process_parse(const char *text, struct flow_process *ret, GError **error);
/*
 * Looks for the process. Errors: NOT_FOUND, and others of find_task. If several have the name, it
 * takes the one with the lowest pid, and warns.
 */
bool flow_process_find(struct session *session, struct flow_process *process, GError **error);
/*
 * Checks whether the process is still there, else looks for it again. True if something has changed
 * since the last check: the process, or what it maps. `*is_other` tells that it is the process.
 */
bool flow_process_check(struct session *session, struct flow_process *process, bool *is_other);
