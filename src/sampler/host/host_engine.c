/* SPDX-License-Identifier: MIT */
/*
 * The engine of this host. Each thread of a target has an event on every CPU. The kernel copies the
 * events to threads and processes that the thread starts. All events of a CPU write into the ring
 * of that CPU. One thread drains the rings.
 */
#include "base/clock.h"
#include "base/errno_name.h"
#include "base/proc_text.h"
#include "guest/container.h"
#include "sampler/engine.h"
#include "sampler/host/host_files.h"
#include "sampler/host/name_filter.h"
#include "sampler/host/off_cpu.h"
#include "sampler/host/perf_event.h"
#include "sampler/host/perf_ring.h"
#include "sampler/host/record_queue.h"
#include "sampler/host/switches.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* The interval between drains of the rings if none is half full. */
#define DRAIN_MS 50
/* The number of searches for threads that are created while others are attached. */
#define ROUNDS	       8
#define CHECK_NAMES_NS (UINT64_C(500) * 1000 * 1000)
#define USER_CODE_MIN  UINT64_C(0x1000)
#define USER_CODE_END  (UINT64_C(1) << 56) /* with five levels of page tables */

struct target {
	enum vms_sampler_target_kind kind;
	pid_t id;
	int folder; /* of a control group, or -1 */
	char **command;
	char *name;
};

struct host_engine {
	struct vms_sampler *sampler;
	struct vms_perf_options options;
	struct vms_perf_ring *rings; /* of each CPU */
	unsigned n_cpus;
	GArray *targets;  /* struct target */
	GArray *events;	  /* int: descriptors of events; -1 if the tasks have ended */
	unsigned n_open;  /* of `events` */
	bool endless;	  /* a target that never ends exists */
	GHashTable *tids; /* threads with events of their own or of their parent */
	GHashTable *pids; /* processes that were recorded */
	/*
	 * For targets by name, everything is sampled, and most of it is dropped. Whether a record
	 * is dropped depends on earlier records of all CPUs.
	 */
	struct vms_name_filter *names; /* NULL: nothing is dropped */
	/* With it, records are taken in the order of their times. */
	struct vms_record_queue *queue;
	/* Threads that wait, if they are sampled, too. */
	struct vms_off_cpu *off_cpu;
	struct vms_switches switches;
	GArray *wall_fds;	 /* int: descriptors of events of switches */
	uint64_t check_names_ns; /* when to check next whether members are alive */
	struct vms_host_files *files;
	struct vms_sample_record *sample; /* the sample that is being decoded */
	int epoll_fd, stop_fd;
	struct utsname system;
	GThread *thread;
	GMutex lock; /* guards all above while the thread runs, and all below */
	bool started, ends, user_only;
	uint64_t count_ns, lost, throttled; /* of closed events; of the rings */
	uint64_t switches_lost;		    /* records of switches, likewise */
	uint64_t running;		    /* samples of threads that ran */
	pid_t command;
	int command_status; /* -1: it has not ended */
};

/* ---- running processes ------------------------------------------------------------ */

static void record_file(uint32_t number, const char *path, const struct vms_file_identity *identity,
			void *data)
{
	const struct host_engine *engine = data;
	vms_sampler_record_file(engine->sampler, number, path, identity->build_id, identity->stamp);
}

static void record_mapping(struct host_engine *engine, uint64_t time_ns, pid_t pid,
			   const char *line)
{
	struct vms_proc_mapping mapping;
	char flags[5] = "";
	int at = 0;
	if (!vms_proc_parse_mapping(line, &mapping) ||
	    sscanf(line, "%*s %4s %*s %*s %*s %n", flags, &at) < 1 || flags[2] != 'x' || at == 0)
		return;
	g_autofree char *path = g_strchomp(g_strdup(line + at));
	const uint32_t file = vms_host_files_number(engine->files, pid, path[0] ? path : "[anon]",
						    mapping.device, mapping.inode);
	vms_sampler_record_mapping(engine->sampler, time_ns, (uint32_t)pid, mapping.start,
				   mapping.end, mapping.file_offset, file);
}

static char *read_proc(pid_t pid, const char *name)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/%s", (int)pid, name);
	char *text;
	return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

/*
 * Returns the container of a process, newly allocated: "" for none, NULL if the process has ended.
 * Its line begins with "0::" in the second version of control groups, which containers are named by
 * in the first one, too, where systemd runs.
 */
static char *read_container(pid_t pid)
{
	g_autofree char *text = read_proc(pid, "cgroup");
	const char *line = !text			   ? NULL
			   : g_str_has_prefix(text, "0::") ? text
							   : strstr(text, "\n0::");
	if (!line)
		return NULL;
	const char *path = strchr(line, '/');
	g_autofree char *own = path ? g_strndup(path, strcspn(path, "\n")) : NULL;
	char *container = own ? vms_container_name(own) : NULL;
	return container ? container : g_strdup("");
}

/* Records a process that was not created during the session, and its mappings. */
static void record_process(struct host_engine *engine, pid_t pid, uint64_t time_ns)
{
	if (!g_hash_table_add(engine->pids, GINT_TO_POINTER(pid)))
		return;
	g_autofree char *comm = read_proc(pid, "comm"), *maps = read_proc(pid, "maps");
	g_autofree char *container = read_container(pid);
	vms_sampler_record_process(engine->sampler, time_ns, (uint32_t)pid, 0,
				   comm ? g_strchomp(comm) : "", container);
	for (char *line = maps, *end; line && *line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		record_mapping(engine, time_ns, pid, line);
		if (!end)
			break;
	}
}

/* Calls `visit` for the numbers that are names in a folder of /proc. */
static void list_numbers(const char *folder, void (*visit)(pid_t number, void *data), void *data)
{
	GDir *dir = g_dir_open(folder, 0, NULL);
	const char *name;
	while (dir && (name = g_dir_read_name(dir)))
		if (g_ascii_isdigit(name[0]))
			visit((pid_t)atoi(name), data);
	if (dir)
		g_dir_close(dir);
}

/* ---- attaching -------------------------------------------------------------------- */

struct attaching {
	struct host_engine *engine;
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
static bool open_event(struct host_engine *engine, pid_t pid, unsigned cpu, bool cgroup,
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
static void open_switches(struct host_engine *engine, pid_t pid, unsigned cpu, bool cgroup,
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
static bool attach_task(struct host_engine *engine, pid_t pid, bool cgroup, bool on_exec,
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
	struct host_engine *engine = data;
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

static void note_sleepers(struct host_engine *engine, pid_t pid)
{
	g_autofree char *folder = g_strdup_printf("/proc/%d/task", (int)pid);
	if (engine->off_cpu)
		list_numbers(folder, note_sleeper, engine);
}

/* Records the name of a thread that was not born during the session. */
static void record_thread(struct host_engine *engine, pid_t tid)
{
	g_autofree char *comm = read_proc(tid, "comm"), *status = read_proc(tid, "status");
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

static void drain_events(struct host_engine *engine);

/*
 * Attaches all threads of a process. Repeats this, because threads that are created meanwhile may
 * be missed.
 */
static void attach_process(struct attaching *attaching, pid_t pid)
{
	g_autofree char *folder = g_strdup_printf("/proc/%d/task", (int)pid);
	unsigned before = attaching->attached + 1;
	record_process(attaching->engine, pid, vms_clock_now_ns());
	for (unsigned i = 0; i < ROUNDS && before != attaching->attached; i++) {
		before = attaching->attached;
		list_numbers(folder, attach_thread, attaching);
		drain_events(attaching->engine); /* finds the threads with events of their parent */
	}
}

static pid_t read_parent(pid_t pid)
{
	g_autofree char *stat = read_proc(pid, "stat");
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
		list_numbers("/proc", add_if_descendant, pids);
	}
	for (guint i = 0; i < pids->len; i++)
		attach_process(attaching, g_array_index(pids, pid_t, i));
}

/* Attaches a worker of the kernel for the process of a machine: Linux before 6.4 has them. */
static void attach_worker(pid_t pid, void *data)
{
	struct machine_attaching *machine = data;
	g_autofree char *comm = read_proc(pid, "comm");
	if (!comm || strcmp(g_strchomp(comm), machine->worker) != 0)
		return;
	record_process(machine->attaching->engine, pid, vms_clock_now_ns());
	attach_thread(pid, machine->attaching);
}

static void attach_machine(struct attaching *attaching, pid_t pid)
{
	g_autofree char *worker = g_strdup_printf("vhost-%d", (int)pid);
	struct machine_attaching machine = { attaching, worker };
	attach_process(attaching, pid);
	list_numbers("/proc", attach_worker, &machine);
}

static void record_listed_process(pid_t pid, void *data)
{
	record_process(data, pid, vms_clock_now_ns());
}

static void note_sleepers_of(pid_t pid, void *data)
{
	note_sleepers(data, pid);
}

static void attach_many(struct attaching *attaching, int folder)
{
	list_numbers("/proc", record_listed_process, attaching->engine);
	attaching->attached +=
		attach_task(attaching->engine, folder, folder >= 0, false, &attaching->number);
	/* Which threads are in a control group shows when they run. */
	if (folder < 0)
		list_numbers("/proc", note_sleepers_of, attaching->engine);
	attaching->engine->endless = true;
}

static void count_thread(pid_t tid G_GNUC_UNUSED, void *data)
{
	++*(unsigned *)data;
}

static void record_if_named(pid_t pid, void *data)
{
	struct host_engine *engine = data;
	g_autofree char *comm = read_proc(pid, "comm");
	g_autofree char *folder = g_strdup_printf("/proc/%d/task", (int)pid);
	unsigned threads = 0;
	if (!comm)
		return;
	list_numbers(folder, count_thread, &threads);
	if (threads &&
	    vms_name_filter_note_program(engine->names, pid, g_strchomp(comm), threads)) {
		record_process(engine, pid, vms_clock_now_ns());
		note_sleepers(engine, pid);
	}
}

/* Events are opened first, so their records have all programs that start during the search. */
static void attach_name(struct attaching *attaching, const char *name)
{
	struct host_engine *engine = attaching->engine;
	const bool is_first = !engine->names;
	if (is_first) {
		engine->names = vms_name_filter_new();
		if (!engine->queue)
			engine->queue = vms_record_queue_new();
	}
	vms_name_filter_add(engine->names, name);
	if (is_first)
		attaching->attached += attach_task(engine, -1, false, false, &attaching->number);
	list_numbers("/proc", record_if_named, engine);
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
	struct host_engine *engine = attaching->engine;
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

/* Attaches a target. False if it has no threads. */
static bool attach_target(struct host_engine *engine, const struct target *target, GError **error)
{
	struct attaching attaching = { .engine = engine };
	g_autofree char *who = g_strdup_printf("thread %d", (int)target->id);
	switch (target->kind) {
	case VMS_SAMPLER_THREAD:
		record_process(engine, target->id, vms_clock_now_ns());
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

/* ---- records of the kernel --------------------------------------------------------- */

struct numbers { /* the end of all records except samples (sample_id_all) */
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu, reserved;
	uint64_t id;
};

/*
 * False for addresses that cannot be code. The kernel follows frame pointers. Code without frame
 * pointers uses the register for other values, so the walk finds wrong return addresses.
 */
static bool may_be_user_code(uint64_t pc)
{
	return pc >= USER_CODE_MIN && pc < USER_CODE_END;
}

/* Adds the frames of a callchain. Context markers tell the kernel's frames from the user's. */
static void add_frames(struct vms_sample_record *sample, const uint8_t *body, uint64_t n,
		       unsigned depth)
{
	struct vms_stack *stack = &sample->stack;
	bool is_user = true, is_broken = false;
	uint64_t frames = 0;
	stack->n = stack->n_kernel = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t pc;
		memcpy(&pc, body + i * 8, sizeof(pc));
		if (pc >= (uint64_t)PERF_CONTEXT_MAX) {
			is_user = pc != (uint64_t)PERF_CONTEXT_KERNEL;
			continue;
		}
		if (is_user && stack->n > stack->n_kernel && !may_be_user_code(pc)) {
			is_broken = true;
			break;
		}
		frames++;
		if (stack->n == VMS_STACK_LIMIT)
			continue;
		stack->frame[stack->n++] = (struct vms_frame) { .pc = pc, .is_user = is_user };
		stack->n_kernel += !is_user;
	}
	stack->kernel_end = VMS_WALK_ROOT;
	stack->end = is_broken	       ? VMS_WALK_BAD_FRAME
		     : frames >= depth ? VMS_WALK_DEPTH
		     : frames == 0     ? VMS_WALK_UNREADABLE
				       : VMS_WALK_ROOT;
}

/* True if records of a process are dropped. */
static bool is_dropped(const struct host_engine *engine, uint32_t pid)
{
	return engine->names && !vms_name_filter_has(engine->names, (pid_t)pid);
}

static bool add_waiting(const struct vms_sample_record *sample, uint64_t more, void *data)
{
	struct host_engine *engine = data;
	if (!g_hash_table_contains(engine->pids, GINT_TO_POINTER((pid_t)sample->pid)))
		record_process(engine, (pid_t)sample->pid, sample->time_ns);
	if (vms_sampler_add_sample(engine->sampler, sample, vms_clock_now_ns()))
		return true;
	vms_sampler_lose_samples(engine->sampler, sample->vcpu, more);
	return false;
}

/* The first frame that does not only put a thread to sleep is what it waits in. */
static uint32_t find_wait_frame(const struct host_engine *engine, const struct vms_stack *stack)
{
	uint32_t i = 0;
	while (i < stack->n_kernel &&
	       vms_switches_is_sleep_code(&engine->switches, stack->frame[i].pc - (i > 0)))
		i++;
	return i > 0 && i < stack->n_kernel ? i : VMS_NO_WAIT_FRAME;
}

/* Decodes the sample of a thread that a CPU switches away from. `raw` is a size, and as many bytes.
 */
static void decode_switch(struct host_engine *engine, const uint8_t *raw, size_t size)
{
	struct vms_sample_record *sample = engine->sample;
	uint32_t raw_size;
	if (!engine->off_cpu || sample->tid == 0 || size < sizeof(raw_size))
		return;
	memcpy(&raw_size, raw, sizeof(raw_size));
	sample->waits = vms_switches_state(&engine->switches, raw + sizeof(raw_size),
					   MIN(raw_size, size - sizeof(raw_size)));
	if (!sample->waits) /* it has ended */
		return;
	if (sample->waits != 'R')
		sample->wait_frame = find_wait_frame(engine, &sample->stack);
	vms_off_cpu_begin(engine->off_cpu, sample);
}

/* True if KVM's guest executed. Its host's kernel gives no stack then. */
static bool is_of_guest(const struct vms_perf_record *record)
{
	const uint16_t mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	return mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER;
}

static void decode_sample(struct host_engine *engine, const struct vms_perf_record *record)
{
	struct {
		uint64_t id, ip;
		uint32_t pid, tid;
		uint64_t time_ns;
		uint32_t cpu, reserved;
		uint64_t n;
	} head;
	const uint64_t taken_ns = vms_clock_now_ns();
	if (record->size < sizeof(head))
		return;
	memcpy(&head, record->body, sizeof(head));
	if (head.n > (record->size - sizeof(head)) / 8 || is_dropped(engine, head.pid))
		return;
	engine->sample->time_ns = head.time_ns;
	engine->sample->vcpu = head.cpu;
	engine->sample->pid = head.pid;
	engine->sample->tid = head.tid;
	engine->sample->waits = 0;
	engine->sample->wait_frame = VMS_NO_WAIT_FRAME;
	engine->sample->in_guest = is_of_guest(record);
	add_frames(engine->sample, record->body + sizeof(head), head.n, engine->options.depth);
	const size_t callchain_end = sizeof(head) + head.n * 8;
	if (record->size > callchain_end) {
		decode_switch(engine, record->body + callchain_end, record->size - callchain_end);
		return;
	}
	if (engine->off_cpu)
		vms_off_cpu_end(engine->off_cpu, head.tid, head.time_ns);
	engine->running++;
	if (!g_hash_table_contains(engine->pids, GINT_TO_POINTER((pid_t)head.pid)))
		record_process(engine, (pid_t)head.pid, head.time_ns);
	vms_sampler_add_sample(engine->sampler, engine->sample, taken_ns);
}

static void decode_mapping(struct host_engine *engine, const struct vms_perf_record *record,
			   const struct numbers *numbers)
{
	struct {
		uint32_t pid, tid;
		uint64_t start, size, offset;
		uint32_t major, minor;
		uint64_t inode, generation;
		uint32_t protection, flags;
	} map;
	if (record->size <= sizeof(map) + sizeof(*numbers))
		return;
	memcpy(&map, record->body, sizeof(map));
	if (is_dropped(engine, map.pid))
		return;
	g_autofree char *path = g_strndup((const char *)record->body + sizeof(map),
					  record->size - sizeof(map) - sizeof(*numbers));
	const char *name = strcmp(path, "//anon") == 0 ? "[anon]" : path;
	const uint32_t file = vms_host_files_number(engine->files, (pid_t)map.pid, name,
						    makedev(map.major, map.minor), map.inode);
	vms_sampler_record_mapping(engine->sampler, numbers->time_ns, map.pid, map.start,
				   map.start + map.size, map.offset, file);
}

static void decode_comm(struct host_engine *engine, const struct vms_perf_record *record,
			const struct numbers *numbers)
{
	uint32_t ids[2];
	if (record->size <= sizeof(ids) + sizeof(*numbers))
		return;
	memcpy(ids, record->body, sizeof(ids));
	g_autofree char *comm = g_strndup((const char *)record->body + sizeof(ids),
					  record->size - sizeof(ids) - sizeof(*numbers));
	if (!(record->misc & PERF_RECORD_MISC_COMM_EXEC)) {
		if (!is_dropped(engine, ids[0]))
			vms_sampler_record_thread(engine->sampler, ids[0], ids[1], comm);
		return;
	}
	if (engine->names && !vms_name_filter_note_program(engine->names, (pid_t)ids[0], comm, 1))
		return;
	g_hash_table_add(engine->pids, GINT_TO_POINTER((pid_t)ids[0]));
	g_autofree char *container = read_container((pid_t)ids[0]);
	vms_sampler_record_process(engine->sampler, numbers->time_ns, ids[0], 0, comm, container);
}

static void decode_birth(struct host_engine *engine, const struct vms_perf_record *record,
			 const struct numbers *numbers, bool is_exit)
{
	uint32_t ids[4]; /* pid, parent's pid, tid, parent's tid */
	if (record->size < sizeof(ids) + 8)
		return;
	memcpy(ids, record->body, sizeof(ids));
	if (engine->names && is_exit)
		vms_name_filter_note_exit(engine->names, (pid_t)ids[0]);
	else if (engine->names)
		vms_name_filter_note_birth(engine->names, (pid_t)ids[0], (pid_t)ids[1]);
	if (is_exit) {
		if (engine->off_cpu)
			vms_off_cpu_end(engine->off_cpu, ids[2], numbers->time_ns);
		g_hash_table_remove(engine->tids, GINT_TO_POINTER((pid_t)ids[2]));
		if (ids[0] == ids[2])
			g_hash_table_remove(engine->pids, GINT_TO_POINTER((pid_t)ids[0]));
		return;
	}
	g_hash_table_add(engine->tids, GINT_TO_POINTER((pid_t)ids[2]));
	if (ids[0] == ids[1] || is_dropped(engine, ids[0]))
		return;
	g_hash_table_add(engine->pids, GINT_TO_POINTER((pid_t)ids[0]));
	vms_sampler_record_process(engine->sampler, numbers->time_ns, ids[0], ids[1], "", NULL);
}

static void decode_record(const struct vms_perf_record *record, void *data)
{
	struct host_engine *engine = data;
	struct numbers numbers = { 0 };
	if (record->type == PERF_RECORD_SAMPLE) {
		decode_sample(engine, record);
		return;
	}
	if (record->size >= sizeof(numbers))
		memcpy(&numbers, record->body + record->size - sizeof(numbers), sizeof(numbers));
	if (record->type == PERF_RECORD_MMAP2)
		decode_mapping(engine, record, &numbers);
	else if (record->type == PERF_RECORD_COMM)
		decode_comm(engine, record, &numbers);
	else if (record->type == PERF_RECORD_FORK || record->type == PERF_RECORD_EXIT)
		decode_birth(engine, record, &numbers, record->type == PERF_RECORD_EXIT);
	else if (record->type == PERF_RECORD_THROTTLE)
		engine->throttled++;
	else if (engine->off_cpu && !(record->misc & PERF_RECORD_MISC_SWITCH_OUT) &&
		 (record->type == PERF_RECORD_SWITCH ||
		  record->type == PERF_RECORD_SWITCH_CPU_WIDE))
		vms_off_cpu_end(engine->off_cpu, numbers.tid, numbers.time_ns);
}

/* Returns the time of a record. All records except samples end with `struct numbers`. */
static uint64_t get_time(const struct vms_perf_record *record)
{
	const size_t at =
		record->type == PERF_RECORD_SAMPLE
			? 24 /* after id, address, pid and tid */
			: record->size - sizeof(struct numbers) + offsetof(struct numbers, time_ns);
	uint64_t time_ns = 0;
	if (at <= record->size - MIN(record->size, sizeof(time_ns)))
		memcpy(&time_ns, record->body + at, sizeof(time_ns));
	return time_ns;
}

static void queue_record(const struct vms_perf_record *record, void *data)
{
	struct host_engine *engine = data;
	vms_record_queue_put(engine->queue, get_time(record), record);
}

static void drain_events(struct host_engine *engine)
{
	/*
	 * A ring that was drained may get new records that are older than those of the next ring.
	 */
	const uint64_t until_ns = engine->ends ? UINT64_MAX : vms_clock_now_ns();
	for (unsigned cpu = 0; cpu < engine->n_cpus; cpu++)
		vms_perf_ring_drain(&engine->rings[cpu],
				    engine->queue ? queue_record : decode_record, engine);
	if (engine->queue)
		vms_record_queue_take(engine->queue, until_ns, decode_record, engine);
	if (engine->off_cpu)
		vms_off_cpu_advance(engine->off_cpu, MIN(until_ns, vms_clock_now_ns()));
}

/* ---- the thread -------------------------------------------------------------------- */

static void add_counts(int fd, uint64_t *count_ns, uint64_t *lost)
{
	uint64_t values[3] = { 0 }; /* value, id, lost */
	if (read(fd, values, sizeof(values)) > 0) {
		*count_ns += values[0];
		*lost += values[2];
	}
}

static void close_event(struct host_engine *engine, guint index)
{
	int *fd = &g_array_index(engine->events, int, index);
	if (*fd < 0)
		return;
	add_counts(*fd, &engine->count_ns, &engine->lost);
	close(*fd);
	*fd = -1;
	engine->n_open--;
}

/* Ends what tells of switches. What got lost of that are waits, of samples nobody knows how many.
 */
static void close_switches(struct host_engine *engine)
{
	uint64_t count = 0;
	for (guint i = 0; i < engine->wall_fds->len; i++) {
		const int fd = g_array_index(engine->wall_fds, int, i);
		add_counts(fd, &count, &engine->switches_lost);
		close(fd);
	}
	g_array_set_size(engine->wall_fds, 0);
}

static void reap_command(struct host_engine *engine)
{
	int status;
	if (engine->command && waitpid(engine->command, &status, WNOHANG) == engine->command) {
		engine->command_status = status;
		engine->command = 0;
	}
}

#define RING_MARK UINT32_C(0x80000000)

static bool is_alive(pid_t pid)
{
	g_autofree char *stat = read_proc(pid, "stat");
	const char *end = stat ? strrchr(stat, ')') : NULL;
	return end && end[1] == ' ' && !strchr("ZX", end[2]);
}

/* Checks which members are alive, because the kernel loses records when the rings are full. */
static void check_names(struct host_engine *engine)
{
	const uint64_t now_ns = vms_clock_now_ns();
	if (!engine->names || now_ns < engine->check_names_ns)
		return;
	engine->check_names_ns = now_ns + CHECK_NAMES_NS;
	list_numbers("/proc", record_if_named, engine);
	vms_name_filter_prune(engine->names, is_alive);
}

static void *run_engine(void *data)
{
	struct host_engine *engine = data;
	struct epoll_event events[64];
	bool goes_on = true, told = false;
	while (goes_on) {
		const int n = epoll_wait(engine->epoll_fd, events, G_N_ELEMENTS(events), DRAIN_MS);
		g_mutex_lock(&engine->lock);
		drain_events(engine);
		for (int i = 0; i < n; i++) {
			if (events[i].data.u32 == UINT32_MAX)
				goes_on = false;
			else if (events[i].data.u32 < engine->events->len &&
				 events[i].events & EPOLLHUP)
				close_event(engine, events[i].data.u32);
		}
		reap_command(engine);
		check_names(engine);
		const bool ended =
			engine->names ? vms_name_filter_ended(engine->names)
				      : !engine->endless && engine->n_open == 0 && !engine->command;
		g_mutex_unlock(&engine->lock);
		if (ended && !told)
			vms_sampler_record_end(engine->sampler, NULL);
		told = ended;
	}
	return NULL;
}

/* ---- the table --------------------------------------------------------------------- */

static unsigned count_cpus(const struct vms_sampler_config *config G_GNUC_UNUSED)
{
	return (unsigned)MAX(1, sysconf(_SC_NPROCESSORS_CONF));
}

static void *open_engine(struct vms_sampler *sampler, GError **error)
{
	const struct vms_sampler_config *config = vms_sampler_config(sampler);
	struct vms_switches switches = { 0 };
	if (config->wall && !vms_switches_read(&switches, error))
		return NULL;
	struct host_engine *engine = g_new0(struct host_engine, 1);
	engine->sampler = sampler;
	engine->options = (struct vms_perf_options) { .period_ns = config->period_ns,
						      .depth = config->depth };
	engine->user_only = config->user_only;
	engine->wall_fds = g_array_new(FALSE, FALSE, sizeof(int));
	if (config->wall) {
		engine->switches = switches;
		engine->off_cpu = vms_off_cpu_new(config->period_ns, add_waiting, engine);
		engine->queue = vms_record_queue_new();
	}
	engine->n_cpus = count_cpus(config);
	engine->rings = g_new0(struct vms_perf_ring, engine->n_cpus);
	for (unsigned i = 0; i < engine->n_cpus; i++)
		engine->rings[i].fd = -1;
	engine->targets = g_array_new(FALSE, FALSE, sizeof(struct target));
	engine->events = g_array_new(FALSE, FALSE, sizeof(int));
	engine->tids = g_hash_table_new(NULL, NULL);
	engine->pids = g_hash_table_new(NULL, NULL);
	engine->files = vms_host_files_new(record_file, engine);
	engine->sample = g_new0(struct vms_sample_record, 1);
	engine->epoll_fd = engine->stop_fd = -1;
	engine->command_status = -1;
	g_mutex_init(&engine->lock);
	return engine;
}

static void close_engine(void *data)
{
	struct host_engine *engine = data;
	for (guint i = 0; i < engine->targets->len; i++) {
		struct target *target = &g_array_index(engine->targets, struct target, i);
		if (target->folder >= 0)
			close(target->folder);
		g_strfreev(target->command);
		g_free(target->name);
	}
	vms_name_filter_free(engine->names);
	vms_record_queue_free(engine->queue);
	vms_off_cpu_free(engine->off_cpu);
	g_array_unref(engine->wall_fds);
	g_array_unref(engine->targets);
	g_array_unref(engine->events);
	g_hash_table_unref(engine->tids);
	g_hash_table_unref(engine->pids);
	vms_host_files_free(engine->files);
	g_free(engine->sample);
	g_free(engine->rings);
	g_mutex_clear(&engine->lock);
	g_free(engine);
}

static void describe_host(void *data, struct vms_sampler_place *ret)
{
	struct host_engine *engine = data;
	uname(&engine->system);
	ret->system = engine->system.sysname;
	ret->release = engine->system.release;
	ret->machine = engine->system.machine;
	ret->host = engine->system.nodename;
}

static bool open_cgroup(const char *name, int *folder, GError **error)
{
	struct statfs system;
	*folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*folder < 0 || fstatfs(*folder, &system) < 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "cannot open control group %s: %s", name, g_strerror(errno));
	else if (system.f_type != CGROUP_SUPER_MAGIC && system.f_type != CGROUP2_SUPER_MAGIC)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "%s is not the folder of a control group", name);
	else
		return true;
	if (*folder >= 0)
		close(*folder);
	*folder = -1;
	return false;
}

static bool check_target(const struct vms_sampler_target *target, struct target *ret,
			 GError **error)
{
	*ret = (struct target) { target->kind, target->id, -1, NULL, NULL };
	switch (target->kind) {
	case VMS_SAMPLER_THREAD:
	case VMS_SAMPLER_PROCESS:
	case VMS_SAMPLER_JOB:
	case VMS_SAMPLER_MACHINE:
		if (target->id > 0 && (kill(target->id, 0) == 0 || errno == EPERM))
			return true;
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "there is no process or thread %d", (int)target->id);
		return false;
	case VMS_SAMPLER_CGROUP: return open_cgroup(target->name, &ret->folder, error);
	case VMS_SAMPLER_COMMAND: {
		g_autofree char *path = g_find_program_in_path(target->command[0]);
		if (path) {
			ret->command = g_strdupv((char **)target->command);
			return true;
		}
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "there is no program %s",
			    target->command[0]);
		return false;
	}
	case VMS_SAMPLER_SYSTEM: return true;
	case VMS_SAMPLER_NAME: ret->name = g_strdup(target->name); return true;
	}
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT, "no such kind of target");
	return false;
}

/* Targets by name have events of another kind. A thread must not have events of both kinds. */
static bool check_mixture(const struct host_engine *engine, const struct vms_sampler_target *target,
			  GError **error)
{
	const bool has_name =
		engine->targets->len > 0 &&
		g_array_index(engine->targets, struct target, 0).kind == VMS_SAMPLER_NAME;
	if (engine->targets->len == 0 || has_name == (target->kind == VMS_SAMPLER_NAME))
		return true;
	g_set_error_literal(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		"on this host, a target by name can only be combined with other names: record "
		"the other targets separately");
	return false;
}

static bool add_target(void *data, const struct vms_sampler_target *target, GError **error)
{
	struct host_engine *engine = data;
	struct target own;
	if (!check_mixture(engine, target, error) || !check_target(target, &own, error))
		return false;
	g_mutex_lock(&engine->lock);
	g_array_append_val(engine->targets, own);
	const bool done = !engine->started || attach_target(engine, &own, error);
	g_mutex_unlock(&engine->lock);
	return done;
}

/* Raises the limit of open files: each thread needs one per CPU. */
static void raise_file_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static bool open_files(struct host_engine *engine, GError **error)
{
	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->stop_fd = eventfd(0, EFD_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = UINT32_MAX };
	if (engine->epoll_fd < 0 || engine->stop_fd < 0 ||
	    epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->stop_fd, &event) < 0)
		return vms_perf_set_error(errno, "session", error);
	for (unsigned cpu = 0; cpu < engine->n_cpus; cpu++) {
		if (!vms_perf_ring_open(&engine->rings[cpu], (int)cpu, error))
			return false;
		event.data.u32 = RING_MARK;
		if (engine->rings[cpu].base)
			epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->rings[cpu].fd, &event);
	}
	return true;
}

static bool start_engine(void *data, GError **error)
{
	struct host_engine *engine = data;
	raise_file_limit();
	engine->ends = false;
	if (!open_files(engine, error))
		return false;
	for (guint i = 0; i < engine->targets->len; i++)
		if (!attach_target(engine, &g_array_index(engine->targets, struct target, i),
				   error))
			return false;
	if (engine->events->len == 0) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
				    "all processes and threads to sample have ended");
		return false;
	}
	engine->started = true;
	engine->thread = g_thread_try_new("sampler", run_engine, engine, error);
	return engine->thread;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void stop_engine(void *data)
{
	struct host_engine *engine = data;
	const uint64_t one = 1;
	for (guint i = 0; i < engine->wall_fds->len; i++)
		ioctl(g_array_index(engine->wall_fds, int, i), PERF_EVENT_IOC_DISABLE, 0);
	for (guint i = 0; i < engine->events->len; i++)
		ioctl(g_array_index(engine->events, int, i), PERF_EVENT_IOC_DISABLE, 0);
	if (engine->thread) {
		(void)!write(engine->stop_fd, &one, sizeof(one));
		g_thread_join(engine->thread);
		engine->thread = NULL;
	}
	engine->ends = true; /* nothing will come that is older than what is there */
	drain_events(engine);
	for (guint i = 0; i < engine->events->len; i++)
		close_event(engine, i);
	g_array_set_size(engine->events, 0);
	close_switches(engine);
	uint64_t lost = 0;
	for (unsigned cpu = 0; cpu < engine->n_cpus; cpu++) {
		lost += engine->rings[cpu].lost;
		vms_perf_ring_close(&engine->rings[cpu]);
	}
	/*
	 * Both count the same losses: the count of the ring is late, but old kernels only have this
	 * one.
	 */
	engine->lost = MAX(engine->lost + engine->switches_lost, lost) - engine->switches_lost;
	g_clear_pointer(&engine->queue, vms_record_queue_free);
	close_fd(&engine->epoll_fd);
	close_fd(&engine->stop_fd);
	engine->started = false;
}

static void add_stats(void *data, struct vms_sampler_stats *stats)
{
	struct host_engine *engine = data;
	g_mutex_lock(&engine->lock);
	uint64_t count_ns = engine->count_ns, lost = engine->lost;
	for (guint i = 0; i < engine->events->len; i++)
		if (g_array_index(engine->events, int, i) >= 0)
			add_counts(g_array_index(engine->events, int, i), &count_ns, &lost);
	stats->lost += lost + engine->switches_lost;
	stats->throttled += engine->throttled;
	stats->user_only = engine->user_only;
	/* If samples are dropped, the expected number is not known. */
	const uint64_t due = engine->names ? 0 : count_ns / engine->options.period_ns;
	const uint64_t taken = engine->running + lost;
	stats->missed = !engine->user_only && due > taken ? due - taken : 0;
	g_mutex_unlock(&engine->lock);
}

static int get_command_status(void *data)
{
	struct host_engine *engine = data;
	g_mutex_lock(&engine->lock);
	reap_command(engine);
	const int status = engine->command_status;
	g_mutex_unlock(&engine->lock);
	return status;
}

static const struct vms_sampler_engine host_engine = {
	.name = "host",
	.system = VMS_RECORDS_HOST,
	.count_cpus = count_cpus,
	.describe = describe_host,
	.open = open_engine,
	.close = close_engine,
	.add = add_target,
	.start = start_engine,
	.stop = stop_engine,
	.add_stats = add_stats,
	.command_status = get_command_status,
};

const struct vms_sampler_engine *vms_sampler_engine_host(void)
{
	return &host_engine;
}
