/* SPDX-License-Identifier: MIT */
/*
 * Lines of the texts that the kernel shows of a process in /proc (proc_pid_maps(5), proc_net(5)).
 * The kernel writes them, but about names that any user may choose.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of /proc/PID/maps. */
struct vms_proc_mapping {
	uint64_t start, end; /* addresses; the end is outside */
	bool is_shared;
	uint64_t file_offset, device, inode; /* bytes; as stat(2) tells them. inode 0: anonymous */
};
/* False for a line that is none of a mapping with a size. */
bool vms_proc_parse_mapping(const char *line, struct vms_proc_mapping *ret);

/* Of /proc/PID/net/unix. */
struct vms_proc_unix {
	bool is_connected;
	uint64_t inode;
	const char *path; /* in the line */
};
/* Takes the newline off the line. False also for a socket without a path. */
bool vms_proc_parse_unix(char *line, struct vms_proc_unix *ret);

/* Of /proc/net/tcp and tcp6. */
struct vms_proc_tcp {
	char local[40], remote[40]; /* ADDRESS:PORT as written there: words in hexadecimal */
	uint64_t inode;
};
bool vms_proc_parse_tcp(const char *line, struct vms_proc_tcp *ret);
