/* SPDX-License-Identifier: MIT */
/*
 * A flattened file (makedumpfile's IMPLEMENTATION, "The dump file in the flattened format") has a
 * header of 4096 bytes, and then records. A record has the offset and the size of the bytes that
 * follow it. All integers are big-endian. If several records have the same byte, the last one
 * counts.
 */
#include "machine/core/core_file.h"
#include "machine/core/extent.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLAT_SIGNATURE	 "makedumpfile\0\0\0" /* 16 bytes with the last NUL */
#define FLAT_TYPE	 1
#define FLAT_VERSION	 1
#define FLAT_HEADER	 4096
#define FLAT_RECORD	 16
#define FLAT_RECORDS_MAX (UINT32_C(4) << 20) /* makedumpfile and QEMU: at most one for each MiB */
/* How many neighbouring extents vms_core_file_next_data joins in one call. */
#define STRETCH_EXTENTS 64

struct vms_core_file {
	char *path;
	int fd;
	uint64_t size; /* of the file on the disk */
	uint64_t disk_size;
	GArray *extents;       /* struct vms_extent of a flattened file, else NULL */
	uint32_t n_records;    /* records of a flattened file that were read */
	uint64_t virtual_size; /* of the file that a flattened file encodes */
	char *damage;
};

static bool read_raw(const struct vms_core_file *file, uint64_t offset, void *buf, size_t size)
{
	if (offset > file->size || size > file->size - offset)
		return false;
	for (uint8_t *at = buf; size;) {
		ssize_t n = pread(file->fd, at, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		offset += (size_t)n;
		size -= (size_t)n;
	}
	return true;
}

static bool is_flattened(const struct vms_core_file *file)
{
	uint8_t signature[sizeof(FLAT_SIGNATURE)];
	return read_raw(file, 0, signature, sizeof(signature)) &&
	       memcmp(signature, FLAT_SIGNATURE, sizeof(signature)) == 0;
}

static bool set_malformed_error(const struct vms_core_file *file, uint64_t offset, GError **error,
				const char *what)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "cannot read the flattened core file %s: %s at offset 0x%" PRIx64, file->path,
		    what, offset);
	return false;
}

/*
 * Reads the record at `*at`, and moves `*at` to the next one. `*end` is true after the last one.
 * Empty records count towards the limit too, because a hole of a sparse file reads as such records.
 */
static bool read_record(struct vms_core_file *file, uint64_t *at, bool *end, GError **error)
{
	uint64_t record[2];
	bool cut_off = !read_raw(file, *at, record, sizeof(record));
	uint64_t offset = cut_off ? 0 : GUINT64_FROM_BE(record[0]);
	uint64_t size = cut_off ? 0 : GUINT64_FROM_BE(record[1]);
	*end = cut_off || (offset == UINT64_MAX && size == UINT64_MAX);
	if (!*end && (offset > INT64_MAX || size > INT64_MAX - offset))
		return set_malformed_error(file, *at, error,
					   "impossible offset or size in the record");
	if (!*end && size > file->size - *at - FLAT_RECORD)
		cut_off = *end = true;
	if (cut_off)
		file->damage = g_strdup_printf("the flattened file is cut off in the record at "
					       "offset 0x%" PRIx64,
					       *at);
	if (*end)
		return true;
	struct vms_extent extent = { offset, size, *at + FLAT_RECORD,
				     UINT32_MAX - file->extents->len };
	if (file->n_records++ == FLAT_RECORDS_MAX)
		return set_malformed_error(
			file, *at, error,
			"too many records (makedumpfile -R makes a plain file of it)");
	if (size)
		g_array_append_val(file->extents, extent);
	file->virtual_size = MAX(file->virtual_size, offset + size);
	*at += FLAT_RECORD + size;
	return true;
}

static bool read_records(struct vms_core_file *file, GError **error)
{
	uint64_t header[4], at = FLAT_HEADER, conflict;
	if (!read_raw(file, 0, header, sizeof(header)) || GUINT64_FROM_BE(header[2]) != FLAT_TYPE ||
	    GUINT64_FROM_BE(header[3]) != FLAT_VERSION)
		return set_malformed_error(file, 16, error, "an unknown type or version");
	file->extents = g_array_new(FALSE, FALSE, sizeof(struct vms_extent));
	for (bool end = false; !end;) {
		if (!read_record(file, &at, &end, error))
			return false;
	}
	vms_extents_resolve(file->extents, &conflict);
	return true;
}

static enum vms_error convert_errno(int code)
{
	if (code == ENOENT || code == ENOTDIR)
		return VMS_ERROR_NOT_FOUND;
	return code == EACCES || code == EPERM ? VMS_ERROR_PERMISSION : VMS_ERROR_IO;
}

struct vms_core_file *vms_core_file_open(const char *path, GError **error)
{
	g_autoptr(vms_core_file) file = g_new0(struct vms_core_file, 1);
	struct stat status;
	file->path = g_strdup(path);
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO does not block */
	if (file->fd < 0 || fstat(file->fd, &status) < 0) {
		int code = errno;
		g_set_error(error, VMS_ERROR, (int)convert_errno(code),
			    "cannot open the core file %s: %s", path, g_strerror(code));
		return NULL;
	}
	if (!S_ISREG(status.st_mode)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot read %s as a core file: it is not a regular file", path);
		return NULL;
	}
	file->size = (uint64_t)status.st_size;
	file->disk_size = (uint64_t)status.st_blocks * 512; /* st_blocks counts these, stat(3) */
	if (is_flattened(file) && !read_records(file, error))
		return NULL;
	return g_steal_pointer(&file);
}

void vms_core_file_close(struct vms_core_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	if (file->extents)
		g_array_unref(file->extents);
	g_free(file->path);
	g_free(file->damage);
	g_free(file);
}

const char *vms_core_file_path(const struct vms_core_file *file)
{
	return file->path;
}

const char *vms_core_file_damage(const struct vms_core_file *file)
{
	return file->damage;
}

uint64_t vms_core_file_size(const struct vms_core_file *file)
{
	return file->extents ? file->virtual_size : file->size;
}

uint64_t vms_core_file_disk_size(const struct vms_core_file *file)
{
	return file->disk_size;
}

bool vms_core_file_read(const struct vms_core_file *file, uint64_t offset, void *buf, size_t size)
{
	uint64_t total = vms_core_file_size(file);
	if (!file->extents)
		return read_raw(file, offset, buf, size);
	if (offset > total || size > total - offset)
		return false;
	for (uint8_t *at = buf; size;) {
		struct vms_extent part;
		if (!vms_extents_at(file->extents, offset, size, &part))
			memset(at, 0, part.size);
		else if (!read_raw(file, part.file_offset, at, part.size))
			return false;
		at += part.size;
		offset += part.size;
		size -= part.size;
	}
	return true;
}

uint8_t *vms_core_file_load(const struct vms_core_file *file, uint64_t offset, uint64_t size,
			    uint64_t limit, const char *what, GError **error)
{
	uint64_t total = vms_core_file_size(file);
	if (size > limit || offset > total || size > total - offset) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "cannot read %s of the core file %s: 0x%" PRIx64
			    " bytes at offset 0x%" PRIx64 " %s",
			    what, file->path, size, offset,
			    size > limit ? "are too many" : "lie beyond its end");
		return NULL;
	}
	g_autofree uint8_t *data = g_malloc(MAX(size, 1));
	if (!vms_core_file_read(file, offset, data, size)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot read %s of the core file %s at offset 0x%" PRIx64, what,
			    file->path, offset);
		return NULL;
	}
	return g_steal_pointer(&data);
}

/* Finds the next data by the holes that the file system reports. Without holes all is data. */
static void find_raw_data(const struct vms_core_file *file, uint64_t offset, uint64_t end,
			  uint64_t *begin, uint64_t *stop)
{
	off_t data = lseek(file->fd, (off_t)offset, SEEK_DATA);
	if (data < 0 && errno == ENXIO) /* a hole up to the end of the file */
		*begin = *stop = end;
	if (data < 0)
		return;
	off_t hole = lseek(file->fd, data, SEEK_HOLE);
	*begin = MIN((uint64_t)data, end);
	if (hole > data)
		*stop = MIN((uint64_t)hole, end);
}

void vms_core_file_next_data(const struct vms_core_file *file, uint64_t offset, uint64_t end,
			     uint64_t *begin, uint64_t *stop)
{
	struct vms_extent part;
	*begin = offset;
	*stop = end;
	if (offset >= end || offset > INT64_MAX)
		return;
	if (!file->extents) {
		find_raw_data(file, offset, end, begin, stop);
		return;
	}
	if (!vms_extents_at(file->extents, offset, end - offset, &part))
		*begin = offset + part.size;
	*stop = *begin;
	for (unsigned i = 0; i < STRETCH_EXTENTS && *stop < end &&
			     vms_extents_at(file->extents, *stop, end - *stop, &part);
	     i++)
		*stop += part.size;
}
