/* SPDX-License-Identifier: MIT */
#include "base/keyed_hash.h"
#include "base/options.h"
#include "base/outfile.h"
#include "flow/names.h"
#include "flow/record.h"
#include "flow/saved.h"
#include <string.h>
#include <zlib.h>

#define BUFFER_BYTES (64u << 10) /* the buffer is written when it has so many */

struct vms_flow_writer {
	struct vms_outfile *file;
	struct vms_guest *guest;
	const struct vms_process *const *process; /* or NULL */
	GByteArray *buffer;			  /* bytes that are not written yet */
	size_t piece;	    /* offset in the buffer of the piece that is being made */
	GHashTable *probes; /* a reference to struct vms_probe → its number + 1 */
	GHashTable *places; /* a reference to struct vms_flow_place → its number + 1 */
	uint64_t before;    /* bytes of the file when it was opened; it may be an open file */
	uint64_t offered;   /* records that the caller has passed */
	uint64_t records;   /* records that were added to the buffer or the file */
	uint64_t written;   /* records that are completely in the file */
	bool is_stuck;	    /* a write has failed: the file may have a part of the buffer */
	GError *failure;    /* why nothing can be added; else NULL */
};

uint32_t vms_saved_check(const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(0, bytes, size);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void put_u32(struct vms_flow_writer *writer, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	g_byte_array_append(writer->buffer, (const guint8 *)&value, sizeof(value));
}

static void put_u64(struct vms_flow_writer *writer, uint64_t value)
{
	value = GUINT64_TO_LE(value);
	g_byte_array_append(writer->buffer, (const guint8 *)&value, sizeof(value));
}

static void put_text(struct vms_flow_writer *writer, const char *text)
{
	put_u32(writer, text ? (uint32_t)MIN(strlen(text), UINT32_MAX - 1) : VMS_SAVED_NOTHING);
	if (text)
		g_byte_array_append(writer->buffer, (const guint8 *)text, (guint)strlen(text));
}

static void set_u32(struct vms_flow_writer *writer, size_t at, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	memcpy(writer->buffer->data + at, &value, sizeof(value));
}

static void begin_piece(struct vms_flow_writer *writer, enum vms_saved_kind kind)
{
	writer->piece = writer->buffer->len;
	put_u32(writer, 0);
	put_u32(writer, kind);
	put_u32(writer, 0);
}

static bool flush_buffer(struct vms_flow_writer *writer, GError **error)
{
	writer->is_stuck =
		!vms_outfile_write(writer->file, writer->buffer->data, writer->buffer->len, error);
	if (writer->is_stuck)
		return false;
	g_byte_array_set_size(writer->buffer, 0);
	writer->written = writer->records;
	return true;
}

/* Completes the piece. If it is too large, removes it, sets the failure and returns false. */
static bool end_piece(struct vms_flow_writer *writer)
{
	const size_t size = writer->buffer->len - writer->piece;
	if (size - VMS_SAVED_PIECE_HEAD > VMS_SAVED_BODY_MAX) {
		g_byte_array_set_size(writer->buffer, (guint)writer->piece);
		g_set_error(&writer->failure, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot save a probe or a hit of %zu bytes: the limit is %u bytes",
			    size, VMS_SAVED_BODY_MAX);
		return false;
	}
	set_u32(writer, writer->piece + 8, (uint32_t)(size - VMS_SAVED_PIECE_HEAD));
	set_u32(writer, writer->piece,
		vms_saved_check(writer->buffer->data + writer->piece + 4, size - 4));
	return true;
}

/* ---- probes and places -------------------------------------------------------------------- */

static void put_entry(struct vms_flow_writer *writer, const struct vms_probe *probe, size_t index)
{
	const enum vms_entry_kind kind = vms_probe_entry_kind(probe, index);
	put_u32(writer, kind);
	put_text(writer, vms_probe_entry_name(probe, index));
	if (kind != VMS_ENTRY_TYPED)
		return;
	g_autofree char *type = vms_probe_entry_type(probe, index);
	put_u32(writer, (vms_probe_has_pointer(probe, index) ? VMS_SAVED_POINTER : 0) |
				(vms_probe_entry_is_text(probe, index) ? VMS_SAVED_TEXT : 0));
	put_text(writer, type);
}

static bool put_probe(struct vms_flow_writer *writer, const struct vms_probe *probe,
		      uint32_t number)
{
	begin_piece(writer, VMS_SAVED_PROBE_PIECE);
	put_u32(writer, number);
	put_text(writer, vms_probe_description(probe));
	put_u32(writer, (uint32_t)vms_probe_entries(probe));
	for (size_t i = 0; i < vms_probe_entries(probe); i++)
		put_entry(writer, probe, i);
	return end_piece(writer);
}

/* Gets the number of a probe. Writes the probe if it is new. */
static bool number_probe(struct vms_flow_writer *writer, struct vms_probe *probe, uint32_t *ret)
{
	const guint known = GPOINTER_TO_UINT(g_hash_table_lookup(writer->probes, probe));
	*ret = known ? known - 1 : g_hash_table_size(writer->probes);
	if (known)
		return true;
	g_hash_table_insert(writer->probes, vms_probe_ref(probe), GUINT_TO_POINTER(*ret + 1));
	return put_probe(writer, probe, *ret);
}

static bool put_place(struct vms_flow_writer *writer, const struct vms_flow_place *place,
		      uint32_t number)
{
	uint32_t probe, common = VMS_SAVED_NOTHING, returned = VMS_SAVED_NOTHING;
	if (!number_probe(writer, place->probe, &probe) ||
	    (place->common && !number_probe(writer, place->common, &common)) ||
	    (place->returned && !number_probe(writer, place->returned, &returned)))
		return false;
	g_autofree char *name =
		place->name || !writer->guest
			? g_strdup(place->name)
			: vms_flow_name_place(writer->guest,
					      writer->process ? *writer->process : NULL, place->va);
	begin_piece(writer, VMS_SAVED_PLACE_PIECE);
	put_u32(writer, number);
	put_u32(writer, (place->is_after ? VMS_SAVED_AFTER : 0) |
				(place->has_task ? VMS_SAVED_HAS_TASK : 0));
	put_u32(writer, probe);
	put_u32(writer, common);
	put_u32(writer, returned);
	put_u64(writer, place->va);
	put_text(writer, name);
	return end_piece(writer);
}

static bool number_place(struct vms_flow_writer *writer, struct vms_flow_place *place,
			 uint32_t *ret)
{
	const guint known = GPOINTER_TO_UINT(g_hash_table_lookup(writer->places, place));
	*ret = known ? known - 1 : g_hash_table_size(writer->places);
	if (known)
		return true;
	g_hash_table_insert(writer->places, vms_flow_place_ref(place), GUINT_TO_POINTER(*ret + 1));
	return put_place(writer, place, *ret);
}

/* ---- the writer ------------------------------------------------------------------------------ */

static void unref_probe(gpointer probe)
{
	vms_probe_unref(probe);
}

static void unref_place(gpointer place)
{
	vms_flow_place_unref(place);
}

struct vms_flow_writer *vms_flow_writer_open(const char *path, struct vms_guest *guest,
					     const struct vms_process *const *process,
					     uint64_t begin_ns, uint64_t begin_real_ns,
					     GError **error)
{
	struct vms_outfile *file = vms_outfile_open(path, error);
	if (!file)
		return NULL;
	struct vms_flow_writer *writer = g_new0(struct vms_flow_writer, 1);
	writer->file = file;
	writer->before = vms_outfile_size(file);
	writer->guest = guest;
	writer->process = process;
	writer->buffer = g_byte_array_sized_new(2 * BUFFER_BYTES);
	writer->probes = g_hash_table_new_full(vms_hash_direct, NULL, unref_probe, NULL);
	writer->places = g_hash_table_new_full(vms_hash_direct, NULL, unref_place, NULL);
	g_byte_array_append(writer->buffer, (const guint8 *)VMS_SAVED_MAGIC,
			    strlen(VMS_SAVED_MAGIC));
	put_u32(writer, VMS_SAVED_VERSION);
	put_u32(writer, vms_saved_check(writer->buffer->data, writer->buffer->len));
	begin_piece(writer, VMS_SAVED_BEGIN_PIECE);
	put_u64(writer, begin_ns);
	put_u64(writer, begin_real_ns);
	end_piece(writer);
	return writer;
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

/* Puts the texts of the values that have types, because the types are not saved. */
static void put_texts(struct vms_flow_writer *writer, const struct vms_flow_record *record,
		      const struct vms_probe *probe, get_value get)
{
	struct vms_flow_value value;
	for (size_t i = 0; probe && get(record, i, &value); i++) {
		if (!vms_probe_has_text(probe, i))
			continue;
		g_autoptr(GString) text = g_string_new(NULL);
		vms_probe_format_value(probe, i, &value, text);
		put_text(writer, text->str);
	}
}

static bool put_record(struct vms_flow_writer *writer, const struct vms_flow_record *record)
{
	struct vms_flow_raw raw;
	uint32_t place;
	if (!number_place(writer, vms_flow_record_raw(record, &raw), &place))
		return false;
	begin_piece(writer, VMS_SAVED_RECORD_PIECE);
	put_u64(writer, raw.sequence);
	put_u64(writer, raw.time_ns);
	put_u32(writer, place);
	put_u32(writer, raw.vcpu);
	put_u32(writer, raw.failed);
	put_u32(writer, raw.common_failed);
	put_u32(writer, raw.returned_failed);
	g_byte_array_append(writer->buffer, raw.values, (guint)raw.size);
	put_texts(writer, record, vms_flow_record_probe(record), vms_flow_record_value);
	put_texts(writer, record, vms_flow_record_common(record), vms_flow_record_common_value);
	put_texts(writer, record, vms_flow_record_returned(record), vms_flow_record_returned_value);
	if (!end_piece(writer))
		return false;
	writer->records++;
	return writer->buffer->len < BUFFER_BYTES || flush_buffer(writer, &writer->failure);
}

/* Sets a copy of the failure, because all later calls need it, too. Returns false. */
static bool copy_failure(const struct vms_flow_writer *writer, GError **error)
{
	g_propagate_error(error, g_error_copy(writer->failure));
	return false;
}

bool vms_flow_writer_add(struct vms_flow_writer *writer, const struct vms_flow_record *record,
			 GError **error)
{
	writer->offered++;
	if (!writer->failure && put_record(writer, record))
		return true;
	return copy_failure(writer, error);
}

static uint32_t get_u32(const struct vms_flow_writer *writer, size_t at)
{
	uint32_t value;
	memcpy(&value, writer->buffer->data + at, sizeof(value));
	return GUINT32_FROM_LE(value);
}

/*
 * Finds the end of the last whole piece in the first `size` bytes of the buffer, which are those
 * that the file has. Adds their records to `written`.
 */
static size_t find_whole(struct vms_flow_writer *writer, size_t size)
{
	size_t end = vms_outfile_written(writer->file) ? 0 : VMS_SAVED_HEADER;
	while (end + VMS_SAVED_PIECE_HEAD <= size) {
		const size_t next = end + VMS_SAVED_PIECE_HEAD + get_u32(writer, end + 8);
		if (next > size)
			break;
		writer->written += get_u32(writer, end + 4) == VMS_SAVED_RECORD_PIECE;
		end = next;
	}
	return MIN(end, size);
}

/* Leaves only whole pieces in the file. */
static bool cut_file(struct vms_flow_writer *writer)
{
	const uint64_t whole = writer->before + vms_outfile_written(writer->file);
	const uint64_t size = vms_outfile_size(writer->file);
	const size_t more = size > whole ? (size_t)MIN(size - whole, writer->buffer->len) : 0;
	return vms_outfile_set_size(writer->file, whole + find_whole(writer, more), NULL);
}

/* Completes the file with the records that it has, and adds their number to the failure. */
static void keep_part(struct vms_flow_writer *writer)
{
	if (!writer->is_stuck) /* the buffer does not have what could not be saved */
		flush_buffer(writer, NULL);
	if ((writer->is_stuck && !cut_file(writer)) || !writer->written ||
	    !vms_outfile_commit(writer->file, NULL))
		writer->written = 0;
	if (writer->written == writer->offered)
		g_prefix_error(&writer->failure,
			       "all %" G_GINT64_MODIFIER "u records are saved, but not the end: ",
			       writer->written);
	else if (writer->written)
		g_prefix_error(&writer->failure,
			       "only the first %" G_GINT64_MODIFIER "u of %" G_GINT64_MODIFIER
			       "u records could be saved: ",
			       writer->written, writer->offered);
	else
		g_prefix_error(&writer->failure,
			       "none of %" G_GINT64_MODIFIER "u records could be saved: ",
			       writer->offered);
}

bool vms_flow_writer_end(struct vms_flow_writer *writer, const struct vms_flow_progress *progress,
			 GError **error)
{
	if (!writer->failure) {
		begin_piece(writer, VMS_SAVED_END_PIECE);
		put_u64(writer, writer->records);
		put_u64(writer, progress->records);
		put_u64(writer, progress->dropped);
		put_u64(writer, progress->rejected);
		put_u64(writer, progress->unknown);
		put_u64(writer, progress->lost);
		end_piece(writer);
		if (flush_buffer(writer, &writer->failure))
			return vms_outfile_commit(writer->file, error);
	}
	keep_part(writer);
	return copy_failure(writer, error);
}

void vms_flow_writer_free(struct vms_flow_writer *writer)
{
	if (!writer)
		return;
	vms_outfile_close(writer->file);
	g_byte_array_unref(writer->buffer);
	g_hash_table_unref(writer->probes);
	g_hash_table_unref(writer->places);
	g_clear_error(&writer->failure);
	g_free(writer);
}

bool vms_flow_report_save(const struct vms_flow_report *report, struct vms_guest *guest,
			  const struct vms_flow_saved *given, const char *path, GError **error)
{
	struct vms_flow_saved saved;
	if (!vms_options_copy(given, &saved, sizeof(saved), "vms_flow_saved", error))
		return false;
	g_autoptr(vms_flow_writer) writer =
		vms_flow_writer_open(path, guest, NULL, saved.begin_ns, saved.begin_real_ns, error);
	if (!writer)
		return false;
	for (size_t i = 0; i < vms_flow_report_count(report); i++)
		/* vms_flow_writer_end says why one cannot be saved, and how many. */
		vms_flow_writer_add(writer, vms_flow_report_record(report, i, NULL), NULL);
	return vms_flow_writer_end(writer, &saved.progress, error);
}
