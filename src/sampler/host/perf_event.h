/* SPDX-License-Identifier: MIT */
/* Opens events of perf_event_open(2) that sample by the CPU clock. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vms_perf_options {
	uint64_t period_ns;
	unsigned depth;
	bool user_only;
	bool enable_on_exec; /* sampling begins when the task executes a program */
};

/*
 * Opens an event of a task and all that it starts, on one CPU. If `pid` is -1, the event is of all
 * tasks. With `cgroup`, `pid` is the descriptor of a control group's folder. Returns a descriptor,
 * or -1 and sets errno: ESRCH if the task has ended.
 */
int vms_perf_open(const struct vms_perf_options *options, pid_t pid, int cpu, bool cgroup);
/*
 * The same of an event that samples each switch of a task away from its CPU: sched:sched_switch,
 * whose number is `tracepoint`. Its samples have raw data behind the callchain. Switches to the
 * task are records of their own. It takes CAP_PERFMON, or a kernel.perf_event_paranoid of -1.
 */
int vms_perf_open_switches(const struct vms_perf_options *options, uint64_t tracepoint, pid_t pid,
			   int cpu, bool cgroup);
/* Opens an event that only has a ring for other events. Returns -1 and sets errno on failure. */
int vms_perf_open_ring(int cpu);
/* Sets the error for `number` of errno(3), which names the limit of the kernel. Returns false. */
bool vms_perf_set_error(int number, const char *what, GError **error);
