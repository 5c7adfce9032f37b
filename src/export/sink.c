/* SPDX-License-Identifier: MIT */
#include "export/sink.h"
#include <zlib.h>

/* Bytes of text to collect before they are written. */
#define CHUNK ((size_t)64 << 10)
/* A low level: it is fast, and higher ones hardly compress better. */
#define GZIP_LEVEL 3
#define GZIP_BITS  (15 + 16) /* the largest window, and gzip's header and trailer */

struct vms_export_sink *vms_export_sink_new(GString *out, struct vms_outfile *file, bool gzip)
{
	struct vms_export_sink *sink = g_new0(struct vms_export_sink, 1);

	sink->text = g_string_sized_new(CHUNK * 2);
	sink->out = out;
	sink->file = file;
	if (!gzip)
		return sink;
	sink->gzip = g_new0(struct z_stream_s, 1);
	if (deflateInit2(sink->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_BITS, MAX_MEM_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		g_error("cannot compress: no memory");
	return sink;
}

void vms_export_sink_free(struct vms_export_sink *sink)
{
	if (!sink)
		return;
	if (sink->gzip)
		deflateEnd(sink->gzip);
	g_free(sink->gzip);
	g_clear_error(&sink->error);
	g_string_free(sink->text, TRUE);
	g_free(sink);
}

static void write_bytes(struct vms_export_sink *sink, const void *bytes, size_t size)
{
	if (sink->error)
		return;
	if (sink->out)
		g_string_append_len(sink->out, bytes, (gssize)size);
	else
		vms_outfile_write(sink->file, bytes, size, &sink->error);
}

static void compress_text(struct vms_export_sink *sink, int flush)
{
	uint8_t bytes[16384];

	sink->gzip->next_in = (uint8_t *)sink->text->str;
	sink->gzip->avail_in = (uInt)sink->text->len;
	do {
		sink->gzip->next_out = bytes;
		sink->gzip->avail_out = sizeof(bytes);
		deflate(sink->gzip, flush);
		write_bytes(sink, bytes, sizeof(bytes) - sink->gzip->avail_out);
	} while (sink->gzip->avail_out == 0);
}

static void write_text(struct vms_export_sink *sink, int flush)
{
	if (!sink->error && !vms_budget_take(sink->budget, VMS_BUDGET_PRINTED, sink->text->len))
		vms_budget_set_error(sink->budget, "cannot write the report", &sink->error);
	if (sink->error) {
		g_string_truncate(sink->text, 0);
		return;
	}
	if (sink->gzip)
		compress_text(sink, flush);
	else
		write_bytes(sink, sink->text->str, sink->text->len);
	g_string_truncate(sink->text, 0);
}

bool vms_export_drain(struct vms_export_sink *sink)
{
	if (sink->text->len >= CHUNK)
		write_text(sink, Z_NO_FLUSH);
	return !sink->error;
}

bool vms_export_sink_finish(struct vms_export_sink *sink, GError **error)
{
	write_text(sink, Z_FINISH);
	if (!sink->error)
		return true;
	g_propagate_error(error, g_steal_pointer(&sink->error));
	return false;
}

void vms_export_append_number(GString *out, uint64_t number)
{
	char digits[20];
	size_t n = sizeof(digits);

	do
		digits[--n] = (char)('0' + number % 10);
	while (number /= 10);
	g_string_append_len(out, digits + n, (gssize)(sizeof(digits) - n));
}

void vms_export_append_ms(GString *out, uint64_t ns)
{
	char digits[] = ".000000";
	uint64_t rest = ns % 1000000;

	vms_export_append_number(out, ns / 1000000);
	for (size_t i = sizeof(digits) - 1; rest && i-- > 1; rest /= 10)
		digits[i] = (char)('0' + rest % 10);
	g_string_append_len(out, digits, sizeof(digits) - 1);
}
