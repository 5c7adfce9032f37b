/* SPDX-License-Identifier: MIT */
#include "machine/qemu/run_state.h"

#include <string.h>

static const struct {
	const char *name;
	enum vms_hold_way hold;	      /* while nothing is under way */
	enum vms_release_way release; /* after a stop of ours */
	const char *advice;	      /* see vms_run_state_advice */
} states[VMS_RUN_N_STATES] = {
	[VMS_RUN_UNKNOWN] = { "unknown", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
			      "which this version of vmscope does not know" },
	[VMS_RUN_RUNNING] = { "running", VMS_HOLD_BY_STOP, VMS_RELEASE_NOTHING, "it runs" },
	[VMS_RUN_PAUSED] = { "paused", VMS_HOLD_AS_IT_IS, VMS_RELEASE_CONT,
			     "somebody has stopped it; `cont` in QEMU's monitor, or \"virsh "
			     "resume\", lets it go on" },
	[VMS_RUN_SUSPENDED] = { "suspended", VMS_HOLD_AS_IT_IS, VMS_RELEASE_STOP_CONT,
				"its guest sleeps; `system_wakeup` in QEMU's monitor, or "
				"\"virsh dompmwakeup\", wakes it" },
	[VMS_RUN_PRELAUNCH] = { "prelaunch", VMS_HOLD_AS_IT_IS, VMS_RELEASE_CONT,
				"it has not been started (-S) or was reset while it stood "
				"still; `cont` in QEMU's monitor lets it go" },
	[VMS_RUN_INMIGRATE] = { "inmigrate", VMS_HOLD_NOT_NOW, VMS_RELEASE_NOTHING,
				"it waits for a migration to come in; try again after that" },
	[VMS_RUN_FINISH_MIGRATE] = { "finish-migrate", VMS_HOLD_NOT_NOW, VMS_RELEASE_LATER,
				     "its migration is about to end; look for it on the "
				     "other host" },
	[VMS_RUN_POSTMIGRATE] = { "postmigrate", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
				  "it was migrated or saved; look for it where it went, or "
				  "let it go on here by `cont` in QEMU's monitor" },
	[VMS_RUN_SAVE_VM] = { "save-vm", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
			      "a snapshot of it is being saved; try again after that" },
	[VMS_RUN_RESTORE_VM] = { "restore-vm", VMS_HOLD_NOT_NOW, VMS_RELEASE_NOTHING,
				 "a snapshot of it is being restored; try again after that" },
	[VMS_RUN_COLO] = { "colo", VMS_HOLD_NOT_NOW, VMS_RELEASE_NOTHING,
			   "another machine stands in for it (COLO); try again after that" },
	[VMS_RUN_IO_ERROR] = { "io-error", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
			       "a disk gave an error; mend that, then `cont` in QEMU's "
			       "monitor lets it go on" },
	[VMS_RUN_INTERNAL_ERROR] = { "internal-error", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
				     "QEMU cannot execute it any more; QEMU's log says why, "
				     "`system_reset` starts it anew" },
	[VMS_RUN_GUEST_PANICKED] = { "guest-panicked", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
				     "its kernel has panicked; \"vmscope dmesg\" says why" },
	[VMS_RUN_WATCHDOG] = { "watchdog", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
			       "its watchdog has expired; \"vmscope stack\" shows where it "
			       "hangs" },
	[VMS_RUN_SHUTDOWN] = { "shutdown", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
			       "it has shut down; `system_reset` and `cont` in QEMU's "
			       "monitor start it anew" },
	[VMS_RUN_DEBUG] = { "debug", VMS_HOLD_AS_IT_IS, VMS_RELEASE_NOTHING,
			    "a debugger has stopped it; it goes on by that" },
};

enum vms_run_state vms_run_state_parse(const char *name, size_t size)
{
	for (unsigned i = VMS_RUN_UNKNOWN + 1; i < VMS_RUN_N_STATES; i++) {
		if (strlen(states[i].name) == size && memcmp(states[i].name, name, size) == 0)
			return (enum vms_run_state)i;
	}
	return VMS_RUN_UNKNOWN;
}

enum vms_run_state vms_run_state_parse_status(const char *status, size_t size)
{
	size_t n = 0;
	while (n < size && status[n] != '\r' && status[n] != '\n')
		n++;
	const char *begin = memchr(status, '(', n);
	if (!begin)
		return vms_run_state_parse(status, n);
	begin++;
	const char *end = memchr(begin, ')', (size_t)(status + n - begin));
	return end ? vms_run_state_parse(begin, (size_t)(end - begin)) : VMS_RUN_UNKNOWN;
}

const char *vms_run_state_name(enum vms_run_state state)
{
	return states[state].name;
}

const char *vms_run_state_advice(enum vms_run_state state)
{
	return states[state].advice;
}

bool vms_migration_is_active(const char *status)
{
	return strcmp(status, "none") != 0 && strcmp(status, "completed") != 0 &&
	       strcmp(status, "failed") != 0 && strcmp(status, "cancelled") != 0;
}

enum vms_hold_way vms_run_state_hold_way(enum vms_run_state state, bool busy)
{
	enum vms_hold_way way = states[state].hold;
	return way == VMS_HOLD_BY_STOP && busy ? VMS_HOLD_NOT_NOW : way;
}

enum vms_release_way vms_run_state_release_way(enum vms_run_state state, bool owns_hits)
{
	if (state == VMS_RUN_DEBUG && owns_hits)
		return VMS_RELEASE_CONT;
	return states[state].release;
}

bool vms_run_state_may_follow_hit(enum vms_run_state state)
{
	return state == VMS_RUN_DEBUG || state == VMS_RUN_PRELAUNCH || state == VMS_RUN_SUSPENDED;
}

bool vms_event_stops(const char *event, const char *action)
{
	if (strcmp(event, "SHUTDOWN") == 0)
		return true;
	if (!action)
		return false;
	return (strcmp(event, "GUEST_PANICKED") == 0 && strcmp(action, "pause") == 0) ||
	       (strcmp(event, "WATCHDOG") == 0 && strcmp(action, "pause") == 0) ||
	       (strcmp(event, "BLOCK_IO_ERROR") == 0 && strcmp(action, "stop") == 0);
}
