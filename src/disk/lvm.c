/* SPDX-License-Identifier: MIT */
/*
 * The layouts: lvm2, lib/label/label.h, lib/format_text/layout.h (label, physical volume, metadata
 * area) and lib/format_text/export.c (the text). Checksums are not compared: what a guest is just
 * writing makes no text, or a volume without the file system that is looked for.
 */
#include "disk/lvm.h"
#include "base/keyed_hash.h"
#include "base/search.h"
#include "disk/lvm_text.h"

#define SECTOR	       512u
#define LABEL_SECTORS  4
#define ID_SIZE	       32u
#define AREAS_LIMIT    16
#define AREA_HEADER    512u /* bytes; the text goes round behind it */
#define TEXT_LIMIT     (4u << 20)
#define SEGMENT_STEPS  20 /* to find out where one lies */
#define EXTENT_SECTORS (UINT64_C(1) << 32)
#define SECTORS_LIMIT  (UINT64_MAX / SECTOR / 4)

struct physical {
	const struct vms_file_source *disk;
	uint64_t offset, size; /* bytes */
	char id[ID_SIZE + 1];
	char *group;	   /* id of the group that its own text is of; NULL: it has no text */
	unsigned instance; /* how many with the same id are before it: those are clones */
};

struct group {
	const char *id; /* of `text` */
	unsigned instance;
	uint64_t sequence;
	struct vms_lvm_text *text;
	const struct vms_lvm_node *section;
};

struct vms_lvm {
	GPtrArray *physical; /* struct physical */
	GHashTable *by_id;   /* GPtrArray of struct physical with the same id, not owned */
	GPtrArray *groups;   /* struct group */
	GHashTable *by_name; /* the same by id and instance, not owned */
};

/* A piece of a logical volume. */
struct segment {
	uint64_t start, size; /* bytes of the logical volume */
	const struct vms_file_source *disk;
	uint64_t place; /* on the disk */
};

/* The pieces of a logical volume, and who pays for them. */
struct pieces {
	GArray *segments; /* struct segment, by `start` */
	struct vms_budget *budget;
	uint64_t bytes; /* that were taken of it */
};

static void free_group(void *data)
{
	struct group *group = data;
	vms_lvm_text_free(group->text);
	g_free(group);
}

static void free_physical(void *data)
{
	struct physical *physical = data;
	vms_budget_give_back(physical->disk->budget, VMS_BUDGET_BYTES, sizeof(*physical));
	g_free(physical->group);
	g_free(physical);
}

static void unref_array(void *data)
{
	g_ptr_array_unref(data);
}

struct vms_lvm *vms_lvm_new(void)
{
	struct vms_lvm *lvm = g_new0(struct vms_lvm, 1);
	lvm->physical = g_ptr_array_new_with_free_func(free_physical);
	lvm->by_id = g_hash_table_new_full(vms_hash_text, g_str_equal, NULL, unref_array);
	lvm->groups = g_ptr_array_new_with_free_func(free_group);
	lvm->by_name = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	return lvm;
}

void vms_lvm_free(struct vms_lvm *lvm)
{
	if (!lvm)
		return;
	g_hash_table_unref(lvm->by_id);
	g_ptr_array_unref(lvm->physical);
	g_hash_table_unref(lvm->by_name);
	g_ptr_array_unref(lvm->groups);
	g_free(lvm);
}

/* ---- physical volumes ------------------------------------------------- */

static bool read_part(const struct physical *physical, uint64_t at, void *buf, size_t size)
{
	return at <= physical->size && size <= physical->size - at &&
	       vms_file_source_read(physical->disk, physical->offset + at, buf, size);
}

/*
 * Adds what a text on a physical volume tells of a group, unless a newer text is known. Takes the
 * text. A text on a clone tells of the clones.
 */
static void add_group(struct vms_lvm *lvm, struct physical *physical, struct vms_lvm_text *text)
{
	struct group group = { .text = text, .instance = physical->instance };
	const GPtrArray *children = text->root->children;
	for (guint i = 0; i < children->len && !group.section; i++) {
		const struct vms_lvm_node *child = children->pdata[i];
		group.section = child->children ? child : NULL;
	}
	group.id = group.section ? vms_lvm_node_string(group.section, "id") : NULL;
	if (!group.id || !vms_lvm_node_number(group.section, "seqno", &group.sequence)) {
		vms_lvm_text_free(text);
		return;
	}
	if (!physical->group)
		physical->group = g_strdup(group.id);
	g_autofree char *name = g_strdup_printf("%u %s", group.instance, group.id);
	struct group *known = g_hash_table_lookup(lvm->by_name, name);
	if (!known) {
		known = g_new0(struct group, 1);
		g_ptr_array_add(lvm->groups, known);
		g_hash_table_insert(lvm->by_name, g_steal_pointer(&name), known);
	}
	if (known->text && known->sequence >= group.sequence) {
		vms_lvm_text_free(text);
		return;
	}
	vms_lvm_text_free(known->text);
	*known = group;
}

/* Reads the text that is current in a metadata area. The area is a ring behind its header. */
static void read_area(struct vms_lvm *lvm, struct physical *physical, uint64_t start, uint64_t size)
{
	static const char magic[] = " LVM2 x[5A%r0N*>";
	struct vms_budget *budget = physical->disk->budget;
	uint8_t header[AREA_HEADER];
	const struct vms_bytes bytes = { header, sizeof(header) };
	uint64_t at, text_size;
	if (!read_part(physical, start, header, sizeof(header)) ||
	    memcmp(header + 4, magic, sizeof(magic) - 1) != 0 || !vms_bytes_u64(bytes, 40, &at) ||
	    !vms_bytes_u64(bytes, 48, &text_size) || at < AREA_HEADER || at >= size ||
	    text_size == 0 || text_size > TEXT_LIMIT || text_size > size - AREA_HEADER)
		return;
	g_autofree uint8_t *text = g_malloc(text_size);
	const uint64_t first = MIN(text_size, size - at);
	if (!read_part(physical, start + at, text, first) ||
	    !read_part(physical, start + AREA_HEADER, text + first, text_size - first))
		return;
	struct vms_lvm_text *parsed =
		vms_lvm_text_parse((struct vms_bytes) { text, text_size, budget });
	if (parsed)
		add_group(lvm, physical, parsed);
}

/* Adds a physical volume, behind those with the same id. Takes it. */
static void add_physical(struct vms_lvm *lvm, struct physical *physical)
{
	GPtrArray *same = g_hash_table_lookup(lvm->by_id, physical->id);
	g_ptr_array_add(lvm->physical, physical);
	if (!same) {
		same = g_ptr_array_new();
		g_hash_table_insert(lvm->by_id, physical->id, same);
	}
	physical->instance = same->len;
	g_ptr_array_add(same, physical);
}

/* Reads the header of a physical volume: its id, areas of data, and areas of metadata. */
static bool read_header(struct vms_lvm *lvm, const struct physical *place, struct vms_bytes header)
{
	struct vms_bytes id;
	uint64_t start, size;
	bool is_metadata = false;
	if (!vms_bytes_slice(header, 0, ID_SIZE, &id) ||
	    !vms_budget_take(place->disk->budget, VMS_BUDGET_BYTES, sizeof(*place)))
		return false;
	struct physical *physical = g_memdup2(place, sizeof(*place));
	memcpy(physical->id, id.data, ID_SIZE);
	add_physical(lvm, physical);
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
			return read_header(lvm, &physical, header);
	}
	return false;
}

/* ---- the bytes of a logical volume ------------------------------------ */

static gint compare_segments(gconstpointer a, gconstpointer b)
{
	const struct segment *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static bool read_volume(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct pieces *pieces = data;
	const struct segment *all = (const struct segment *)(const void *)pieces->segments->data;
	uint8_t *to = buf;
	while (size > 0) {
		const size_t next = VMS_SEARCH(pieces->segments->len, i, all[i].start <= offset);
		const struct segment *segment = &all[next - 1];
		const uint64_t within = offset - segment->start;
		const size_t part = MIN(size, segment->size - within);
		if (!vms_budget_step(pieces->budget, SEGMENT_STEPS) ||
		    !vms_file_source_read_part(segment->disk, segment->place + within, to, part))
			return false;
		offset += part;
		to += part;
		size -= part;
	}
	return true;
}

static void free_pieces(void *data)
{
	struct pieces *pieces = data;
	vms_budget_give_back(pieces->budget, VMS_BUDGET_BYTES, pieces->bytes);
	g_array_unref(pieces->segments);
	g_free(pieces);
}

/* ---- segments --------------------------------------------------------- */

/*
 * Finds the physical volume that a group calls `name`, and where its extents begin on the disk. A
 * volume that says itself that it is of another group is not found.
 */
static const struct physical *find_physical(const struct vms_lvm *lvm, const struct group *group,
					    const char *name, uint64_t *start)
{
	const struct vms_lvm_node *section = vms_lvm_node_section(
		vms_lvm_node_section(group->section, "physical_volumes"), name);
	const char *text = section ? vms_lvm_node_string(section, "id") : NULL;
	char id[ID_SIZE + 1];
	size_t n = 0;
	if (!text || !vms_lvm_node_number(section, "pe_start", start) || *start > SECTORS_LIMIT)
		return NULL;
	for (; *text && n < ID_SIZE + 1; text++) /* which hyphens divide */
		if (*text != '-')
			id[n++] = *text;
	if (n != ID_SIZE)
		return NULL;
	id[n] = '\0';
	const GPtrArray *same = g_hash_table_lookup(lvm->by_id, id);
	const struct physical *found =
		same ? same->pdata[MIN(group->instance, same->len - 1)] : NULL;
	return found && (!found->group || strcmp(found->group, group->id) == 0) ? found : NULL;
}

/* Returns why a segment cannot be read by what it is, or NULL if it can. */
static const char *check_kind(const struct vms_lvm_node *section)
{
	const char *type = vms_lvm_node_string(section, "type");
	uint64_t n_stripes;
	if (g_strcmp0(type, "thin") == 0)
		return "it is a thin volume, which is not read";
	if (g_strcmp0(type, "thin-pool") == 0)
		return "it is a pool of thin volumes, which is not read";
	if (g_strcmp0(type, "striped") != 0 ||
	    !vms_lvm_node_number(section, "stripe_count", &n_stripes) || n_stripes != 1)
		return "it is not linear, which is not read";
	return NULL;
}

/* Adds a segment. Returns why it cannot, or NULL. */
static const char *add_segment(const struct vms_lvm *lvm, const struct group *group,
			       const struct vms_lvm_node *section, uint64_t extent_sectors,
			       struct pieces *pieces)
{
	const char *obstacle = check_kind(section);
	const char *name = vms_lvm_node_item(section, "stripes", 0);
	const char *first_text = vms_lvm_node_item(section, "stripes", 1);
	uint64_t start, n, first, data_start;
	if (obstacle)
		return obstacle;
	if (!vms_budget_step(pieces->budget, SEGMENT_STEPS + (name ? strlen(name) : 0)))
		return "there are more segments than can be read";
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
	if (!vms_budget_take(pieces->budget, VMS_BUDGET_BYTES, sizeof(segment)))
		return "there are more segments than can be read";
	pieces->bytes += sizeof(segment);
	g_array_append_val(pieces->segments, segment);
	return NULL;
}

static bool is_segment(const struct vms_lvm_node *node)
{
	return node->children && g_str_has_prefix(node->name, "segment");
}

/* Fills the pieces from the segments that a section has. Returns why it cannot, or NULL. */
static const char *fill_pieces(const struct vms_lvm *lvm, const struct group *group,
			       const struct vms_lvm_node *section, uint64_t extent_sectors,
			       struct pieces *pieces)
{
	const char *obstacle = NULL;
	for (guint i = 0; i < section->children->len && !obstacle; i++) {
		const struct vms_lvm_node *child = section->children->pdata[i];
		if (is_segment(child))
			obstacle = add_segment(lvm, group, child, extent_sectors, pieces);
	}
	const uint64_t n = pieces->segments->len;
	if (!obstacle && !vms_budget_step(pieces->budget, n * g_bit_storage((gulong)n)))
		obstacle = "there are more segments than can be read";
	if (obstacle)
		return obstacle;
	g_array_sort(pieces->segments, compare_segments);
	uint64_t end = 0;
	for (guint i = 0; i < n; i++) {
		const struct segment *one = &g_array_index(pieces->segments, struct segment, i);
		if (one->start != end)
			return "its description is malformed";
		end = one->start + one->size;
	}
	return NULL;
}

/* ---- which volumes count ---------------------------------------------- */

/*
 * Adds the names in a segment that may be those of volumes which it consists of. The origin of a
 * snapshot, and of a thin volume, is a volume as others: what changes is elsewhere. LVM looks for a
 * name among the physical volumes first. False if the budget is used up.
 */
static bool note_used(const struct group *group, const struct vms_lvm_node *segment,
		      GHashTable *used)
{
	struct vms_budget *budget = group->text->budget;
	const struct vms_lvm_node *physical =
		vms_lvm_node_section(group->section, "physical_volumes");
	const char *type = vms_lvm_node_string(segment, "type");
	const bool has_origin = g_strcmp0(type, "snapshot") == 0 || g_strcmp0(type, "thin") == 0;
	for (guint i = 0; i < segment->children->len; i++) {
		const struct vms_lvm_node *child = segment->children->pdata[i];
		if (!child->values || strcmp(child->name, "type") == 0 ||
		    strcmp(child->name, "tags") == 0 ||
		    (has_origin && strcmp(child->name, "origin") == 0))
			continue;
		for (guint j = 0; j < child->values->len; j++) {
			char *name = child->values->pdata[j];
			if (!vms_budget_step(budget, SEGMENT_STEPS + strlen(name)))
				return false;
			if (!vms_lvm_node_section(physical, name))
				g_hash_table_add(used, name);
		}
	}
	return true;
}

/*
 * Returns the names that volumes of a group use. The keys are those of the text. NULL if the budget
 * is used up: then it is not known which volumes are parts of others.
 */
static GHashTable *list_used(const struct group *group, const struct vms_lvm_node *logical)
{
	g_autoptr(GHashTable) used = g_hash_table_new(vms_hash_text, g_str_equal);
	for (guint i = 0; i < logical->children->len; i++) {
		const struct vms_lvm_node *volume = logical->children->pdata[i];
		for (guint j = 0; volume->children && j < volume->children->len; j++) {
			const struct vms_lvm_node *child = volume->children->pdata[j];
			if (is_segment(child) && !note_used(group, child, used))
				return NULL;
		}
	}
	return g_steal_pointer(&used);
}

/* True for a volume with an own content; others are parts of one, such as the data of a pool. */
static bool is_whole(const struct vms_lvm_node *volume, GHashTable *used)
{
	const char *flag;
	for (unsigned i = 0; (flag = vms_lvm_node_item(volume, "status", i)); i++)
		if (strcmp(flag, "VISIBLE") == 0)
			return !g_hash_table_contains(used, volume->name);
	return false;
}

/* ---- the list --------------------------------------------------------- */

static void free_volume(void *data)
{
	struct vms_lvm_volume *volume = data;
	vms_file_source_clear(&volume->source);
	g_free(volume->obstacle);
	g_free(volume->name);
	g_free(volume);
}

static void add_volume(const struct vms_lvm *lvm, const struct group *group,
		       const struct vms_lvm_node *section, uint64_t extent_sectors,
		       GPtrArray *volumes)
{
	struct vms_lvm_volume *volume = g_new0(struct vms_lvm_volume, 1);
	struct pieces *pieces = g_new0(struct pieces, 1);
	pieces->segments = g_array_new(FALSE, FALSE, sizeof(struct segment));
	pieces->budget = group->text->budget;
	volume->name = g_strdup_printf("%s/%s", group->section->name, section->name);
	volume->obstacle = g_strdup(fill_pieces(lvm, group, section, extent_sectors, pieces));
	g_ptr_array_add(volumes, volume);
	const guint n = pieces->segments->len;
	if (volume->obstacle || n == 0) {
		free_pieces(pieces);
		return;
	}
	const struct segment *last = &g_array_index(pieces->segments, struct segment, n - 1);
	volume->source = (struct vms_file_source) {
		.size = last->start + last->size,
		.read = read_volume,
		.free = free_pieces,
		.data = pieces,
		.budget = pieces->budget,
	};
}

static void list_group(const struct vms_lvm *lvm, const struct group *group, GPtrArray *volumes)
{
	struct vms_budget *budget = group->text->budget;
	const struct vms_lvm_node *logical =
		vms_lvm_node_section(group->section, "logical_volumes");
	uint64_t extent_sectors;
	if (!logical || !vms_lvm_node_number(group->section, "extent_size", &extent_sectors) ||
	    extent_sectors == 0 || extent_sectors > EXTENT_SECTORS)
		return;
	g_autoptr(GHashTable) used = list_used(group, logical);
	for (guint i = 0; used && i < logical->children->len; i++) {
		const struct vms_lvm_node *child = logical->children->pdata[i];
		if (!vms_budget_step(budget, SEGMENT_STEPS))
			return;
		if (!child->children || !is_whole(child, used))
			continue;
		if (!vms_budget_take(budget, VMS_BUDGET_ITEMS, 1))
			return;
		add_volume(lvm, group, child, extent_sectors, volumes);
	}
}

GPtrArray *vms_lvm_list(const struct vms_lvm *lvm)
{
	GPtrArray *volumes = g_ptr_array_new_with_free_func(free_volume);
	for (guint i = 0; i < lvm->groups->len; i++)
		list_group(lvm, lvm->groups->pdata[i], volumes);
	return volumes;
}
