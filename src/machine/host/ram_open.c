/* SPDX-License-Identifier: MIT */
/* Finds out by /proc/PID/maps (proc_pid_maps(5)) how a guest's RAM is mapped in its process. */
#include "base/proc_text.h"
#include "base/search.h"
#include "machine/host/proc_path.h"
#include "machine/host/ram.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* How many files to search for among all that the process has open. A guest has few. */
#define SEARCHES_MAX 64

/* All mappings, sorted; none if this user may not see them. */
static GArray *read_mappings(pid_t pid)
{
	GArray *mappings = g_array_new(FALSE, FALSE, sizeof(struct vms_proc_mapping));
	g_autofree char *path = vms_host_process_path(pid, "maps");
	FILE *maps = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	struct vms_proc_mapping mapping;
	while (maps && getline(&line, &size, maps) > 0) {
		if (!vms_proc_parse_mapping(line, &mapping))
			continue;
		mapping.name = NULL; /* the line does not stay */
		g_array_append_val(mappings, mapping);
	}
	free(line);
	if (maps)
		fclose(maps);
	return mappings;
}

/* True if an open file is a regular one, and the one that is mapped, unless `mapping` is NULL. */
static bool is_mapped_file(int fd, const struct vms_proc_mapping *mapping)
{
	struct stat file;
	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
	       (!mapping || (file.st_dev == mapping->device && file.st_ino == mapping->inode));
}

/*
 * Opens the regular file behind a link of /proc for reading; -1 if it is none. The file behind the
 * link may change at any time. To open a pipe could wait, and to open a device could do anything.
 * So the file is first opened with O_PATH, which does nothing, and then for reading if it is
 * regular.
 */
static int open_regular(const char *link, const struct vms_proc_mapping *must_be)
{
	int place = open(link, O_PATH | O_CLOEXEC);
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", place);
	int fd = place >= 0 && is_mapped_file(place, must_be)
			 ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
			 : -1;
	if (place >= 0)
		close(place);
	return fd;
}

/*
 * Opens the file by the mapping itself, which only root may. The device and inode are not compared:
 * some file systems (btrfs, overlayfs) give others here than in the list of mappings.
 */
static int open_by_mapping(pid_t pid, const struct vms_proc_mapping *mapping)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/map_files/%" G_GINT64_MODIFIER
						"x-%" G_GINT64_MODIFIER "x",
						(int)pid, mapping->start, mapping->end);
	return open_regular(path, NULL);
}

/* Opens the file by one of the descriptors that the process has open. */
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
 * True for a file system whose SEEK_DATA knows data that was written through a mapping and is not
 * on the disk yet. hugetlbfs has no SEEK_DATA of its own: it says that everything is data.
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

/* True if `next` begins where `part` ends, and is mapped in the same way. */
static bool is_continuation(const struct vms_ram_part *part, const struct vms_ram_part *next)
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
	if (last && is_continuation(last, part))
		last->size += part->size;
	else
		g_array_append_vals(ram->parts, part, 1);
}

/* Adds the part of the place that lies in the mapping. */
static void add_mapped_part(struct vms_ram *ram, const struct vms_ram_place *place,
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

/* The index of the first mapping that ends behind `hva`. */
static guint find_mapping(const GArray *mappings, uint64_t hva)
{
	return (guint)VMS_SEARCH(mappings->len, i,
				 g_array_index(mappings, struct vms_proc_mapping, i).end <= hva);
}

static void add_place(struct vms_ram *ram, const struct vms_ram_place *place,
		      const GArray *mappings)
{
	for (guint i = find_mapping(mappings, place->hva); i < mappings->len; i++) {
		const struct vms_proc_mapping *mapping =
			&g_array_index(mappings, struct vms_proc_mapping, i);
		if (mapping->start > place->hva && mapping->start - place->hva >= place->size)
			break;
		add_mapped_part(ram, place, mapping);
	}
}

/* See ram.h. */
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

/* What cannot be read without a wait is left out. */
static void make_opaque(struct vms_ram *ram)
{
	if (ram->mem < 0)
		g_array_set_size(ram->parts, 0);
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
	*ram = (struct vms_ram) { .process = process, .pagemap = -1, .mem = -1 };
	ram->parts = g_array_new(FALSE, FALSE, sizeof(struct vms_ram_part));
	ram->files = g_ptr_array_new_with_free_func(free_file);
	g_autofree char *mem = vms_host_process_path(process->pid, "mem");
	ram->pagemap = open(pagemap, O_RDONLY | O_CLOEXEC);
	ram->mem = open(mem, O_RDONLY | O_CLOEXEC);
	g_autoptr(GArray) mappings = read_mappings(process->pid);
	for (size_t i = 0; i < n_places; i++)
		add_place(ram, &places[i], mappings);
	ram->is_fetched = has_userfaultfd(process->pid);
	if (ram->is_fetched)
		make_opaque(ram);
	/* If it has ended, what was read may be about another process with its pid. */
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
	if (ram->mem >= 0)
		close(ram->mem);
}
