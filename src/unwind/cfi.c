/* SPDX-License-Identifier: MIT */
/*
 * The table of functions in .eh_frame_hdr, and the rows that were made so far. The size of
 * .eh_frame is told nowhere, and its end may be missing: so only what the table leads to is read.
 */
#include "unwind/cfi-private.h"
#include <dwarf.h>

#define HEADER_LIMIT	(UINT64_C(16) << 20) /* bytes: two million functions */
#define BLOCK		4096u		     /* of the table: it is read in such parts */
#define ENTRY_SIZE	8u		     /* of the table: two s32 */
#define FUNCTIONS_LIMIT (16u << 20)	     /* bytes of rows; then all are made anew */

/* A function whose tables make no sense. */
static struct vms_cfi_function bad_function;

struct vms_cfi {
	struct vms_reader file;
	uint64_t header, size;
	bool has_header; /* false: `header` and `size` are those of .eh_frame */
	bool is_aarch64;
	GMutex lock;	  /* guards all that follows */
	uint8_t **blocks; /* of the header; NULL: not read yet */
	size_t n_blocks;
	bool has_table;
	uint64_t table;			     /* where the table begins in the header */
	GArray *lines;			     /* the table if there is no header */
	uint32_t n;			     /* functions in it */
	struct vms_cfi_function **functions; /* by index in the table; NULL: not read yet */
	size_t functions_bytes, blocks_bytes;
};

struct vms_cfi *vms_cfi_new(const struct vms_reader *file, uint64_t header, uint64_t size,
			    bool is_aarch64)
{
	struct vms_cfi *cfi = g_new0(struct vms_cfi, 1);
	g_mutex_init(&cfi->lock);
	cfi->file = *file;
	cfi->header = header;
	cfi->has_header = true;
	cfi->size = MIN(size, HEADER_LIMIT);
	cfi->is_aarch64 = is_aarch64;
	cfi->n_blocks = (cfi->size + BLOCK - 1) / BLOCK;
	cfi->blocks = g_new0(uint8_t *, cfi->n_blocks);
	return cfi;
}

struct vms_cfi *vms_cfi_new_without_header(const struct vms_reader *file, uint64_t va,
					   uint64_t size, bool is_aarch64)
{
	struct vms_cfi *cfi = vms_cfi_new(file, va, 0, is_aarch64);
	cfi->has_header = false;
	cfi->size = size;
	return cfi;
}

static void drop_functions(struct vms_cfi *cfi)
{
	for (uint32_t i = 0; cfi->functions && i < cfi->n; i++) {
		if (cfi->functions[i] != &bad_function)
			vms_cfi_function_free(cfi->functions[i]);
		cfi->functions[i] = NULL;
	}
	cfi->functions_bytes = 0;
}

void vms_cfi_free(struct vms_cfi *cfi)
{
	if (!cfi)
		return;
	drop_functions(cfi);
	g_free(cfi->functions);
	for (size_t i = 0; i < cfi->n_blocks; i++)
		g_free(cfi->blocks[i]);
	g_free(cfi->blocks);
	if (cfi->lines)
		g_array_unref(cfi->lines);
	g_mutex_clear(&cfi->lock);
	g_free(cfi);
}

/* ---- the header ------------------------------------------------------- */

/* Returns a block of the header, or NULL if it cannot be read now. */
static const uint8_t *get_block(struct vms_cfi *cfi, size_t i)
{
	if (cfi->blocks[i])
		return cfi->blocks[i];
	g_autofree uint8_t *block = g_malloc0(BLOCK);
	const uint64_t size = MIN(cfi->size - i * BLOCK, BLOCK);
	if (!cfi->file.read(cfi->file.data, cfi->header + i * BLOCK, block, size))
		return NULL;
	cfi->blocks_bytes += BLOCK;
	return cfi->blocks[i] = g_steal_pointer(&block);
}

/* Reads bytes of the header. MISSING, or BAD if it has no such bytes. */
static enum vms_cfi_result read_header(struct vms_cfi *cfi, uint64_t at, void *buf, size_t size)
{
	uint8_t *to = buf;
	if (at > cfi->size || size > cfi->size - at)
		return VMS_CFI_BAD;
	for (; size > 0; size--, at++) {
		const uint8_t *block = get_block(cfi, at / BLOCK);
		if (!block)
			return VMS_CFI_MISSING;
		*to++ = block[at % BLOCK];
	}
	return VMS_CFI_FOUND;
}

/* Finds the table of a header. It is one of two s32 in all files that linkers make. */
static enum vms_cfi_result read_head(struct vms_cfi *cfi)
{
	uint8_t head[32] = { 0 };
	const enum vms_cfi_result result = read_header(cfi, 0, head, MIN(cfi->size, sizeof(head)));
	if (result != VMS_CFI_FOUND)
		return result;
	struct vms_cfi_input input = { { head, MIN(cfi->size, sizeof(head)) }, .va = cfi->header };
	const uint8_t version = vms_cfi_u8(&input), frame = vms_cfi_u8(&input);
	const uint8_t count = vms_cfi_u8(&input), table = vms_cfi_u8(&input);
	if (input.failed || version != 1)
		return VMS_CFI_BAD;
	if (count == DW_EH_PE_omit || table != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return VMS_CFI_NONE;
	vms_cfi_pointer(&input, frame, cfi->header);
	const uint64_t n = vms_cfi_pointer(&input, count, cfi->header);
	if (input.failed || n > (cfi->size - input.at) / ENTRY_SIZE)
		return VMS_CFI_BAD;
	cfi->n = (uint32_t)n;
	cfi->table = input.at;
	return VMS_CFI_FOUND;
}

static enum vms_cfi_result find_table(struct vms_cfi *cfi)
{
	enum vms_cfi_result result;
	if (cfi->has_table)
		return VMS_CFI_FOUND;
	if (cfi->has_header) {
		result = read_head(cfi);
	} else {
		g_autoptr(GArray) lines = g_array_new(FALSE, FALSE, sizeof(struct vms_cfi_line));
		result = vms_cfi_scan(&cfi->file, cfi->header, cfi->size, cfi->is_aarch64, lines);
		cfi->n = lines->len;
		cfi->lines = g_steal_pointer(&lines);
	}
	if (result == VMS_CFI_FOUND) {
		cfi->has_table = true;
		cfi->functions = g_new0(struct vms_cfi_function *, cfi->n + 1);
	} else if (cfi->lines) {
		g_clear_pointer(&cfi->lines, g_array_unref);
	}
	return result;
}

/* Reads a line of the table: where a function starts, and where its entry is. */
static enum vms_cfi_result read_line(struct vms_cfi *cfi, uint32_t i, uint64_t *start,
				     uint64_t *entry)
{
	uint32_t line[2];
	if (cfi->lines) {
		const struct vms_cfi_line *made =
			&g_array_index(cfi->lines, struct vms_cfi_line, i);
		*start = made->start;
		*entry = made->entry;
		return VMS_CFI_FOUND;
	}
	const enum vms_cfi_result result =
		read_header(cfi, cfi->table + (uint64_t)i * ENTRY_SIZE, line, sizeof(line));
	if (result != VMS_CFI_FOUND)
		return result;
	*start = cfi->header + (uint64_t)(int32_t)GUINT32_FROM_LE(line[0]);
	*entry = cfi->header + (uint64_t)(int32_t)GUINT32_FROM_LE(line[1]);
	return VMS_CFI_FOUND;
}

/* Finds the last line whose function starts at `va` or before it. */
static enum vms_cfi_result find_line(struct vms_cfi *cfi, uint64_t va, uint32_t *ret,
				     uint64_t *entry)
{
	uint32_t low = 0, high = cfi->n;
	uint64_t start, at;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		const enum vms_cfi_result result = read_line(cfi, middle, &start, &at);
		if (result != VMS_CFI_FOUND)
			return result;
		if (start <= va)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low - 1;
	return low == 0 ? VMS_CFI_NONE : read_line(cfi, low - 1, &start, entry);
}

/* ---- functions -------------------------------------------------------- */

/* Reads the function of a line of the table, whose entry is at `va`. */
static enum vms_cfi_result read_function(struct vms_cfi *cfi, uint32_t line, uint64_t va)
{
	struct vms_cfi_entry entry;
	struct vms_cfi_function *function = NULL;
	const enum vms_cfi_result result =
		vms_cfi_entry_read(&cfi->file, va, cfi->is_aarch64, &entry);
	if (result == VMS_CFI_FOUND)
		function = vms_cfi_function_new(&entry);
	vms_cfi_entry_clear(&entry);
	if (result == VMS_CFI_MISSING)
		return result;
	if (cfi->functions_bytes > FUNCTIONS_LIMIT)
		drop_functions(cfi);
	cfi->functions_bytes += function ? vms_cfi_function_bytes(function) : 0;
	cfi->functions[line] = function ? function : &bad_function;
	return VMS_CFI_FOUND;
}

static const struct vms_cfi_kept_row *find_row(const struct vms_cfi_function *function, uint64_t va)
{
	guint low = 0, high = function->rows->len;
	while (low < high) {
		const guint middle = low + (high - low) / 2;
		if (function->start +
			    g_array_index(function->rows, struct vms_cfi_kept_row, middle).start <=
		    va)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &g_array_index(function->rows, struct vms_cfi_kept_row, low - 1) : NULL;
}

/* Copies the expression of a rule. False if there are too many. */
static bool copy_expression(const struct vms_cfi_function *function, struct vms_cfi_rule *rule,
			    size_t *used, struct vms_cfi_row *ret)
{
	if (rule->kind != VMS_CFI_EXPRESSION && rule->kind != VMS_CFI_VAL_EXPRESSION)
		return true;
	if (rule->size > sizeof(ret->bytes) - *used)
		return false;
	if (rule->size > 0) /* else there may be no bytes at all */
		memcpy(ret->bytes + *used, function->bytes->data + rule->value, rule->size);
	rule->value = (int32_t)*used;
	*used += rule->size;
	return true;
}

static bool copy_row(const struct vms_cfi_function *function, const struct vms_cfi_kept_row *row,
		     struct vms_cfi_row *ret)
{
	size_t used = 0;
	ret->start = function->start + row->start;
	ret->return_reg = function->return_reg;
	ret->is_signal = function->is_signal;
	ret->cfa = row->cfa;
	ret->n = (uint8_t)row->n;
	bool done = copy_expression(function, &ret->cfa, &used, ret);
	for (unsigned i = 0; i < row->n && done; i++) {
		ret->rules[i] = g_array_index(function->rules, struct vms_cfi_rule, row->rules + i);
		done = copy_expression(function, &ret->rules[i], &used, ret);
	}
	return done;
}

static enum vms_cfi_result find(struct vms_cfi *cfi, uint64_t va, struct vms_cfi_row *ret)
{
	uint32_t line = 0;
	uint64_t entry = 0;
	enum vms_cfi_result result = find_table(cfi);
	if (result == VMS_CFI_FOUND)
		result = find_line(cfi, va, &line, &entry);
	if (result == VMS_CFI_FOUND && !cfi->functions[line])
		result = read_function(cfi, line, entry);
	if (result != VMS_CFI_FOUND)
		return result;
	const struct vms_cfi_function *function = cfi->functions[line];
	if (function == &bad_function)
		return VMS_CFI_BAD;
	if (va < function->start || va - function->start >= function->size)
		return VMS_CFI_NONE;
	const struct vms_cfi_kept_row *row = find_row(function, va);
	return row && copy_row(function, row, ret) ? VMS_CFI_FOUND : VMS_CFI_BAD;
}

enum vms_cfi_result vms_cfi_find(struct vms_cfi *cfi, uint64_t va, struct vms_cfi_row *ret)
{
	g_mutex_lock(&cfi->lock);
	const enum vms_cfi_result result = find(cfi, va, ret);
	g_mutex_unlock(&cfi->lock);
	return result;
}

size_t vms_cfi_bytes(struct vms_cfi *cfi)
{
	g_mutex_lock(&cfi->lock);
	const size_t bytes = cfi->blocks_bytes + cfi->functions_bytes +
			     (cfi->n + cfi->n_blocks) * sizeof(void *) +
			     (cfi->lines ? cfi->lines->len * sizeof(struct vms_cfi_line) : 0);
	g_mutex_unlock(&cfi->lock);
	return bytes;
}
