/* SPDX-License-Identifier: MIT */
/* Functions of the programs and libraries that a thread's process maps. */
#pragma once

#include "session.h"
#include <vmscope/address_space.h>

/* True if the thread has programs. Errors: NOT_FOUND (it is of the kernel, or has ended). */
bool task_functions_check(const struct vms_task *task, GError **error);
/* Calls `each` for the code that is mapped, until it returns false. */
void task_functions_each_code(struct session *session, const struct vms_task *task,
			      bool (*each)(const struct vms_mapping *mapping, void *data),
			      void *data);
/* Reads the functions of all that is mapped, and waits for servers that have them. */
void task_functions_read(struct session *session, const struct vms_task *task);
/* Calls `each` for the functions of a mapping, with their addresses in the process. */
void task_functions_each(const struct vms_mapping *mapping,
			 void (*each)(const struct vms_symbol *function,
				      const struct vms_mapping *mapping, void *data),
			 void *data);
/*
 * Returns the addresses of functions by their name, or by a pattern, and lets the guest name them
 * from now on: a new array of uint64_t. `file` is the name of their file, without folders; NULL:
 * any. Errors: NOT_FOUND (none is known; or as task_functions_check).
 */
GArray *task_functions_find(struct session *session, const struct vms_task *task, const char *file,
			    const char *function, GError **error);
