/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the host's engine share: targets (host_attach.c), records of the kernel
 * (host_records.c), and what /proc tells of processes (host_processes.c).
 */
#pragma once

#include "sampler/engine.h"
#include "sampler/host/host_files.h"
#include "sampler/host/name_filter.h"
#include "sampler/host/off_cpu.h"
#include "sampler/host/perf_event.h"
#include "sampler/host/perf_ring.h"
#include "sampler/host/record_queue.h"
#include "sampler/host/switches.h"
#include <sys/utsname.h>

struct vms_host_target {
	enum vms_sampler_target_kind kind;
	pid_t id;
	int folder; /* of a control group, or -1 */
	char **command;
	char *name;
};

struct vms_host_engine {
	struct vms_sampler *sampler;
	struct vms_perf_options options;
	struct vms_perf_ring *rings; /* of each CPU */
	unsigned n_cpus;
	GArray *targets;  /* struct vms_host_target */
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

/* ---- host_processes.c ---- */

/* Returns the content of a file of /proc/PID, newly allocated, or NULL. */
char *vms_host_read_proc(pid_t pid, const char *name);
/*
 * Returns the container of a process, newly allocated: "" for none, NULL if the process has ended.
 * Its line begins with "0::" in the second version of control groups, which containers are named by
 * in the first one, too, where systemd runs.
 */
char *vms_host_read_container(pid_t pid);
/* Records a process that was not created during the session, and its mappings. */
void vms_host_record_process(struct vms_host_engine *engine, pid_t pid, uint64_t time_ns);
/* Records a file that a process maps. For vms_host_files_new; `data` is the engine. */
void vms_host_record_file(uint32_t number, const char *path,
			  const struct vms_file_identity *identity, void *data);
/* Calls `visit` for the numbers that are names in a folder of /proc. */
void vms_host_list_numbers(const char *folder, void (*visit)(pid_t number, void *data), void *data);

/* ---- host_attach.c ---- */

/* Attaches a target. False if it has no threads. */
bool vms_host_attach_target(struct vms_host_engine *engine, const struct vms_host_target *target,
			    GError **error);
/* Records a process if it has the name of a target. `data` is the engine. */
void vms_host_record_if_named(pid_t pid, void *data);

/* ---- host_records.c ---- */

/* Takes the records of all rings. */
void vms_host_drain_events(struct vms_host_engine *engine);
/* Adds a sample of a thread that waits. For vms_off_cpu_new; `data` is the engine. */
bool vms_host_add_waiting(const struct vms_sample_record *sample, uint64_t more, void *data);
