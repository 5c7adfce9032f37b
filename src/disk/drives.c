/* SPDX-License-Identifier: MIT */
#include "disk/drives.h"
#include "disk/ext4.h"
#include "disk/lvm.h"
#include "disk/partitions.h"
#include "disk/qcow2.h"
#include "machine/host/identity.h"
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FDS_LIMIT     4096 /* of the process */
#define DRIVES_LIMIT  256
#define BACKING_DEPTH 16
#define SIZE_MIN      (64u << 10) /* bytes of a disk; smaller files are something else */

/* A file that the process has open. */
struct opened {
	int fd; /* of the process */
	dev_t device;
	ino_t inode;
	char *path;
	bool is_backing; /* another image is based on it */
};

struct vms_drives {
	gatomicrefcount refs;
	struct vms_host_identity process;
	bool has_process;
	GMutex lock; /* guards all that follows, and all reading */
	bool is_scanned, has_failed;
	GPtrArray *disks;   /* struct vms_file_source */
	GPtrArray *volumes; /* struct vms_ext4 */
	struct vms_lvm *lvm;
	GPtrArray *logical; /* struct vms_lvm_volume; NULL until they are looked for */
	GString *obstacles; /* why disks cannot be read */
};

static void free_disk(void *data)
{
	vms_file_source_clear(data);
	g_free(data);
}

static void free_volume(void *data)
{
	vms_ext4_free(data);
}

static void clear_opened(void *data)
{
	g_free(((struct opened *)data)->path);
}

struct vms_drives *vms_drives_new(pid_t pid)
{
	struct vms_drives *drives = g_new0(struct vms_drives, 1);
	g_atomic_ref_count_init(&drives->refs);
	g_mutex_init(&drives->lock);
	drives->has_process = pid > 0 && vms_host_identity_open(&drives->process, pid, NULL);
	drives->disks = g_ptr_array_new_with_free_func(free_disk);
	drives->volumes = g_ptr_array_new_with_free_func(free_volume);
	drives->lvm = vms_lvm_new();
	drives->obstacles = g_string_new(NULL);
	return drives;
}

struct vms_drives *vms_drives_ref(struct vms_drives *drives)
{
	g_atomic_ref_count_inc(&drives->refs);
	return drives;
}

void vms_drives_unref(struct vms_drives *drives)
{
	if (!drives || !g_atomic_ref_count_dec(&drives->refs))
		return;
	g_ptr_array_unref(drives->volumes);
	if (drives->logical)
		g_ptr_array_unref(drives->logical);
	vms_lvm_free(drives->lvm);
	g_ptr_array_unref(drives->disks);
	g_string_free(drives->obstacles, TRUE);
	if (drives->has_process)
		vms_host_identity_close(&drives->process);
	g_mutex_clear(&drives->lock);
	g_free(drives);
}

bool vms_drives_is_first_failure(struct vms_drives *drives)
{
	g_mutex_lock(&drives->lock);
	const bool is_first = !drives->has_failed;
	drives->has_failed = true;
	g_mutex_unlock(&drives->lock);
	return is_first;
}

/* ---- a file of the host ----------------------------------------------- */

static bool read_fd(void *data, uint64_t offset, void *buf, size_t size)
{
	return pread(GPOINTER_TO_INT(data), buf, size, (off_t)offset) == (ssize_t)size;
}

static void close_fd(void *data)
{
	close(GPOINTER_TO_INT(data));
}

/* Opens what the process has open as `number` anew, to read it. */
static bool open_descriptor(const struct vms_drives *drives, int number,
			    struct vms_file_source *ret)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/fd/%d", (int)drives->process.pid, number);
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (size < 0 || !vms_host_identity_is_alive(&drives->process)) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	*ret = (struct vms_file_source) {
		.size = (uint64_t)size,
		.read = read_fd,
		.free = close_fd,
		.data = GINT_TO_POINTER(fd),
	};
	return true;
}

static bool is_known(const GArray *files, const struct stat *status)
{
	for (guint i = 0; i < files->len; i++) {
		const struct opened *one = &g_array_index(files, struct opened, i);
		if (one->device == status->st_dev && one->inode == status->st_ino)
			return true;
	}
	return false;
}

/* Returns the files and block devices that the process has open, each once. */
static GArray *list_opened(const struct vms_drives *drives)
{
	GArray *files = g_array_new(FALSE, TRUE, sizeof(struct opened));
	g_array_set_clear_func(files, clear_opened);
	g_autofree char *folder = g_strdup_printf("/proc/%d/fd", (int)drives->process.pid);
	g_autoptr(GDir) dir = drives->has_process ? g_dir_open(folder, 0, NULL) : NULL;
	const char *name;
	for (unsigned i = 0; dir && i < FDS_LIMIT && (name = g_dir_read_name(dir)); i++) {
		g_autofree char *path = g_build_filename(folder, name, NULL);
		struct stat status;
		if (stat(path, &status) || !(S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) ||
		    (S_ISREG(status.st_mode) && status.st_size < (off_t)SIZE_MIN) ||
		    is_known(files, &status) || files->len >= DRIVES_LIMIT)
			continue;
		const struct opened opened = {
			.fd = atoi(name),
			.device = status.st_dev,
			.inode = status.st_ino,
			.path = g_file_read_link(path, NULL) ?: g_strdup(path),
		};
		g_array_append_val(files, opened);
	}
	return files;
}

/* ---- images ----------------------------------------------------------- */

/*
 * Finds the file that an image names as the one it is based on, among those that the process has
 * open. No other file is ever opened: the image may be what a guest has written.
 */
static struct opened *find_backing(const struct vms_drives *drives, const GArray *files,
				   const struct opened *image, const char *name)
{
	g_autofree char *folder = g_path_get_dirname(image->path);
	g_autofree char *path =
		name[0] == '/' ? g_strdup(name) : g_build_filename(folder, name, NULL);
	g_autofree char *inside =
		g_strdup_printf("/proc/%d/root%s", (int)drives->process.pid, path);
	struct stat status;
	const bool is_there = stat(inside, &status) == 0;
	for (guint i = 0; i < files->len; i++) {
		struct opened *one = &g_array_index((GArray *)files, struct opened, i);
		if (one != image &&
		    (strcmp(one->path, path) == 0 ||
		     (is_there && one->device == status.st_dev && one->inode == status.st_ino)))
			return one;
	}
	return NULL;
}

static bool open_image(const struct vms_drives *drives, const GArray *files, struct opened *file,
		       unsigned depth, struct vms_file_source *ret, GError **error)
{
	struct vms_file_source source, backing = { 0 };
	if (!open_descriptor(drives, file->fd, &source)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot open it: %s",
			    g_strerror(errno));
		return false;
	}
	if (!vms_qcow2_is_image(&source)) {
		*ret = source;
		return true;
	}
	g_autofree char *name = vms_qcow2_backing(&source);
	struct opened *base = name ? find_backing(drives, files, file, name) : NULL;
	if (name && (!base || depth == 0)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "it is based on %s, which cannot be found among QEMU's open files",
			    name);
		vms_file_source_clear(&source);
		return false;
	}
	if (base && !open_image(drives, files, base, depth - 1, &backing, error)) {
		vms_file_source_clear(&source);
		return false;
	}
	return vms_qcow2_open(&source, &backing, ret, error);
}

/* Marks the files that images are based on: alone, they are disks of another time. */
static void mark_backing(const struct vms_drives *drives, GArray *files)
{
	for (guint i = 0; i < files->len; i++) {
		const struct opened *file = &g_array_index(files, struct opened, i);
		struct vms_file_source source;
		if (!open_descriptor(drives, file->fd, &source))
			continue;
		g_autofree char *name = vms_qcow2_backing(&source);
		struct opened *base = name ? find_backing(drives, files, file, name) : NULL;
		if (base)
			base->is_backing = true;
		vms_file_source_clear(&source);
	}
}

/* ---- file systems ----------------------------------------------------- */

static void note_obstacle(struct vms_drives *drives, const char *path, const char *reason)
{
	if (drives->obstacles->len < 1024)
		g_string_append_printf(drives->obstacles, "%s%s: %s",
				       drives->obstacles->len ? "; " : "", path, reason);
}

/* Returns what a part of a disk holds that is not read, or NULL if it is not known. */
static const char *name_contents(const struct vms_file_source *disk,
				 const struct vms_partition *part)
{
	static const struct {
		uint64_t offset;
		const char *magic, *name;
	} known[] = {
		{ 0, "LUKS\xba\xbe", "it is encrypted (LUKS)" },
		{ 0, "XFSB", "its file system is xfs, which is not read" },
		{ 0x10040, "_BHRfS_M", "its file system is btrfs, which is not read" },
		{ 1024, "\x10\x20\xf5\xf2", "its file system is f2fs, which is not read" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
		char magic[8];
		const size_t size = strlen(known[i].magic);
		if (known[i].offset + size <= part->size &&
		    vms_file_source_read(disk, part->offset + known[i].offset, magic, size) &&
		    memcmp(magic, known[i].magic, size) == 0)
			return known[i].name;
	}
	return NULL;
}

static void add_volumes(struct vms_drives *drives, const struct vms_file_source *disk,
			const char *path)
{
	g_autoptr(GArray) parts = vms_partitions_list(disk);
	for (guint i = 0; i < parts->len; i++) {
		const struct vms_partition *part = &g_array_index(parts, struct vms_partition, i);
		g_autoptr(GError) error = NULL;
		struct vms_ext4 *fs = vms_ext4_open(disk, part->offset, part->size, &error);
		if (fs)
			g_ptr_array_add(drives->volumes, fs);
		if (fs || vms_lvm_add(drives->lvm, disk, part->offset, part->size))
			continue;
		const char *contents = name_contents(disk, part);
		if (contents)
			note_obstacle(drives, path, contents);
		else if (!g_error_matches(error, VMS_ERROR, VMS_ERROR_NOT_FOUND))
			note_obstacle(drives, path, error->message);
	}
}

/* Adds what logical volumes hold, once all disks are known that they may lie on. */
static void add_logical_volumes(struct vms_drives *drives)
{
	drives->logical = vms_lvm_list(drives->lvm);
	for (guint i = 0; i < drives->logical->len; i++) {
		const struct vms_lvm_volume *volume = drives->logical->pdata[i];
		if (volume->obstacle)
			note_obstacle(drives, volume->name, volume->obstacle);
		else
			add_volumes(drives, &volume->source, volume->name);
	}
}

/* Looks for the disks, once. The caller holds the lock. */
static void scan(struct vms_drives *drives)
{
	if (drives->is_scanned)
		return;
	drives->is_scanned = true;
	g_autoptr(GArray) files = list_opened(drives);
	mark_backing(drives, files);
	for (guint i = 0; i < files->len; i++) {
		struct opened *file = &g_array_index(files, struct opened, i);
		g_autoptr(GError) error = NULL;
		struct vms_file_source *disk = g_new0(struct vms_file_source, 1);
		if (!file->is_backing &&
		    open_image(drives, files, file, BACKING_DEPTH, disk, &error)) {
			g_ptr_array_add(drives->disks, disk);
			add_volumes(drives, disk, file->path);
			continue;
		}
		if (error)
			note_obstacle(drives, file->path, error->message);
		g_free(disk);
	}
	add_logical_volumes(drives);
	if (files->len == 0)
		g_string_append(drives->obstacles, "QEMU has none open as a file of this host");
}

/* ---- files of the guest ----------------------------------------------- */

struct guest_file {
	struct vms_drives *drives;
	struct vms_file_source source;
};

static bool read_guest_file(void *data, uint64_t offset, void *buf, size_t size)
{
	struct guest_file *file = data;
	g_mutex_lock(&file->drives->lock);
	const bool read = vms_file_source_read(&file->source, offset, buf, size);
	g_mutex_unlock(&file->drives->lock);
	return read;
}

static void free_guest_file(void *data)
{
	struct guest_file *file = data;
	vms_file_source_clear(&file->source);
	vms_drives_unref(file->drives);
	g_free(file);
}

/* The caller holds the lock. */
static bool open_source(struct vms_drives *drives, const struct vms_drive_file *file,
			struct vms_file_source *ret, GError **error)
{
	scan(drives);
	for (guint i = 0; i < drives->volumes->len; i++) {
		struct vms_ext4 *fs = drives->volumes->pdata[i];
		if (memcmp(vms_ext4_uuid(fs), file->uuid, sizeof(file->uuid)) != 0)
			continue;
		if (!vms_ext4_open_file(fs, file->inode, ret, error))
			return false;
		if (ret->size == file->size)
			return true;
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "it has another size on the disk");
		vms_file_source_clear(ret);
		return false;
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "its file system is on none of the disks that can be read%s%s%s",
		    drives->obstacles->len ? " (" : "", drives->obstacles->str,
		    drives->obstacles->len ? ")" : "");
	return false;
}

bool vms_drives_open_file(struct vms_drives *drives, const struct vms_drive_file *file,
			  struct vms_file_source *ret, GError **error)
{
	struct guest_file *opened = g_new0(struct guest_file, 1);
	g_mutex_lock(&drives->lock);
	const bool is_open = open_source(drives, file, &opened->source, error);
	g_mutex_unlock(&drives->lock);
	if (!is_open) {
		g_free(opened);
		return false;
	}
	opened->drives = vms_drives_ref(drives);
	*ret = (struct vms_file_source) {
		.size = opened->source.size,
		.read = read_guest_file,
		.free = free_guest_file,
		.data = opened,
	};
	return true;
}
