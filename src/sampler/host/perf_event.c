/* SPDX-License-Identifier: MIT */
#include "sampler/host/perf_event.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vmscope/error.h>

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu, unsigned long flags)
{
	attr->size = sizeof(*attr);
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
}

int vms_perf_open(const struct vms_perf_options *options, pid_t pid, int cpu, bool cgroup)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = options->period_ns,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN,
		.read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST,
		.disabled = options->enable_on_exec,
		.enable_on_exec = options->enable_on_exec,
		.inherit = pid >= 0 && !cgroup,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.exclude_kernel = options->user_only,
		.exclude_callchain_kernel = options->user_only,
		.exclude_hv = 1,
		.sample_max_stack = (uint16_t)options->depth,
	};
	int fd = open_event(&attr, pid, cpu, cgroup ? PERF_FLAG_PID_CGROUP : 0);
	if (fd < 0 && errno == EINVAL) { /* Linux before 6.0 does not count losses */
		attr.read_format = PERF_FORMAT_ID;
		fd = open_event(&attr, pid, cpu, cgroup ? PERF_FLAG_PID_CGROUP : 0);
	}
	return fd;
}

int vms_perf_open_ring(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.watermark = 1,
		.wakeup_watermark = 64 << 10,
	};
	return open_event(&attr, 0, cpu, 0);
}

bool vms_perf_set_error(int number, const char *what, GError **error)
{
	g_autofree char *level = NULL;
	enum vms_error code = VMS_ERROR_IO;
	g_autofree char *advice = NULL;
	if (number == EACCES || (number == EPERM && !g_str_has_prefix(what, "buffer"))) {
		g_file_get_contents("/proc/sys/kernel/perf_event_paranoid", &level, NULL, NULL);
		code = VMS_ERROR_PERMISSION;
		advice = g_strdup_printf("; the sysctl kernel.perf_event_paranoid is %s: a lower "
					 "one, or CAP_PERFMON, "
					 "allows it",
					 level ? g_strchomp(level) : "unknown");
	} else if (number == EPERM) {
		code = VMS_ERROR_PERMISSION;
		advice = g_strdup("; the sysctl kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK "
				  "(ulimit -l) allows no more memory");
	} else if (number == EMFILE || number == ENFILE) {
		advice = g_strdup("; each thread takes a file per CPU: raise RLIMIT_NOFILE (ulimit "
				  "-n) or the sysctl fs.file-max");
	} else if (number == EOVERFLOW) {
		advice = g_strdup("; the sysctl kernel.perf_event_max_stack is below the depth");
	} else if (number == ENOENT || number == ENOSYS) {
		code = VMS_ERROR_UNSUPPORTED;
		advice = g_strdup("; this kernel has no perf events");
	} else if (number == EBADF || number == EINVAL) {
		code = VMS_ERROR_UNSUPPORTED;
	}
	g_set_error(error, VMS_ERROR, code, "cannot sample by perf events (%s): %s%s", what,
		    g_strerror(number), advice ? advice : "");
	return false;
}
