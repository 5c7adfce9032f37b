/* SPDX-License-Identifier: MIT */
/*
 * The memory that a tool and its watchdog share about a hold. It lies in a file of the host's
 * run-time folder. If both die at once, because their control group is killed, the next tool finds
 * there what they have left in QEMU. The file is locked as long as either of them lives.
 */
#pragma once

#include "machine/host/identity.h"
#include "machine/host/whose_stop.h"
#include <glib.h>

struct vms_record {
	uint32_t magic, version;
	pid_t pid;		      /* of the QEMU; 0: not known */
	uint64_t start_time;	      /* of the QEMU */
	atomic_bool has_monitor;      /* of a bare stub: see vms_watchdog_set_monitor */
	atomic_bool is_watchdog_busy; /* the watchdog is writing to the tool's connection */
	struct vms_hold hold;
};

/*
 * Maps a new record, in a file called `label` unless that is NULL. *fd is the file, which stays
 * locked as long as this descriptor, or a copy that a child has inherited, is open. *fd is -1 if
 * there is no folder for the file: then only child processes share the memory. Errors: IO.
 */
struct vms_record *vms_record_new(const char *label, const struct vms_host_identity *process,
				  int *fd, GError **error);
void vms_record_free(struct vms_record *record);

/* The path of the record `label`, newly allocated; NULL if there is no folder for records. */
char *vms_record_path(const char *label);

/*
 * Calls `each` for every record about `process` whose tool and watchdog have died, and removes the
 * record if `each` returns true. What `each` changes in it is kept otherwise. Removes records about
 * processes that have ended. If only the tool has died, this waits for the watchdog to do its work,
 * 10 s at most.
 */
void vms_record_each_left(const struct vms_host_identity *process,
			  bool (*each)(struct vms_record *record, const char *label, void *data),
			  void *data);
