/* SPDX-License-Identifier: MIT */
/* The layouts: Linux, Documentation/filesystems/ext4/ (super, group_descr, inodes, ifork). */
#include "disk/ext4.h"
#include "base/bytes.h"

#define SUPER_OFFSET	1024
#define SUPER_SIZE	1024
#define SUPER_MAGIC	0xef53
#define OLD_INODE_SIZE	128
#define EXTENTS_LIMIT	(1u << 18) /* of one file */
#define EXTENT_BLOCKS	(1u << 12) /* with extents, of one file */
#define EXTENT_DEPTH	5
#define EXTENT_MAGIC	0xf30a
#define UNWRITTEN	32768 /* an extent that is longer is not written yet, and reads as zeros */
#define DIRECT		12    /* blocks that an inode names itself, without extents */
#define INODE_SIZE_READ 112   /* of an inode, up to the high half of its size */

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

/* Blocks of a file that lie one behind the other on the disk. */
struct extent {
	uint64_t first, n; /* blocks of the file */
	uint64_t place;	   /* block of the file system; 0: zeros */
};

struct file {
	const struct vms_ext4 *fs;
	GArray *extents; /* struct extent, by `first` */
	unsigned budget; /* blocks with extents that may still be read */
};

/* ---- the file system -------------------------------------------------- */

static bool read_fs(const struct vms_ext4 *fs, uint64_t at, void *buf, size_t size)
{
	return at <= fs->size && size <= fs->size - at &&
	       vms_file_source_read(fs->disk, fs->offset + at, buf, size);
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

/* Adds an extent behind the last one. False if it does not lie there, or there are too many. */
static bool add_extent(struct file *file, uint64_t first, uint64_t n, uint64_t place)
{
	GArray *extents = file->extents;
	struct extent *last =
		extents->len ? &g_array_index(extents, struct extent, extents->len - 1) : NULL;
	if (last && first < last->first + last->n)
		return false;
	if (last && first == last->first + last->n && place && last->place &&
	    place == last->place + last->n) {
		last->n += n;
		return true;
	}
	const struct extent extent = { first, n, place };
	g_array_append_val(extents, extent);
	return extents->len < EXTENTS_LIMIT;
}

/* ---- extents ---------------------------------------------------------- */

static bool add_extents(struct file *file, struct vms_bytes node, unsigned depth);

/* Reads a block with extents, which is one level deeper. */
static bool add_extent_block(struct file *file, uint64_t block, unsigned depth)
{
	const struct vms_ext4 *fs = file->fs;
	if (file->budget == 0 || block > fs->size / fs->block_size)
		return false;
	file->budget--;
	g_autofree uint8_t *bytes = g_malloc(fs->block_size);
	return read_fs(fs, block * fs->block_size, bytes, fs->block_size) &&
	       add_extents(file, (struct vms_bytes) { bytes, fs->block_size }, depth);
}

static bool add_leaf_entry(struct file *file, struct vms_bytes entry)
{
	uint32_t first, low;
	uint16_t n, high;
	vms_bytes_u32(entry, 0, &first);
	vms_bytes_u16(entry, 4, &n);
	vms_bytes_u16(entry, 6, &high);
	vms_bytes_u32(entry, 8, &low);
	if (n > UNWRITTEN)
		return add_extent(file, first, n - UNWRITTEN, 0);
	return n > 0 && add_extent(file, first, n, (uint64_t)high << 32 | low);
}

/* Adds what a node says. The depth falls by one from level to level, so the walk ends. */
static bool add_extents(struct file *file, struct vms_bytes node, unsigned depth)
{
	uint16_t magic, n, its_depth, high;
	uint32_t low;
	if (!vms_bytes_u16(node, 0, &magic) || magic != EXTENT_MAGIC ||
	    !vms_bytes_u16(node, 2, &n) || !vms_bytes_u16(node, 6, &its_depth) ||
	    its_depth > EXTENT_DEPTH || (depth <= EXTENT_DEPTH && its_depth != depth))
		return false;
	for (unsigned i = 0; i < n; i++) {
		struct vms_bytes entry;
		if (!vms_bytes_slice(node, 12 + i * 12, 12, &entry))
			return false;
		if (its_depth == 0) {
			if (!add_leaf_entry(file, entry))
				return false;
			continue;
		}
		vms_bytes_u32(entry, 4, &low);
		vms_bytes_u16(entry, 8, &high);
		if (!add_extent_block(file, (uint64_t)high << 32 | low, its_depth - 1))
			return false;
	}
	return true;
}

/* ---- lists of blocks (ext2, ext3) ------------------------------------- */

/* Adds the blocks that a list of `levels` levels names, from block `*at` of the file on. */
static bool add_blocks(struct file *file, struct vms_bytes list, unsigned levels, uint64_t end,
		       uint64_t *at)
{
	const struct vms_ext4 *fs = file->fs;
	uint64_t covers = 1; /* blocks of the file that one entry stands for */
	for (unsigned i = 0; i < levels; i++)
		covers *= fs->block_size / sizeof(uint32_t);
	for (uint64_t i = 0; i < list.size / sizeof(uint32_t) && *at < end; i++) {
		uint32_t block = 0;
		vms_bytes_u32(list, i * sizeof(block), &block);
		if (block == 0) {
			*at += covers;
			continue;
		}
		if (levels == 0) {
			if (!add_extent(file, (*at)++, 1, block))
				return false;
			continue;
		}
		if (file->budget-- == 0 || block > fs->size / fs->block_size)
			return false;
		g_autofree uint8_t *bytes = g_malloc(fs->block_size);
		if (!read_fs(fs, (uint64_t)block * fs->block_size, bytes, fs->block_size) ||
		    !add_blocks(file, (struct vms_bytes) { bytes, fs->block_size }, levels - 1, end,
				at))
			return false;
	}
	return true;
}

static bool add_block_lists(struct file *file, struct vms_bytes map, uint64_t size)
{
	const uint64_t end = (size + file->fs->block_size - 1) / file->fs->block_size;
	struct vms_bytes list;
	uint64_t at = 0;
	vms_bytes_slice(map, 0, DIRECT * sizeof(uint32_t), &list);
	if (!add_blocks(file, list, 0, end, &at))
		return false;
	for (unsigned levels = 1; levels <= 3 && at < end; levels++) {
		vms_bytes_slice(map, (DIRECT + levels - 1) * sizeof(uint32_t), sizeof(uint32_t),
				&list);
		if (!add_blocks(file, list, levels, end, &at))
			return false;
	}
	return true;
}

/* ---- files ------------------------------------------------------------ */

static int compare_extents(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;
	if (x->first + x->n <= y->first)
		return -1;
	return x->first >= y->first + y->n;
}

/* Returns the extent that a block lies in, or NULL in a hole; `*n` is how many blocks follow. */
static const struct extent *find_extent(const struct file *file, uint64_t block, uint64_t *n)
{
	const struct extent wanted = { .first = block, .n = 1 };
	const GArray *extents = file->extents;
	guint i = 0;
	*n = 1;
	if (!g_array_binary_search(file->extents, &wanted, compare_extents, &i))
		return NULL;
	const struct extent *found = &g_array_index(extents, struct extent, i);
	*n = found->first + found->n - block;
	return found;
}

static bool read_file(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct file *file = data;
	const struct vms_ext4 *fs = file->fs;
	uint8_t *to = buf;
	while (size > 0) {
		uint64_t n;
		const uint64_t block = offset / fs->block_size, inside = offset % fs->block_size;
		const struct extent *extent = find_extent(file, block, &n);
		const size_t part = MIN(size, n * fs->block_size - inside);
		if (!extent || !extent->place)
			memset(to, 0, part);
		else if (extent->place > fs->size / fs->block_size ||
			 !read_fs(fs,
				  (extent->place + block - extent->first) * fs->block_size + inside,
				  to, part))
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
	g_array_unref(file->extents);
	g_free(file);
}

/* Reads where the blocks of a file are. */
static bool read_map(struct file *file, struct vms_bytes inode, uint64_t size, uint32_t flags)
{
	struct vms_bytes map;
	vms_bytes_slice(inode, 40, 60, &map);
	return flags & FLAG_EXTENTS ? add_extents(file, map, EXTENT_DEPTH + 1)
				    : add_block_lists(file, map, size);
}

bool vms_ext4_open_file(struct vms_ext4 *fs, uint64_t number, struct vms_file_source *ret,
			GError **error)
{
	uint8_t bytes[INODE_SIZE_READ];
	const struct vms_bytes inode = { bytes, sizeof(bytes) };
	uint64_t at;
	uint16_t mode = 0;
	uint32_t low = 0, high = 0, flags = 0;
	if (find_inode(fs, number, &at) && read_fs(fs, at, bytes, sizeof(bytes))) {
		vms_bytes_u16(inode, 0, &mode);
		vms_bytes_u32(inode, 4, &low);
		vms_bytes_u32(inode, 32, &flags);
		vms_bytes_u32(inode, 108, &high);
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
	struct file *file = g_new(struct file, 1);
	*file = (struct file) { fs, g_array_new(FALSE, FALSE, sizeof(struct extent)),
				EXTENT_BLOCKS };
	*ret = (struct vms_file_source) {
		.size = (uint64_t)high << 32 | low,
		.read = read_file,
		.free = free_file,
		.data = file,
	};
	if (ret->size <= INT64_MAX && read_map(file, inode, ret->size, flags))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "the blocks of inode %" G_GUINT64_FORMAT " make no sense", number);
	vms_file_source_clear(ret);
	return false;
}
