/* SPDX-License-Identifier: MIT */
#include "disk/drives.h"
#include "base/foreign_file.h"
#include "base/keyed_hash.h"
#include "disk/disk_service.h"
#include "machine/host/identity.h"
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FDS_LIMIT    4096 /* of the process */
#define DRIVES_LIMIT 256
#define SIZE_MIN     (64u << 10) /* bytes of a disk; smaller files are something else */
#define CHUNK	     VMS_FILE_FETCH
#define CHUNKS	     128 /* of files, which are kept */

/* A file that the process has open. */
struct opened {
	int fd; /* of this process, to read it */
	uint64_t size;
	dev_t device;
	ino_t inode;
	char *path;
	int base; /* index of the file that it is based on, or -1 */
};

/* A part of a file of the guest. */
struct chunk {
	uint64_t file; /* its number; 0: none */
	uint64_t offset;
	uint8_t *bytes;
};

struct vms_drives {
	gatomicrefcount refs;
	struct vms_host_identity process;
	bool has_process;
	GMutex lock; /* guards all that follows; held while disks are read, so for long */
	bool is_scanned, has_failed, is_lost;
	struct vms_budget *budget;	   /* the part of the disks */
	struct vms_foreign_files *foreign; /* opens what images name */
	struct vms_jail *jail;	     /* interprets the disks; NULL: `state` does, in this process */
	void *state;		     /* of vms_disk_service */
	uint64_t n_files;	     /* that were opened */
	GMutex chunks_lock;	     /* guards what follows; taken last, never held for long */
	struct chunk chunks[CHUNKS]; /* by file and offset */
};

static void clear_opened(void *data)
{
	struct opened *opened = data;
	if (opened->fd >= 0)
		close(opened->fd);
	g_free(opened->path);
}

struct vms_drives *vms_drives_new(pid_t pid, struct vms_budget *budget)
{
	struct vms_drives *drives = g_new0(struct vms_drives, 1);
	g_atomic_ref_count_init(&drives->refs);
	g_mutex_init(&drives->lock);
	g_mutex_init(&drives->chunks_lock);
	drives->has_process = pid > 0 && vms_host_identity_open(&drives->process, pid, NULL);
	drives->budget = vms_budget_new_part(budget, "the guest's disks");
	drives->foreign = vms_foreign_files_new(drives->budget);
	drives->jail = vms_jail_new(drives->budget, "the guest's disks");
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
	for (unsigned i = 0; i < CHUNKS; i++)
		g_free(drives->chunks[i].bytes);
	if (drives->state)
		vms_disk_service.end(drives->state);
	vms_foreign_files_unref(drives->foreign);
	vms_jail_unref(drives->jail);
	vms_budget_unref(drives->budget);
	if (drives->has_process)
		vms_host_identity_close(&drives->process);
	g_mutex_clear(&drives->lock);
	g_mutex_clear(&drives->chunks_lock);
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

bool vms_drives_charge(struct vms_drives *drives, uint64_t steps)
{
	g_mutex_lock(&drives->lock);
	const bool has_left = vms_budget_step(drives->budget, steps);
	g_mutex_unlock(&drives->lock);
	return has_left;
}

/* ---- files of the process --------------------------------------------- */

/* Opens what the process has open as `name` anew, to read it. -1 if it is no disk. */
static int open_descriptor(const struct vms_drives *drives, const char *name, struct stat *status,
			   uint64_t *size)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/fd/%s", (int)drives->process.pid, name);
	const int found = open(path, O_PATH | O_CLOEXEC);
	const bool is_disk = found >= 0 && fstat(found, status) == 0 &&
			     (S_ISBLK(status->st_mode) ||
			      (S_ISREG(status->st_mode) && status->st_size >= (off_t)SIZE_MIN));
	/* It is that file for certain: the process may have another one as `name` by now. */
	g_autofree char *same = g_strdup_printf("/proc/self/fd/%d", found);
	const int fd = is_disk ? open(same, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	if (found >= 0)
		close(found);
	const off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	*size = (uint64_t)MAX(end, 0);
	if (end >= 0 && vms_host_identity_is_alive(&drives->process))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int find_opened(const GArray *files, const struct stat *status)
{
	for (guint i = 0; i < files->len; i++) {
		const struct opened *one = &g_array_index(files, struct opened, i);
		if (one->device == status->st_dev && one->inode == status->st_ino)
			return (int)i;
	}
	return -1;
}

/* Opens the files and block devices that the process has open, each once. */
static GArray *open_files(const struct vms_drives *drives)
{
	GArray *files = g_array_new(FALSE, TRUE, sizeof(struct opened));
	g_array_set_clear_func(files, clear_opened);
	g_autofree char *folder = g_strdup_printf("/proc/%d/fd", (int)drives->process.pid);
	g_autoptr(GDir) dir = drives->has_process ? g_dir_open(folder, 0, NULL) : NULL;
	const char *name;
	for (unsigned i = 0; dir && i < FDS_LIMIT && (name = g_dir_read_name(dir)); i++) {
		g_autofree char *link = g_build_filename(folder, name, NULL);
		struct stat status;
		struct opened opened = { .base = -1 };
		opened.fd = open_descriptor(drives, name, &status, &opened.size);
		if (opened.fd < 0)
			continue;
		if (files->len >= DRIVES_LIMIT || find_opened(files, &status) >= 0) {
			close(opened.fd);
			continue;
		}
		opened.device = status.st_dev;
		opened.inode = status.st_ino;
		opened.path = g_file_read_link(link, NULL) ?: g_strdup(link);
		g_array_append_val(files, opened);
	}
	return files;
}

/* Finds the file that the process has at a path, which an image names. -1: it has none open. */
static int find_by_path(const struct vms_drives *drives, const GArray *files, const char *path)
{
	g_autofree char *root = g_strdup_printf("/proc/%d/root", (int)drives->process.pid);
	const struct vms_foreign_name name = { .root = root, .path = path };
	int number;
	struct vms_foreign_file *file =
		vms_foreign_files_open(drives->foreign, &name, drives->budget, &number);
	const int found = file ? find_opened(files, vms_foreign_file_status(file)) : -1;
	vms_foreign_file_close(file);
	return found;
}

/*
 * Finds the file that an image names as the one it is based on, among those that the process has
 * open. No other file is ever read: the image may be what a guest has written. -1: there is none.
 */
static int find_base(const struct vms_drives *drives, const GArray *files, guint image,
		     const char *name)
{
	const struct opened *its = &g_array_index(files, struct opened, image);
	g_autofree char *folder = g_path_get_dirname(its->path);
	g_autofree char *path =
		name[0] == '/' ? g_strdup(name) : g_build_filename(folder, name, NULL);
	for (guint i = 0; i < files->len; i++)
		if (i != image && strcmp(g_array_index(files, struct opened, i).path, path) == 0)
			return (int)i;
	const int found = find_by_path(drives, files, path);
	return found == (int)image ? -1 : found;
}

/* ---- the service ------------------------------------------------------ */

/* Asks the service that interprets disks, in a jail or here. The caller holds the lock. */
static bool ask(struct vms_drives *drives, uint32_t kind, const void *bytes, size_t size, int *fds,
		size_t n_fds, GByteArray *answer, GError **error)
{
	if (!vms_budget_has_left(drives->budget)) {
		vms_budget_set_error(drives->budget, "cannot read the guest's disks", error);
		return false;
	}
	if (drives->jail) {
		const struct vms_jail_request request = { .kind = kind,
							  .bytes = bytes,
							  .size = size,
							  .fds = fds,
							  .n_fds = n_fds,
							  .budget = drives->budget };
		return vms_jail_call(drives->jail, &request, answer, error);
	}
	if (!drives->state)
		drives->state = vms_disk_service.begin(drives->budget);
	struct vms_jail_work work = { .kind = kind,
				      .bytes = { bytes, size, drives->budget },
				      .fds = fds,
				      .n_fds = n_fds,
				      .budget = drives->budget,
				      .answer = answer };
	return vms_disk_service.serve(drives->state, &work, error);
}

/* As ask. A jail that died has lost the disks; they are not looked for again. */
static bool ask_once(struct vms_drives *drives, uint32_t kind, const void *bytes, size_t size,
		     int *fds, size_t n_fds, GByteArray *answer, GError **error)
{
	GError *failure = NULL;
	if (drives->is_lost) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_CLOSED,
				    "what read the guest's disks has ended");
		return false;
	}
	if (ask(drives, kind, bytes, size, fds, n_fds, answer, &failure))
		return true;
	if (vms_jail_has_died(failure)) {
		drives->is_lost = true;
		vms_budget_note_loss(drives->budget, "the guest's disks", failure->message);
	}
	g_propagate_error(error, failure);
	return false;
}

/* Adds files `first` to `first` + `n` to the service, and finds what they are based on. */
static bool add_images(struct vms_drives *drives, GArray *files, guint first, guint n,
		       GError **error)
{
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autoptr(GByteArray) names = g_byte_array_new();
	int fds[VMS_JAIL_FDS];
	for (guint i = 0; i < n; i++) {
		struct opened *file = &g_array_index(files, struct opened, first + i);
		const struct vms_disk_added added = { file->size, (uint32_t)strlen(file->path) + 1,
						      0 };
		g_byte_array_append(bytes, (const guint8 *)&added, sizeof(added));
		g_byte_array_append(bytes, (const guint8 *)file->path, added.path_size);
		fds[i] = file->fd;
	}
	const bool done =
		ask_once(drives, VMS_DISK_ADD, bytes->data, bytes->len, fds, n, names, error);
	for (guint i = 0; i < n; i++) /* those that the service has kept are its own */
		g_array_index(files, struct opened, first + i).fd = fds[i];
	g_byte_array_append(names, (const guint8 *)"", 1); /* what is missing is empty */
	const char *name = (const char *)names->data, *end = name + names->len - 1;
	for (guint i = 0; i < n && done; i++) {
		if (*name)
			g_array_index(files, struct opened, first + i).base =
				find_base(drives, files, first + i, name);
		name = MIN(name + strlen(name) + 1, end);
	}
	return done;
}

/* Looks for the disks. */
static bool scan_files(struct vms_drives *drives, GArray *files, GError **error)
{
	g_autoptr(GByteArray) answer = g_byte_array_new();
	g_autofree int32_t *bases = g_new(int32_t, MAX(files->len, 1));
	for (guint i = 0; i < files->len; i += VMS_JAIL_FDS)
		if (!add_images(drives, files, i, MIN(files->len - i, VMS_JAIL_FDS), error))
			return false;
	for (guint i = 0; i < files->len; i++)
		bases[i] = g_array_index(files, struct opened, i).base;
	return ask_once(drives, VMS_DISK_SCAN, bases, files->len * sizeof(*bases), NULL, 0, answer,
			error);
}

/* Looks for the disks, once. The caller holds the lock. */
static bool scan(struct vms_drives *drives, GError **error)
{
	if (drives->is_scanned)
		return true;
	drives->is_scanned = true;
	g_autoptr(GArray) files = open_files(drives);
	return scan_files(drives, files, error);
}

/* ---- what is kept of files -------------------------------------------- */

struct guest_file {
	struct vms_drives *drives;
	uint64_t number;
	uint32_t handle; /* of the service */
	uint64_t size;
};

/* Chunks that lie one behind the other have different places: a read may need two of them. */
static struct chunk *find_chunk(struct guest_file *file, uint64_t offset)
{
	const uint64_t first = vms_keyed_hash_u64(file->number) % CHUNKS;
	return &file->drives->chunks[(first + offset / CHUNK) % CHUNKS];
}

/* Copies bytes of one chunk, if it is kept. */
static bool copy_kept(struct guest_file *file, uint64_t offset, uint8_t *to, size_t size)
{
	const uint64_t within = offset % CHUNK;
	g_mutex_lock(&file->drives->chunks_lock);
	const struct chunk *chunk = find_chunk(file, offset);
	const bool is_kept = chunk->file == file->number && chunk->offset == offset - within;
	if (is_kept)
		memcpy(to, chunk->bytes + within, size);
	g_mutex_unlock(&file->drives->chunks_lock);
	return is_kept;
}

static bool read_kept(void *data, uint64_t offset, void *buf, size_t size)
{
	for (uint8_t *to = buf; size > 0;) {
		const size_t part = MIN(size, CHUNK - offset % CHUNK);
		if (!copy_kept(data, offset, to, part))
			return false;
		to += part;
		offset += part;
		size -= part;
	}
	return true;
}

static void keep_chunk(struct guest_file *file, uint64_t offset, const GByteArray *bytes)
{
	struct vms_drives *drives = file->drives;
	g_mutex_lock(&drives->chunks_lock);
	struct chunk *chunk = find_chunk(file, offset);
	if (!chunk->bytes && vms_budget_take(drives->budget, VMS_BUDGET_BYTES, CHUNK))
		chunk->bytes = g_malloc(CHUNK);
	if (chunk->bytes) {
		chunk->file = file->number;
		chunk->offset = offset;
		memcpy(chunk->bytes, bytes->data, bytes->len);
	}
	g_mutex_unlock(&drives->chunks_lock);
}

/* Reads the chunk at an offset from the disk. */
static bool fetch_chunk(struct guest_file *file, uint64_t offset)
{
	const struct vms_disk_read wanted = { offset, file->handle,
					      (uint32_t)MIN(file->size - offset, CHUNK) };
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_mutex_lock(&file->drives->lock);
	const bool read = ask_once(file->drives, VMS_DISK_READ, &wanted, sizeof(wanted), NULL, 0,
				   bytes, NULL) &&
			  bytes->len == wanted.size;
	g_mutex_unlock(&file->drives->lock);
	if (read)
		keep_chunk(file, offset, bytes);
	return read;
}

static bool fetch(void *data, uint64_t offset, size_t size)
{
	uint8_t byte;
	for (uint64_t at = offset / CHUNK * CHUNK; at < offset + size; at += CHUNK)
		if (!copy_kept(data, at, &byte, 1) && !fetch_chunk(data, at))
			return false;
	return true;
}

static void free_guest_file(void *data)
{
	struct guest_file *file = data;
	g_autoptr(GByteArray) answer = g_byte_array_new();
	g_mutex_lock(&file->drives->lock);
	ask_once(file->drives, VMS_DISK_CLOSE, &file->handle, sizeof(file->handle), NULL, 0, answer,
		 NULL);
	g_mutex_unlock(&file->drives->lock);
	vms_drives_unref(file->drives);
	g_free(file);
}

/* ---- files of the guest ----------------------------------------------- */

/* Opens a file. The caller holds the lock. */
static bool open_file(struct vms_drives *drives, const struct vms_drive_file *file, unsigned copy,
		      struct vms_disk_opened *ret, GError **error)
{
	const struct vms_disk_open wanted = { *file, copy };
	g_autoptr(GByteArray) answer = g_byte_array_new();
	if (!scan(drives, error) ||
	    !ask_once(drives, VMS_DISK_OPEN, &wanted, sizeof(wanted), NULL, 0, answer, error))
		return false;
	if (answer->len != sizeof(*ret)) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
				    "what reads the guest's disks gives a wrong answer");
		return false;
	}
	memcpy(ret, answer->data, sizeof(*ret));
	ret->size = file->size;
	return true;
}

bool vms_drives_open_file(struct vms_drives *drives, const struct vms_drive_file *file,
			  unsigned copy, struct vms_file_source *ret, GError **error)
{
	struct vms_disk_opened opened;
	g_mutex_lock(&drives->lock);
	const bool is_open = open_file(drives, file, copy, &opened, error);
	const uint64_t number = is_open ? ++drives->n_files : 0;
	g_mutex_unlock(&drives->lock);
	if (!is_open)
		return false;
	struct guest_file *guest_file = g_new0(struct guest_file, 1);
	guest_file->drives = vms_drives_ref(drives);
	guest_file->number = number;
	guest_file->handle = opened.handle;
	guest_file->size = opened.size;
	*ret = (struct vms_file_source) {
		.size = opened.size,
		.read = read_kept,
		.fetch = fetch,
		.free = free_guest_file,
		.data = guest_file,
	};
	return true;
}
