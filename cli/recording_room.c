/* SPDX-License-Identifier: MIT */
#include "recording_room.h"
#include "capture/fxt_reader.h"
#include <vmscope/error.h>
#include <vmscope/log.h>

/* Bytes to free beside those that are needed: disks give room in blocks. */
#define SLACK UINT64_C(16384)

/* Returns where the last whole record in the first `limit` bytes ends. */
static uint64_t find_cut(struct vms_bytes bytes, uint64_t limit)
{
	struct vms_fxt_reader *reader = vms_fxt_reader_new(bytes);
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	uint64_t cut = 0;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) == VMS_FXT_RECORD &&
	       vms_fxt_reader_offset(reader) <= limit)
		cut = vms_fxt_reader_offset(reader);
	if (step == VMS_FXT_END && bytes.size <= limit)
		cut = bytes.size;
	if (step == VMS_FXT_TRUNCATED && damage.offset <= limit)
		cut = damage.offset;
	vms_fxt_reader_free(reader);
	return cut;
}

bool recording_cut(struct vms_outfile *file, uint64_t limit, GError **error)
{
	g_autofree char *link = vms_outfile_link(file), *text = NULL;
	g_autoptr(GError) failure = NULL;
	gsize size;
	if (!g_file_get_contents(link, &text, &size, &failure)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot read what was recorded: %s",
			    failure->message);
		return false;
	}
	const struct vms_bytes bytes = { (const uint8_t *)text, size };
	return vms_outfile_set_size(file, find_cut(bytes, limit), error);
}

/* Leaves out what was written of the names. */
static bool leave_out_names(struct vms_outfile *file, uint64_t size, GError **error)
{
	vms_log(VMS_LOG_WARNING, "the disk has no room for the names of functions: the recording "
				 "has their addresses only");
	return vms_outfile_set_size(file, size, error);
}

bool recording_add_names(struct vms_outfile *file, const GByteArray *names, GError **error)
{
	g_autoptr(GError) failure = NULL;
	const uint64_t size = vms_outfile_size(file);
	if (vms_outfile_write_at(file, size, names->data, names->len, &failure))
		return true;
	if (!vms_outfile_is_full(file)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return false;
	}
	const uint64_t missing = names->len - (vms_outfile_size(file) - size) + SLACK;
	if (missing > size / 2)
		return leave_out_names(file, size, error);
	if (!recording_cut(file, size - missing, error))
		return false;
	const uint64_t kept = vms_outfile_size(file);
	if (!vms_outfile_write_at(file, kept, names->data, names->len, NULL))
		return leave_out_names(file, kept, error);
	vms_log(VMS_LOG_WARNING,
		"the disk is full: the last %" G_GUINT64_FORMAT " KiB of samples were left out, to "
		"make room for the names of functions",
		(size - kept + 1023) / 1024);
	return true;
}
