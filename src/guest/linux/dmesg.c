/* SPDX-License-Identifier: MIT */
/*
 * The kernel log. From 5.10 on it is a ring of descriptors and a ring of text (struct
 * printk_ringbuffer, kernel/printk/printk_ringbuffer.h). Before, it is one ring of records (struct
 * printk_log). BTF tells where the members are, or VMCOREINFO, which has their offsets for readers
 * of the log.
 */
#include "guest/linux/dmesg.h"
#include "base/text.h"
#include "guest/linux/member.h"
#include "guest/linux/vmcoreinfo.h"
#include <inttypes.h>

/* The largest sizes that a kernel can be configured for: bytes of text, and records. */
#define TEXT_BITS_LIMIT	 25
#define COUNT_BITS_LIMIT 20
#define RECORD_LIMIT	 128 /* bytes of a structure */

/* Where the members of the ring's structures are. */
struct log_layout {
	struct vms_btf_member desc_ring, text_ring;
	struct vms_btf_member count_bits, descs, infos, head_id, tail_id;
	struct vms_btf_member size_bits, data;
	struct vms_btf_member state, lpos, begin, next;
	struct vms_btf_member time, text_size;
	uint64_t desc_stride, info_stride; /* bytes of an element */
};

struct old_layout {
	struct vms_btf_member time, size, text_size, dict_size;
	uint64_t stride;
};

typedef void (*each_record)(uint64_t time_ns, unsigned level, const char *text, void *data);

/* ---- members ---------------------------------------------------------- */

/* Finds a member by BTF, or by VMCOREINFO, which does not tell its size: then `size` is taken. */
static bool find_member(const struct vms_linux *guest, const char *type, const char *name,
			uint64_t size, struct vms_btf_member *ret)
{
	int64_t offset;
	g_autofree char *key = g_strdup_printf("OFFSET(%s.%s)", type, name);
	if (guest->btf && vms_btf_member(guest->btf, type, name, ret))
		return true;
	if (!guest->vmcoreinfo || !vms_vmcoreinfo_number(guest->vmcoreinfo, key, &offset) ||
	    offset < 0)
		return false;
	*ret = (struct vms_btf_member) { .offset = (uint64_t)offset,
					 .size = size,
					 .is_there = true };
	return true;
}

static bool find_size(const struct vms_linux *guest, const char *type, uint64_t *ret)
{
	int64_t size;
	g_autofree char *key = g_strdup_printf("SIZE(%s)", type);
	if (!guest->btf || !vms_btf_size(guest->btf, type, ret)) {
		if (!guest->vmcoreinfo || !vms_vmcoreinfo_number(guest->vmcoreinfo, key, &size))
			return false;
		*ret = (uint64_t)size;
	}
	return *ret > 0 && *ret <= RECORD_LIMIT;
}

static bool find_symbol(const struct vms_linux *guest, const char *name, uint64_t *ret)
{
	g_autofree char *key = g_strdup_printf("SYMBOL(%s)", name);
	return vms_linux_symbol(guest, name, ret) ||
	       (guest->vmcoreinfo && vms_vmcoreinfo_hex(guest->vmcoreinfo, key, ret));
}

static bool find_layout(const struct vms_linux *guest, struct log_layout *ret)
{
	return find_member(guest, "printk_ringbuffer", "desc_ring", 0, &ret->desc_ring) &&
	       find_member(guest, "printk_ringbuffer", "text_data_ring", 0, &ret->text_ring) &&
	       find_member(guest, "prb_desc_ring", "count_bits", 4, &ret->count_bits) &&
	       find_member(guest, "prb_desc_ring", "descs", 8, &ret->descs) &&
	       find_member(guest, "prb_desc_ring", "infos", 8, &ret->infos) &&
	       find_member(guest, "prb_desc_ring", "head_id", 8, &ret->head_id) &&
	       find_member(guest, "prb_desc_ring", "tail_id", 8, &ret->tail_id) &&
	       find_member(guest, "prb_data_ring", "size_bits", 4, &ret->size_bits) &&
	       find_member(guest, "prb_data_ring", "data", 8, &ret->data) &&
	       find_member(guest, "prb_desc", "state_var", 8, &ret->state) &&
	       find_member(guest, "prb_desc", "text_blk_lpos", 0, &ret->lpos) &&
	       find_member(guest, "prb_data_blk_lpos", "begin", 8, &ret->begin) &&
	       find_member(guest, "prb_data_blk_lpos", "next", 8, &ret->next) &&
	       find_member(guest, "printk_info", "ts_nsec", 8, &ret->time) &&
	       find_member(guest, "printk_info", "text_len", 2, &ret->text_size) &&
	       find_size(guest, "prb_desc", &ret->desc_stride) &&
	       find_size(guest, "printk_info", &ret->info_stride);
}

static bool find_old_layout(const struct vms_linux *guest, struct old_layout *ret)
{
	return find_member(guest, "printk_log", "ts_nsec", 8, &ret->time) &&
	       find_member(guest, "printk_log", "len", 2, &ret->size) &&
	       find_member(guest, "printk_log", "text_len", 2, &ret->text_size) &&
	       find_member(guest, "printk_log", "dict_len", 2, &ret->dict_size) &&
	       find_size(guest, "printk_log", &ret->stride);
}

/* ---- one record ------------------------------------------------------- */

/*
 * Returns the level of a record: the upper 3 bits of a byte that VMCOREINFO does not name. In all
 * these structures, this byte follows the byte `facility`, which follows the u16 `before`.
 */
static unsigned get_record_level(struct vms_bytes record, const struct vms_btf_member *before)
{
	uint8_t flags = 0;
	vms_bytes_u8(record, before->offset + 3, &flags);
	return flags >> 5;
}

/* Cleans a record's text, and gives it to `each`. Line ends and tabs stay, as they are allowed. */
static void pass_record(uint64_t time_ns, unsigned level, struct vms_bytes text, each_record each,
			void *data)
{
	g_autofree char *clean = g_strndup((const char *)text.data, text.size);
	for (char *part = clean; *part;) {
		char *end = part + strcspn(part, "\n\t"), kept = *end;
		*end = '\0';
		vms_text_clean(part);
		*end = kept;
		part = kept ? end + 1 : end;
	}
	each(time_ns, level, clean, data);
}

/* ---- the ring of descriptors ------------------------------------------ */

/* A ring as it was read from the guest. */
struct ring {
	const struct log_layout *layout;
	unsigned count_bits, size_bits;
	uint64_t head_id, tail_id;
	struct vms_bytes descs, infos, text; /* owned */
};
typedef struct ring log_ring;

static void clear_ring(log_ring *ring)
{
	g_free((void *)ring->descs.data);
	g_free((void *)ring->infos.data);
	g_free((void *)ring->text.data);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(log_ring, clear_ring)

/* A descriptor's state variable has two bits of state above the id (DESC_STATE()). */
#define STATE_SHIFT	62
#define STATE_COMMITTED 1
#define STATE_FINALIZED 2
#define ID_MASK		((UINT64_C(1) << STATE_SHIFT) - 1)
#define LPOS_DATALESS	1 /* bit of a position: the record has no text */
#define LPOS_EMPTY_LINE 3 /* position of an empty line, which is no lost record */

/* Finds the block of text at the logical positions [begin, next), as get_data() does. */
static bool find_block(const struct ring *ring, uint64_t id, uint64_t begin, uint64_t next,
		       struct vms_bytes *ret)
{
	uint64_t mask = (UINT64_C(1) << ring->size_bits) - 1, block_id;
	uint64_t at = begin & mask, size = next - begin;
	if (begin == LPOS_EMPTY_LINE) {
		*ret = (struct vms_bytes) { ring->text.data, 0 };
		return true;
	}
	/* A block that does not fit before the ring's end lies at the ring's begin. */
	if (begin >> ring->size_bits != (next - 1) >> ring->size_bits) {
		at = 0;
		size = next & mask;
	}
	if (size < sizeof(block_id) || !vms_bytes_has(ring->text, at, size) ||
	    !vms_bytes_u64(ring->text, at, &block_id) || block_id != id)
		return false;
	*ret = (struct vms_bytes) {
		.data = ring->text.data + at + sizeof(block_id),
		.size = size - sizeof(block_id),
	};
	return true;
}

enum record_state {
	RECORD_GIVEN,
	RECORD_ABSENT, /* its text is still being written, or the kernel has dropped it */
	RECORD_DAMAGED,
};

/*
 * Gives the record with a descriptor id to `each`. `*left` is the number of the ring's bytes that
 * no record has taken yet: in a real ring, records do not overlap.
 */
static enum record_state pass_record_by_id(const struct ring *ring, uint64_t id, uint64_t *left,
					   each_record each, void *data)
{
	const struct log_layout *layout = ring->layout;
	uint64_t index = id & ((UINT64_C(1) << ring->count_bits) - 1);
	uint64_t state, begin, next, time, size;
	struct vms_bytes desc, info, block, lpos;
	if (!vms_bytes_slice(ring->descs, index * layout->desc_stride, layout->desc_stride,
			     &desc) ||
	    !vms_bytes_slice(ring->infos, index * layout->info_stride, layout->info_stride,
			     &info) ||
	    !vms_bytes_has(desc, layout->lpos.offset, 0) ||
	    !vms_member_get(desc, &layout->state, &state) || (state & ID_MASK) != id)
		return RECORD_DAMAGED;
	if (state >> STATE_SHIFT != STATE_COMMITTED && state >> STATE_SHIFT != STATE_FINALIZED)
		return RECORD_ABSENT;
	vms_bytes_slice(desc, layout->lpos.offset, desc.size - layout->lpos.offset, &lpos);
	if (!vms_member_get(lpos, &layout->begin, &begin) ||
	    !vms_member_get(lpos, &layout->next, &next) ||
	    !vms_member_get(info, &layout->time, &time) ||
	    !vms_member_get(info, &layout->text_size, &size))
		return RECORD_DAMAGED;
	if (begin & LPOS_DATALESS && begin != LPOS_EMPTY_LINE)
		return RECORD_ABSENT;
	if (!find_block(ring, id, begin, next, &block) || block.size > *left)
		return RECORD_DAMAGED;
	*left -= block.size;
	block.size = MIN(block.size, size);
	pass_record(time, get_record_level(info, &layout->text_size), block, each, data);
	return RECORD_GIVEN;
}

/* Reads into newly allocated bytes, also if it fails. The caller has checked the size. */
static bool read_block(struct vms_memory *memory, uint64_t va, uint64_t size, struct vms_bytes *ret)
{
	uint8_t *data = g_malloc(size);
	*ret = (struct vms_bytes) { data, size };
	return vms_memory_read(memory, va, data, size);
}

/* Returns false. */
static bool fail_unreadable(uint64_t va, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "log of the guest's kernel: cannot read it at 0x%" PRIx64, va);
	return false;
}

/* Where the ring's arrays lie in the guest. */
struct ring_place {
	uint64_t descs, infos, text;
};

/* Reads and checks the ring's sizes, and reads where its arrays are. */
static bool read_ring_head(struct vms_memory *memory, uint64_t prb, struct ring *ret,
			   struct ring_place *place, GError **error)
{
	const struct log_layout *layout = ret->layout;
	uint64_t desc_ring = prb + layout->desc_ring.offset, text = prb + layout->text_ring.offset;
	uint64_t count_bits, size_bits;
	if (!vms_member_read(memory, desc_ring, &layout->count_bits, &count_bits) ||
	    !vms_member_read(memory, desc_ring, &layout->head_id, &ret->head_id) ||
	    !vms_member_read(memory, desc_ring, &layout->tail_id, &ret->tail_id) ||
	    !vms_member_read(memory, desc_ring, &layout->descs, &place->descs) ||
	    !vms_member_read(memory, desc_ring, &layout->infos, &place->infos) ||
	    !vms_member_read(memory, text, &layout->size_bits, &size_bits) ||
	    !vms_member_read(memory, text, &layout->data, &place->text))
		return fail_unreadable(prb, error);
	if (count_bits > COUNT_BITS_LIMIT || size_bits > TEXT_BITS_LIMIT) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "log of the guest's kernel: 2^%" PRIu64 " records and 2^%" PRIu64
			    " bytes are more than a kernel can have",
			    count_bits, size_bits);
		return false;
	}
	ret->count_bits = (unsigned)count_bits;
	ret->size_bits = (unsigned)size_bits;
	return true;
}

static bool read_ring(struct vms_memory *memory, uint64_t pointer, struct ring *ret, GError **error)
{
	uint64_t prb;
	struct ring_place place;
	if (!vms_memory_read_u64(memory, pointer, &prb))
		return fail_unreadable(pointer, error);
	if (!read_ring_head(memory, prb, ret, &place, error))
		return false;
	uint64_t count = UINT64_C(1) << ret->count_bits;
	if (!read_block(memory, place.descs, count * ret->layout->desc_stride, &ret->descs))
		return fail_unreadable(place.descs, error);
	if (!read_block(memory, place.infos, count * ret->layout->info_stride, &ret->infos))
		return fail_unreadable(place.infos, error);
	return read_block(memory, place.text, UINT64_C(1) << ret->size_bits, &ret->text) ||
	       fail_unreadable(place.text, error);
}

static bool pass_ring_records(struct vms_linux *guest, const struct log_layout *layout,
			      uint64_t pointer, each_record each, void *data, GError **error)
{
	g_auto(log_ring) ring = { .layout = layout };
	g_mutex_lock(&guest->lock);
	bool read = read_ring(guest->memory, pointer, &ring, error);
	g_mutex_unlock(&guest->lock);
	if (!read)
		return false;
	g_autoptr(vms_budget) budget = vms_budget_new_part(guest->budget, "the guest's log");
	ring.descs.budget = ring.infos.budget = ring.text.budget = budget;
	uint64_t last = (ring.head_id - ring.tail_id) & ID_MASK, left = ring.text.size;
	uint64_t n = MIN(last, (UINT64_C(1) << ring.count_bits) - 1) + 1, damaged = 0;
	for (uint64_t i = 0; i < n; i++)
		damaged += pass_record_by_id(&ring, (ring.tail_id + i) & ID_MASK, &left, each,
					     data) == RECORD_DAMAGED;
	if (damaged == 0)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "log of the guest's kernel: %" PRIu64 " of %" PRIu64 " records cannot be read: "
		    "they are damaged, or were overwritten meanwhile",
		    damaged, n);
	return false;
}

/* ---- the ring of records, before 5.10 --------------------------------- */

/*
 * Gives all records to `each`. After a record of size 0, the next one is at the ring's begin
 * (log_next()). A text must lie within its record, so that all texts together are not longer than
 * all records.
 */
static bool pass_log_records(struct vms_bytes log, const struct old_layout *layout, uint64_t first,
			     uint64_t next, each_record each, void *data, GError **error)
{
	uint64_t at = first, read = 0;
	while (at != next && read <= log.size) {
		uint64_t size, text_size, time;
		struct vms_bytes record, text;
		if (!vms_bytes_slice(log, at, layout->stride, &record) ||
		    !vms_member_get(record, &layout->size, &size) ||
		    !vms_member_get(record, &layout->text_size, &text_size) ||
		    !vms_member_get(record, &layout->time, &time) ||
		    (size && (size < layout->stride || text_size > size - layout->stride)) ||
		    !vms_bytes_slice(log, at + layout->stride, size ? text_size : 0, &text)) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
				    "log of the guest's kernel: the record at %" PRIu64 " of %zu "
				    "bytes makes no sense",
				    at, log.size);
			return false;
		}
		read += MAX(size, layout->stride);
		if (size)
			pass_record(time, get_record_level(record, &layout->dict_size), text, each,
				    data);
		at = size ? at + size : 0;
	}
	return true;
}

static bool read_log(struct vms_linux *guest, uint64_t *first, uint64_t *next,
		     struct vms_bytes *ret)
{
	uint64_t va_buf, va_size, va_first, va_next, buf;
	uint32_t size, first_index, next_index;
	if (!find_symbol(guest, "log_buf", &va_buf) ||
	    !find_symbol(guest, "log_buf_len", &va_size) ||
	    !find_symbol(guest, "log_first_idx", &va_first) ||
	    !find_symbol(guest, "log_next_idx", &va_next) ||
	    !vms_memory_read_u64(guest->memory, va_buf, &buf) ||
	    !vms_memory_read_u32(guest->memory, va_size, &size) ||
	    !vms_memory_read_u32(guest->memory, va_first, &first_index) ||
	    !vms_memory_read_u32(guest->memory, va_next, &next_index) ||
	    size > 1u << TEXT_BITS_LIMIT)
		return false;
	*first = first_index;
	*next = next_index;
	return read_block(guest->memory, buf, size, ret);
}

static bool pass_old_log(struct vms_linux *guest, const struct old_layout *layout, each_record each,
			 void *data, GError **error)
{
	uint64_t first, next;
	struct vms_bytes log = { 0 };
	g_mutex_lock(&guest->lock);
	bool done = read_log(guest, &first, &next, &log);
	g_mutex_unlock(&guest->lock);
	g_autoptr(vms_budget) budget = vms_budget_new_part(guest->budget, "the guest's log");
	log.budget = budget;
	if (done)
		done = pass_log_records(log, layout, first, next, each, data, error);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "log of the guest's kernel: cannot read log_buf");
	g_free((void *)log.data);
	return done;
}

bool vms_linux_dmesg(void *system, each_record each, void *data, GError **error)
{
	struct vms_linux *guest = system;
	struct log_layout layout;
	struct old_layout old_layout;
	uint64_t prb;
	if (find_symbol(guest, "prb", &prb) && find_layout(guest, &layout))
		return pass_ring_records(guest, &layout, prb, each, data, error);
	if (find_old_layout(guest, &old_layout))
		return pass_old_log(guest, &old_layout, each, data, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "log of the guest's kernel: neither BTF nor VMCOREINFO tells where it is; "
		    "the kernel has none of them or is too old");
	return false;
}
