/* SPDX-License-Identifier: MIT */
#include "guest/linux/file_bytes.h"
#include "base/clock.h"
#include <string.h>
#include <vmscope/log.h>

#define COMPARED     256 /* blocks of a file that are compared, if they are in memory */
#define COPIES	     4	 /* of a file, on disks that were copied */
#define PAUSE_NS     UINT64_C(1000000000) /* before a file is looked for again; it doubles */
#define PAUSE_MAX_NS (64 * PAUSE_NS)

struct file_bytes {
	struct vms_page_cache *cache;
	struct vms_drives *drives;
	char *path;
	struct vms_cached_file file;
	GMutex lock; /* held while the disk is searched; guards: */
	uint64_t next_ns, pause_ns;
	struct vms_file_source copies[COPIES]; /* those that say the same as memory */
	int n_copies;			       /* atomic: what was added never changes */
};

/* ---- which disk has the file ------------------------------------------ */

/*
 * True if the disk has what is in memory of the file, and something of it is. What the guest has
 * written to it, and is not on the disk yet, may differ. All of a small file is compared, and of a
 * large one COMPARED blocks: a block that is not in memory has no other evidence than they and the
 * time of the inode's change, which vms_disks_open_file has compared.
 */
static bool is_same(const struct file_bytes *bytes, const struct vms_file_source *disk)
{
	const uint64_t n = (bytes->file.size + VMS_FILE_BLOCK - 1) / VMS_FILE_BLOCK;
	uint8_t cached[VMS_FILE_BLOCK], stored[VMS_FILE_BLOCK];
	unsigned compared = 0;
	for (uint64_t i = 0; i < n; i += MAX(1, n / COMPARED)) {
		const uint64_t at = i * VMS_FILE_BLOCK;
		const size_t size = MIN(bytes->file.size - at, VMS_FILE_BLOCK);
		if (!vms_drives_charge(bytes->drives, VMS_STEPS_OF_READ + VMS_STEPS_OF_BYTES(size)))
			return false;
		if (!vms_page_cache_read_clean(bytes->cache, &bytes->file, at, cached, size))
			continue;
		if (!vms_file_source_read_waiting(disk, at, stored, size) ||
		    memcmp(cached, stored, size) != 0)
			return false;
		compared++;
	}
	return compared > 0;
}

/* Looks for the copies of a file on the disks. The caller holds the lock. */
static void find_copies(struct file_bytes *bytes, GError **error)
{
	struct vms_drive_file wanted = {
		.inode = bytes->file.number,
		.size = bytes->file.size,
		.has_change = bytes->file.has_change,
		.change_s = bytes->file.change_s,
	};
	struct vms_file_source disk;
	int n = 0;
	memcpy(wanted.uuid, bytes->file.uuid, sizeof(wanted.uuid));
	for (unsigned copy = 0; copy < COPIES; copy++) {
		if (!vms_drives_open_file(bytes->drives, &wanted, copy, &disk,
					  copy == 0 ? error : NULL))
			break;
		if (is_same(bytes, &disk))
			bytes->copies[n++] = disk;
		else
			vms_file_source_clear(&disk);
	}
	g_atomic_int_set(&bytes->n_copies, n);
	if (n == 0 && !*error)
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "it says something else than the guest's memory: the guest may be "
			    "writing to it");
}

/* Looks for the file, unless it is known or was looked for a moment ago. */
static bool seek_copies(struct file_bytes *bytes)
{
	g_autoptr(GError) error = NULL;
	g_mutex_lock(&bytes->lock);
	const uint64_t now_ns = vms_clock_now_ns();
	if (bytes->n_copies == 0 && now_ns >= bytes->next_ns) {
		bytes->pause_ns = MIN(MAX(2 * bytes->pause_ns, PAUSE_NS), PAUSE_MAX_NS);
		bytes->next_ns = now_ns + bytes->pause_ns;
		find_copies(bytes, &error);
	}
	const bool is_known = bytes->n_copies > 0;
	g_mutex_unlock(&bytes->lock);
	if (error)
		vms_log(vms_drives_is_first_failure(bytes->drives) ? VMS_LOG_WARNING : VMS_LOG_INFO,
			"what is not in the guest's memory of %s cannot be read from its disk: %s",
			bytes->path, error->message);
	return is_known;
}

/* ---- reading ---------------------------------------------------------- */

/*
 * Reads a part of a block that was fetched. Copies of the disk that cannot be told apart by what is
 * in memory have to say the same.
 */
static bool read_copies(struct file_bytes *bytes, uint64_t offset, uint8_t *to, size_t size)
{
	const int n = g_atomic_int_get(&bytes->n_copies);
	uint8_t other[VMS_FILE_BLOCK] = { 0 };
	for (int i = 0; i < n; i++)
		if (!vms_file_source_read(&bytes->copies[i], offset, i == 0 ? to : other, size) ||
		    (i > 0 && memcmp(to, other, size) != 0))
			return false;
	return n > 0;
}

static bool read_bytes(void *data, uint64_t offset, void *buf, size_t size)
{
	struct file_bytes *bytes = data;
	uint8_t *to = buf;
	while (size > 0) {
		const size_t part = MIN(size, VMS_FILE_BLOCK - offset % VMS_FILE_BLOCK);
		if (!vms_page_cache_read(bytes->cache, &bytes->file, offset, to, part) &&
		    !read_copies(bytes, offset, to, part))
			return false;
		offset += part;
		to += part;
		size -= part;
	}
	return true;
}

static bool fetch_bytes(void *data, uint64_t offset, size_t size)
{
	struct file_bytes *bytes = data;
	if (!seek_copies(bytes))
		return false;
	const int n = g_atomic_int_get(&bytes->n_copies);
	for (int i = 0; i < n; i++)
		if (!bytes->copies[i].fetch(bytes->copies[i].data, offset, size))
			return false;
	return true;
}

static void free_bytes(void *data)
{
	struct file_bytes *bytes = data;
	for (int i = 0; i < bytes->n_copies; i++)
		vms_file_source_clear(&bytes->copies[i]);
	g_mutex_clear(&bytes->lock);
	vms_drives_unref(bytes->drives);
	vms_page_cache_unref(bytes->cache);
	g_free(bytes->path);
	g_free(bytes);
}

struct vms_file_source vms_guest_file_source(struct vms_page_cache *cache,
					     struct vms_drives *drives, const char *path,
					     const struct vms_cached_file *file)
{
	struct file_bytes *bytes = g_new0(struct file_bytes, 1);
	g_mutex_init(&bytes->lock);
	bytes->cache = vms_page_cache_ref(cache);
	bytes->drives = vms_drives_ref(drives);
	bytes->path = g_strdup(path);
	bytes->file = *file;
	return (struct vms_file_source) {
		.size = file->size,
		.read = read_bytes,
		.fetch = file->is_on_disk ? fetch_bytes : NULL,
		.free = free_bytes,
		.data = bytes,
	};
}
