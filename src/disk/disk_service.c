/* SPDX-License-Identifier: MIT */
#include "disk/disk_service.h"
#include "disk/qcow2.h"
#include <string.h>
#include <unistd.h>
#include <vmscope/error.h>

#define HANDLES_LIMIT (1u << 16)

struct service {
	GArray *images;		 /* struct vms_disk_image, until they are scanned */
	struct vms_disks *disks; /* NULL before that */
	GArray *files;	/* struct vms_file_source, by their handles; without `read`: closed */
	GArray *closed; /* uint32_t: handles to use again */
};

static void clear_image(void *data)
{
	struct vms_disk_image *image = data;
	vms_file_source_clear(&image->file);
	g_free(image->path);
}

static void clear_file(void *data)
{
	vms_file_source_clear(data);
}

static void *begin(struct vms_budget *budget)
{
	(void)budget;
	struct service *service = g_new0(struct service, 1);
	service->images = g_array_new(FALSE, FALSE, sizeof(struct vms_disk_image));
	g_array_set_clear_func(service->images, clear_image);
	service->files = g_array_new(FALSE, TRUE, sizeof(struct vms_file_source));
	g_array_set_clear_func(service->files, clear_file);
	service->closed = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	return service;
}

static void end(void *state)
{
	struct service *service = state;
	g_array_unref(service->files);
	g_array_unref(service->closed);
	vms_disks_free(service->disks);
	g_array_unref(service->images);
	g_free(service);
}

static bool refuse(GError **error)
{
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "a request to the reader of disks makes no sense");
	return false;
}

/* Takes the next `size` bytes of a request. */
static bool take(struct vms_bytes *bytes, void *ret, size_t size)
{
	struct vms_bytes rest;
	if (!vms_bytes_slice(*bytes, size, bytes->size - MIN(size, bytes->size), &rest))
		return false;
	memcpy(ret, bytes->data, size);
	*bytes = rest;
	return true;
}

/* ---- images ----------------------------------------------------------- */

static bool read_fd(void *data, uint64_t offset, void *buf, size_t size)
{
	return pread(GPOINTER_TO_INT(data), buf, size, (off_t)offset) == (ssize_t)size;
}

static void close_fd(void *data)
{
	close(GPOINTER_TO_INT(data));
}

static void add_image(struct service *service, struct vms_jail_work *work, size_t number,
		      const struct vms_disk_added *added, char *path)
{
	const struct vms_disk_image image = {
		.file = {
			.size = added->size,
			.read = read_fd,
			.free = close_fd,
			.data = GINT_TO_POINTER(work->fds[number]),
		},
		.path = path,
		.base = -1,
	};
	work->fds[number] = -1;
	g_array_append_val(service->images, image);
	struct vms_file_source file = image.file;
	file.budget = work->budget;
	g_autofree char *name = vms_qcow2_backing(&file);
	g_byte_array_append(work->answer, (const guint8 *)(name ?: ""),
			    (guint)strlen(name ?: "") + 1);
}

static bool add_images(struct service *service, struct vms_jail_work *work, GError **error)
{
	struct vms_bytes bytes = work->bytes;
	for (size_t i = 0; i < work->n_fds; i++) {
		struct vms_disk_added added;
		if (!take(&bytes, &added, sizeof(added)) || added.path_size == 0 ||
		    added.path_size > bytes.size || service->disks)
			return refuse(error);
		char *path = g_malloc(added.path_size);
		take(&bytes, path, added.path_size);
		path[added.path_size - 1] = '\0';
		add_image(service, work, i, &added, path);
	}
	return true;
}

static bool scan_images(struct service *service, struct vms_jail_work *work, GError **error)
{
	struct vms_bytes bytes = work->bytes;
	const guint n = service->images->len;
	if (service->disks || bytes.size != n * sizeof(int32_t))
		return refuse(error);
	for (guint i = 0; i < n; i++) {
		int32_t base = -1;
		take(&bytes, &base, sizeof(base));
		g_array_index(service->images, struct vms_disk_image, i).base =
			base < (int32_t)n ? base : -1;
	}
	g_array_set_clear_func(service->images, NULL); /* the disks take them */
	service->disks =
		vms_disks_scan((const struct vms_disk_image *)(const void *)service->images->data,
			       n, work->budget);
	g_array_set_size(service->images, 0);
	return true;
}

/* ---- files ------------------------------------------------------------ */

/* Keeps a file. Returns its handle, that of a file that was closed if there is one. */
static uint32_t add_file(struct service *service, const struct vms_file_source *file)
{
	GArray *closed = service->closed;
	if (closed->len == 0) {
		g_array_append_vals(service->files, file, 1);
		return service->files->len - 1;
	}
	const uint32_t handle = g_array_index(closed, uint32_t, closed->len - 1);
	g_array_set_size(closed, closed->len - 1);
	g_array_index(service->files, struct vms_file_source, handle) = *file;
	return handle;
}

static bool open_file(struct service *service, struct vms_jail_work *work, GError **error)
{
	struct vms_bytes bytes = work->bytes;
	struct vms_disk_open wanted;
	struct vms_file_source file;
	if (!service->disks || !take(&bytes, &wanted, sizeof(wanted)) ||
	    (service->files->len >= HANDLES_LIMIT && service->closed->len == 0))
		return refuse(error);
	if (!vms_disks_open_file(service->disks, &wanted.file, wanted.copy, &file, error))
		return false;
	const struct vms_disk_opened opened = { .size = file.size,
						.handle = add_file(service, &file) };
	g_byte_array_append(work->answer, (const guint8 *)&opened, sizeof(opened));
	return true;
}

/* NULL: none is open that has the handle. */
static struct vms_file_source *find_file(struct service *service, uint32_t handle)
{
	struct vms_file_source *files = (struct vms_file_source *)(void *)service->files->data;
	return handle < service->files->len && files[handle].read ? &files[handle] : NULL;
}

static bool read_file(struct service *service, struct vms_jail_work *work, GError **error)
{
	struct vms_bytes bytes = work->bytes;
	struct vms_disk_read wanted;
	if (!take(&bytes, &wanted, sizeof(wanted)) || wanted.size > VMS_DISK_READ_LIMIT)
		return refuse(error);
	const struct vms_file_source *file = find_file(service, wanted.handle);
	const guint before = work->answer->len;
	g_byte_array_set_size(work->answer, before + wanted.size);
	if (file &&
	    vms_file_source_read(file, wanted.offset, work->answer->data + before, wanted.size))
		return true;
	g_byte_array_set_size(work->answer, before);
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "a part of the file is not on the disk");
	return false;
}

static bool close_file(struct service *service, struct vms_jail_work *work, GError **error)
{
	struct vms_bytes bytes = work->bytes;
	uint32_t handle;
	if (!take(&bytes, &handle, sizeof(handle)))
		return refuse(error);
	struct vms_file_source *file = find_file(service, handle);
	if (file) {
		vms_file_source_clear(file);
		g_array_append_val(service->closed, handle);
	}
	return true;
}

static bool serve(void *state, struct vms_jail_work *work, GError **error)
{
	switch (work->kind) {
	case VMS_DISK_ADD: return add_images(state, work, error);
	case VMS_DISK_SCAN: return scan_images(state, work, error);
	case VMS_DISK_OPEN: return open_file(state, work, error);
	case VMS_DISK_READ: return read_file(state, work, error);
	case VMS_DISK_CLOSE: return close_file(state, work, error);
	default: return refuse(error);
	}
}

const struct vms_jail_service vms_disk_service = {
	.name = "disks",
	.first_kind = VMS_DISK_ADD,
	.last_kind = VMS_DISK_CLOSE,
	.begin = begin,
	.end = end,
	.serve = serve,
};
