/* SPDX-License-Identifier: MIT */
#include "symbol/file_table.h"
#include <glib.h>
#include <string.h>

void vms_file_table_read(const struct vms_file_source *source, uint64_t offset, uint64_t size,
			 struct vms_file_table *ret)
{
	uint64_t first;
	*ret = (struct vms_file_table) { .offset = offset, .size = size };
	if (size == 0 || offset > source->size || size > source->size - offset ||
	    !vms_budget_take(source->budget, VMS_BUDGET_BYTES, size))
		return;
	/* It must fit, but it is not kept: what is made of it has all the room. */
	vms_budget_give_back(source->budget, VMS_BUDGET_BYTES, size);
	ret->bytes = g_malloc0(size + 1); /* one byte more ends the last text */
	ret->has = g_malloc0(size / VMS_FILE_BLOCK + 2);
	ret->is_whole = vms_file_source_read_present(source, offset, ret->bytes, size, ret->has,
						     &first) == 0;
}

void vms_file_table_clear(struct vms_file_table *table)
{
	g_free(table->bytes);
	g_free(table->has);
}

bool vms_file_table_has(const struct vms_file_table *table, uint64_t at, uint64_t size)
{
	if (!table->bytes || at >= table->size || size > table->size - at)
		return false;
	const uint64_t begin = table->offset / VMS_FILE_BLOCK, end = table->offset + at + size - 1;
	return table->has[(table->offset + at) / VMS_FILE_BLOCK - begin] &&
	       table->has[end / VMS_FILE_BLOCK - begin];
}

const char *vms_file_table_text(const struct vms_file_table *table, uint64_t at, size_t limit)
{
	if (!table->bytes || at >= table->size)
		return NULL;
	const char *text = (const char *)table->bytes + at;
	const size_t length = strnlen(text, limit);
	return length > 0 && length < limit &&
			       vms_file_table_has(table, at, MIN(length + 1, table->size - at))
		       ? text
		       : NULL;
}
