/* SPDX-License-Identifier: MIT */
#include "base/keyed_hash.h"
#include "base/text.h"
#include "flow/record.h"
#include "flow/report.h"
#include "flow/saved.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Limits the bytes that are checked to find the next piece after damage. Damage by a disk does not
 * reach the limit. A file that was made to be slow reaches it in less than a second.
 */
#define SEARCH_MAX (UINT64_C(256) << 20)

#define FILE_LIMIT  (UINT32_C(2) << 30)
#define PIECE	    (1u << 20) /* bytes that are read at once */
#define NS_PER_BYTE 10.0

struct reader {
	struct vms_bytes bytes;
	uint64_t at;
	uint64_t search_left; /* bytes of SEARCH_MAX */
	GHashTable *probes;   /* number → struct vms_probe */
	GHashTable *places;   /* number → struct vms_flow_place */
	struct vms_flow_report *report;
	struct vms_flow_saved saved;
	uint64_t records; /* the number in the end piece; 0 without it */
};

/* ---- bodies ------------------------------------------------------------------------------- */

/* The body of a piece. Fields are taken in order. Fields beyond its end are 0. */
struct body {
	struct vms_bytes bytes;
	uint64_t at;
	bool is_short; /* a field beyond the end was taken */
};

static uint32_t take_u32(struct body *body)
{
	uint32_t value = 0;
	body->is_short |= !vms_bytes_u32(body->bytes, body->at, &value);
	body->at += sizeof(value);
	return value;
}

static uint64_t take_u64(struct body *body)
{
	uint64_t value = 0;
	body->is_short |= !vms_bytes_u64(body->bytes, body->at, &value);
	body->at += sizeof(value);
	return value;
}

/* Takes a text, which may be NULL, and removes control characters. Newly allocated. */
static char *take_text(struct body *body)
{
	const uint32_t size = take_u32(body);
	struct vms_bytes text;
	if (size == VMS_SAVED_NOTHING)
		return NULL;
	if (!vms_bytes_slice(body->bytes, body->at, size, &text)) {
		body->is_short = true;
		return NULL;
	}
	body->at += size;
	char *copy = g_strndup((const char *)text.data, text.size);
	vms_text_clean(copy);
	return copy;
}

static void read_begin(struct reader *reader, struct body *body)
{
	reader->saved.begin_ns = take_u64(body);
	reader->saved.begin_real_ns = take_u64(body);
}

/* Takes an entry, and adds it to the probe. False if the entry is damaged. */
static bool read_entry(struct vms_probe *probe, struct body *body)
{
	struct vms_saved_entry entry = { .kind = take_u32(body) };
	g_autofree char *name = take_text(body), *type = NULL;
	if (entry.kind == VMS_ENTRY_TYPED) {
		const uint32_t flags = take_u32(body);
		type = take_text(body);
		entry.has_pointer = flags & VMS_SAVED_POINTER;
		entry.is_text = flags & VMS_SAVED_TEXT;
	}
	entry.name = name;
	entry.type = type;
	return name && !body->is_short && vms_probe_add_saved(probe, &entry);
}

static void read_probe(struct reader *reader, struct body *body)
{
	const uint32_t number = take_u32(body);
	g_autofree char *description = take_text(body);
	const uint32_t n = take_u32(body);
	g_autoptr(vms_probe) probe = vms_probe_new_saved(description);
	for (uint32_t i = 0; i < n; i++)
		if (!read_entry(probe, body))
			return;
	if (!body->is_short)
		g_hash_table_insert(reader->probes, GUINT_TO_POINTER(number),
				    g_steal_pointer(&probe));
}

/* Takes the number of a probe, and finds the probe. False if no probe has this number. */
static bool take_probe(const struct reader *reader, struct body *body, struct vms_probe **ret)
{
	const uint32_t number = take_u32(body);
	*ret = g_hash_table_lookup(reader->probes, GUINT_TO_POINTER(number));
	return *ret || number == VMS_SAVED_NOTHING;
}

static void read_place(struct reader *reader, struct body *body)
{
	const uint32_t number = take_u32(body), flags = take_u32(body);
	struct vms_flow_saved_place saved = { .is_after = flags & VMS_SAVED_AFTER,
					      .has_task = flags & VMS_SAVED_HAS_TASK };
	bool are_there = take_probe(reader, body, &saved.probe);
	are_there &= take_probe(reader, body, &saved.common);
	are_there &= take_probe(reader, body, &saved.returned);
	saved.va = take_u64(body);
	g_autofree char *name = take_text(body);
	saved.name = name;
	if (!body->is_short && saved.probe && are_there)
		g_hash_table_insert(reader->places, GUINT_TO_POINTER(number),
				    vms_flow_place_new_saved(&saved));
}

static void read_record(struct reader *reader, struct body *body)
{
	struct vms_flow_raw raw = { 0 };
	raw.sequence = take_u64(body);
	raw.time_ns = take_u64(body);
	struct vms_flow_place *place =
		g_hash_table_lookup(reader->places, GUINT_TO_POINTER(take_u32(body)));
	raw.vcpu = take_u32(body);
	raw.failed = take_u32(body);
	raw.common_failed = take_u32(body);
	raw.returned_failed = take_u32(body);
	if (body->is_short || !place)
		return;
	raw.values = body->bytes.data + body->at;
	raw.size = body->bytes.size - body->at;
	struct vms_flow_record *record = vms_flow_record_from_raw(place, &raw);
	if (record)
		vms_flow_report_take(reader->report, record);
}

static void read_end(struct reader *reader, struct body *body)
{
	struct vms_flow_progress *progress = &reader->saved.progress;
	reader->records = take_u64(body);
	progress->records = take_u64(body);
	progress->dropped = take_u64(body);
	progress->rejected = take_u64(body);
	progress->unknown = take_u64(body);
	progress->lost = take_u64(body);
	reader->saved.is_complete = !body->is_short;
}

/* ---- pieces ------------------------------------------------------------------------------- */

/*
 * Gets the piece at `at`. False if there is no piece, if its check is wrong, or if it does not fit
 * into the file.
 */
static bool find_piece(struct reader *reader, uint64_t at, uint32_t *kind, struct vms_bytes *body)
{
	uint32_t check, size;
	struct vms_bytes checked;
	if (!vms_bytes_u32(reader->bytes, at, &check) ||
	    !vms_bytes_u32(reader->bytes, at + 4, kind) ||
	    !vms_bytes_u32(reader->bytes, at + 8, &size) || size > VMS_SAVED_BODY_MAX ||
	    !vms_bytes_slice(reader->bytes, at + 4, (uint64_t)size + 8, &checked))
		return false;
	if (vms_saved_check(checked.data, checked.size) == check)
		return vms_bytes_slice(reader->bytes, at + VMS_SAVED_PIECE_HEAD, size, body);
	reader->search_left -= MIN(reader->search_left, checked.size);
	return false;
}

/* True if a piece begins at `at`. Checks the kind first, which is quick and mostly enough. */
static bool is_piece(struct reader *reader, uint64_t at)
{
	uint32_t kind;
	struct vms_bytes body;
	return vms_bytes_u32(reader->bytes, at + 4, &kind) && kind > 0 &&
	       kind < VMS_SAVED_N_KINDS && find_piece(reader, at, &kind, &body);
}

/* Returns the offset of the next piece after the damaged bytes at `at`, or the end of the file. */
static uint64_t find_next(struct reader *reader, uint64_t at)
{
	uint32_t size;
	/* The head of a damaged piece is mostly good, and has the size. */
	if (vms_bytes_u32(reader->bytes, at + 8, &size) && size <= VMS_SAVED_BODY_MAX) {
		const uint64_t next = at + VMS_SAVED_PIECE_HEAD + size;
		if (next == reader->bytes.size || is_piece(reader, next))
			return next;
	}
	for (uint64_t next = at + 1; next < reader->bytes.size && reader->search_left; next++)
		if (is_piece(reader, next))
			return next;
	return reader->bytes.size;
}

static void note_damage(struct reader *reader, uint64_t end)
{
	if (!reader->saved.damaged_bytes)
		reader->saved.damaged_at = reader->at;
	reader->saved.damaged_bytes += end - reader->at;
	reader->at = end;
}

static void read_body(struct reader *reader, uint32_t kind, struct vms_bytes bytes)
{
	static void (*const readers[VMS_SAVED_N_KINDS])(struct reader * reader,
							struct body * body) = {
		[VMS_SAVED_BEGIN_PIECE] = read_begin, [VMS_SAVED_PROBE_PIECE] = read_probe,
		[VMS_SAVED_PLACE_PIECE] = read_place, [VMS_SAVED_RECORD_PIECE] = read_record,
		[VMS_SAVED_END_PIECE] = read_end,
	};
	struct body body = { .bytes = bytes };
	if (kind < VMS_SAVED_N_KINDS && readers[kind])
		readers[kind](reader, &body);
}

/* Reads all pieces. Returns their number. */
static uint64_t read_pieces(struct reader *reader)
{
	uint64_t n = 0;
	uint32_t kind;
	struct vms_bytes body;
	while (reader->at < reader->bytes.size) {
		if (!find_piece(reader, reader->at, &kind, &body)) {
			note_damage(reader, find_next(reader, reader->at));
			continue;
		}
		read_body(reader, kind, body);
		reader->at += VMS_SAVED_PIECE_HEAD + body.size;
		n++;
	}
	return n;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Fails if the version is not supported. Notes and skips a damaged header. */
static bool read_header(struct reader *reader, const char *name, GError **error)
{
	uint32_t version, check;
	const bool is_whole =
		vms_bytes_u32(reader->bytes, VMS_SAVED_HEADER - 8, &version) &&
		vms_bytes_u32(reader->bytes, VMS_SAVED_HEADER - 4, &check) &&
		memcmp(reader->bytes.data, VMS_SAVED_MAGIC, strlen(VMS_SAVED_MAGIC)) == 0 &&
		vms_saved_check(reader->bytes.data, VMS_SAVED_HEADER - 4) == check;
	if (!is_whole) {
		/* Bytes of the header may be missing, so that the first piece begins earlier. */
		note_damage(reader, is_piece(reader, 0) ? 0 : find_next(reader, 0));
		return true;
	}
	reader->at = VMS_SAVED_HEADER;
	if (version == VMS_SAVED_VERSION)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "cannot read %s: it has format version %u, but this vmscope reads version %u",
		    name, version, VMS_SAVED_VERSION);
	return false;
}

static bool read_all(struct reader *reader, const char *name, GError **error)
{
	if (!read_header(reader, name, error))
		return false;
	const bool header_is_good = reader->at && !reader->saved.damaged_bytes;
	if (read_pieces(reader) || header_is_good)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "cannot read %s: it is not a saved report of a flow", name);
	return false;
}

static void unref_probe(gpointer probe)
{
	vms_probe_unref(probe);
}

static void unref_place(gpointer place)
{
	vms_flow_place_unref(place);
}

struct vms_flow_report *vms_flow_saved_parse(struct vms_bytes bytes, const char *name,
					     struct vms_flow_saved *saved, GError **error)
{
	g_autoptr(vms_flow_report) report = vms_flow_report_new();
	struct reader reader = {
		.bytes = bytes,
		.search_left = SEARCH_MAX,
		.probes = g_hash_table_new_full(vms_hash_direct, NULL, NULL, unref_probe),
		.places = g_hash_table_new_full(vms_hash_direct, NULL, NULL, unref_place),
		.report = report,
		.saved.size = sizeof(reader.saved),
	};
	const bool done = read_all(&reader, name, error);
	g_hash_table_unref(reader.probes);
	g_hash_table_unref(reader.places);
	if (!done)
		return NULL;
	const uint64_t found = vms_flow_report_count(report);
	reader.saved.missing = reader.records > found ? reader.records - found : 0;
	if (saved)
		*saved = reader.saved;
	return g_steal_pointer(&report);
}

/* Opens the file and checks that it has an end: a device, as /dev/zero, may have none. */
static int open_saved(const char *path, GError **error)
{
	struct stat status;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		g_set_error(error, VMS_ERROR, errno == ENOENT ? VMS_ERROR_NOT_FOUND : VMS_ERROR_IO,
			    "cannot read a report: %s: %s", path, g_strerror(errno));
		return -1;
	}
	if (fstat(fd, &status) == 0 && !S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode))
		return fd;
	close(fd);
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
		    "cannot read %s: a device is not a saved report of a flow", path);
	return -1;
}

/* Reads a file, which may be a pipe, to its end. */
static GByteArray *read_to_end(int fd, const char *path, GError **error)
{
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	ssize_t n = 1;
	while (n != 0 && bytes->len < FILE_LIMIT) {
		const guint before = bytes->len;
		g_byte_array_set_size(bytes, before + PIECE);
		n = read(fd, bytes->data + before, PIECE);
		g_byte_array_set_size(bytes, before + (n > 0 ? (guint)n : 0));
		if (n < 0 && errno != EINTR) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot read a report: %s: %s",
				    path, g_strerror(errno));
			return NULL;
		}
	}
	return g_steal_pointer(&bytes);
}

/* What the user wants to be read may cost more if it is larger. */
static struct vms_budget *make_budget(size_t size)
{
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns = MAX(VMS_BUDGET_USUAL_NS, (uint64_t)((double)size * NS_PER_BYTE)),
	};
	return vms_budget_new(&options, NULL);
}

struct vms_flow_report *vms_flow_report_load(const char *path, struct vms_flow_saved *saved,
					     GError **error)
{
	const int fd = open_saved(path, error);
	g_autoptr(GByteArray) bytes = fd >= 0 ? read_to_end(fd, path, error) : NULL;
	if (fd >= 0)
		close(fd);
	if (!bytes)
		return NULL;
	g_autoptr(vms_budget) budget = make_budget(bytes->len);
	return vms_flow_saved_parse((struct vms_bytes) { bytes->data, bytes->len, budget }, path,
				    saved, error);
}
