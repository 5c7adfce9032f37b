/* SPDX-License-Identifier: MIT */
#include "base/proc_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define CONNECTED 3 /* the kernel's SS_CONNECTED */

/* "7f63e7e00000-7f6427e00000 rw-s 00000000 00:1a 1034 /dev/shm/x" */
bool vms_proc_parse_mapping(const char *line, struct vms_proc_mapping *ret)
{
	unsigned long start, end, offset, inode;
	unsigned major, minor;
	char access[5];
	int name = 0;
	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, access, &offset, &major,
		   &minor, &inode, &name) != 7 ||
	    strlen(access) != 4 || start >= end)
		return false;
	*ret = (struct vms_proc_mapping) {
		.start = start,
		.end = end,
		.is_readable = access[0] == 'r',
		.is_shared = access[3] == 's',
		.file_offset = offset,
		.device = makedev(major, minor),
		.inode = inode,
		.name = line + name,
	};
	return true;
}

/* "ADDRESS: REFERENCES PROTOCOL FLAGS TYPE STATE INODE PATH" */
bool vms_proc_parse_unix(char *line, struct vms_proc_unix *ret)
{
	unsigned long inode;
	unsigned state;
	int path = 0;
	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%*s %*x %*x %*x %*x %x %lu %n", &state, &inode, &path) < 2 || !path ||
	    !line[path])
		return false;
	*ret = (struct vms_proc_unix) { state == CONNECTED, inode, line + path };
	return true;
}

/* "SLOT: ADDRESS:PORT ADDRESS:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE" */
bool vms_proc_parse_tcp(const char *line, struct vms_proc_tcp *ret)
{
	unsigned long inode;
	if (sscanf(line, "%*s %39s %39s %*x %*s %*s %*x %u %*u %lu", ret->local, ret->remote,
		   &ret->user, &inode) != 4)
		return false;
	ret->inode = inode;
	return true;
}

/* "PID (NAME) STATE …"; the name may contain blanks and parentheses, no later field does. */
const char *vms_proc_find_field(const char *stat, unsigned number)
{
	const char *field = strrchr(stat, ')');
	for (unsigned i = 2; i < number && field; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	return field;
}

uint64_t vms_proc_parse_turns(const char *schedstat)
{
	const char *second = strchr(schedstat, ' ');
	const char *third = second ? strchr(second + 1, ' ') : NULL;
	return third ? strtoull(third, NULL, 10) : 0;
}
