/* SPDX-License-Identifier: MIT */
#include "base/file_source.h"
#include "base/bytes.h"
#include <sys/stat.h>
#include <unistd.h>

bool vms_file_source_read(const struct vms_file_source *source, uint64_t offset, void *buf,
			  size_t size)
{
	return offset <= source->size && size <= source->size - offset &&
	       (size == 0 || (vms_budget_step(source->budget, 1 + VMS_STEPS_OF_BYTES(size)) &&
			      source->read(source->data, offset, buf, size)));
}

size_t vms_file_source_read_present(const struct vms_file_source *source, uint64_t offset,
				    uint8_t *buf, size_t size, uint8_t *has, uint64_t *first)
{
	size_t done = 0, missing = 0;
	for (size_t block = 0; done < size; block++) {
		size_t part = VMS_FILE_BLOCK - (offset + done) % VMS_FILE_BLOCK;
		part = MIN(part, size - done);
		const bool is_there = vms_file_source_read(source, offset + done, buf + done, part);
		if (has)
			has[block] = is_there;
		if (!is_there) {
			memset(buf + done, 0, part);
			if (missing++ == 0)
				*first = offset + done;
		}
		done += part;
	}
	return missing;
}

/* ---- memory ----------------------------------------------------------- */

static bool read_memory(void *data, uint64_t offset, void *buf, size_t size)
{
	memcpy(buf, (const uint8_t *)data + offset, size);
	return true;
}

struct vms_file_source vms_file_source_of_memory(uint8_t *bytes, size_t size)
{
	return (struct vms_file_source) {
		.size = size,
		.read = read_memory,
		.free = g_free,
		.data = bytes,
	};
}

/* ---- a file of this host ---------------------------------------------- */

static bool read_fd(void *data, uint64_t offset, void *buf, size_t size)
{
	return pread(GPOINTER_TO_INT(data), buf, size, (off_t)offset) == (ssize_t)size;
}

static void close_fd(void *data)
{
	close(GPOINTER_TO_INT(data));
}

bool vms_file_source_of_fd(int fd, struct vms_file_source *ret)
{
	struct stat status;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return false;
	}
	*ret = (struct vms_file_source) {
		.size = (uint64_t)status.st_size,
		.read = read_fd,
		.free = close_fd,
		.data = GINT_TO_POINTER(fd),
	};
	return true;
}

void vms_file_source_clear(struct vms_file_source *source)
{
	if (source->free)
		source->free(source->data);
	*source = (struct vms_file_source) { 0 };
}
