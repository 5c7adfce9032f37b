/* SPDX-License-Identifier: MIT */
/* Opens the events of targets: their threads, and those that they start. */
#include "base/clock.h"
#include "base/errno_name.h"
#include "sampler/host/host_engine-private.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The number of searches for threads that are created while others are attached. */
#define ROUNDS 8

struct attaching {
	struct vms_host_engine *engine;
	unsigned attached;
	int number;	 /* of errno(3): the reason of a failure, or 0 */
	int exec_number; /* the same of a command's program */
};

struct machine_attaching {
	struct attaching *attaching;
	const char *worker; /* the name of the kernel's workers for the machine */
};

/*
 * Adds an event of a task on a CPU. False if the CPU is offline, or with the reason in `*number`.
 */
static bool open_event(struct vms_host_engine *engine, pid_t pid, unsigned cpu, bool cgroup,
		       const struct vms_perf_options *options, int *number)
{
	const struct vms_perf_ring *ring = &engine->rings[cpu];
	if (!ring->base)
		return false;
	const int fd = vms_perf_open(options, pid, (int)cpu, cgroup);
	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0) {
		*number = errno;
		if (fd >= 0)
			close(fd);
		return false;
	}
	struct epoll_event event = { .events = EPOLLHUP, .data.u32 = engine->events->len };
	epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event);
	g_array_append_val(engine->events, fd);
	engine->n_open++;
	return true;
}

/* Adds an event of a task's switches on a CPU. */
static void open_switches(struct vms_host_engine *engine, pid_t pid, unsigned cpu, bool cgroup,
			  const struct vms_perf_options *options, int *number)
{
	const struct vms_perf_ring *ring = &engine->rings[cpu];
	const int fd =
		vms_perf_open_switches(options, engine->switches.tracepoint, pid, (int)cpu, cgroup);
	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0) {
		*number = errno;
		if (fd >= 0)
			close(fd);
		return;
	}
	g_array_append_val(engine->wall_fds, fd);
}

/* Attaches a task on all CPUs. Without the right to sample the kernel, only its user code. */
static bool attach_task(struct vms_host_engine *engine, pid_t pid, bool cgroup, bool on_exec,
			int *number)
{
	unsigned n = 0;
	*number = 0;
	for (unsigned cpu = 0; cpu < engine->n_cpus && !*number; cpu++) {
		struct vms_perf_options options = engine->options;
		options.enable_on_exec = on_exec;
		options.user_only = engine->user_only;
		n += open_event(engine, pid, cpu, cgroup, &options, number);
		if (engine->off_cpu && !*number && engine->rings[cpu].base)
			open_switches(engine, pid, cpu, cgroup, &options, number);
		if (*number == EACCES && !engine->off_cpu && !engine->user_only &&
		    engine->events->len == 0) {
			engine->user_only = true;
			*number = 0;
			cpu--;
		}
	}
	return n > 0 && !*number;
}

/*
 * A thread that waits when it is attached. Nobody has seen it go to sleep: its state is known, its
 * stack is not. What the kernel tells of it later is in records with times.
 */
static void note_sleeper(pid_t tid, void *data)
{
	struct vms_host_engine *engine = data;
	g_autofree char *path = NULL, *status = NULL;
	if (!engine->off_cpu)
		return;
	struct vms_sample_record sample = { .time_ns = vms_clock_now_ns(),
					    .tid = (uint32_t)tid,
					    .space = VMS_NO_SPACE,
					    .wait_frame = VMS_NO_WAIT_FRAME,
					    .stack.end = VMS_WALK_UNREADABLE };
	path = g_strdup_printf("/proc/%d/status", (int)tid);
	int pid = 0;
	const char *line = g_file_get_contents(path, &status, NULL, NULL)
				   ? strstr(status, "\nState:\t")
				   : NULL;
	if (!line || sscanf(line, "\nState: %c", &sample.waits) != 1 ||
	    !(line = strstr(status, "\nTgid:")) || sscanf(line, "\nTgid: %d", &pid) != 1 ||
	    strchr("RXZ", sample.waits))
		return;
	sample.pid = (uint32_t)pid;
	vms_off_cpu_begin(engine->off_cpu, &sample);
}

static void note_sleepers(struct vms_host_engine *engine, pid_t pid)
{
	g_autofree char *folder = g_strdup_printf("/proc/%d/task", (int)pid);
	if (engine->off_cpu)
		vms_host_list_numbers(folder, note_sleeper, engine);
}

/* Records the name of a thread that was not born during the session. */
static void record_thread(struct vms_host_engine *engine, pid_t tid)
{
	g_autofree char *comm = vms_host_read_proc(tid, "comm"),
			*status = vms_host_read_proc(tid, "status");
	const char *line = status ? strstr(status, "\nTgid:") : NULL;
	int pid;
	if (comm && line && sscanf(line, "\nTgid: %d", &pid) == 1)
		vms_sampler_record_thread(engine->sampler, (uint32_t)pid, (uint32_t)tid,
					  g_strchomp(comm));
}

static void attach_thread(pid_t tid, void *data)
{
	struct attaching *attaching = data;
	int number;
	if (attaching->number ||
	    g_hash_table_contains(attaching->engine->tids, GINT_TO_POINTER(tid)))
		return;
	if (attach_task(attaching->engine, tid, false, false, &number)) {
		g_hash_table_add(attaching->engine->tids, GINT_TO_POINTER(tid));
		note_sleeper(tid, attaching->engine);
		record_thread(attaching->engine, tid);
		attaching->attached++;
	} else if (number != ESRCH) {
		attaching->number = number;
	}
}

/*
 * Attaches all threads of a process. Repeats this, because threads that are created meanwhile may
 * be missed.
 */
static void attach_process(struct attaching *attaching, pid_t pid)
{
	g_autofree char *folder = g_strdup_printf("/proc/%d/task", (int)pid);
	unsigned before = attaching->attached + 1;
	vms_host_record_process(attaching->engine, pid, vms_clock_now_ns());
	for (unsigned i = 0; i < ROUNDS && before != attaching->attached; i++) {
		before = attaching->attached;
		vms_host_list_numbers(folder, attach_thread, attaching);
		vms_host_drain_events(
			attaching->engine); /* finds the threads with events of their parent */
	}
}

static pid_t read_parent(pid_t pid)
{
	g_autofree char *stat = vms_host_read_proc(pid, "stat");
	const char *end = stat ? strrchr(stat, ')') : NULL;
	int parent = 0;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void add_if_descendant(pid_t pid, void *data)
{
	GArray *pids = data;
	const pid_t parent = read_parent(pid);
	bool is_known = false, is_child = false;
	for (guint i = 0; i < pids->len; i++) {
		is_known |= g_array_index(pids, pid_t, i) == pid;
		is_child |= g_array_index(pids, pid_t, i) == parent;
	}
	if (is_child && !is_known)
		g_array_append_val(pids, pid);
}

static void attach_job(struct attaching *attaching, pid_t pid)
{
	g_autoptr(GArray) pids = g_array_new(FALSE, FALSE, sizeof(pid_t));
	guint before = 0;
	g_array_append_val(pids, pid);
	while (before != pids->len) { /* /proc is not in the order of births */
		before = pids->len;
		vms_host_list_numbers("/proc", add_if_descendant, pids);
	}
	for (guint i = 0; i < pids->len; i++)
		attach_process(attaching, g_array_index(pids, pid_t, i));
}

/* Attaches a worker of the kernel for the process of a machine: Linux before 6.4 has them. */
static void attach_worker(pid_t pid, void *data)
{
	struct machine_attaching *machine = data;
	g_autofree char *comm = vms_host_read_proc(pid, "comm");
	if (!comm || strcmp(g_strchomp(comm), machine->worker) != 0)
		return;
	vms_host_record_process(machine->attaching->engine, pid, vms_clock_now_ns());
	attach_thread(pid, machine->attaching);
}

static void attach_machine(struct attaching *attaching, pid_t pid)
{
	g_autofree char *worker = g_strdup_printf("vhost-%d", (int)pid);
	struct machine_attaching machine = { attaching, worker };
	attach_process(attaching, pid);
	vms_host_list_numbers("/proc", attach_worker, &machine);
}

static void record_listed_process(pid_t pid, void *data)
{
	vms_host_record_process(data, pid, vms_clock_now_ns());
}

static void note_sleepers_of(pid_t pid, void *data)
{
	note_sleepers(data, pid);
}

static void attach_many(struct attaching *attaching, int folder)
{
	vms_host_list_numbers("/proc", record_listed_process, attaching->engine);
	attaching->attached +=
		attach_task(attaching->engine, folder, folder >= 0, false, &attaching->number);
	/* Which threads are in a control group shows when they run. */
	if (folder < 0)
		vms_host_list_numbers("/proc", note_sleepers_of, attaching->engine);
	attaching->engine->endless = true;
}

static void count_thread(pid_t tid G_GNUC_UNUSED, void *data)
{
	++*(unsigned *)data;
}

void vms_host_record_if_named(pid_t pid, void *data)
{
	struct vms_host_engine *engine = data;
	g_autofree char *comm = vms_host_read_proc(pid, "comm");
	g_autofree char *folder = g_strdup_printf("/proc/%d/task", (int)pid);
	unsigned threads = 0;
	if (!comm)
		return;
	vms_host_list_numbers(folder, count_thread, &threads);
	if (threads &&
	    vms_name_filter_note_program(engine->names, pid, g_strchomp(comm), threads)) {
		vms_host_record_process(engine, pid, vms_clock_now_ns());
		note_sleepers(engine, pid);
	}
}

/* Events are opened first, so their records have all programs that start during the search. */
static void attach_name(struct attaching *attaching, const char *name)
{
	struct vms_host_engine *engine = attaching->engine;
	const bool is_first = !engine->names;
	if (is_first) {
		engine->names = vms_name_filter_new();
		if (!engine->queue)
			engine->queue = vms_record_queue_new();
	}
	vms_name_filter_add(engine->names, name);
	if (is_first)
		attaching->attached += attach_task(engine, -1, false, false, &attaching->number);
	vms_host_list_numbers("/proc", vms_host_record_if_named, engine);
}

/* The process of a command, which waits before it executes the program. */
struct started {
	pid_t pid;
	/*
	 * A socket. The process executes the program when it receives something. If that fails, it
	 * sends the number of errno(3), otherwise nothing.
	 */
	int fd;
};

/* Returns false and sets errno on failure. */
static bool start_command(char **command, struct started *ret)
{
	int fds[2];
	g_autofree char *path = g_find_program_in_path(command[0]);
	if (!path || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return false;
	const pid_t pid = fork();
	if (pid == 0) { /* only functions that are safe after a fork of several threads */
		int number = 0;
		close(fds[1]);
		if (read(fds[0], &number, sizeof(number)) != sizeof(number))
			_exit(127);
		execv(path, command);
		number = errno;
		(void)!write(fds[0], &number, sizeof(number));
		_exit(127);
	}
	const int number = errno;
	close(fds[0]);
	if (pid < 0)
		close(fds[1]);
	*ret = (struct started) { pid, fds[1] };
	errno = number;
	return pid >= 0;
}

/* Makes a command execute its program. Returns 0, or a number of errno(3) if that failed. */
static int start_program(const struct started *started)
{
	int number = 0;
	const bool failed = write(started->fd, &number, sizeof(number)) == sizeof(number) &&
			    read(started->fd, &number, sizeof(number)) == sizeof(number);
	return failed ? number : 0;
}

static void attach_command(struct attaching *attaching, char **command)
{
	struct vms_host_engine *engine = attaching->engine;
	struct started started;
	int number;
	if (!start_command(command, &started)) {
		attaching->number = errno;
		return;
	}
	const pid_t pid = started.pid;
	engine->command = pid;
	engine->command_status = -1;
	if (attach_task(engine, pid, false, true, &number)) {
		attaching->attached++;
		g_hash_table_add(engine->tids, GINT_TO_POINTER(pid));
		g_hash_table_add(engine->pids, GINT_TO_POINTER(pid));
		attaching->exec_number = start_program(&started);
	} else {
		attaching->number = number;
		kill(pid, SIGKILL);
	}
	close(started.fd);
}

bool vms_host_attach_target(struct vms_host_engine *engine, const struct vms_host_target *target,
			    GError **error)
{
	struct attaching attaching = { .engine = engine };
	g_autofree char *who = g_strdup_printf("thread %d", (int)target->id);
	switch (target->kind) {
	case VMS_SAMPLER_THREAD:
		vms_host_record_process(engine, target->id, vms_clock_now_ns());
		attach_thread(target->id, &attaching);
		break;
	case VMS_SAMPLER_PROCESS: attach_process(&attaching, target->id); break;
	case VMS_SAMPLER_JOB: attach_job(&attaching, target->id); break;
	case VMS_SAMPLER_MACHINE: attach_machine(&attaching, target->id); break;
	case VMS_SAMPLER_CGROUP: attach_many(&attaching, target->folder); break;
	case VMS_SAMPLER_SYSTEM: attach_many(&attaching, -1); break;
	case VMS_SAMPLER_COMMAND: attach_command(&attaching, target->command); break;
	case VMS_SAMPLER_NAME: attach_name(&attaching, target->name); break;
	}
	if (attaching.exec_number) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s (%s)",
			    target->command[0], g_strerror(attaching.exec_number),
			    vms_errno_name((uint64_t)attaching.exec_number));
		return false;
	}
	if (attaching.number)
		return vms_perf_set_error(attaching.number,
					  target->kind == VMS_SAMPLER_CGROUP ? "control group"
					  : target->kind == VMS_SAMPLER_SYSTEM ||
							  target->kind == VMS_SAMPLER_NAME
						  ? "whole system"
					  : target->kind == VMS_SAMPLER_COMMAND ? "command"
										: who,
					  error);
	return true;
}
