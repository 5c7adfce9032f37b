/* SPDX-License-Identifier: MIT */
/* How a guest's RAM is mapped in its process, by /proc/PID/maps (proc_pid_maps(5)). */
#include "base/proc_text.h"
#include "machine/qemu/host_process.h"
#include "machine/qemu/ram.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Files that are searched for among all that the process has open; a QEMU's memory lies in a few.
 */
#define SEARCHES_MAX 64

/* All mappings, sorted; none where they may not be seen. */
static GArray *read_mappings(pid_t pid)
{
	GArray *mappings = g_array_new(FALSE, FALSE, sizeof(struct vms_proc_mapping));
	g_autofree char *path = vms_host_process_path(pid, "maps");
	FILE *maps = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	struct vms_proc_mapping mapping;
	while (maps && getline(&line, &size, maps) > 0) {
		if (vms_proc_parse_mapping(line, &mapping))
			g_array_append_val(mappings, mapping);
	}
	free(line);
	if (maps)
		fclose(maps);
	return mappings;
}

/* Is an open file a regular one, and that which is mapped, unless `mapping` is NULL? */
static bool is_right(int fd, const struct vms_proc_mapping *mapping)
{
	struct stat file;
	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
	       (!mapping || (file.st_dev == mapping->device && file.st_ino == mapping->inode));
}

/*
 * Opens a link of /proc that leads to a regular file for reading, or gives -1. What is behind the
 * link may change at any time, and to open a pipe would wait, to open a device do anything. So the
 * file is first opened as a mere place, which does nothing, and for reading once it is known.
 */
static int open_regular(const char *link, const struct vms_proc_mapping *must_be)
{
	int place = open(link, O_PATH | O_CLOEXEC);
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", place);
	int fd = place >= 0 && is_right(place, must_be)
			 ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
			 : -1;
	if (place >= 0)
		close(place);
	return fd;
}

/*
 * By the mapping itself, for which one has to be root. Not every file system tells the same device
 * and inode here as in the list of mappings (btrfs, overlayfs).
 */
static int open_by_mapping(pid_t pid, const struct vms_proc_mapping *mapping)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/map_files/%" G_GINT64_MODIFIER
						"x-%" G_GINT64_MODIFIER "x",
						(int)pid, mapping->start, mapping->end);
	return open_regular(path, NULL);
}

/* The file among those that the process has open. */
static int open_by_descriptor(pid_t pid, const struct vms_proc_mapping *mapping)
{
	g_autofree char *path = vms_host_process_path(pid, "fd");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *name;
	int fd = -1;
	while (fd < 0 && directory && (name = g_dir_read_name(directory))) {
		g_autofree char *link = g_build_filename(path, name, NULL);
		fd = open_regular(link, mapping);
	}
	return fd;
}

/*
 * File systems whose SEEK_DATA knows of what was written through a mapping and is not on the disk
 * yet. Huge pages' has none: it says that all is data.
 */
static bool knows_holes(int fd)
{
	struct statfs fs;
	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == TMPFS_MAGIC || fs.f_type == EXT4_SUPER_MAGIC ||
	       fs.f_type == XFS_SUPER_MAGIC;
}

static void free_file(gpointer data)
{
	struct vms_ram_file *file = data;
	if (file->fd >= 0)
		close(file->fd);
	g_free(file);
}

static const struct vms_ram_file *find_file(struct vms_ram *ram,
					    const struct vms_proc_mapping *mapping)
{
	for (guint i = 0; i < ram->files->len; i++) {
		const struct vms_ram_file *file = ram->files->pdata[i];
		if (file->device == mapping->device && file->inode == mapping->inode)
			return file;
	}
	struct vms_ram_file *file = g_new(struct vms_ram_file, 1);
	*file = (struct vms_ram_file) { mapping->device, mapping->inode,
					open_by_mapping(ram->process->pid, mapping), false };
	if (file->fd < 0 && ram->files->len < SEARCHES_MAX)
		file->fd = open_by_descriptor(ram->process->pid, mapping);
	file->knows_holes = knows_holes(file->fd);
	g_ptr_array_add(ram->files, file);
	return file;
}

/* Does `next` go on where `part` ends, mapped alike? */
static bool continues(const struct vms_ram_part *part, const struct vms_ram_part *next)
{
	return part->pa + part->size == next->pa && part->hva + part->size == next->hva &&
	       part->kind == next->kind && part->file == next->file &&
	       (!part->file || part->file_offset + part->size == next->file_offset);
}

static void add_part(struct vms_ram *ram, const struct vms_ram_part *part)
{
	struct vms_ram_part *last =
		ram->parts->len
			? &g_array_index(ram->parts, struct vms_ram_part, ram->parts->len - 1)
			: NULL;
	if (last && continues(last, part))
		last->size += part->size;
	else
		g_array_append_vals(ram->parts, part, 1);
}

/* What of the place lies in the mapping. */
static void add_mapped(struct vms_ram *ram, const struct vms_ram_place *place,
		       const struct vms_proc_mapping *mapping)
{
	uint64_t start = MAX(place->hva, mapping->start);
	uint64_t end = MIN(place->hva + place->size, mapping->end);
	if (start >= end)
		return;
	struct vms_ram_part part = { .pa = place->pa + (start - place->hva),
				     .size = end - start,
				     .hva = start };
	const struct vms_ram_file *file = mapping->inode ? find_file(ram, mapping) : NULL;
	if (file && file->fd >= 0 && (mapping->is_shared || ram->pagemap >= 0)) {
		part.kind = mapping->is_shared ? VMS_RAM_FILE : VMS_RAM_COPY;
		part.file = file;
		part.file_offset = mapping->file_offset + (start - mapping->start);
	} else if (!file && !mapping->is_shared && ram->pagemap >= 0) {
		part.kind = VMS_RAM_ANONYMOUS;
	}
	add_part(ram, &part);
}

/* The first mapping that ends behind `hva`. */
static guint find_mapping(const GArray *mappings, uint64_t hva)
{
	guint low = 0, high = mappings->len;
	while (low < high) {
		guint middle = low + (high - low) / 2;
		if (g_array_index(mappings, struct vms_proc_mapping, middle).end > hva)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void add_place(struct vms_ram *ram, const struct vms_ram_place *place,
		      const GArray *mappings)
{
	for (guint i = find_mapping(mappings, place->hva); i < mappings->len; i++) {
		const struct vms_proc_mapping *mapping =
			&g_array_index(mappings, struct vms_proc_mapping, i);
		if (mapping->start > place->hva && mapping->start - place->hva >= place->size)
			break;
		add_mapped(ram, place, mapping);
	}
}

/*
 * Does somebody fill in pages that are not there when they are first used (userfaultfd(2); a
 * migration that fetches them from afar)? Then only the process itself can be asked for them.
 */
static bool has_userfaultfd(pid_t pid)
{
	g_autofree char *path = vms_host_process_path(pid, "fd");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *name;
	bool found = false;
	while (!found && directory && (name = g_dir_read_name(directory))) {
		g_autofree char *link = g_build_filename(path, name, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);
		found = g_strcmp0(target, "anon_inode:[userfaultfd]") == 0;
	}
	return found;
}

static void make_opaque(struct vms_ram *ram)
{
	for (guint i = 0; i < ram->parts->len; i++) {
		struct vms_ram_part *part = &g_array_index(ram->parts, struct vms_ram_part, i);
		part->kind = VMS_RAM_OPAQUE;
		part->file = NULL;
	}
}

void vms_ram_open(struct vms_ram *ram, const struct vms_host_identity *process,
		  const struct vms_ram_place *places, size_t n_places)
{
	g_autofree char *pagemap = vms_host_process_path(process->pid, "pagemap");
	*ram = (struct vms_ram) { .process = process, .pagemap = -1 };
	ram->parts = g_array_new(FALSE, FALSE, sizeof(struct vms_ram_part));
	ram->files = g_ptr_array_new_with_free_func(free_file);
	ram->pagemap = open(pagemap, O_RDONLY | O_CLOEXEC);
	g_autoptr(GArray) mappings = read_mappings(process->pid);
	for (size_t i = 0; i < n_places; i++)
		add_place(ram, &places[i], mappings);
	if (has_userfaultfd(process->pid))
		make_opaque(ram);
	/* If it has ended, all that may have been of another process with its pid. */
	if (!vms_host_identity_is_alive(process))
		g_array_set_size(ram->parts, 0);
}

void vms_ram_close(struct vms_ram *ram)
{
	if (!ram->parts)
		return;
	g_clear_pointer(&ram->parts, g_array_unref);
	g_clear_pointer(&ram->files, g_ptr_array_unref);
	if (ram->pagemap >= 0)
		close(ram->pagemap);
}
