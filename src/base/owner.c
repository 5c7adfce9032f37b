/* SPDX-License-Identifier: MIT */
#include "base/owner.h"

#include "base/process.h"
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first eight digits of the host's boot id; 0 if it cannot be read. */
static uint32_t read_boot_id(void)
{
	char text[16] = "";
	uint32_t boot = 0;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		sscanf(text, "%8" SCNx32, &boot);
	if (fd >= 0)
		close(fd);
	return boot;
}

struct vms_owner vms_owner_self(void)
{
	struct vms_owner owner = { .pid = getpid(), .boot = read_boot_id() };
	struct stat pid_namespace;
	vms_process_start_time(owner.pid, &owner.start_time);
	if (stat("/proc/self/ns/pid", &pid_namespace) == 0)
		owner.pid_namespace = pid_namespace.st_ino;
	return owner;
}

char *vms_owner_label(const struct vms_owner *owner)
{
	return g_strdup_printf(VMS_OWNER_PREFIX "%d-%" PRIu64 "-%" PRIu64 "-%08" PRIx32,
			       (int)owner->pid, owner->start_time, owner->pid_namespace,
			       owner->boot);
}

bool vms_owner_parse(const char *label, struct vms_owner *ret)
{
	struct vms_owner owner = { 0 };
	*ret = owner;
	if (strncmp(label, VMS_OWNER_PREFIX, strlen(VMS_OWNER_PREFIX)) != 0)
		return false;
	if (sscanf(label, VMS_OWNER_PREFIX "%9d-%19" SCNu64 "-%19" SCNu64 "-%8" SCNx32, &owner.pid,
		   &owner.start_time, &owner.pid_namespace, &owner.boot) != 4)
		return true;
	/* sscanf(3) accepts signs and spaces, which no label has. */
	g_autofree char *again = vms_owner_label(&owner);
	if (owner.pid > 0 && strcmp(again, label) == 0)
		*ret = owner;
	return true;
}

enum vms_owner_state vms_owner_state(const struct vms_owner *owner)
{
	struct vms_owner self = vms_owner_self();
	uint64_t start_time;
	if (owner->pid <= 0 || !owner->start_time || !owner->pid_namespace ||
	    owner->pid_namespace != self.pid_namespace || owner->boot != self.boot)
		return VMS_OWNER_UNKNOWN;
	if (owner->pid == self.pid && owner->start_time == self.start_time)
		return VMS_OWNER_OURS;
	switch (vms_process_start_time(owner->pid, &start_time)) {
	case VMS_PROCESS_ALIVE:
		return start_time == owner->start_time ? VMS_OWNER_ALIVE : VMS_OWNER_DEAD;
	case VMS_PROCESS_GONE: return VMS_OWNER_DEAD;
	case VMS_PROCESS_HIDDEN: break;
	}
	return VMS_OWNER_UNKNOWN;
}
