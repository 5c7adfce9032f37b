/* SPDX-License-Identifier: MIT */
#include "guest/linux/file_bytes.h"
#include <string.h>
#include <vmscope/log.h>

#define COMPARED 16 /* blocks of a file that are compared, if they are in memory */

struct file_bytes {
	struct vms_page_cache *cache;
	struct vms_drives *drives;
	char *path;
	struct vms_cached_file file;
	bool has_sought_disk;
	struct vms_file_source disk; /* empty if it cannot be used */
};

/* True if the disk has what is in memory of the file, and something of it is. */
static bool is_same(const struct file_bytes *bytes, const struct vms_file_source *disk)
{
	const uint64_t n = (bytes->file.size + VMS_FILE_BLOCK - 1) / VMS_FILE_BLOCK;
	uint8_t cached[VMS_FILE_BLOCK], stored[VMS_FILE_BLOCK];
	unsigned compared = 0;
	for (uint64_t i = 0; i < n; i += MAX(1, n / COMPARED)) {
		const uint64_t at = i * VMS_FILE_BLOCK;
		const size_t size = MIN(bytes->file.size - at, VMS_FILE_BLOCK);
		if (!vms_page_cache_read(bytes->cache, &bytes->file, at, cached, size))
			continue;
		if (!vms_file_source_read(disk, at, stored, size) ||
		    memcmp(cached, stored, size) != 0)
			return false;
		compared++;
	}
	return compared > 0;
}

static void seek_disk(struct file_bytes *bytes)
{
	struct vms_drive_file wanted = { .inode = bytes->file.number, .size = bytes->file.size };
	struct vms_file_source disk;
	g_autoptr(GError) error = NULL;
	if (bytes->has_sought_disk || !bytes->file.is_on_disk)
		return;
	bytes->has_sought_disk = true;
	memcpy(wanted.uuid, bytes->file.uuid, sizeof(wanted.uuid));
	if (vms_drives_open_file(bytes->drives, &wanted, &disk, &error)) {
		if (is_same(bytes, &disk)) {
			bytes->disk = disk;
			return;
		}
		vms_file_source_clear(&disk);
		g_set_error(&error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "it says something else than the guest's memory: the guest may be "
			    "writing to it");
	}
	vms_log(vms_drives_is_first_failure(bytes->drives) ? VMS_LOG_WARNING : VMS_LOG_INFO,
		"what is not in the guest's memory of %s cannot be read from its disk: %s",
		bytes->path, error->message);
}

static bool read_block(struct file_bytes *bytes, uint64_t offset, void *to, size_t size)
{
	if (vms_page_cache_read(bytes->cache, &bytes->file, offset, to, size))
		return true;
	seek_disk(bytes);
	return bytes->disk.read && vms_file_source_read(&bytes->disk, offset, to, size);
}

static bool read_bytes(void *data, uint64_t offset, void *buf, size_t size)
{
	uint8_t *to = buf;
	while (size > 0) {
		const size_t part = MIN(size, VMS_FILE_BLOCK - offset % VMS_FILE_BLOCK);
		if (!read_block(data, offset, to, part))
			return false;
		offset += part;
		to += part;
		size -= part;
	}
	return true;
}

static void free_bytes(void *data)
{
	struct file_bytes *bytes = data;
	vms_file_source_clear(&bytes->disk);
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
	bytes->cache = vms_page_cache_ref(cache);
	bytes->drives = vms_drives_ref(drives);
	bytes->path = g_strdup(path);
	bytes->file = *file;
	return (struct vms_file_source) {
		.size = file->size,
		.read = read_bytes,
		.free = free_bytes,
		.data = bytes,
	};
}
