/* SPDX-License-Identifier: MIT */
/*
 * What a tool and its watchdog know of a hold, in memory that both map. It lies in a file of the
 * host's run-time folder: where both have died at once, as a control group does that is killed, the
 * next tool finds there what they have left in QEMU. The file's lock tells whether either lives.
 */
#pragma once

#include "machine/host/hold.h"
#include "machine/host/identity.h"
#include <glib.h>

struct vms_record {
	uint32_t magic, version;
	pid_t pid; /* of the QEMU; 0: not known */
	uint64_t start_time;
	atomic_bool has_monitor;   /* a bare stub's: see vms_guard_set_monitor */
	atomic_bool is_guard_busy; /* the watchdog writes to the tool's connection */
	struct vms_hold hold;
};

/*
 * Maps a new record, in the file `label`, unless that is NULL. *fd is the file, locked for as long
 * as it, or a copy that a child has inherited, is open; -1 where there is no folder for it: then
 * the memory is shared with children alone. NULL with IO.
 */
struct vms_record *vms_record_new(const char *label, const struct vms_host_identity *process,
				  int *fd, GError **error);
void vms_record_free(struct vms_record *record);

/* The path of the record `label`, newly allocated; NULL where there is no folder for records. */
char *vms_record_path(const char *label);

/*
 * Calls `each` for every record about that process whose tool and watchdog have died; it is removed
 * when `each` says true. Records about processes that have gone are removed. Waits, 10 s at most,
 * for a watchdog whose tool has died to do its work.
 */
void vms_record_each_left(const struct vms_host_identity *process,
			  bool (*each)(const struct vms_record *record, const char *label,
				       void *data),
			  void *data);
