/* SPDX-License-Identifier: MIT */
/*
 * The layouts: UEFI specification, "GUID Partition Table (GPT) Disk Layout" and "Legacy Master Boot
 * Record".
 */
#include "disk/partitions.h"
#include "base/bytes.h"

#define SECTOR		 512
#define SIGNATURE_OFFSET 510
#define SIGNATURE	 0xaa55
#define ENTRIES_OFFSET	 446
#define ENTRY_SIZE	 16
#define PARTITIONS_LIMIT 256
#define LOGICAL_LIMIT	 64
#define GPT_ENTRY_MAX	 4096
enum {
	TYPE_NONE = 0,
	TYPE_EXTENDED = 5,
	TYPE_EXTENDED_LBA = 15,
	TYPE_LINUX_EXTENDED = 0x85,
	TYPE_GPT = 0xee
};

static void add_partition(GArray *partitions, const struct vms_file_source *disk, uint64_t offset,
			  uint64_t size)
{
	const struct vms_partition partition = { offset, size };
	if (size > 0 && offset > 0 && offset < disk->size && size <= disk->size - offset &&
	    partitions->len < PARTITIONS_LIMIT)
		g_array_append_val(partitions, partition);
}

/* ---- MBR -------------------------------------------------------------- */

struct entry {
	uint8_t type;
	uint32_t start, n_sectors;
};

static bool read_mbr(const struct vms_file_source *disk, uint64_t offset, struct entry entries[4])
{
	uint8_t sector[SECTOR];
	const struct vms_bytes bytes = { sector, sizeof(sector) };
	uint16_t signature;
	if (!vms_file_source_read(disk, offset, sector, sizeof(sector)) ||
	    !vms_bytes_u16(bytes, SIGNATURE_OFFSET, &signature) || signature != SIGNATURE)
		return false;
	for (unsigned i = 0; i < 4; i++) {
		const unsigned at = ENTRIES_OFFSET + i * ENTRY_SIZE;
		vms_bytes_u8(bytes, at + 4, &entries[i].type);
		vms_bytes_u32(bytes, at + 8, &entries[i].start);
		vms_bytes_u32(bytes, at + 12, &entries[i].n_sectors);
	}
	return true;
}

static bool is_extended(uint8_t type)
{
	return type == TYPE_EXTENDED || type == TYPE_EXTENDED_LBA || type == TYPE_LINUX_EXTENDED;
}

/* Adds logical partitions: a chain of records, each with one partition and the next record. */
static void add_logical(GArray *partitions, const struct vms_file_source *disk, uint64_t start)
{
	uint64_t record = start;
	for (unsigned i = 0; i < LOGICAL_LIMIT; i++) {
		struct entry entries[4];
		if (!read_mbr(disk, record * SECTOR, entries))
			return;
		add_partition(partitions, disk, (record + entries[0].start) * SECTOR,
			      (uint64_t)entries[0].n_sectors * SECTOR);
		if (!is_extended(entries[1].type))
			return;
		record = start + entries[1].start;
	}
}

/* ---- GPT -------------------------------------------------------------- */

static void add_gpt(GArray *partitions, const struct vms_file_source *disk, uint64_t sector)
{
	uint8_t header[92], entry[48];
	const struct vms_bytes bytes = { header, sizeof(header) };
	const struct vms_bytes entry_bytes = { entry, sizeof(entry) };
	uint64_t table, type[2], first, last;
	uint32_t n, size;
	if (!vms_file_source_read(disk, sector, header, sizeof(header)) ||
	    memcmp(header, "EFI PART", 8) != 0 || !vms_bytes_u64(bytes, 72, &table) ||
	    !vms_bytes_u32(bytes, 80, &n) || !vms_bytes_u32(bytes, 84, &size) ||
	    size < sizeof(entry) || size > GPT_ENTRY_MAX || table > disk->size / sector)
		return;
	for (uint32_t i = 0; i < MIN(n, PARTITIONS_LIMIT); i++) {
		if (!vms_file_source_read(disk, table * sector + (uint64_t)i * size, entry,
					  sizeof(entry)))
			return;
		vms_bytes_u64(entry_bytes, 0, &type[0]);
		vms_bytes_u64(entry_bytes, 8, &type[1]);
		vms_bytes_u64(entry_bytes, 32, &first);
		vms_bytes_u64(entry_bytes, 40, &last);
		if ((type[0] | type[1]) && first <= last && last < disk->size / sector)
			add_partition(partitions, disk, first * sector,
				      (last - first + 1) * sector);
	}
}

GArray *vms_partitions_list(const struct vms_file_source *disk)
{
	GArray *partitions = g_array_new(FALSE, FALSE, sizeof(struct vms_partition));
	const struct vms_partition whole = { 0, disk->size };
	struct entry entries[4];
	bool is_gpt = false;
	g_array_append_val(partitions, whole);
	if (!read_mbr(disk, 0, entries))
		return partitions;
	for (unsigned i = 0; i < 4; i++)
		is_gpt |= entries[i].type == TYPE_GPT;
	for (uint64_t sector = SECTOR; is_gpt && sector <= 4096; sector *= 8)
		add_gpt(partitions, disk, sector);
	for (unsigned i = 0; i < 4 && !is_gpt; i++) {
		if (is_extended(entries[i].type))
			add_logical(partitions, disk, entries[i].start);
		else if (entries[i].type != TYPE_NONE)
			add_partition(partitions, disk, (uint64_t)entries[i].start * SECTOR,
				      (uint64_t)entries[i].n_sectors * SECTOR);
	}
	return partitions;
}
