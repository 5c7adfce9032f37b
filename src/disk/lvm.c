/* SPDX-License-Identifier: MIT */
/*
 * The layouts: lvm2, lib/label/label.h, lib/format_text/layout.h (label, physical volume, metadata
 * area) and lib/format_text/export.c (the text). Checksums are not compared: what a guest is just
 * writing makes no text, or a volume without the file system that is looked for.
 */
#include "disk/lvm.h"
#include "base/bytes.h"
#include "disk/lvm_text.h"

#define SECTOR	       512u
#define LABEL_SECTORS  4
#define ID_SIZE	       32u
#define AREAS_LIMIT    16
#define AREA_HEADER    512u /* bytes; the text goes round behind it */
#define TEXT_LIMIT     (4u << 20)
#define VOLUMES_LIMIT  256 /* physical ones, of all groups */
#define LOGICAL_LIMIT  1024
#define SEGMENTS_LIMIT (1u << 14) /* of all logical volumes of a group */
#define EXTENT_SECTORS (UINT64_C(1) << 32)
#define SECTORS_LIMIT  (UINT64_MAX / SECTOR / 4)

struct physical {
	const struct vms_file_source *disk;
	uint64_t offset, size; /* bytes */
	char id[ID_SIZE + 1];
};

struct group {
	const char *id; /* of `text` */
	uint64_t sequence;
	struct vms_lvm_node *text;
	const struct vms_lvm_node *section;
};

struct vms_lvm {
	GArray *physical; /* struct physical */
	GArray *groups;	  /* struct group */
};

/* A piece of a logical volume. */
struct segment {
	uint64_t start, size; /* bytes of the logical volume */
	const struct vms_file_source *disk;
	uint64_t place; /* on the disk */
};

static void clear_group(void *data)
{
	vms_lvm_node_free(((struct group *)data)->text);
}

struct vms_lvm *vms_lvm_new(void)
{
	struct vms_lvm *lvm = g_new0(struct vms_lvm, 1);
	lvm->physical = g_array_new(FALSE, FALSE, sizeof(struct physical));
	lvm->groups = g_array_new(FALSE, FALSE, sizeof(struct group));
	g_array_set_clear_func(lvm->groups, clear_group);
	return lvm;
}

void vms_lvm_free(struct vms_lvm *lvm)
{
	if (!lvm)
		return;
	g_array_unref(lvm->physical);
	g_array_unref(lvm->groups);
	g_free(lvm);
}

/* ---- physical volumes ------------------------------------------------- */

static bool read_part(const struct physical *physical, uint64_t at, void *buf, size_t size)
{
	return at <= physical->size && size <= physical->size - at &&
	       vms_file_source_read(physical->disk, physical->offset + at, buf, size);
}

/* Adds what a text tells of a group, unless a newer text is known. Takes the text. */
static void add_group(struct vms_lvm *lvm, struct vms_lvm_node *text)
{
	struct group group = { .text = text };
	for (guint i = 0; i < text->children->len && !group.section; i++) {
		const struct vms_lvm_node *child = text->children->pdata[i];
		group.section = child->children ? child : NULL;
	}
	group.id = group.section ? vms_lvm_node_string(group.section, "id") : NULL;
	if (!group.id || !vms_lvm_node_number(group.section, "seqno", &group.sequence)) {
		vms_lvm_node_free(text);
		return;
	}
	for (guint i = 0; i < lvm->groups->len; i++) {
		struct group *known = &g_array_index(lvm->groups, struct group, i);
		if (strcmp(known->id, group.id) != 0)
			continue;
		if (known->sequence < group.sequence) {
			clear_group(known);
			*known = group;
		} else {
			vms_lvm_node_free(text);
		}
		return;
	}
	g_array_append_val(lvm->groups, group);
}

/* Reads the text that is current in a metadata area. The area is a ring behind its header. */
static void read_area(struct vms_lvm *lvm, const struct physical *physical, uint64_t start,
		      uint64_t size)
{
	static const char magic[] = " LVM2 x[5A%r0N*>";
	uint8_t header[AREA_HEADER];
	const struct vms_bytes bytes = { header, sizeof(header) };
	uint64_t at, text_size;
	if (!read_part(physical, start, header, sizeof(header)) ||
	    memcmp(header + 4, magic, sizeof(magic) - 1) != 0 || !vms_bytes_u64(bytes, 40, &at) ||
	    !vms_bytes_u64(bytes, 48, &text_size) || at < AREA_HEADER || at >= size ||
	    text_size == 0 || text_size > TEXT_LIMIT || text_size > size - AREA_HEADER)
		return;
	g_autofree char *text = g_malloc(text_size);
	const uint64_t first = MIN(text_size, size - at);
	if (!read_part(physical, start + at, text, first) ||
	    !read_part(physical, start + AREA_HEADER, text + first, text_size - first))
		return;
	struct vms_lvm_node *parsed = vms_lvm_text_parse(text, text_size);
	if (parsed)
		add_group(lvm, parsed);
}

/* Reads the header of a physical volume: its id, areas of data, and areas of metadata. */
static bool read_header(struct vms_lvm *lvm, struct physical *physical, struct vms_bytes header)
{
	struct vms_bytes id;
	uint64_t start, size;
	bool is_metadata = false;
	if (!vms_bytes_slice(header, 0, ID_SIZE, &id))
		return false;
	memcpy(physical->id, id.data, ID_SIZE);
	g_array_append_val(lvm->physical, *physical);
	for (unsigned i = 0; i < AREAS_LIMIT && vms_bytes_u64(header, 40 + i * 16, &start) &&
			     vms_bytes_u64(header, 48 + i * 16, &size);
	     i++) {
		if (is_metadata && start == 0)
			break;
		if (is_metadata)
			read_area(lvm, physical, start, size);
		is_metadata |= start == 0;
	}
	return true;
}

bool vms_lvm_add(struct vms_lvm *lvm, const struct vms_file_source *disk, uint64_t offset,
		 uint64_t size)
{
	struct physical physical = { .disk = disk, .offset = offset, .size = size };
	uint8_t sector[SECTOR];
	const struct vms_bytes bytes = { sector, sizeof(sector) };
	for (unsigned i = 0; i < LABEL_SECTORS; i++) {
		struct vms_bytes header;
		uint32_t at;
		if (read_part(&physical, (uint64_t)i * SECTOR, sector, sizeof(sector)) &&
		    memcmp(sector, "LABELONE", 8) == 0 && memcmp(sector + 24, "LVM2 001", 8) == 0 &&
		    vms_bytes_u32(bytes, 20, &at) &&
		    vms_bytes_slice(bytes, at, sizeof(sector) - MIN(at, sizeof(sector)), &header))
			return lvm->physical->len < VOLUMES_LIMIT &&
			       read_header(lvm, &physical, header);
	}
	return false;
}

/* ---- logical volumes -------------------------------------------------- */

static int compare_segments(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Finds the segment that has a byte of the volume, which is one block without gaps. */
static const struct segment *find_segment(const GArray *segments, uint64_t offset)
{
	guint low = 0, high = segments->len;
	while (low < high) {
		const guint middle = low + (high - low) / 2;
		if (g_array_index(segments, struct segment, middle).start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return &g_array_index(segments, struct segment, low - 1);
}

static bool read_volume(void *data, uint64_t offset, void *buf, size_t size)
{
	uint8_t *to = buf;
	while (size > 0) {
		const struct segment *segment = find_segment(data, offset);
		const uint64_t within = offset - segment->start;
		const size_t part = MIN(size, segment->size - within);
		if (!vms_file_source_read(segment->disk, segment->place + within, to, part))
			return false;
		offset += part;
		to += part;
		size -= part;
	}
	return true;
}

static void free_segments(void *data)
{
	g_array_unref(data);
}

/* True if a physical volume has this id, which a text divides by hyphens. */
static bool has_id(const struct physical *physical, const char *text)
{
	const char *id = physical->id;
	for (; *text; text++)
		if (*text != '-' && *text != *id++)
			return false;
	return !*id;
}

/* Finds the physical volume that a group calls `name`, and where its extents begin on the disk. */
static const struct physical *find_physical(const struct vms_lvm *lvm, const struct group *group,
					    const char *name, uint64_t *start)
{
	const struct vms_lvm_node *section = vms_lvm_node_section(
		vms_lvm_node_section(group->section, "physical_volumes"), name);
	const char *id = section ? vms_lvm_node_string(section, "id") : NULL;
	if (!id || !vms_lvm_node_number(section, "pe_start", start) || *start > SECTORS_LIMIT)
		return NULL;
	for (guint i = 0; i < lvm->physical->len; i++) {
		const struct physical *one = &g_array_index(lvm->physical, struct physical, i);
		if (has_id(one, id))
			return one;
	}
	return NULL;
}

/* Adds a segment. Returns why it cannot, or NULL. */
static const char *add_segment(const struct vms_lvm *lvm, const struct group *group,
			       const struct vms_lvm_node *section, uint64_t extent_sectors,
			       GArray *segments)
{
	const char *type = vms_lvm_node_string(section, "type");
	const char *name = vms_lvm_node_item(section, "stripes", 0);
	const char *first_text = vms_lvm_node_item(section, "stripes", 1);
	uint64_t start, n, n_stripes, first, data_start;
	if (!type || strcmp(type, "striped") != 0 ||
	    !vms_lvm_node_number(section, "stripe_count", &n_stripes) || n_stripes != 1)
		return "it is not linear, which is not read";
	if (!vms_lvm_node_number(section, "start_extent", &start) ||
	    !vms_lvm_node_number(section, "extent_count", &n) || n == 0 || !name || !first_text ||
	    !g_ascii_string_to_unsigned(first_text, 10, 0, G_MAXUINT64, &first, NULL) ||
	    start > SECTORS_LIMIT / extent_sectors || n > SECTORS_LIMIT / extent_sectors ||
	    first > SECTORS_LIMIT / extent_sectors)
		return "its description is malformed";
	const struct physical *physical = find_physical(lvm, group, name, &data_start);
	if (!physical)
		return "a disk of its group is missing";
	const struct segment segment = {
		.start = start * extent_sectors * SECTOR,
		.size = n * extent_sectors * SECTOR,
		.disk = physical->disk,
		.place = physical->offset + (data_start + first * extent_sectors) * SECTOR,
	};
	g_array_append_val(segments, segment);
	return NULL;
}

/* Sets up a volume from the segments that its section has. */
static void fill_volume(const struct vms_lvm *lvm, const struct group *group,
			const struct vms_lvm_node *section, uint64_t extent_sectors,
			unsigned *budget, struct vms_lvm_volume *volume)
{
	GArray *segments = g_array_new(FALSE, FALSE, sizeof(struct segment));
	const char *obstacle = NULL;
	uint64_t end = 0;
	for (guint i = 0; i < section->children->len && !obstacle; i++) {
		const struct vms_lvm_node *child = section->children->pdata[i];
		if (!child->children || !g_str_has_prefix(child->name, "segment"))
			continue;
		obstacle = *budget > 0 ? add_segment(lvm, group, child, extent_sectors, segments)
				       : "its group has too many segments";
		*budget -= *budget > 0;
	}
	g_array_sort(segments, compare_segments);
	for (guint i = 0; i < segments->len && !obstacle; i++) {
		const struct segment *one = &g_array_index(segments, struct segment, i);
		if (one->start != end)
			obstacle = "its description is malformed";
		end = one->start + one->size;
	}
	volume->obstacle = g_strdup(obstacle);
	if (obstacle) {
		g_array_unref(segments);
		return;
	}
	volume->source = (struct vms_file_source) {
		.size = end,
		.read = read_volume,
		.free = free_segments,
		.data = segments,
	};
}

static void free_volume(void *data)
{
	struct vms_lvm_volume *volume = data;
	vms_file_source_clear(&volume->source);
	g_free(volume->obstacle);
	g_free(volume->name);
	g_free(volume);
}

static void list_group(const struct vms_lvm *lvm, const struct group *group, GPtrArray *volumes)
{
	const struct vms_lvm_node *logical =
		vms_lvm_node_section(group->section, "logical_volumes");
	unsigned budget = SEGMENTS_LIMIT;
	uint64_t extent_sectors;
	if (!vms_lvm_node_number(group->section, "extent_size", &extent_sectors) ||
	    extent_sectors == 0 || extent_sectors > EXTENT_SECTORS)
		return;
	for (guint i = 0; logical && i < logical->children->len && volumes->len < LOGICAL_LIMIT;
	     i++) {
		const struct vms_lvm_node *child = logical->children->pdata[i];
		if (!child->children)
			continue;
		struct vms_lvm_volume *volume = g_new0(struct vms_lvm_volume, 1);
		volume->name = g_strdup_printf("%s/%s", group->section->name, child->name);
		fill_volume(lvm, group, child, extent_sectors, &budget, volume);
		g_ptr_array_add(volumes, volume);
	}
}

GPtrArray *vms_lvm_list(const struct vms_lvm *lvm)
{
	GPtrArray *volumes = g_ptr_array_new_with_free_func(free_volume);
	for (guint i = 0; i < lvm->groups->len; i++)
		list_group(lvm, &g_array_index(lvm->groups, struct group, i), volumes);
	return volumes;
}
