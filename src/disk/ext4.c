/* SPDX-License-Identifier: MIT */
/* The layouts: Linux, Documentation/filesystems/ext4/ (super, group_descr, inodes, ifork). */
#include "disk/ext4.h"
#include "base/bytes.h"
#include "base/search.h"

#define SUPER_OFFSET	1024
#define SUPER_SIZE	1024
#define SUPER_MAGIC	0xef53
#define OLD_INODE_SIZE	128
#define EXTENT_DEPTH	5
#define EXTENT_MAGIC	0xf30a
#define EXTENT_SIZE	12    /* of a node's header, and of each entry */
#define LOOKUP_STEPS	20    /* to find a block in a node, which is paid for as a whole */
#define UNWRITTEN	32768 /* an extent that is longer is not written yet, and reads as zeros */
#define DIRECT		12    /* blocks that an inode names itself, without extents */
#define LIST_LEVELS	3     /* of lists of blocks */
#define MAP_OFFSET	40    /* in an inode, of what it says of its blocks */
#define MAP_SIZE	60
#define INODE_SIZE_READ 112 /* of an inode, up to the high half of its size */

enum {
	/* s_feature_incompat: what a reader must understand. */
	INCOMPAT_64BIT = 0x80,
	INCOMPAT_KNOWN = 0x2 | 0x4 | 0x40 | INCOMPAT_64BIT | 0x100 | 0x200 | 0x400 | 0x1000 |
			 0x2000 | 0x4000 | 0x8000 | 0x10000 | 0x20000,
	/* i_flags */
	FLAG_COMPRESSED = 0x4,
	FLAG_ENCRYPTED = 0x800,
	FLAG_EXTENTS = 0x80000,
	FLAG_INLINE = 0x10000000,
	/* i_mode */
	MODE_FORMAT = 0xf000,
	MODE_REGULAR = 0x8000,
};

struct vms_ext4 {
	const struct vms_file_source *disk;
	uint64_t offset, size; /* of the file system on the disk */
	uint8_t uuid[VMS_EXT4_UUID_SIZE];
	uint32_t block_size, inodes_per_group, n_inodes;
	uint16_t inode_size, descriptor_size;
	bool is_64bit;
};

/* A block of the file system that tells where blocks of a file are. */
struct node {
	uint64_t block; /* 0: none was read */
	uint8_t *bytes;
};

/*
 * A file. Only those parts of its tree of blocks are read that a read needs. The last block of each
 * level is kept.
 */
struct file {
	const struct vms_ext4 *fs;
	struct vms_budget *budget; /* of the disk */
	uint64_t bytes;		   /* that were taken of it */
	bool has_extents;
	uint8_t map[MAP_SIZE];		 /* the root of the tree, in the inode */
	struct node nodes[EXTENT_DEPTH]; /* by their level; 0: a leaf */
};

/* Blocks of a file that lie one behind the other on the disk. */
struct run {
	uint64_t n;
	uint64_t place; /* block of the file system; 0: zeros */
};

/* ---- the file system -------------------------------------------------- */

static bool read_fs(const struct vms_ext4 *fs, uint64_t at, void *buf, size_t size)
{
	return at <= fs->size && size <= fs->size - at &&
	       vms_file_source_read(fs->disk, fs->offset + at, buf, size);
}

/* As read_fs, for bytes of a file that were paid for. */
static bool read_part(const struct vms_ext4 *fs, uint64_t at, void *buf, size_t size)
{
	return at <= fs->size && size <= fs->size - at &&
	       vms_file_source_read_part(fs->disk, fs->offset + at, buf, size);
}

static bool parse_super(struct vms_bytes super, struct vms_ext4 *fs, GError **error)
{
	uint32_t log_size, revision, incompat;
	vms_bytes_u32(super, 0, &fs->n_inodes);
	vms_bytes_u32(super, 24, &log_size);
	vms_bytes_u32(super, 40, &fs->inodes_per_group);
	vms_bytes_u32(super, 76, &revision);
	vms_bytes_u16(super, 88, &fs->inode_size);
	vms_bytes_u32(super, 96, &incompat);
	vms_bytes_u16(super, 254, &fs->descriptor_size);
	memcpy(fs->uuid, super.data + 104, sizeof(fs->uuid));
	if (revision == 0)
		fs->inode_size = OLD_INODE_SIZE;
	fs->is_64bit = incompat & INCOMPAT_64BIT;
	if (!fs->is_64bit)
		fs->descriptor_size = 32;
	if (incompat & ~(uint32_t)INCOMPAT_KNOWN) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "its ext4 file system has features that are not understood (0x%x)",
			    incompat & ~(uint32_t)INCOMPAT_KNOWN);
		return false;
	}
	if (log_size > 6 || fs->inodes_per_group == 0 || fs->inode_size < OLD_INODE_SIZE ||
	    fs->inode_size > 4096 || fs->descriptor_size < 32 || fs->descriptor_size > 1024) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "the superblock of its ext4 file system is damaged");
		return false;
	}
	fs->block_size = 1024u << log_size;
	return true;
}

struct vms_ext4 *vms_ext4_open(const struct vms_file_source *disk, uint64_t offset, uint64_t size,
			       GError **error)
{
	struct vms_ext4 fs = { .disk = disk, .offset = offset, .size = size };
	uint8_t bytes[SUPER_SIZE];
	const struct vms_bytes super = { bytes, sizeof(bytes) };
	uint16_t magic;
	if (!read_fs(&fs, SUPER_OFFSET, bytes, sizeof(bytes)) ||
	    !vms_bytes_u16(super, 56, &magic) || magic != SUPER_MAGIC) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "there is no ext4 file system");
		return NULL;
	}
	return parse_super(super, &fs, error) ? g_memdup2(&fs, sizeof(fs)) : NULL;
}

void vms_ext4_free(struct vms_ext4 *fs)
{
	g_free(fs);
}

const uint8_t *vms_ext4_uuid(const struct vms_ext4 *fs)
{
	return fs->uuid;
}

/* ---- an inode --------------------------------------------------------- */

/* Finds where an inode is. */
static bool find_inode(const struct vms_ext4 *fs, uint64_t number, uint64_t *ret)
{
	uint8_t bytes[64] = { 0 };
	const struct vms_bytes descriptor = { bytes, sizeof(bytes) };
	uint32_t low, high = 0;
	if (number == 0 || number > fs->n_inodes)
		return false;
	const uint64_t group = (number - 1) / fs->inodes_per_group;
	const uint64_t index = (number - 1) % fs->inodes_per_group;
	/* The descriptors are in the block behind that of the superblock. */
	const uint64_t table = (SUPER_OFFSET / fs->block_size + 1) * (uint64_t)fs->block_size;
	if (!read_fs(fs, table + group * fs->descriptor_size, bytes,
		     MIN(fs->descriptor_size, sizeof(bytes))))
		return false;
	vms_bytes_u32(descriptor, 8, &low);
	if (fs->is_64bit && fs->descriptor_size >= 64)
		vms_bytes_u32(descriptor, 40, &high);
	const uint64_t block = (uint64_t)high << 32 | low;
	if (block > fs->size / fs->block_size)
		return false;
	*ret = block * fs->block_size + index * fs->inode_size;
	return true;
}

/* ---- the tree of blocks ----------------------------------------------- */

/* Reads a block of the tree, which stays until another one of its level is read. */
static bool get_node(struct file *file, uint64_t block, unsigned level, struct vms_bytes *ret)
{
	const struct vms_ext4 *fs = file->fs;
	struct node *node = &file->nodes[level];
	if (block == 0 || block > fs->size / fs->block_size ||
	    !vms_budget_step(file->budget, LOOKUP_STEPS))
		return false;
	if (!node->bytes) {
		if (!vms_budget_take(file->budget, VMS_BUDGET_BYTES, fs->block_size))
			return false;
		file->bytes += fs->block_size;
		node->bytes = g_malloc(fs->block_size);
	}
	if (node->block != block) {
		node->block = 0;
		if (!read_fs(fs, block * fs->block_size, node->bytes, fs->block_size))
			return false;
		node->block = block;
	}
	*ret = (struct vms_bytes) { node->bytes, fs->block_size };
	return true;
}

/* Reads the first block of the file that an entry of a node stands for. */
static uint32_t get_first(struct vms_bytes node, size_t i)
{
	uint32_t first;
	vms_bytes_u32(node, (1 + i) * EXTENT_SIZE, &first);
	return first;
}

/*
 * Finds the entry of a node that has a block, which is the last one that does not begin behind it.
 * False if there is none. `*n`: how many blocks are left to the next entry.
 */
static bool find_entry(struct vms_bytes node, uint64_t block, struct vms_bytes *ret, uint64_t *n)
{
	uint16_t n_entries;
	vms_bytes_u16(node, 2, &n_entries);
	const size_t there = MIN(n_entries, node.size / EXTENT_SIZE - 1);
	const size_t next = VMS_SEARCH(there, i, get_first(node, i) <= block);
	*n = next < there ? get_first(node, next) - block : UINT64_MAX;
	return next > 0 && vms_bytes_slice(node, next * EXTENT_SIZE, EXTENT_SIZE, ret);
}

/* Tells where a block of the file is by its entry in a leaf. */
static void use_extent(struct vms_bytes entry, uint64_t block, uint64_t to_next, struct run *ret)
{
	uint32_t first, low;
	uint16_t length, high;
	vms_bytes_u32(entry, 0, &first);
	vms_bytes_u16(entry, 4, &length);
	vms_bytes_u16(entry, 6, &high);
	vms_bytes_u32(entry, 8, &low);
	const bool is_written = length <= UNWRITTEN;
	const uint64_t at = block - first, n = is_written ? length : length - UNWRITTEN;
	const uint64_t place = (uint64_t)high << 32 | low;
	*ret = at < n ? (struct run) { MIN(n - at, to_next), is_written ? place + at : 0 }
		      : (struct run) { to_next, 0 };
}

/* Finds a block by extents. Each level must be one below the other, so the walk ends. */
static bool find_by_extents(struct file *file, uint64_t block, struct run *ret)
{
	struct vms_bytes node = { file->map, MAP_SIZE }, entry;
	uint64_t to_next = UINT64_MAX, n;
	uint16_t magic, level, high;
	uint32_t low;
	for (unsigned above = EXTENT_DEPTH + 1;; above = level) {
		if (!vms_bytes_u16(node, 0, &magic) || magic != EXTENT_MAGIC ||
		    !vms_bytes_u16(node, 6, &level) || level > EXTENT_DEPTH ||
		    (above <= EXTENT_DEPTH && level + 1u != above))
			return false;
		const bool is_there = find_entry(node, block, &entry, &n);
		to_next = MIN(to_next, n);
		if (!is_there) {
			*ret = (struct run) { to_next, 0 };
			return true;
		}
		if (level == 0) {
			use_extent(entry, block, to_next, ret);
			return true;
		}
		vms_bytes_u32(entry, 4, &low);
		vms_bytes_u16(entry, 8, &high);
		if (!get_node(file, (uint64_t)high << 32 | low, level - 1u, &node))
			return false;
	}
}

/* Counts the blocks from place `i` of a list on that lie one behind the other, or are holes. */
static uint64_t count_run(struct vms_bytes list, uint64_t i, uint32_t place)
{
	uint64_t n = 1;
	uint32_t next;
	while (vms_bytes_u32(list, (i + n) * sizeof(next), &next) &&
	       next == (place ? place + n : 0))
		n++;
	return n;
}

/*
 * Finds a block by the lists of ext2 and ext3: the inode names the first blocks, then a list of
 * blocks, then a list of lists, then one of those.
 */
static bool find_by_lists(struct file *file, uint64_t block, struct run *ret)
{
	const uint64_t per_list = file->fs->block_size / sizeof(uint32_t);
	struct vms_bytes list;
	uint64_t covers = 1, i = block; /* blocks of the file that one entry stands for */
	unsigned levels = 0;
	vms_bytes_slice((struct vms_bytes) { file->map, MAP_SIZE }, 0, DIRECT * sizeof(uint32_t),
			&list);
	if (block >= DIRECT) {
		for (i -= DIRECT, levels = 1, covers = per_list; i >= covers; levels++) {
			i -= covers;
			covers *= per_list;
		}
		if (levels > LIST_LEVELS)
			return false;
		list = (struct vms_bytes) { file->map + (DIRECT + levels - 1) * sizeof(uint32_t),
					    sizeof(uint32_t) };
	}
	for (;; levels--, covers /= per_list) {
		const uint64_t at = i / covers, inside = i % covers;
		uint32_t place;
		if (!vms_bytes_u32(list, at * sizeof(place), &place))
			return false;
		if (place == 0 || levels == 0) {
			const uint64_t n =
				levels == 0 ? count_run(list, at, place) : covers - inside;
			*ret = (struct run) { n, place };
			return vms_budget_step(file->budget, levels == 0 ? n : 1);
		}
		if (!get_node(file, place, levels - 1, &list))
			return false;
		i = inside;
	}
}

/* ---- files ------------------------------------------------------------ */

static bool find_run(struct file *file, uint64_t block, struct run *ret)
{
	return vms_budget_step(file->budget, LOOKUP_STEPS) &&
	       (file->has_extents ? find_by_extents(file, block, ret)
				  : find_by_lists(file, block, ret));
}

static bool read_file(void *data, uint64_t offset, void *buf, size_t size)
{
	struct file *file = data;
	const struct vms_ext4 *fs = file->fs;
	uint8_t *to = buf;
	while (size > 0) {
		struct run run;
		const uint64_t block = offset / fs->block_size, inside = offset % fs->block_size;
		if (!find_run(file, block, &run))
			return false;
		/* A number of blocks that is too large for a product ends no earlier than `size`.
		 */
		const uint64_t n = MIN(run.n, size / fs->block_size + 2);
		const size_t part = MIN(size, n * fs->block_size - inside);
		if (run.place == 0)
			memset(to, 0, part);
		else if (run.place > fs->size / fs->block_size ||
			 !read_part(fs, run.place * fs->block_size + inside, to, part))
			return false;
		offset += part;
		to += part;
		size -= part;
	}
	return true;
}

static void free_file(void *data)
{
	struct file *file = data;
	for (unsigned i = 0; i < EXTENT_DEPTH; i++)
		g_free(file->nodes[i].bytes);
	vms_budget_give_back(file->budget, VMS_BUDGET_BYTES, file->bytes);
	g_free(file);
}

/* True if the root of the tree makes sense. */
static bool check_map(const struct file *file)
{
	uint16_t magic, level;
	const struct vms_bytes map = { file->map, MAP_SIZE };
	return !file->has_extents || (vms_bytes_u16(map, 0, &magic) && magic == EXTENT_MAGIC &&
				      vms_bytes_u16(map, 6, &level) && level <= EXTENT_DEPTH);
}

/* Reads an inode. False if it is none of a regular file that can be read. */
static bool read_inode(struct vms_ext4 *fs, uint64_t number, uint8_t bytes[INODE_SIZE_READ],
		       GError **error)
{
	const struct vms_bytes inode = { bytes, INODE_SIZE_READ };
	uint64_t at;
	uint16_t mode = 0;
	uint32_t flags = 0;
	if (find_inode(fs, number, &at) && read_fs(fs, at, bytes, INODE_SIZE_READ)) {
		vms_bytes_u16(inode, 0, &mode);
		vms_bytes_u32(inode, 32, &flags);
	}
	if ((mode & MODE_FORMAT) != MODE_REGULAR) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "inode %" G_GUINT64_FORMAT " is no regular file there", number);
		return false;
	}
	if (flags & (FLAG_COMPRESSED | FLAG_ENCRYPTED | FLAG_INLINE)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "inode %" G_GUINT64_FORMAT " is encrypted or compressed", number);
		return false;
	}
	return true;
}

bool vms_ext4_open_file(struct vms_ext4 *fs, uint64_t number, struct vms_ext4_file *ret,
			GError **error)
{
	uint8_t bytes[INODE_SIZE_READ];
	const struct vms_bytes inode = { bytes, sizeof(bytes) };
	uint32_t low, high, flags;
	if (!read_inode(fs, number, bytes, error))
		return false;
	struct file *file = g_new0(struct file, 1);
	file->fs = fs;
	file->budget = fs->disk->budget;
	memcpy(file->map, bytes + MAP_OFFSET, MAP_SIZE);
	vms_bytes_u32(inode, 4, &low);
	vms_bytes_u32(inode, 12, &ret->change_s);
	vms_bytes_u32(inode, 32, &flags);
	vms_bytes_u32(inode, 108, &high);
	file->has_extents = flags & FLAG_EXTENTS;
	ret->source = (struct vms_file_source) {
		.size = (uint64_t)high << 32 | low,
		.read = read_file,
		.free = free_file,
		.data = file,
		.budget = file->budget,
	};
	if (ret->source.size <= INT64_MAX && check_map(file))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "the blocks of inode %" G_GUINT64_FORMAT " make no sense", number);
	vms_file_source_clear(&ret->source);
	return false;
}
