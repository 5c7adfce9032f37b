/* SPDX-License-Identifier: MIT */
#include "disk/disks.h"
#include "disk/lvm.h"
#include "disk/partitions.h"
#include "disk/qcow2.h"
#include <string.h>

#define BACKING_DEPTH	16
#define OBSTACLES_LIMIT 1024 /* bytes of text */

struct vms_disks {
	struct vms_budget *budget;
	GArray *images;	    /* struct vms_disk_image */
	GPtrArray *sources; /* struct vms_file_source: the disks */
	GPtrArray *budgets; /* those of the disks */
	GPtrArray *volumes; /* struct vms_ext4 */
	struct vms_lvm *lvm;
	GPtrArray *logical; /* struct vms_lvm_volume; NULL until all disks are known */
	GString *obstacles; /* why disks cannot be read */
};

static void clear_image(void *data)
{
	struct vms_disk_image *image = data;
	vms_file_source_clear(&image->file);
	g_free(image->path);
}

static void free_source(void *data)
{
	vms_file_source_clear(data);
	g_free(data);
}

static void free_volume(void *data)
{
	vms_ext4_free(data);
}

static void unref_budget(void *data)
{
	vms_budget_unref(data);
}

void vms_disks_free(struct vms_disks *disks)
{
	if (!disks)
		return;
	g_ptr_array_unref(disks->volumes);
	if (disks->logical)
		g_ptr_array_unref(disks->logical);
	vms_lvm_free(disks->lvm);
	g_ptr_array_unref(disks->sources);
	g_ptr_array_unref(disks->budgets);
	g_array_unref(disks->images);
	g_string_free(disks->obstacles, TRUE);
	vms_budget_unref(disks->budget);
	g_free(disks);
}

static void note_obstacle(struct vms_disks *disks, const char *path, const char *reason)
{
	if (disks->obstacles->len < OBSTACLES_LIMIT)
		g_string_append_printf(disks->obstacles, "%s%s: %s",
				       disks->obstacles->len ? "; " : "", path, reason);
}

/* ---- images ----------------------------------------------------------- */

static bool open_image(const struct vms_disks *disks, int number, unsigned depth,
		       struct vms_budget *budget, struct vms_file_source *ret, GError **error)
{
	const struct vms_disk_image *image =
		&g_array_index(disks->images, struct vms_disk_image, number);
	struct vms_file_source file = image->file, backing = { 0 };
	file.free = NULL; /* the images own it */
	file.budget = budget;
	if (!vms_qcow2_is_image(&file)) {
		*ret = file;
		return true;
	}
	g_autofree char *name = vms_qcow2_backing(&file);
	if (name && (image->base < 0 || depth == 0)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "it is based on %s, which cannot be found among QEMU's open files",
			    name);
		return false;
	}
	return (!name || open_image(disks, image->base, depth - 1, budget, &backing, error)) &&
	       vms_qcow2_open(&file, &backing, ret, error);
}

static bool is_base_of_another(const struct vms_disks *disks, int number)
{
	for (guint i = 0; i < disks->images->len; i++)
		if (g_array_index(disks->images, struct vms_disk_image, i).base == number)
			return true;
	return false;
}

/* ---- file systems ----------------------------------------------------- */

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

/* Adds what a part of a disk holds. `lvm`: NULL on a logical volume, where no others are. */
static void add_part(struct vms_disks *disks, struct vms_lvm *lvm,
		     const struct vms_file_source *disk, const struct vms_partition *part,
		     const char *path)
{
	g_autoptr(GError) error = NULL;
	struct vms_ext4 *fs = vms_ext4_open(disk, part->offset, part->size, &error);
	if (fs) {
		g_ptr_array_add(disks->volumes, fs);
		return;
	}
	if (lvm && vms_lvm_add(lvm, disk, part->offset, part->size))
		return;
	const char *contents = name_contents(disk, part);
	if (contents)
		note_obstacle(disks, path, contents);
	else if (!g_error_matches(error, VMS_ERROR, VMS_ERROR_NOT_FOUND))
		note_obstacle(disks, path, error->message);
}

static void add_parts(struct vms_disks *disks, struct vms_lvm *lvm,
		      const struct vms_file_source *disk, const char *path)
{
	g_autoptr(GArray) parts = vms_partitions_list(disk);
	for (guint i = 0; i < parts->len; i++) {
		if (!vms_budget_take(disk->budget, VMS_BUDGET_ITEMS, 1) ||
		    !vms_budget_step(disk->budget, 1)) {
			note_obstacle(disks, path, "it holds more than can be read");
			return;
		}
		add_part(disks, lvm, disk, &g_array_index(parts, struct vms_partition, i), path);
	}
}

static void add_disk(struct vms_disks *disks, int number)
{
	const struct vms_disk_image *image =
		&g_array_index(disks->images, struct vms_disk_image, number);
	g_autofree char *what = g_strdup_printf("the guest's disk %s", image->path);
	struct vms_budget *budget = vms_budget_new_part(disks->budget, what);
	if (budget)
		g_ptr_array_add(disks->budgets, budget);
	g_autoptr(GError) error = NULL;
	struct vms_file_source *disk = g_new0(struct vms_file_source, 1);
	if (open_image(disks, number, BACKING_DEPTH, budget, disk, &error)) {
		g_ptr_array_add(disks->sources, disk);
		add_parts(disks, disks->lvm, disk, image->path);
		return;
	}
	note_obstacle(disks, image->path, error->message);
	g_free(disk);
}

/* Adds what logical volumes hold, once all disks are known that they may lie on. */
static void add_logical_volumes(struct vms_disks *disks)
{
	disks->logical = vms_lvm_list(disks->lvm);
	for (guint i = 0; i < disks->logical->len; i++) {
		const struct vms_lvm_volume *volume = disks->logical->pdata[i];
		if (volume->obstacle)
			note_obstacle(disks, volume->name, volume->obstacle);
		else if (volume->source.read)
			add_parts(disks, NULL, &volume->source, volume->name);
	}
}

struct vms_disks *vms_disks_scan(const struct vms_disk_image *images, size_t n,
				 struct vms_budget *budget)
{
	struct vms_disks *disks = g_new0(struct vms_disks, 1);
	disks->budget = budget ? vms_budget_ref(budget) : NULL;
	disks->images = g_array_new(FALSE, FALSE, sizeof(*images));
	g_array_set_clear_func(disks->images, clear_image);
	if (n > 0)
		g_array_append_vals(disks->images, images, (guint)n);
	disks->sources = g_ptr_array_new_with_free_func(free_source);
	disks->budgets = g_ptr_array_new_with_free_func(unref_budget);
	disks->volumes = g_ptr_array_new_with_free_func(free_volume);
	disks->lvm = vms_lvm_new();
	disks->obstacles = g_string_new(NULL);
	for (guint i = 0; i < n; i++)
		if (!is_base_of_another(disks, (int)i))
			add_disk(disks, (int)i);
	add_logical_volumes(disks);
	if (n == 0)
		g_string_append(disks->obstacles, "QEMU has none open as a file of this host");
	return disks;
}

/* ---- files ------------------------------------------------------------ */

/* Opens a file, if it is the one that is looked for. */
static bool open_same_file(struct vms_ext4 *fs, const struct vms_drive_file *file,
			   struct vms_file_source *ret, GError **error)
{
	struct vms_ext4_file found;
	if (!vms_ext4_open_file(fs, file->inode, &found, error))
		return false;
	*ret = found.source;
	if (found.source.size == file->size &&
	    (!file->has_change || found.change_s == file->change_s))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "it has another %s on the disk",
		    found.source.size == file->size ? "time of change" : "size");
	vms_file_source_clear(ret);
	return false;
}

bool vms_disks_open_file(struct vms_disks *disks, const struct vms_drive_file *file, unsigned copy,
			 struct vms_file_source *ret, GError **error)
{
	g_autoptr(GError) reason = NULL;
	for (guint i = 0; i < disks->volumes->len; i++) {
		struct vms_ext4 *fs = disks->volumes->pdata[i];
		if (memcmp(vms_ext4_uuid(fs), file->uuid, sizeof(file->uuid)) != 0)
			continue;
		g_clear_error(&reason);
		if (!open_same_file(fs, file, ret, &reason))
			continue;
		if (copy-- == 0)
			return true;
		vms_file_source_clear(ret);
		g_set_error(&reason, VMS_ERROR, VMS_ERROR_NOT_FOUND, "it has no more copies");
	}
	if (reason)
		g_propagate_error(error, g_steal_pointer(&reason));
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "its file system is on none of the disks that can be read%s%s%s",
			    disks->obstacles->len ? " (" : "", disks->obstacles->str,
			    disks->obstacles->len ? ")" : "");
	return false;
}
