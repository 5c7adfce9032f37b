/* SPDX-License-Identifier: MIT */
/*
 * A saved flow report. After a first byte that is even, the input is the file. Else it is a row of
 * pieces without their checks, which are added: kind (1 byte), size (2 bytes), body.
 *
 * Covers: src/flow/saved_reader.c.
 */
#include "flow/saved.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_u32(GByteArray *file, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	g_byte_array_append(file, (const guint8 *)&value, sizeof(value));
}

static void put_piece(GByteArray *file, uint32_t kind, const uint8_t *body, uint32_t size)
{
	const guint begin = file->len;
	put_u32(file, 0);
	put_u32(file, kind);
	put_u32(file, size);
	g_byte_array_append(file, body, size);
	const uint32_t check =
		GUINT32_TO_LE(vms_saved_check(file->data + begin + 4, file->len - begin - 4));
	memcpy(file->data + begin, &check, sizeof(check));
}

/* Makes a file of pieces whose checks are right. */
static GByteArray *make_file(const uint8_t *data, size_t size)
{
	GByteArray *file = g_byte_array_new();
	g_byte_array_append(file, (const guint8 *)VMS_SAVED_MAGIC, strlen(VMS_SAVED_MAGIC));
	put_u32(file, VMS_SAVED_VERSION);
	put_u32(file, vms_saved_check(file->data, file->len));
	while (size >= 3) {
		const uint32_t body = MIN(data[1] | (uint32_t)data[2] << 8, (uint32_t)size - 3);
		put_piece(file, data[0], data + 3, body);
		data += 3 + body;
		size -= 3 + body;
	}
	return file;
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

static void read_values(const struct vms_flow_record *record, const struct vms_probe *probe,
			get_value get)
{
	struct vms_flow_value value;
	for (size_t i = 0; probe && i < vms_probe_entries(probe); i++) {
		g_assert_true(get(record, i, &value));
		g_assert_nonnull(vms_probe_entry_name(probe, i));
		g_free(vms_probe_entry_type(probe, i));
		g_autoptr(GString) text = g_string_new(NULL);
		if (vms_probe_entry_kind(probe, i) == VMS_ENTRY_TYPED)
			vms_probe_format_value(probe, i, &value, text);
		g_assert_true(g_utf8_validate(text->str, (gssize)text->len, NULL));
		if (value.size) /* reads all of it */
			g_assert_true(!memchr(value.bytes, 0, value.size) || value.size);
	}
}

static bool read_record(struct vms_flow_record *record, void *data, GError **error)
{
	(void)data, (void)error;
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	g_assert_cmpuint(strlen(hit.comm), <, sizeof(hit.comm));
	read_values(record, vms_flow_record_probe(record), vms_flow_record_value);
	read_values(record, vms_flow_record_common(record), vms_flow_record_common_value);
	read_values(record, vms_flow_record_returned(record), vms_flow_record_returned_value);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_flow_saved saved;
	if (size == 0)
		return 0;
	g_autoptr(GByteArray) file = data[0] % 2 ? make_file(data + 1, size - 1) : NULL;
	const struct vms_bytes bytes = { file ? file->data : data + 1,
					 file ? file->len : size - 1 };
	g_autoptr(vms_flow_report) report = vms_flow_saved_parse(bytes, "it", &saved, NULL);
	if (!report)
		return 0;
	g_assert_cmpuint(saved.damaged_bytes, <=, bytes.size);
	g_assert_true(!file || !saved.damaged_bytes);
	vms_flow_report_each(report, read_record, NULL, NULL);
	return 0;
}
