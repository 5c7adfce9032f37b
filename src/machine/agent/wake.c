/* SPDX-License-Identifier: MIT */
#include "machine/agent/wake.h"

#include "machine/qemu/guard.h"
#include <vmscope/log.h>

static void stop_and_go(struct vms_qmp *qmp, struct vms_guard *guard)
{
	if (!vms_guard_hold(guard, NULL))
		return;
	vms_autojson *stopped = vms_qmp_execute(qmp, "stop", NULL, -1, NULL);
	vms_autojson *running = vms_qmp_execute(qmp, "cont", NULL, -1, NULL);
	/* If it does not run, the guard goes on trying when it is freed. */
	if (running)
		vms_guard_release(guard);
	vms_log(VMS_LOG_INFO, "%s",
		stopped ? "stopped the machine for a moment: all of its vCPUs are busy"
			: "the machine cannot be stopped for a moment");
}

void vms_agent_wake(struct vms_qmp *qmp)
{
	if (!vms_qmp_poll(qmp) || !qmp->running)
		return;
	struct vms_guard *guard = vms_guard_new_qmp(&qmp->stream, NULL, NULL);
	if (guard)
		stop_and_go(qmp, guard);
	vms_guard_free(guard);
}
