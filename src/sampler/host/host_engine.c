/* SPDX-License-Identifier: MIT */
/*
 * The engine of this host. Each thread of a target has an event on every CPU. The kernel copies the
 * events to threads and processes that the thread starts. All events of a CPU write into the ring
 * of that CPU. One thread drains the rings.
 */
#include "base/clock.h"
#include "base/file_limit.h"
#include "base/keyed_hash.h"
#include "sampler/host/host_engine-private.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* The interval between drains of the rings if none is half full. */
#define DRAIN_MS       50
#define CHECK_NAMES_NS (UINT64_C(500) * 1000 * 1000)

/* ---- the thread -------------------------------------------------------------------- */

static void add_counts(int fd, uint64_t *count_ns, uint64_t *lost)
{
	uint64_t values[3] = { 0 }; /* value, id, lost */
	if (read(fd, values, sizeof(values)) > 0) {
		*count_ns += values[0];
		*lost += values[2];
	}
}

static void close_event(struct vms_host_engine *engine, guint index)
{
	int *fd = &g_array_index(engine->events, int, index);
	if (*fd < 0)
		return;
	add_counts(*fd, &engine->count_ns, &engine->lost);
	close(*fd);
	*fd = -1;
	engine->n_open--;
}

/*
 * Closes the events of task switches. With a lost event a wait is lost, which is any number of
 * samples.
 */
static void close_switches(struct vms_host_engine *engine)
{
	uint64_t count = 0;
	for (guint i = 0; i < engine->wall_fds->len; i++) {
		const int fd = g_array_index(engine->wall_fds, int, i);
		add_counts(fd, &count, &engine->switches_lost);
		close(fd);
	}
	g_array_set_size(engine->wall_fds, 0);
}

static void reap_command(struct vms_host_engine *engine)
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
	g_autofree char *stat = vms_host_read_proc(pid, "stat");
	const char *end = stat ? strrchr(stat, ')') : NULL;
	return end && end[1] == ' ' && !strchr("ZX", end[2]);
}

/* Checks which members are alive, because the kernel loses records when the rings are full. */
static void check_names(struct vms_host_engine *engine)
{
	const uint64_t now_ns = vms_clock_now_ns();
	if (!engine->names || now_ns < engine->check_names_ns)
		return;
	engine->check_names_ns = now_ns + CHECK_NAMES_NS;
	vms_host_list_numbers("/proc", vms_host_record_if_named, engine);
	vms_name_filter_prune(engine->names, is_alive);
}

static void *run_engine(void *data)
{
	struct vms_host_engine *engine = data;
	struct epoll_event events[64];
	bool goes_on = true, told = false;
	while (goes_on) {
		const int n = epoll_wait(engine->epoll_fd, events, G_N_ELEMENTS(events), DRAIN_MS);
		g_mutex_lock(&engine->lock);
		vms_host_drain_events(engine);
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
	struct vms_host_engine *engine = g_new0(struct vms_host_engine, 1);
	engine->sampler = sampler;
	engine->options = (struct vms_perf_options) { .period_ns = config->period_ns,
						      .depth = config->depth };
	engine->user_only = config->user_only;
	engine->wall_fds = g_array_new(FALSE, FALSE, sizeof(int));
	if (config->wall) {
		engine->switches = switches;
		engine->off_cpu = vms_off_cpu_new(config->period_ns, vms_host_add_waiting, engine);
		engine->queue = vms_record_queue_new();
	}
	engine->n_cpus = count_cpus(config);
	engine->rings = g_new0(struct vms_perf_ring, engine->n_cpus);
	for (unsigned i = 0; i < engine->n_cpus; i++)
		engine->rings[i].fd = -1;
	engine->targets = g_array_new(FALSE, FALSE, sizeof(struct vms_host_target));
	engine->events = g_array_new(FALSE, FALSE, sizeof(int));
	engine->tids = g_hash_table_new(vms_hash_direct, NULL);
	engine->pids = g_hash_table_new(vms_hash_direct, NULL);
	engine->files = vms_host_files_new(config->budget, vms_host_record_file, engine);
	engine->sample = g_new0(struct vms_sample_record, 1);
	engine->epoll_fd = engine->stop_fd = -1;
	engine->command_status = -1;
	g_mutex_init(&engine->lock);
	return engine;
}

static void close_engine(void *data)
{
	struct vms_host_engine *engine = data;
	for (guint i = 0; i < engine->targets->len; i++) {
		struct vms_host_target *target =
			&g_array_index(engine->targets, struct vms_host_target, i);
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
	struct vms_host_engine *engine = data;
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

static bool check_target(const struct vms_sampler_target *target, struct vms_host_target *ret,
			 GError **error)
{
	*ret = (struct vms_host_target) { target->kind, target->id, -1, NULL, NULL };
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
static bool check_mixture(const struct vms_host_engine *engine,
			  const struct vms_sampler_target *target, GError **error)
{
	const bool has_name =
		engine->targets->len > 0 &&
		g_array_index(engine->targets, struct vms_host_target, 0).kind == VMS_SAMPLER_NAME;
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
	struct vms_host_engine *engine = data;
	struct vms_host_target own;
	if (!check_mixture(engine, target, error) || !check_target(target, &own, error))
		return false;
	g_mutex_lock(&engine->lock);
	g_array_append_val(engine->targets, own);
	const bool done = !engine->started || vms_host_attach_target(engine, &own, error);
	g_mutex_unlock(&engine->lock);
	return done;
}

static bool open_files(struct vms_host_engine *engine, GError **error)
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
	struct vms_host_engine *engine = data;
	vms_raise_file_limit(); /* each thread needs a file per CPU */
	engine->ends = false;
	if (!open_files(engine, error))
		return false;
	for (guint i = 0; i < engine->targets->len; i++)
		if (!vms_host_attach_target(
			    engine, &g_array_index(engine->targets, struct vms_host_target, i),
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
	struct vms_host_engine *engine = data;
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
	vms_host_drain_events(engine);
	vms_host_files_finish(engine->files);
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
	struct vms_host_engine *engine = data;
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
	struct vms_host_engine *engine = data;
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
