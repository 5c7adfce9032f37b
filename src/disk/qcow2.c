/* SPDX-License-Identifier: MIT */
/* The layout: QEMU, docs/interop/qcow2.txt. All numbers are big-endian. */
#include "disk/qcow2.h"
#include "base/bytes.h"
#include "base/clock.h"
#include <zlib.h>
#include <zstd.h>

#define MAGIC	       0x514649fb /* "QFI\xfb" */
#define HEADER_SIZE    112
#define L1_LIMIT       (32u << 20) /* bytes, as in QEMU */
#define NAME_LIMIT     1023
#define TABLES	       16		    /* parts of L2 tables that are kept */
#define TABLE_SIZE     (64u << 10)	    /* bytes of such a part, unless clusters are smaller */
#define CLUSTERS       4		    /* that were decompressed, and are kept */
#define LOOKUP_STEPS   10		    /* to find where a cluster lies */
#define AGE_NS	       UINT64_C(1000000000) /* what is older is read again */
#define OFFSET_MASK    UINT64_C(0x00fffffffffffe00)
#define IS_COMPRESSED  (UINT64_C(1) << 62)
#define READS_AS_ZEROS UINT64_C(1)

enum { DIRTY = 1, CORRUPT = 2, EXTERNAL_DATA = 4, COMPRESSION_TYPE = 8, SUBCLUSTERS = 16 };

/* A part of a table of the second level that was read. */
struct table {
	uint64_t offset; /* in the file; 0: none */
	uint64_t read_ns;
	uint64_t *entries;
};

/* A cluster that was decompressed. */
struct cluster {
	uint64_t offset; /* in the file; UINT64_MAX: none */
	uint64_t read_ns;
	uint8_t *bytes;
};

struct image {
	struct vms_file_source file, backing;
	struct vms_budget *budget; /* of `file` */
	uint64_t bytes;		   /* that were taken of it */
	unsigned cluster_bits;
	uint64_t l1_offset, n_l1;
	bool is_zstd;
	struct table tables[TABLES];
	unsigned next_table;
	struct cluster clusters[CLUSTERS];
	unsigned next_cluster;
};

static uint32_t get_u32(const uint8_t *bytes, size_t at)
{
	uint32_t value;
	memcpy(&value, bytes + at, sizeof(value));
	return GUINT32_FROM_BE(value);
}

static uint64_t get_u64(const uint8_t *bytes, size_t at)
{
	uint64_t value;
	memcpy(&value, bytes + at, sizeof(value));
	return GUINT64_FROM_BE(value);
}

/* Reads the header. What older versions do not have is zeros. */
static bool read_header(const struct vms_file_source *file, uint8_t header[HEADER_SIZE])
{
	memset(header, 0, HEADER_SIZE);
	return vms_file_source_read(file, 0, header, MIN(HEADER_SIZE, file->size)) &&
	       get_u32(header, 0) == MAGIC;
}

static bool is_based(const uint8_t *header)
{
	return get_u64(header, 8) != 0 && get_u32(header, 16) > 0;
}

bool vms_qcow2_is_image(const struct vms_file_source *file)
{
	uint8_t header[HEADER_SIZE];
	return read_header(file, header);
}

char *vms_qcow2_backing(const struct vms_file_source *file)
{
	uint8_t header[HEADER_SIZE];
	char name[NAME_LIMIT + 1] = { 0 };
	if (!read_header(file, header))
		return NULL;
	const uint64_t offset = get_u64(header, 8);
	const uint32_t size = get_u32(header, 16);
	return is_based(header) && size <= NAME_LIMIT &&
			       vms_file_source_read(file, offset, name, size)
		       ? g_strdup(name)
		       : NULL;
}

/* ---- tables ----------------------------------------------------------- */

static uint64_t get_cluster_size(const struct image *image)
{
	return UINT64_C(1) << image->cluster_bits;
}

/* Allocates memory that stays as long as the image. NULL if the budget has none. */
static void *allocate(struct image *image, size_t size)
{
	if (!vms_budget_take(image->budget, VMS_BUDGET_BYTES, size))
		return NULL;
	image->bytes += size;
	return g_malloc(size);
}

static size_t get_table_size(const struct image *image)
{
	return MIN(get_cluster_size(image), TABLE_SIZE);
}

/* Returns the part of a table at an offset, or NULL if it cannot be read. */
static const uint64_t *get_table(struct image *image, uint64_t offset)
{
	const uint64_t now_ns = vms_clock_now_ns();
	struct table *table = NULL;
	for (unsigned i = 0; i < TABLES && !table; i++)
		if (image->tables[i].offset == offset)
			table = &image->tables[i];
	if (table && now_ns - table->read_ns < AGE_NS)
		return table->entries;
	if (!table)
		table = &image->tables[image->next_table++ % TABLES];
	if (!table->entries)
		table->entries = allocate(image, get_table_size(image));
	table->offset = 0;
	if (!table->entries ||
	    !vms_file_source_read(&image->file, offset, table->entries, get_table_size(image)))
		return NULL;
	table->offset = offset;
	table->read_ns = now_ns;
	return table->entries;
}

/* Finds what the tables say of the cluster that an offset of the disk lies in; 0: nothing. */
static bool find_entry(struct image *image, uint64_t offset, uint64_t *ret)
{
	const unsigned l2_bits = image->cluster_bits - 3;
	const uint64_t cluster = offset >> image->cluster_bits;
	const uint64_t in_table = (cluster & ((UINT64_C(1) << l2_bits) - 1)) * sizeof(*ret);
	uint64_t l1;
	*ret = 0;
	if (!vms_budget_step(image->budget, LOOKUP_STEPS))
		return false;
	if (cluster >> l2_bits >= image->n_l1)
		return true;
	if (!vms_file_source_read(&image->file,
				  image->l1_offset + (cluster >> l2_bits) * sizeof(l1), &l1,
				  sizeof(l1)))
		return false;
	l1 = GUINT64_FROM_BE(l1) & OFFSET_MASK;
	if (l1 == 0)
		return true;
	const size_t size = get_table_size(image);
	const uint64_t *table = get_table(image, l1 + in_table / size * size);
	if (table)
		*ret = GUINT64_FROM_BE(table[in_table % size / sizeof(*ret)]);
	return table;
}

/* ---- compressed clusters ---------------------------------------------- */

/* A cluster that is being decompressed. */
struct unpacking {
	z_stream zlib; /* unless there is `zstd` */
	ZSTD_DStream *zstd;
	const uint8_t *packed;
	uint8_t *to;
	size_t size, to_size; /* of both */
	size_t in, out;	      /* what was used of them */
};

static bool begin_unpacking(struct unpacking *unpacking, bool is_zstd)
{
	unpacking->zstd = is_zstd ? ZSTD_createDStream() : NULL;
	return is_zstd ? unpacking->zstd != NULL : inflateInit2(&unpacking->zlib, -12) == Z_OK;
}

static void end_unpacking(struct unpacking *unpacking)
{
	if (unpacking->zstd)
		ZSTD_freeDStream(unpacking->zstd);
	else
		inflateEnd(&unpacking->zlib);
}

/* Decompresses until so much was taken in and given out. False if nothing more comes. */
static bool unpack_piece(struct unpacking *unpacking, size_t in_end, size_t out_end)
{
	if (unpacking->zstd) {
		ZSTD_inBuffer in = { unpacking->packed, in_end, unpacking->in };
		ZSTD_outBuffer out = { unpacking->to, out_end, unpacking->out };
		bool is_good;
		size_t before;
		/* It stops behind each frame, of which there may be many. */
		do {
			before = in.pos + out.pos;
			is_good = !ZSTD_isError(ZSTD_decompressStream(unpacking->zstd, &out, &in));
		} while (is_good && in.pos < in.size && out.pos < out.size &&
			 in.pos + out.pos != before);
		unpacking->in = in.pos;
		unpacking->out = out.pos;
		return is_good;
	}
	z_stream *stream = &unpacking->zlib;
	stream->next_in = (uint8_t *)unpacking->packed + unpacking->in;
	stream->avail_in = (uInt)(in_end - unpacking->in);
	stream->next_out = unpacking->to + unpacking->out;
	stream->avail_out = (uInt)(out_end - unpacking->out);
	const int result = inflate(stream, Z_NO_FLUSH);
	unpacking->in = in_end - stream->avail_in;
	unpacking->out = out_end - stream->avail_out;
	return result == Z_OK || result == Z_BUF_ERROR;
}

/*
 * Decompresses until the cluster is full; it may be followed by bytes that mean nothing. False if
 * it does not become full, or the budget is used up.
 */
static bool unpack(struct unpacking *unpacking, struct vms_budget *budget)
{
	bool goes_on = true;
	while (goes_on && unpacking->out < unpacking->to_size) {
		const size_t before = unpacking->in + unpacking->out;
		const uint64_t begin_ns = vms_budget_thread_ns();
		goes_on = unpack_piece(
			unpacking, MIN(unpacking->in + VMS_DECOMPRESS_PIECE, unpacking->size),
			MIN(unpacking->out + VMS_DECOMPRESS_PIECE, unpacking->to_size));
		const size_t n = unpacking->in + unpacking->out - before;
		if (!vms_budget_step_decompressed(budget, n, vms_budget_thread_ns() - begin_ns))
			return false;
		goes_on &= n > 0;
	}
	return unpacking->out == unpacking->to_size;
}

/* Reads and decompresses the cluster at an offset of the file, of at most `size` bytes there. */
static bool unpack_cluster(struct image *image, uint64_t offset, size_t size, uint8_t *ret)
{
	g_autofree uint8_t *packed = g_malloc(size);
	struct unpacking unpacking = {
		.packed = packed,
		.to = ret,
		.size = size,
		.to_size = get_cluster_size(image),
	};
	if (!vms_file_source_read(&image->file, offset, packed, size) ||
	    !begin_unpacking(&unpacking, image->is_zstd))
		return false;
	const bool is_full = unpack(&unpacking, image->budget);
	end_unpacking(&unpacking);
	return is_full;
}

/*
 * Returns where a cluster is to be decompressed to: in the place of the one that was so before the
 * others. NULL if there is no memory even for one.
 */
static struct cluster *choose_place(struct image *image)
{
	struct cluster *place = &image->clusters[image->next_cluster++ % CLUSTERS];
	if (!place->bytes)
		place->bytes = allocate(image, get_cluster_size(image));
	return place->bytes ? place : image->clusters[0].bytes ? &image->clusters[0] : NULL;
}

/* Returns the bytes of a compressed cluster, until the next call. NULL if they are not there. */
static const uint8_t *get_compressed(struct image *image, uint64_t entry)
{
	const unsigned bits = 62 - (image->cluster_bits - 8);
	const uint64_t offset = entry & ((UINT64_C(1) << bits) - 1);
	const uint64_t sectors = (entry & (IS_COMPRESSED - 1)) >> bits;
	const uint64_t size = (sectors + 1) * 512 - offset % 512, now_ns = vms_clock_now_ns();
	for (unsigned i = 0; i < CLUSTERS; i++)
		if (image->clusters[i].offset == offset &&
		    now_ns - image->clusters[i].read_ns < AGE_NS)
			return image->clusters[i].bytes;
	struct cluster *place = offset < image->file.size ? choose_place(image) : NULL;
	if (!place)
		return NULL;
	place->offset = UINT64_MAX;
	if (!unpack_cluster(image, offset, MIN(size, image->file.size - offset), place->bytes))
		return NULL;
	place->offset = offset;
	place->read_ns = now_ns;
	return place->bytes;
}

/* ---- reading ---------------------------------------------------------- */

/* Reads what the image it is based on has there; behind its end are zeros. */
static bool read_backing(const struct image *image, uint64_t offset, uint8_t *to, size_t size)
{
	const uint64_t there = image->backing.read && offset < image->backing.size
				       ? MIN(size, image->backing.size - offset)
				       : 0;
	memset(to + there, 0, size - there);
	return there == 0 || vms_file_source_read_part(&image->backing, offset, to, there);
}

/* Reads bytes of one cluster. */
static bool read_cluster(struct image *image, uint64_t offset, uint8_t *to, size_t size)
{
	const uint64_t inside = offset & (get_cluster_size(image) - 1);
	uint64_t entry;
	if (!find_entry(image, offset, &entry))
		return false;
	if (entry & IS_COMPRESSED) {
		const uint8_t *bytes = get_compressed(image, entry);
		if (bytes)
			memcpy(to, bytes + inside, size);
		return bytes;
	}
	const uint64_t place = entry & OFFSET_MASK;
	if (entry & READS_AS_ZEROS) {
		memset(to, 0, size);
		return true;
	}
	return place ? vms_file_source_read_part(&image->file, place + inside, to, size)
		     : read_backing(image, offset, to, size);
}

static bool read_disk(void *data, uint64_t offset, void *buf, size_t size)
{
	struct image *image = data;
	uint8_t *to = buf;
	while (size > 0) {
		const uint64_t left =
			get_cluster_size(image) - (offset & (get_cluster_size(image) - 1));
		const size_t part = MIN(size, left);
		if (!read_cluster(image, offset, to, part))
			return false;
		offset += part;
		to += part;
		size -= part;
	}
	return true;
}

static void free_image(void *data)
{
	struct image *image = data;
	for (unsigned i = 0; i < TABLES; i++)
		g_free(image->tables[i].entries);
	for (unsigned i = 0; i < CLUSTERS; i++)
		g_free(image->clusters[i].bytes);
	vms_budget_give_back(image->budget, VMS_BUDGET_BYTES, image->bytes);
	vms_file_source_clear(&image->backing);
	vms_file_source_clear(&image->file);
	g_free(image);
}

/* Returns why an image cannot be read, or NULL. */
static const char *find_obstacle(const uint8_t *header)
{
	const uint32_t version = get_u32(header, 4);
	const uint64_t features = version >= 3 ? get_u64(header, 72) : 0;
	if (version < 2 || version > 3)
		return "is of an unknown version";
	if (get_u32(header, 32) != 0)
		return "is encrypted";
	if (features & EXTERNAL_DATA)
		return "has its data in another file";
	if (features & SUBCLUSTERS)
		return "has subclusters";
	if (features & ~(uint64_t)(DIRTY | CORRUPT | COMPRESSION_TYPE))
		return "has features that are not understood";
	if ((features & COMPRESSION_TYPE) && header[104] > 1)
		return "is compressed in an unknown way";
	return NULL;
}

bool vms_qcow2_open(const struct vms_file_source *file, const struct vms_file_source *backing,
		    struct vms_file_source *ret, GError **error)
{
	uint8_t header[HEADER_SIZE];
	struct image *image = g_new0(struct image, 1);
	image->file = *file;
	image->backing = *backing;
	image->budget = file->budget;
	for (unsigned i = 0; i < CLUSTERS; i++)
		image->clusters[i].offset = UINT64_MAX;
	const bool is_image = read_header(file, header);
	const char *obstacle = is_image ? find_obstacle(header) : NULL;
	if (!obstacle && is_image && is_based(header) && !backing->read)
		obstacle = "is based on another one, which is not there";
	image->cluster_bits = get_u32(header, 20);
	image->n_l1 = get_u32(header, 36);
	image->l1_offset = get_u64(header, 40);
	image->is_zstd = get_u32(header, 4) >= 3 && (get_u64(header, 72) & COMPRESSION_TYPE) &&
			 header[104] == 1;
	if (obstacle)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "the image %s", obstacle);
	else if (!is_image || image->cluster_bits < 9 || image->cluster_bits > 21 ||
		 image->n_l1 > L1_LIMIT / sizeof(uint64_t) || image->l1_offset > file->size ||
		 get_u64(header, 24) > INT64_MAX)
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED, "the image's header is damaged");
	else {
		*ret = (struct vms_file_source) {
			.size = get_u64(header, 24),
			.read = read_disk,
			.free = free_image,
			.data = image,
			.budget = image->budget,
		};
		return true;
	}
	free_image(image);
	return false;
}
