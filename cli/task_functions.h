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
/*
 * Returns the functions of a mapping, after task_functions_read: those of its file, or of the code
 * that the process has made at run time. Their addresses plus `*base` are those of the process.
 * NULL if none are known. The guest owns the table.
 */
struct vms_symbol_table *task_functions_table(struct session *session, const struct vms_task *task,
					      const struct vms_mapping *mapping, uint64_t *base);
/* Returns where such functions are from: the file, or the map of code made at run time. */
const char *task_functions_module(const struct vms_symbol_table *functions,
				  const struct vms_mapping *mapping);
/* Calls `each` for the functions of a mapping, with their addresses in the process. */
void task_functions_each(struct session *session, const struct vms_task *task,
			 const struct vms_mapping *mapping,
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
/*
 * Finds an address of a process, after task_functions_read: a number, a function, or a function and
 * an offset. If several functions have the name, the first is taken, with a warning. Errors: usage,
 * NOT_FOUND.
 */
bool task_functions_address(struct session *session, const struct vms_task *task, const char *text,
			    uint64_t *ret, GError **error);
