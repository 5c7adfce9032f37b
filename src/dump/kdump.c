/* SPDX-License-Identifier: MIT */
/*
 * Writes the kdump-compressed layout (machine/core/kdump_format.h): header, bitmaps, a descriptor
 * for every page of RAM and ROM, then the pages in the order in which workers finish them.
 *
 * The number of pages, and so the place of every descriptor, is known when the guest is held. A
 * worker compresses a unit, reserves the next bytes of the file for it, and writes pages and
 * descriptors. So no worker waits for another.
 */
#include "dump/notes.h"
#include "dump/state.h"
#include "guest/linux/vmcoreinfo.h"
#include "machine/core/kdump_format.h"

#include <stdatomic.h>
#include <zlib.h>
#include <zstd.h>

#define BLOCK	   VMS_DUMP_PAGE
#define ZLIB_LEVEL 1
#define ZSTD_LEVEL 1
/* Bitmaps are written in pieces of this size. Pieces without any memory stay holes. */
#define PIECE_BYTES 32768
#define PIECE_PFNS  (PIECE_BYTES * UINT64_C(8))

/* The buffers of one thread. Compressors are made when the thread first needs them. */
struct worker {
	ZSTD_CCtx *zstd;
	z_stream zlib;
	bool has_zlib;
	uint8_t data[VMS_DUMP_UNIT_PAGES * BLOCK]; /* a unit as it is stored in the file */
	struct vms_kdump_page descriptors[VMS_DUMP_UNIT_PAGES];
};

struct kdump {
	struct vms_dump_sink sink;
	const struct vms_dump_state *state;
	struct vms_outfile *file;
	struct worker *workers;
	unsigned n_workers;
	uint32_t flags; /* for compressed pages */

	uint64_t *pages_before; /* number of pages before each range; last, of all pages */
	uint64_t max_mapnr;
	uint32_t sub_header_blocks;    /* including room for the notes */
	uint64_t bitmaps, bitmap_size; /* offset in the file; bytes of each bitmap, whole blocks */
	uint64_t descriptors;	       /* offset in the file */
	struct vms_kdump_page zero;    /* descriptor of the page that all zero pages share */
	uint8_t zero_data[BLOCK];      /* this page as it is stored in the file */
	_Atomic uint64_t end;	       /* end of the used part of the file */
};

/* ---- which pages there are -------------------------------------------- */

static const struct vms_range *get_range(const struct kdump *kdump, unsigned i)
{
	return &g_array_index(kdump->state->memory, struct vms_range, i);
}

/*
 * Finds the pages of range `i`: [*first, *end). A page that several ranges share belongs to the
 * first of them.
 */
static void find_range_pages(const struct kdump *kdump, unsigned i, uint64_t *first, uint64_t *end)
{
	const struct vms_range *range = get_range(kdump, i);
	*first = range->pa / BLOCK;
	*end = (range->pa + range->size - 1) / BLOCK + 1;
	if (i > 0) {
		const struct vms_range *before = range - 1;
		*first = MAX(*first, (before->pa + before->size - 1) / BLOCK + 1);
	}
	*end = MAX(*first, *end);
}

/*
 * Returns how many blocks the sub-header and the notes take. The notes are behind the sub-header,
 * as in makedumpfile's files, so that a file that is cut off still has them. The list of unreadable
 * memory is not known yet. If it needs more than a block, the notes go to the end of the file.
 */
static uint32_t reserve_notes(const struct kdump *kdump)
{
	g_autoptr(GArray) unreadable = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	struct vms_dump_outcome outcome = { .unreadable = unreadable };
	g_autoptr(GByteArray) notes = vms_dump_notes(kdump->state, &outcome);
	const char *vmcoreinfo = kdump->state->vmcoreinfo;

	size_t size = sizeof(struct vms_kdump_sub_header) + notes->len +
		      (vmcoreinfo ? strlen(vmcoreinfo) : 0);
	return (uint32_t)(size / BLOCK + 2);
}

static bool lay_out_file(struct kdump *kdump, GError **error)
{
	unsigned n = kdump->state->memory->len;

	kdump->pages_before = g_new0(uint64_t, (size_t)n + 1);
	for (unsigned i = 0; i < n; i++) {
		uint64_t first, end;
		find_range_pages(kdump, i, &first, &end);
		kdump->pages_before[i + 1] = kdump->pages_before[i] + end - first;
		kdump->max_mapnr = MAX(kdump->max_mapnr, end);
	}
	if (kdump->max_mapnr > VMS_KDUMP_PFNS_MAX) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot dump %s as kdump: it has memory at 0x%" G_GINT64_MODIFIER
			    "x, beyond 64 TiB; the layout elf has no limit",
			    vms_machine_info(kdump->state->machine)->name,
			    (kdump->max_mapnr - 1) * BLOCK);
		return false;
	}
	kdump->bitmap_size = (kdump->max_mapnr + 8 * BLOCK - 1) / (8 * BLOCK) * BLOCK;
	kdump->sub_header_blocks = reserve_notes(kdump);
	kdump->bitmaps = (1 + (uint64_t)kdump->sub_header_blocks) * BLOCK;
	kdump->descriptors = kdump->bitmaps + 2 * kdump->bitmap_size;
	kdump->end = kdump->descriptors + kdump->pages_before[n] * sizeof(struct vms_kdump_page);
	return true;
}

/* ---- pages ------------------------------------------------------------ */

static size_t compress_by_zstd(struct worker *worker, const uint8_t *page, uint8_t *to)
{
	if (!worker->zstd)
		worker->zstd = ZSTD_createCCtx();
	if (!worker->zstd)
		return 0;
	size_t size = ZSTD_compressCCtx(worker->zstd, to, BLOCK - 1, page, BLOCK, ZSTD_LEVEL);
	return ZSTD_isError(size) ? 0 : size;
}

static size_t compress_by_zlib(struct worker *worker, const uint8_t *page, uint8_t *to)
{
	if (!worker->has_zlib)
		worker->has_zlib = deflateInit(&worker->zlib, ZLIB_LEVEL) == Z_OK;
	else
		deflateReset(&worker->zlib);
	worker->zlib.next_in = (uint8_t *)page;
	worker->zlib.avail_in = BLOCK;
	worker->zlib.next_out = to;
	worker->zlib.avail_out = BLOCK - 1;
	bool shrunk = worker->has_zlib && deflate(&worker->zlib, Z_FINISH) == Z_STREAM_END;
	return shrunk ? BLOCK - 1 - worker->zlib.avail_out : 0;
}

/* Compresses a page into `to`, of BLOCK bytes. Returns the size, or 0 if it is not smaller. */
static size_t compress_page(const struct kdump *kdump, struct worker *worker, const uint8_t *page,
			    uint8_t *to)
{
	switch (kdump->flags) {
	case VMS_KDUMP_ZSTD: return compress_by_zstd(worker, page, to);
	case VMS_KDUMP_ZLIB: return compress_by_zlib(worker, page, to);
	default: return 0;
	}
}

/*
 * Stores a page at `*used` in the worker's data. Returns its descriptor, whose offset counts from
 * the begin of that data.
 */
static struct vms_kdump_page store_page(const struct kdump *kdump, struct worker *worker,
					const uint8_t *page, size_t *used)
{
	size_t size = compress_page(kdump, worker, page, worker->data + *used);
	struct vms_kdump_page descriptor = { .offset = *used,
					     .size = (uint32_t)(size ? size : BLOCK),
					     .flags = size ? kdump->flags : 0 };
	if (!size)
		memcpy(worker->data + *used, page, BLOCK);
	*used += descriptor.size;
	return descriptor;
}

static bool is_edge(const struct vms_dump_unit *unit, uint64_t pfn)
{
	return pfn * BLOCK < unit->pa || pfn * BLOCK + BLOCK > unit->pa + unit->size;
}

/* Returns the content of a page of a unit, or NULL if it is all zeros. */
static const uint8_t *find_page(const struct vms_dump_unit *unit, uint64_t pfn)
{
	if (is_edge(unit, pfn))
		return unit->edge[pfn != unit->pa / BLOCK];
	return unit->zero[pfn - unit->pa / BLOCK] ? NULL : unit->data + (pfn * BLOCK - unit->pa);
}

static void convert_descriptor(struct vms_kdump_page *descriptor)
{
	descriptor->offset = GUINT64_TO_LE(descriptor->offset);
	descriptor->size = GUINT32_TO_LE(descriptor->size);
	descriptor->flags = GUINT32_TO_LE(descriptor->flags);
}

static bool write_unit(struct vms_dump_sink *sink, unsigned number,
		       const struct vms_dump_unit *unit, GError **error)
{
	struct kdump *kdump = (struct kdump *)sink;
	struct worker *worker = &kdump->workers[number];
	unsigned range = vms_dump_state_find(kdump->state, unit->pa);
	uint64_t first, range_end, end = (unit->pa + unit->size - 1) / BLOCK + 1;
	size_t used = 0, n = 0;

	find_range_pages(kdump, range, &first, &range_end);
	uint64_t pfn = MAX(first, unit->pa / BLOCK);
	uint64_t index = kdump->pages_before[range] + (pfn - first);
	bool stored[VMS_DUMP_UNIT_PAGES] = { false };
	for (; pfn < end; pfn++, n++) {
		const uint8_t *page = find_page(unit, pfn);
		stored[n] = page != NULL;
		worker->descriptors[n] =
			page ? store_page(kdump, worker, page, &used) : kdump->zero;
	}
	uint64_t offset = atomic_fetch_add(&kdump->end, used);
	for (size_t i = 0; i < n; i++) {
		if (stored[i])
			worker->descriptors[i].offset += offset;
		convert_descriptor(&worker->descriptors[i]);
	}
	return (used == 0 ||
		vms_outfile_write_at(kdump->file, offset, worker->data, used, error)) &&
	       (n == 0 ||
		vms_outfile_write_at(kdump->file,
				     kdump->descriptors + index * sizeof(*worker->descriptors),
				     worker->descriptors, n * sizeof(*worker->descriptors), error));
}

static void place_zero_page(struct kdump *kdump)
{
	static const uint8_t zeros[BLOCK];
	size_t used = 0;

	kdump->zero = store_page(kdump, &kdump->workers[0], zeros, &used);
	kdump->zero.offset = atomic_fetch_add(&kdump->end, used);
	memcpy(kdump->zero_data, kdump->workers[0].data, used);
}

/* ---- bitmaps, notes and headers --------------------------------------- */

static void set_bits(uint8_t *bits, uint64_t first, uint64_t end)
{
	for (; first < end && first % 8; first++)
		bits[first / 8] |= (uint8_t)(1U << first % 8);
	if (first < end)
		memset(bits + first / 8, 0xff, (end - first) / 8);
	for (first = MAX(first, end / 8 * 8); first < end; first++)
		bits[first / 8] |= (uint8_t)(1U << first % 8);
}

/* Writes piece `index` of both bitmaps, which are equal, and clears the piece. */
static bool write_piece(struct kdump *kdump, uint64_t index, uint8_t piece[PIECE_BYTES],
			GError **error)
{
	uint64_t at = index * PIECE_BYTES;
	size_t size = MIN(PIECE_BYTES, kdump->bitmap_size - at);

	for (unsigned i = 0; i < 2; i++) {
		if (!vms_outfile_write_at(kdump->file, kdump->bitmaps + i * kdump->bitmap_size + at,
					  piece, size, error))
			return false;
	}
	memset(piece, 0, PIECE_BYTES);
	return true;
}

static bool write_bitmaps(struct kdump *kdump, GError **error)
{
	g_autofree uint8_t *piece = g_malloc0(PIECE_BYTES);
	uint64_t index = 0;

	for (unsigned i = 0; i < kdump->state->memory->len; i++) {
		uint64_t first, end;
		find_range_pages(kdump, i, &first, &end);
		while (first < end) {
			uint64_t base = first / PIECE_PFNS * PIECE_PFNS;
			uint64_t stop = MIN(end, base + PIECE_PFNS);
			if (base / PIECE_PFNS != index && !write_piece(kdump, index, piece, error))
				return false;
			index = base / PIECE_PFNS;
			set_bits(piece, first - base, stop - base);
			first = stop;
		}
	}
	return write_piece(kdump, index, piece, error);
}

/* Writes the notes, and behind them once more the text of VMCOREINFO. */
static bool write_notes(struct kdump *kdump, const struct vms_dump_outcome *outcome,
			struct vms_kdump_sub_header *sub, GError **error)
{
	const char *vmcoreinfo = kdump->state->vmcoreinfo;
	g_autoptr(GByteArray) notes = vms_dump_notes(kdump->state, outcome);
	uint64_t at = BLOCK + sizeof(*sub);

	size_t size = notes->len, text_size = vmcoreinfo ? strlen(vmcoreinfo) : 0;
	if (text_size)
		g_byte_array_append(notes, (const uint8_t *)vmcoreinfo, (guint)text_size);
	if (at + notes->len > kdump->bitmaps)
		at = atomic_fetch_add(&kdump->end, notes->len);
	sub->notes = GUINT64_TO_LE(at);
	sub->notes_size = GUINT64_TO_LE((uint64_t)size);
	sub->vmcoreinfo = GUINT64_TO_LE(text_size ? at + size : 0);
	sub->vmcoreinfo_size = GUINT64_TO_LE((uint64_t)text_size);
	return vms_outfile_write_at(kdump->file, at, notes->data, notes->len, error);
}

/* libkdumpfile, and so drgn, finds the architecture only here, and only if utsname is complete. */
static void describe_guest(const struct kdump *kdump, struct vms_kdump_header *header,
			   struct vms_kdump_sub_header *sub)
{
	const struct vms_guest_info *guest = kdump->state->guest;
	struct vms_kdump_utsname *utsname = &header->utsname;
	const struct {
		char *to;
		const char *from;
	} names[] = { { utsname->sysname, guest->name },
		      { utsname->nodename, guest->hostname },
		      { utsname->release, guest->release },
		      { utsname->version, guest->version },
		      { utsname->machine, kdump->state->arch->arch->name } };
	int64_t phys_base = 0;

	for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
		g_strlcpy(names[i].to, names[i].from ? names[i].from : "", VMS_KDUMP_NAME_SIZE);
	if (kdump->state->vmcoreinfo &&
	    vms_vmcoreinfo_number(kdump->state->vmcoreinfo, "NUMBER(phys_base)", &phys_base))
		sub->phys_base = GUINT64_TO_LE((uint64_t)phys_base);
}

static bool finish_file(struct vms_dump_sink *sink, const struct vms_dump_outcome *outcome,
			GError **error)
{
	struct kdump *kdump = (struct kdump *)sink;
	struct vms_kdump_header header = {
		.version = GUINT32_TO_LE(VMS_KDUMP_VERSION),
		.time_s = GUINT64_TO_LE((uint64_t)kdump->state->time),
		.status = GUINT32_TO_LE(kdump->flags),
		.block_size = GUINT32_TO_LE(BLOCK),
		.sub_header_blocks = GUINT32_TO_LE(kdump->sub_header_blocks),
		.bitmap_blocks = GUINT32_TO_LE((uint32_t)(2 * kdump->bitmap_size / BLOCK)),
		.max_mapnr_32 = GUINT32_TO_LE((uint32_t)MIN(kdump->max_mapnr, G_MAXUINT32)),
		.n_cpus = GUINT32_TO_LE(kdump->state->vcpus->len),
	};
	struct vms_kdump_sub_header sub = { .max_mapnr = GUINT64_TO_LE(kdump->max_mapnr) };

	memcpy(header.signature, VMS_KDUMP_SIGNATURE, sizeof(header.signature));
	describe_guest(kdump, &header, &sub);
	return write_notes(kdump, outcome, &sub, error) && write_bitmaps(kdump, error) &&
	       vms_outfile_write_at(kdump->file, kdump->zero.offset, kdump->zero_data,
				    kdump->zero.size, error) &&
	       vms_outfile_write_at(kdump->file, 0, &header, sizeof(header), error) &&
	       vms_outfile_write_at(kdump->file, BLOCK, &sub, sizeof(sub), error);
}

static void free_sink(struct vms_dump_sink *sink)
{
	struct kdump *kdump = (struct kdump *)sink;
	for (unsigned i = 0; i < kdump->n_workers; i++) {
		ZSTD_freeCCtx(kdump->workers[i].zstd);
		if (kdump->workers[i].has_zlib)
			deflateEnd(&kdump->workers[i].zlib);
	}
	g_free(kdump->workers);
	g_free(kdump->pages_before);
	g_free(kdump);
}

struct vms_dump_sink *vms_dump_open_kdump(const struct vms_dump_state *state,
					  struct vms_outfile *file, unsigned workers,
					  GError **error)
{
	static const uint32_t flags[] = { [VMS_DUMP_PLAIN] = 0,
					  [VMS_DUMP_ZLIB] = VMS_KDUMP_ZLIB,
					  [VMS_DUMP_ZSTD] = VMS_KDUMP_ZSTD };
	struct kdump *kdump = g_new0(struct kdump, 1);
	g_autoptr(vms_dump_sink) sink = &kdump->sink;

	*kdump = (struct kdump) { .sink = { true, true, write_unit, finish_file, free_sink },
				  .state = state,
				  .file = file,
				  .workers = g_new0(struct worker, workers),
				  .n_workers = workers,
				  .flags = flags[state->options->compression] };
	if (!lay_out_file(kdump, error))
		return NULL;
	place_zero_page(kdump);
	return g_steal_pointer(&sink);
}
