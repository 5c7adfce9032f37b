/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many fields to skip from the state (field 3) to the start time (field 22). */
#define FIELDS_BETWEEN 19

/* Reads the begin of a file. False if it cannot be read. */
static bool read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Reads /proc/PID/stat. False if it cannot be read. */
static bool read_stat(pid_t pid, char *text, size_t size)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_file(path, text, size);
}

/*
 * The first field behind the program's name: the state. The name is in parentheses, and may contain
 * some itself. No later field has any. NULL: the text is none of /proc/PID/stat.
 */
static const char *find_state(const char *text)
{
	const char *end = strrchr(text, ')');
	return end && end[1] == ' ' ? end + 2 : NULL;
}

enum vms_process_state vms_process_start_time(pid_t pid, uint64_t *ret)
{
	char text[1024];
	*ret = 0;
	if (pid <= 0)
		return VMS_PROCESS_GONE;
	if (!read_stat(pid, text, sizeof(text)))
		return kill(pid, 0) < 0 && errno == ESRCH ? VMS_PROCESS_GONE : VMS_PROCESS_HIDDEN;
	const char *field = find_state(text);
	if (!field)
		return VMS_PROCESS_HIDDEN;
	if (*field == 'Z' || *field == 'X')
		return VMS_PROCESS_GONE;
	for (int i = 0; i < FIELDS_BETWEEN && field; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	*ret = field ? strtoull(field, NULL, 10) : 0;
	return *ret ? VMS_PROCESS_ALIVE : VMS_PROCESS_HIDDEN;
}

bool vms_process_is_stopped(pid_t pid)
{
	char text[1024];
	const char *state = pid > 0 && read_stat(pid, text, sizeof(text)) ? find_state(text) : NULL;
	return state && (*state == 'T' || *state == 't');
}

/* True if the group's file of that name, below one of the usual places, contains `mark`. */
static bool says_group(const char *place, const char *group, const char *name, const char *mark)
{
	char path[PATH_MAX], text[256];
	int length = snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/%s", place, group, name);
	return length < (int)sizeof(path) && read_file(path, text, sizeof(text)) &&
	       strstr(text, mark);
}

/* A line is HIERARCHY:CONTROLLERS:GROUP. */
static bool is_group_frozen(char *line)
{
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!group)
		return false;
	*group++ = '\0';
	if (strcmp(line, "0:") == 0)
		return says_group("", group, "cgroup.events", "frozen 1") ||
		       says_group("/unified", group, "cgroup.events", "frozen 1");
	return strcmp(controllers, ":freezer") == 0 &&
	       says_group("/freezer", group, "freezer.state", "FROZEN");
}

bool vms_process_is_frozen(pid_t pid)
{
	char path[32], text[8192], *rest = NULL;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (pid <= 0 || !read_file(path, text, sizeof(text)))
		return false;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (is_group_frozen(line))
			return true;
	return false;
}
