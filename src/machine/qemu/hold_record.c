/* SPDX-License-Identifier: MIT */
#include "machine/qemu/hold_record.h"

#include "base/owner.h"
#include "base/private_folder.h"
#include "base/process.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

#define MAGIC	0x68736d76 /* "vmsh" */
#define VERSION 6
/* How long to wait for a watchdog whose tool has died, and how often to check. */
#define WATCHDOG_WAIT_US (10 * G_USEC_PER_SEC)
#define WATCHDOG_POLL_US 5000

char *vms_record_path(const char *label)
{
	g_autofree char *folder = vms_private_folder_runtime(NULL);
	return folder ? g_build_filename(folder, label, NULL) : NULL;
}

/* Creates and locks the file of a record; -1 if there is no place for it. */
static int create_file(const char *label)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *folder = label ? vms_private_folder_runtime(&error) : NULL;
	if (error)
		vms_log(VMS_LOG_WARNING,
			"what vmscope did to QEMU cannot be undone if it is killed together with "
			"its watchdog: %s",
			error->message);
	if (!folder)
		return -1;
	g_autofree char *path = g_build_filename(folder, label, NULL);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_SH) == 0 && ftruncate(fd, sizeof(struct vms_record)) == 0)
		return fd;
	unlink(path);
	close(fd);
	return -1;
}

struct vms_record *vms_record_new(const char *label, const struct vms_host_identity *process,
				  int *fd, GError **error)
{
	*fd = create_file(label);
	int flags = *fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
	struct vms_record *record =
		mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, flags, *fd, 0);
	if (record == MAP_FAILED) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot map the memory that is shared with the watchdog: %s",
			    g_strerror(errno));
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		return NULL;
	}
	record->magic = MAGIC;
	record->version = VERSION;
	record->pid = process->pid;
	record->start_time = process->start_time;
	return record;
}

void vms_record_free(struct vms_record *record)
{
	if (record)
		munmap(record, sizeof(*record));
}

/* ---- records of dead processes ----------------------------------------- */

static bool read_record(int fd, struct vms_record *ret)
{
	return pread(fd, ret, sizeof(*ret), 0) == sizeof(*ret) && ret->magic == MAGIC &&
	       ret->version == VERSION;
}

/* Waits until the file's tool and watchdog have ended. False, at once, if the tool is alive. */
static bool wait_for_lock(int fd, const char *label)
{
	gint64 end_us = g_get_monotonic_time() + WATCHDOG_WAIT_US;
	struct vms_owner owner;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (!vms_owner_parse(label, &owner) || vms_owner_state(&owner) != VMS_OWNER_DEAD ||
		    g_get_monotonic_time() > end_us)
			return false;
		g_usleep(WATCHDOG_POLL_US);
	}
	return true;
}

/* True if the QEMU of the record has ended. */
static bool has_qemu_ended(const struct vms_record *record)
{
	uint64_t start_time;
	return record->pid &&
	       (vms_process_start_time(record->pid, &start_time) == VMS_PROCESS_GONE ||
		start_time != record->start_time);
}

/* Calls `each` for a record, as it is in its file. False if something is left to do. */
static bool call_for_record(int fd, const char *label,
			    bool (*each)(struct vms_record *record, const char *label, void *data),
			    void *data)
{
	struct vms_record *record =
		mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (record == MAP_FAILED)
		return false;
	const bool done = each(record, label, data);
	vms_record_free(record);
	return done;
}

void vms_record_each_left(const struct vms_host_identity *process,
			  bool (*each)(struct vms_record *record, const char *label, void *data),
			  void *data)
{
	g_autofree char *folder = vms_private_folder_runtime(NULL);
	g_autoptr(GDir) directory = folder ? g_dir_open(folder, 0, NULL) : NULL;
	const char *label;
	while (directory && (label = g_dir_read_name(directory))) {
		g_autofree char *path = g_build_filename(folder, label, NULL);
		struct vms_record record;
		int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		bool known = g_str_has_prefix(label, VMS_OWNER_PREFIX) && read_record(fd, &record);
		bool ours = known && process->pid && record.pid == process->pid &&
			    record.start_time == process->start_time;
		if (known && (ours || has_qemu_ended(&record)) && wait_for_lock(fd, label) &&
		    read_record(fd, &record) && (!ours || call_for_record(fd, label, each, data)))
			unlink(path);
		close(fd);
	}
}
