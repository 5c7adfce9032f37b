/* SPDX-License-Identifier: MIT */
#include "sample/recording_code.h"
#include "base/search.h"
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"

#define HEAD	       (2 * sizeof(uint64_t))
#define PIECE_BYTES    16384 /* of code in one attachment */
#define FUNCTION_LIMIT (1u << 20)

/* ---- writing -------------------------------------------------------------------------- */

static void put_piece(GByteArray *out, uint64_t file, uint64_t offset, const uint8_t *code,
		      size_t size)
{
	uint8_t payload[HEAD + PIECE_BYTES];
	const uint64_t head[] = { GUINT64_TO_LE(file), GUINT64_TO_LE(offset) };
	memcpy(payload, head, HEAD);
	memcpy(payload + HEAD, code, size);
	const struct vms_fxt_record record = {
		.type = VMS_FXT_LARGE_BLOB,
		.kind = VMS_FXT_BLOB_ATTACHMENT,
		.category = vms_fxt_inline(VMS_RECORDS_CATEGORY),
		.name = vms_fxt_inline(VMS_RECORDS_CODE),
		.payload = payload,
		.payload_size = HEAD + size,
	};
	vms_fxt_write(out, &record);
}

void vms_recorded_code_put(GByteArray *out, uint64_t file, struct vms_binary *binary,
			   uint64_t offset, uint64_t size, uint64_t *left)
{
	if (size > FUNCTION_LIMIT || size > *left)
		return;
	g_autofree uint8_t *code = g_malloc(MAX(size, 1));
	if (!vms_binary_read(binary, offset, code, size))
		return;
	*left -= size;
	for (uint64_t at = 0; at < size; at += PIECE_BYTES)
		put_piece(out, file, offset + at, code + at, MIN(size - at, PIECE_BYTES));
}

/* ---- reading -------------------------------------------------------------------------- */

struct piece {
	uint64_t offset; /* in the file */
	size_t at, size; /* in `bytes` */
};

struct vms_recorded_code {
	GArray *pieces; /* struct piece; by offset when it is read */
	GByteArray *bytes;
};

bool vms_recorded_code_parse(struct vms_bytes payload, uint64_t *file, uint64_t *offset,
			     struct vms_bytes *code)
{
	return vms_bytes_u64(payload, 0, file) && vms_bytes_u64(payload, 8, offset) &&
	       vms_bytes_slice(payload, HEAD, payload.size - HEAD, code) &&
	       code->size <= UINT64_MAX - *offset;
}

struct vms_recorded_code *vms_recorded_code_new(void)
{
	struct vms_recorded_code *code = g_new(struct vms_recorded_code, 1);
	code->pieces = g_array_new(FALSE, FALSE, sizeof(struct piece));
	code->bytes = g_byte_array_new();
	return code;
}

void vms_recorded_code_free(struct vms_recorded_code *code)
{
	if (!code)
		return;
	g_array_unref(code->pieces);
	g_byte_array_unref(code->bytes);
	g_free(code);
}

void vms_recorded_code_add(struct vms_recorded_code *code, uint64_t offset, struct vms_bytes bytes)
{
	const struct piece piece = { offset, code->bytes->len, bytes.size };
	if (bytes.size > VMS_RECORDED_CODE_LIMIT - code->bytes->len)
		return;
	g_array_append_val(code->pieces, piece);
	g_byte_array_append(code->bytes, bytes.data, (guint)bytes.size);
}

static const struct piece *get_piece(const struct vms_recorded_code *code, size_t i)
{
	return &g_array_index(code->pieces, struct piece, i);
}

/* Reads bytes from adjacent pieces. */
static bool read_pieces(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct vms_recorded_code *code = data;
	uint8_t *to = buf;
	while (size > 0) {
		const size_t n =
			VMS_SEARCH(code->pieces->len, i, get_piece(code, i)->offset <= offset);
		const struct piece *piece = n ? get_piece(code, n - 1) : NULL;
		if (!piece || offset - piece->offset >= piece->size)
			return false;
		const uint64_t from = offset - piece->offset;
		const size_t part = MIN(size, piece->size - from);
		memcpy(to, code->bytes->data + piece->at + from, part);
		to += part;
		offset += part;
		size -= part;
	}
	return true;
}

static void free_code(void *data)
{
	vms_recorded_code_free(data);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

struct vms_binary *vms_recorded_code_make_binary(struct vms_recorded_code *code, const char *path,
						 struct vms_budget *budget)
{
	g_array_sort(code->pieces, compare_pieces);
	const struct piece *last =
		code->pieces->len ? get_piece(code, code->pieces->len - 1) : NULL;
	const struct vms_file_source source = { .size = last ? last->offset + last->size : 0,
						.read = read_pieces,
						.free = free_code,
						.data = code,
						.budget = budget };
	return vms_binary_new(path, &source);
}
