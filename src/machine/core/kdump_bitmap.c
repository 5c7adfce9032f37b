/* SPDX-License-Identifier: MIT */
#include "machine/core/kdump_bitmap.h"

static uint64_t count_chunks(const struct vms_kdump_bitmaps *bitmaps)
{
	return bitmaps->n_pfns / VMS_KDUMP_CHUNK_PFNS +
	       (bitmaps->n_pfns % VMS_KDUMP_CHUNK_PFNS != 0);
}

/* Returns how many bytes of one bitmap have bits of page frames. */
static uint64_t get_bitmap_size(const struct vms_kdump_bitmaps *bitmaps)
{
	return bitmaps->n_pfns / 8 + (bitmaps->n_pfns % 8 != 0);
}

/* Reads chunk `index` of the bitmap at `offset`. */
static bool load_words(const struct vms_kdump_bitmaps *bitmaps, uint64_t offset, uint64_t index,
		       uint64_t words[VMS_KDUMP_CHUNK_WORDS])
{
	uint64_t at = index * VMS_KDUMP_CHUNK_BYTES;
	uint64_t size = MIN(VMS_KDUMP_CHUNK_BYTES, get_bitmap_size(bitmaps) - at);
	uint64_t pfns = bitmaps->n_pfns - index * VMS_KDUMP_CHUNK_PFNS;

	memset(words, 0, VMS_KDUMP_CHUNK_BYTES);
	if (!vms_core_file_read(bitmaps->file, offset + at, words, size))
		return false;
	for (unsigned i = 0; i < VMS_KDUMP_CHUNK_WORDS; i++)
		words[i] = GUINT64_FROM_LE(words[i]);
	if (pfns < VMS_KDUMP_CHUNK_PFNS && pfns % 64)
		words[pfns / 64] &= (UINT64_C(1) << pfns % 64) - 1;
	return true;
}

static bool load_chunk(const struct vms_kdump_bitmaps *bitmaps, uint64_t index,
		       struct vms_kdump_chunk *chunk)
{
	if (chunk->index == index)
		return true;
	chunk->index = VMS_KDUMP_NO_CHUNK;
	if (!load_words(bitmaps, bitmaps->in_memory, index, chunk->in_memory) ||
	    !load_words(bitmaps, bitmaps->in_file, index, chunk->in_file))
		return false;
	chunk->index = index;
	return true;
}

bool vms_kdump_chunk_load(const struct vms_kdump_bitmaps *bitmaps, uint64_t pfn,
			  struct vms_kdump_chunk *chunk)
{
	return load_chunk(bitmaps, pfn / VMS_KDUMP_CHUNK_PFNS, chunk);
}

/* Finds the first bit from `bit` on that is `value`. VMS_KDUMP_CHUNK_PFNS if there is none. */
static unsigned find_next_bit(const uint64_t words[VMS_KDUMP_CHUNK_WORDS], unsigned bit, bool value)
{
	while (bit < VMS_KDUMP_CHUNK_PFNS) {
		uint64_t rest = (value ? words[bit / 64] : ~words[bit / 64]) >> bit % 64;
		if (rest)
			return bit + (unsigned)__builtin_ctzll(rest);
		bit += 64 - bit % 64;
	}
	return bit;
}

/* ---- reading everything once ------------------------------------------ */

struct scan {
	struct vms_kdump_bitmaps *bitmaps;
	struct vms_kdump_chunk chunk;
	uint64_t data_in_memory[2],
		data_in_file[2]; /* the last data found in the file, per bitmap */
	uint64_t run;		 /* begin of the current run */
	bool in_run;
	void (*each_run)(uint64_t pfn, uint64_t end, void *data);
	void *data;
};

/*
 * True if the chunk is a hole in the file. This saves time, because a small sparse file can have
 * bitmaps of gigabytes. `data` keeps the data that was last found behind a hole.
 */
static bool is_hole(const struct vms_kdump_bitmaps *bitmaps, uint64_t bitmap, uint64_t index,
		    uint64_t data[2])
{
	uint64_t offset = bitmap + index * VMS_KDUMP_CHUNK_BYTES;
	if (offset >= data[1])
		vms_core_file_next_data(bitmaps->file, offset, bitmap + get_bitmap_size(bitmaps),
					&data[0], &data[1]);
	return data[0] >= data[1] || offset + VMS_KDUMP_CHUNK_BYTES <= data[0];
}

static void find_runs(struct scan *scan, uint64_t pfn, const uint64_t words[VMS_KDUMP_CHUNK_WORDS])
{
	unsigned bit = 0;
	while ((bit = find_next_bit(words, bit, !scan->in_run)) < VMS_KDUMP_CHUNK_PFNS) {
		if (scan->in_run)
			scan->each_run(scan->run, pfn + bit, scan->data);
		scan->run = pfn + bit;
		scan->in_run = !scan->in_run;
	}
}

static bool scan_chunk(struct scan *scan, uint64_t index)
{
	static const uint64_t nothing[VMS_KDUMP_CHUNK_WORDS];
	struct vms_kdump_bitmaps *bitmaps = scan->bitmaps;
	const struct vms_kdump_chunk *chunk = &scan->chunk;
	uint64_t pfn = index * VMS_KDUMP_CHUNK_PFNS, words[VMS_KDUMP_CHUNK_WORDS];
	bool no_memory = is_hole(bitmaps, bitmaps->in_memory, index, scan->data_in_memory);

	if (is_hole(bitmaps, bitmaps->in_file, index, scan->data_in_file) && no_memory) {
		find_runs(scan, pfn, nothing);
		return true;
	}
	if (!load_chunk(bitmaps, index, &scan->chunk))
		return false;
	for (unsigned i = 0; i < VMS_KDUMP_CHUNK_WORDS; i++) {
		uint64_t in_memory = chunk->in_memory[i], in_file = chunk->in_file[i];
		words[i] = in_memory | in_file;
		bitmaps->n_pages += (unsigned)__builtin_popcountll(in_file);
		bitmaps->n_left_out += (unsigned)__builtin_popcountll(in_memory & ~in_file);
		bitmaps->n_stray += (unsigned)__builtin_popcountll(in_file & ~in_memory);
	}
	find_runs(scan, pfn, words);
	return true;
}

bool vms_kdump_bitmaps_scan(struct vms_kdump_bitmaps *bitmaps,
			    void (*each_run)(uint64_t pfn, uint64_t end, void *data), void *data,
			    GError **error)
{
	struct scan scan = { .bitmaps = bitmaps, .each_run = each_run, .data = data };
	uint64_t chunks = count_chunks(bitmaps);

	scan.chunk.index = VMS_KDUMP_NO_CHUNK;
	bitmaps->pages_before = g_new0(uint64_t, chunks + 1);
	for (uint64_t i = 0; i < chunks; i++) {
		if (!scan_chunk(&scan, i)) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
				    "cannot read %s: its page bitmaps of %" G_GUINT64_FORMAT
				    " bytes each from offset 0x%" G_GINT64_MODIFIER
				    "x on are not all in the file; it is cut off or damaged",
				    vms_core_file_path(bitmaps->file), get_bitmap_size(bitmaps),
				    bitmaps->in_memory);
			return false;
		}
		bitmaps->pages_before[i + 1] = bitmaps->n_pages;
	}
	if (scan.in_run)
		each_run(scan.run, bitmaps->n_pfns, data);
	return true;
}

void vms_kdump_bitmaps_clear(struct vms_kdump_bitmaps *bitmaps)
{
	g_clear_pointer(&bitmaps->pages_before, g_free);
}

/* ---- looking up ------------------------------------------------------- */

enum vms_kdump_place vms_kdump_place(const struct vms_kdump_bitmaps *bitmaps,
				     const struct vms_kdump_chunk *chunk, uint64_t pfn,
				     uint64_t *descriptor)
{
	unsigned word = pfn % VMS_KDUMP_CHUNK_PFNS / 64;
	uint64_t bit = UINT64_C(1) << pfn % 64;

	if (!(chunk->in_file[word] & bit))
		return chunk->in_memory[word] & bit ? VMS_KDUMP_LEFT_OUT : VMS_KDUMP_NO_MEMORY;
	*descriptor = bitmaps->pages_before[chunk->index];
	for (unsigned i = 0; i < word; i++)
		*descriptor += (unsigned)__builtin_popcountll(chunk->in_file[i]);
	*descriptor += (unsigned)__builtin_popcountll(chunk->in_file[word] & (bit - 1));
	return VMS_KDUMP_IN_FILE;
}

bool vms_kdump_next_pages(const struct vms_kdump_bitmaps *bitmaps, struct vms_kdump_chunk *chunk,
			  uint64_t pfn, uint64_t end, uint64_t *begin, uint64_t *stop)
{
	uint64_t last = MIN(end, bitmaps->n_pfns);

	*begin = *stop = end;
	while (pfn < last) {
		uint64_t index = pfn / VMS_KDUMP_CHUNK_PFNS;
		uint64_t base = index * VMS_KDUMP_CHUNK_PFNS;
		if (bitmaps->pages_before[index] < bitmaps->pages_before[index + 1]) {
			if (!load_chunk(bitmaps, index, chunk))
				return false;
			unsigned bit = find_next_bit(chunk->in_file, (unsigned)(pfn - base), true);
			if (bit < VMS_KDUMP_CHUNK_PFNS) {
				*begin = MIN(base + bit, end);
				*stop = MIN(base + find_next_bit(chunk->in_file, bit, false), end);
				return true;
			}
		}
		pfn = base + VMS_KDUMP_CHUNK_PFNS;
	}
	return true;
}
