/* SPDX-License-Identifier: MIT */
#include "sample/name_attachment.h"
#include "base/text.h"
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"
#include <string.h>

#define TEXT_BYTES 30000

static void write_attachment(struct vms_name_attachment *attachment)
{
	const struct vms_fxt_record record = {
		.type = VMS_FXT_LARGE_BLOB,
		.kind = VMS_FXT_BLOB_ATTACHMENT,
		.category = vms_fxt_inline(VMS_RECORDS_CATEGORY),
		.name = vms_fxt_inline(attachment->name),
		.payload = attachment->text->str,
		.payload_size = attachment->text->len,
	};
	if (attachment->text->len > strlen(attachment->begin))
		vms_fxt_write(attachment->out, &record);
	g_string_assign(attachment->text, attachment->begin);
}

void vms_name_attachment_init(struct vms_name_attachment *attachment, GByteArray *out,
			      const char *name, char *begin)
{
	*attachment = (struct vms_name_attachment) { out, name, begin, g_string_new(begin),
						     vms_tree_new(VMS_TREE_LIMIT) };
}

void vms_name_attachment_end(struct vms_name_attachment *attachment)
{
	write_attachment(attachment);
	g_string_free(attachment->text, TRUE);
	vms_tree_free(attachment->written);
	g_free(attachment->begin);
}

void vms_name_attachment_add(struct vms_name_attachment *attachment, uint64_t address,
			     uint64_t size, const char *function)
{
	const struct vms_tree_key key = { .value = address };
	const uint32_t n = attachment->written->n_nodes;
	vms_tree_child(attachment->written, VMS_TREE_ROOT, key);
	if (attachment->written->n_nodes == n)
		return;
	g_autofree char *name = g_strndup(function, TEXT_BYTES / 4);
	vms_text_clean(name);
	if (attachment->text->len + strlen(name) > TEXT_BYTES)
		write_attachment(attachment);
	g_string_append_printf(attachment->text,
			       "%" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER "x %s\n", address,
			       MAX(size, 1), name);
}
