/* SPDX-License-Identifier: MIT */
/*
 * Parsers for lines of files in /proc (proc_pid_maps(5), proc_pid_stat(5), proc_net(5)). The kernel
 * writes these files, but any user may choose the names in them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A line of /proc/PID/maps. */
struct vms_proc_mapping {
	uint64_t start, end; /* addresses: [start, end) */
	bool is_readable, is_shared;
	uint64_t file_offset;	/* bytes */
	uint64_t device, inode; /* as stat(2) gives them; inode 0: anonymous memory */
	const char *name;	/* points into the line, to its end; "": none */
};
/* False if the line is no mapping, or a mapping without a size. */
bool vms_proc_parse_mapping(const char *line, struct vms_proc_mapping *ret);

/* A line of /proc/PID/net/unix. */
struct vms_proc_unix {
	bool is_connected;
	uint64_t inode;
	const char *path; /* points into the line */
};
/* Cuts the newline off the line. False if the line is no socket, or a socket without a path. */
bool vms_proc_parse_unix(char *line, struct vms_proc_unix *ret);

/* A line of /proc/net/tcp or /proc/net/tcp6. */
struct vms_proc_tcp {
	char local[40], remote[40]; /* ADDRESS:PORT as the file has it, in hexadecimal */
	uint32_t user;		    /* who made the socket; 0 if no process has it open any more */
	uint64_t inode;		    /* 0 if no process has it open any more */
};
/* False if the line is no socket. */
bool vms_proc_parse_tcp(const char *line, struct vms_proc_tcp *ret);

/*
 * A field of /proc/PID/stat, by its number in proc_pid_stat(5), 3 or more: where it begins. NULL if
 * there is none. Takes no lock and allocates nothing.
 */
const char *vms_proc_find_field(const char *stat, unsigned number);

/*
 * How often a thread has got a processor: the third number of /proc/PID/task/TID/schedstat
 * (Documentation/scheduler/sched-stats.rst). 0 if there are no three, or the kernel does not count.
 * Takes no lock and allocates nothing.
 */
uint64_t vms_proc_parse_turns(const char *schedstat);
