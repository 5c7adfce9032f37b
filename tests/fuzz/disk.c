/* SPDX-License-Identifier: MIT */
/*
 * A disk of any content: its partitions, an ext4 file system, a qcow2 image, which may be based on
 * itself, logical volumes. Input: a byte that says how to read it, then parts of the disk: offset
 * (3 bytes), size (1 byte), bytes. The rest of the disk is zeros.
 *
 * Covers: src/disk/partitions.c src/disk/ext4.c src/disk/qcow2.c
 * src/disk/lvm.c src/disk/lvm_text.c.
 */
#include "base/bytes.h"
#include "disk/ext4.h"
#include "disk/lvm.h"
#include "disk/partitions.h"
#include "disk/qcow2.h"

#define DISK_SIZE (512u << 10)
#define INODES	  24

enum { PARTITIONS, FILE_SYSTEM, IMAGE, IMAGE_ON_ITSELF, VOLUMES, N_KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes a disk on the budget of the input. */
static struct vms_file_source make_disk(struct vms_bytes input)
{
	uint8_t *disk = g_malloc0(DISK_SIZE);
	uint8_t low, middle, high, n;
	for (size_t at = 1; vms_bytes_u8(input, at, &low) && vms_bytes_u8(input, at + 1, &middle) &&
			    vms_bytes_u8(input, at + 2, &high) && vms_bytes_u8(input, at + 3, &n);
	     at += 4u + n) {
		const size_t offset = ((uint32_t)high << 16 | (uint32_t)middle << 8 | low) %
				      (DISK_SIZE - UINT8_MAX);
		struct vms_bytes part;
		if (!vms_bytes_slice(input, at + 4, n, &part))
			break;
		memcpy(disk + offset, part.data, n);
	}
	struct vms_file_source source = vms_file_source_of_memory(disk, DISK_SIZE);
	source.budget = input.budget;
	return source;
}

/* Reads a few places of a file or a disk. */
static void read_some(const struct vms_file_source *source)
{
	uint8_t bytes[3000];
	for (uint64_t at = 0, n = 0; n < 8 && at < source->size; n++, at = at * 3 + 2500)
		vms_file_source_read(source, at, bytes, MIN(sizeof(bytes), source->size - at));
	if (source->size >= sizeof(bytes))
		vms_file_source_read(source, source->size - sizeof(bytes), bytes, sizeof(bytes));
}

static void read_file_system(const struct vms_file_source *disk, uint64_t offset, uint64_t size)
{
	struct vms_ext4_file file;
	struct vms_ext4 *fs = vms_ext4_open(disk, offset, size, NULL);
	for (uint64_t i = 0; fs && i < INODES; i++) {
		if (!vms_ext4_open_file(fs, i, &file, NULL))
			continue;
		read_some(&file.source);
		vms_file_source_clear(&file.source);
	}
	vms_ext4_free(fs);
}

static void read_partitions(const struct vms_file_source *disk)
{
	g_autoptr(GArray) parts = vms_partitions_list(disk);
	for (guint i = 0; i < parts->len; i++) {
		const struct vms_partition *part = &g_array_index(parts, struct vms_partition, i);
		g_assert_cmpuint(part->offset, <=, disk->size);
		g_assert_cmpuint(part->size, <=, disk->size - part->offset);
		if (i < 4)
			read_file_system(disk, part->offset, part->size);
	}
}

static void read_image(struct vms_bytes input, bool is_based)
{
	const struct vms_file_source file = make_disk(input);
	const struct vms_file_source backing =
		is_based ? make_disk(input) : (struct vms_file_source) { 0 };
	struct vms_file_source disk;
	g_free(vms_qcow2_backing(&file));
	if (!vms_qcow2_open(&file, &backing, &disk, NULL))
		return;
	read_some(&disk);
	read_file_system(&disk, 0, disk.size);
	vms_file_source_clear(&disk);
}

/* Reads the volumes of a group whose second half is on another disk. */
static void read_volumes(const struct vms_file_source *disk)
{
	struct vms_lvm *lvm = vms_lvm_new();
	vms_lvm_add(lvm, disk, 0, disk->size / 2);
	vms_lvm_add(lvm, disk, disk->size / 2, disk->size / 2);
	g_autoptr(GPtrArray) volumes = vms_lvm_list(lvm);
	for (guint i = 0; i < volumes->len; i++) {
		const struct vms_lvm_volume *volume = volumes->pdata[i];
		g_assert_true(!volume->obstacle || !volume->source.read);
		if (volume->source.read)
			read_some(&volume->source);
	}
	vms_lvm_free(lvm);
}

static void read_kind(struct vms_bytes input, unsigned kind)
{
	if (kind == IMAGE || kind == IMAGE_ON_ITSELF) {
		read_image(input, kind == IMAGE_ON_ITSELF);
		return;
	}
	struct vms_file_source disk = make_disk(input);
	if (kind == PARTITIONS)
		read_partitions(&disk);
	else if (kind == VOLUMES)
		read_volumes(&disk);
	else
		read_file_system(&disk, 0, disk.size);
	vms_file_source_clear(&disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autoptr(vms_budget) budget = vms_budget_new(NULL, NULL);
	const struct vms_bytes input = { data, size, budget };
	read_kind(input, size > 0 ? data[0] % N_KINDS : PARTITIONS);
	return 0;
}
