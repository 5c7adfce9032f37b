/* SPDX-License-Identifier: MIT */
/* Saved reports: what comes back of them whole, cut, damaged, and when the disk is full. */
#include "fake_machine.h"
#include "flow/record.h"
#include "flow/report.h"
#include "flow/saved.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RECORDS 20
#define KERNEL	0xffffffff81000000

struct fixture {
	struct vms_machine *machine;
	struct vms_probe *probe, *common;
	struct vms_flow_place *places[2];
	char *folder, *path;
	struct vms_flow_saved saved;
};

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_entry entries[] = {
		{ .kind = VMS_ENTRY_REGISTER, .reg = "rax" },
		{ .kind = VMS_ENTRY_CALLBACK, .callback = (vms_flow_callback)(void *)g_free },
		{ .kind = VMS_ENTRY_MEMORY, .name = "text", .base = "rsi", .size = 5 },
	};
	const struct vms_entry edi = { .kind = VMS_ENTRY_REGISTER, .reg = "edi" };
	f->machine = fake_machine_new(&vms_arch_x86_64, 2);
	f->probe = vms_probe_new(f->machine, NULL, "of a place");
	f->common = vms_probe_new(f->machine, NULL, NULL);
	g_assert_true(vms_probe_add(f->probe, entries, G_N_ELEMENTS(entries), NULL));
	g_assert_true(vms_probe_add(f->common, &edi, 1, NULL));
	const struct vms_flow_saved_place places[] = {
		{ KERNEL, false, true, f->probe, f->common, NULL, "vfs_read" },
		{ KERNEL + 8, true, false, f->probe, NULL, f->common, NULL },
	};
	for (unsigned i = 0; i < 2; i++)
		f->places[i] = vms_flow_place_new_saved(&places[i]);
	f->folder = g_dir_make_tmp("vmscope-saved-XXXXXX", NULL);
	f->path = g_build_filename(f->folder, "report", NULL);
	f->saved = (struct vms_flow_saved) { .size = sizeof(f->saved),
					     .begin_ns = 1000,
					     .begin_real_ns = 5000,
					     .progress = { RECORDS, 1, 2, 3, 4 } };
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	unlink(f->path);
	g_assert_cmpint(rmdir(f->folder), ==, 0);
	g_free(f->path);
	g_free(f->folder);
	for (unsigned i = 0; i < 2; i++)
		vms_flow_place_unref(f->places[i]);
	vms_probe_unref(f->probe);
	vms_probe_unref(f->common);
	vms_machine_unref(f->machine);
}

/* Appends a value as a program collects it. NULL: it could not be read. */
static void put_value(GByteArray *values, const void *bytes, uint16_t size)
{
	const struct vms_value_head head = { bytes ? VMS_VALUE_KNOWN : VMS_VALUE_UNREADABLE, size };
	g_byte_array_append(values, (const guint8 *)&head, sizeof(head));
	g_byte_array_append(values, bytes, size);
}

/* Record `n` from 1: odd ones are at the first place, and have tasks. */
static struct vms_flow_record *make_record(const struct fixture *f, unsigned n)
{
	const bool first = n % 2;
	const uint64_t duration = UINT64_C(1000000000) * n, rax = (uint64_t)n - 2;
	const uint32_t pid = n, tid = 100 + n, edi = (uint32_t) - (int)n;
	const char comm[16] = "probed";
	g_autoptr(GByteArray) values = g_byte_array_new();
	if (first) {
		put_value(values, &tid, sizeof(tid));
		put_value(values, &pid, sizeof(pid));
		put_value(values, comm, sizeof(comm));
	}
	put_value(values, &rax, sizeof(rax));
	if (n % 3)
		put_value(values, "hello", 5);
	else
		put_value(values, NULL, 0);
	if (!first) /* the second place is a function whose calls are followed */
		put_value(values, &duration, sizeof(duration));
	put_value(values, &edi, sizeof(edi));
	const struct vms_flow_raw raw = { .sequence = n,
					  .time_ns = 1000 * n,
					  .vcpu = n % 4,
					  .failed = n == 5,
					  .values = values->data,
					  .size = values->len };
	return vms_flow_record_from_raw(f->places[!first], &raw);
}

static struct vms_flow_report *make_report(const struct fixture *f, unsigned n)
{
	struct vms_flow_report *report = vms_flow_report_new();
	for (unsigned i = 1; i <= n; i++)
		vms_flow_report_take(report, make_record(f, i));
	return report;
}

/* Saves a report. Returns the bytes of the file, newly allocated. */
static uint8_t *save(const struct fixture *f, const struct vms_flow_report *report, gsize *size)
{
	g_autoptr(GError) error = NULL;
	char *bytes;
	vms_flow_report_save(report, NULL, &f->saved, f->path, &error);
	g_assert_no_error(error);
	g_file_get_contents(f->path, &bytes, size, &error);
	g_assert_no_error(error);
	return (uint8_t *)bytes;
}

static void assert_same_value(const struct vms_flow_value *a, const struct vms_flow_value *b)
{
	g_assert_cmpint(a->status, ==, b->status);
	g_assert_cmpmem(a->bytes, a->size, b->bytes, b->size);
}

static void assert_same(const struct vms_flow_record *a, const struct vms_flow_record *b)
{
	struct vms_flow_hit of_a, of_b;
	struct vms_flow_value value_a, value_b;
	vms_flow_record_hit(a, &of_a);
	vms_flow_record_hit(b, &of_b);
	g_assert_cmpuint(of_a.sequence, ==, of_b.sequence);
	g_assert_cmpuint(of_a.time_ns, ==, of_b.time_ns);
	g_assert_cmphex(of_a.va, ==, of_b.va);
	g_assert_cmpint(of_a.is_after, ==, of_b.is_after);
	g_assert_cmpuint(of_a.vcpu, ==, of_b.vcpu);
	g_assert_cmpint(of_a.has_task, ==, of_b.has_task);
	g_assert_cmpuint(of_a.pid, ==, of_b.pid);
	g_assert_cmpuint(of_a.tid, ==, of_b.tid);
	g_assert_cmpstr(of_a.comm, ==, of_b.comm);
	g_assert_cmpstr(vms_flow_record_where(a), ==, vms_flow_record_where(b));
	for (size_t i = 0; i < vms_probe_entries(vms_flow_record_probe(a)); i++) {
		g_assert_true(vms_flow_record_value(a, i, &value_a));
		g_assert_true(vms_flow_record_value(b, i, &value_b));
		assert_same_value(&value_a, &value_b);
		g_assert_cmpstr(vms_probe_entry_name(vms_flow_record_probe(a), i), ==,
				vms_probe_entry_name(vms_flow_record_probe(b), i));
		g_assert_cmpint(vms_probe_entry_kind(vms_flow_record_probe(a), i), ==,
				vms_probe_entry_kind(vms_flow_record_probe(b), i));
	}
	g_assert_cmpint(vms_flow_record_returned_value(a, 0, &value_a), ==,
			vms_flow_record_returned_value(b, 0, &value_b));
	assert_same_value(&value_a, &value_b);
	g_assert_cmpint(vms_flow_record_common_value(a, 0, &value_a), ==,
			vms_flow_record_common_value(b, 0, &value_b));
	assert_same_value(&value_a, &value_b);
}

/* True if the record is one of those that were made: it has the number of one, and is the same. */
static void assert_made(const struct fixture *f, const struct vms_flow_report *report)
{
	for (size_t i = 0; i < vms_flow_report_count(report); i++) {
		const struct vms_flow_record *found = vms_flow_report_record(report, i, NULL);
		struct vms_flow_hit hit;
		vms_flow_record_hit(found, &hit);
		g_autoptr(vms_flow_record) made = make_record(f, (unsigned)hit.sequence);
		assert_same(found, made);
	}
}

static void test_round_trip(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	struct vms_flow_saved saved;
	gsize size;
	g_free(save(f, report, &size));
	g_autoptr(vms_flow_report) loaded = vms_flow_report_load(f->path, &saved, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(vms_flow_report_count(loaded), ==, RECORDS);
	assert_made(f, loaded);
	g_assert_cmpstr(vms_probe_description(
				vms_flow_record_probe(vms_flow_report_record(loaded, 0, NULL))),
			==, "of a place");
	g_assert_cmpuint(saved.begin_ns, ==, f->saved.begin_ns);
	g_assert_cmpuint(saved.begin_real_ns, ==, f->saved.begin_real_ns);
	g_assert_cmpmem(&saved.progress, sizeof(saved.progress), &f->saved.progress,
			sizeof(f->saved.progress)); /* it has no padding */
	g_assert_true(saved.is_complete);
	g_assert_cmpuint(saved.missing + saved.damaged_bytes + saved.damaged_at, ==, 0);
	/* What was loaded is saved again as it was. */
	gsize first_size, second_size;
	g_autofree uint8_t *first = save(f, report, &first_size);
	g_autofree uint8_t *second = save(f, loaded, &second_size);
	g_assert_cmpmem(first, first_size, second, second_size);
}

static struct vms_probe *make_typed(const struct vms_saved_entry *entries, size_t n)
{
	struct vms_probe *probe = vms_probe_new_saved(NULL);
	for (size_t i = 0; i < n; i++)
		g_assert_true(vms_probe_add_saved(probe, &entries[i]));
	return probe;
}

static void put_text(GByteArray *values, const char *text)
{
	const uint32_t size = GUINT32_TO_LE((uint32_t)strlen(text));
	g_byte_array_append(values, (const guint8 *)&size, sizeof(size));
	g_byte_array_append(values, (const guint8 *)text, (guint)strlen(text));
}

/* A record with values of types at a place, common to all, and at a return. */
static struct vms_flow_record *make_typed_record(void)
{
	const struct vms_saved_entry entries[] = {
		{ VMS_ENTRY_TYPED, "path", "const char *", true, true },
		{ VMS_ENTRY_REGISTER, "rax", NULL, false, false },
		{ VMS_ENTRY_TYPED, "plain", NULL, false, false },
		{ VMS_ENTRY_TYPED, "comm", "char[8]", false, true },
	};
	const struct vms_saved_entry common = { VMS_ENTRY_TYPED, "state", "enum state", 0, 0 };
	const struct vms_saved_entry returned = { VMS_ENTRY_TYPED, "retval", "int", 0, 0 };
	g_autoptr(vms_probe) at_place = make_typed(entries, G_N_ELEMENTS(entries));
	g_autoptr(vms_probe) at_all = make_typed(&common, 1), at_return = make_typed(&returned, 1);
	const struct vms_flow_saved_place place = { KERNEL, false,     false,	  at_place,
						    at_all, at_return, "vfs_open" };
	const uint64_t number = 7;
	g_autoptr(GByteArray) values = g_byte_array_new();
	put_value(values, NULL, 0);
	put_value(values, &number, 8);
	put_value(values, &number, 8);
	put_value(values, &number, 8);
	put_value(values, "bash\0\0\0", 8);
	put_value(values, &number, 4);
	put_value(values, &number, 8); /* the duration */
	put_value(values, &number, 4);
	put_text(values, "0x7 (unreadable)");
	put_text(values, "\"bash\"");
	put_text(values, "BU\033SY");
	put_text(values, "");
	const struct vms_flow_raw raw = { .values = values->data, .size = values->len };
	struct vms_flow_place *made = vms_flow_place_new_saved(&place);
	struct vms_flow_record *record = vms_flow_record_from_raw(made, &raw);
	vms_flow_place_unref(made);
	return record;
}

static void append_shown(GString *out, const struct vms_flow_record *record,
			 const struct vms_probe *probe,
			 bool (*get)(const struct vms_flow_record *record, size_t index,
				     struct vms_flow_value *ret))
{
	struct vms_flow_value value;
	for (size_t i = 0; get(record, i, &value); i++) {
		g_autofree char *type = vms_probe_entry_type(probe, i);
		g_string_append_printf(out, "%s%s:%s=", out->len ? ", " : "",
				       vms_probe_entry_name(probe, i), type ? type : "");
		if (vms_probe_entry_kind(probe, i) == VMS_ENTRY_TYPED)
			vms_probe_format_value(probe, i, &value, out);
	}
}

/* Values with types come back with their texts, which are fit for a terminal, and are saved again.
 */
static void test_typed(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = vms_flow_report_new();
	vms_flow_report_take(report, make_typed_record());
	for (unsigned i = 0; i < 2; i++) {
		gsize size;
		g_free(save(f, report, &size));
		g_clear_pointer(&report, vms_flow_report_unref);
		report = vms_flow_report_load(f->path, NULL, NULL);
		g_assert_cmpuint(vms_flow_report_count(report), ==, 1);
	}
	const struct vms_flow_record *record = vms_flow_report_record(report, 0, NULL);
	g_autoptr(GString) shown = g_string_new(NULL);
	append_shown(shown, record, vms_flow_record_probe(record), vms_flow_record_value);
	append_shown(shown, record, vms_flow_record_common(record), vms_flow_record_common_value);
	append_shown(shown, record, vms_flow_record_returned(record),
		     vms_flow_record_returned_value);
	g_assert_cmpstr(shown->str, ==,
			"path:const char *=0x7 (unreadable), rax:=, plain:=0x7, "
			"comm:char[8]=\"bash\", state:enum state=BU?SY, retval:int=");
	g_assert_true(vms_probe_entry_is_text(vms_flow_record_probe(record), 3));
	g_assert_false(vms_probe_entry_is_text(vms_flow_record_probe(record), 2));
	const struct vms_flow_match matches[] = {
		{ .is_number = true, .number = { 7, 7 }, .name = "state" },
		{ .is_number = true, .number = { 7, 7 }, .name = "retval" },
		{ .bytes = "bash", .size = 4, .name = "comm" },
		{ .bytes = "bash\0\0\0", .size = 8 },
		{ .bytes = "bas", .size = 3 }, /* of none */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(matches); i++) {
		const struct vms_flow_filter filter = { .size = sizeof(filter),
							.flags = VMS_FLOW_BY_VALUES,
							.values = &matches[i],
							.n_values = 1 };
		g_autoptr(vms_flow_report) kept = vms_flow_report_filter(report, &filter, NULL);
		g_assert_cmpuint(vms_flow_report_count(kept), ==, i < 4);
	}
}

/* Where the pieces of a file begin, by their sizes; the last is the size of the file. */
static GArray *list_pieces(const uint8_t *bytes, gsize size)
{
	GArray *begins = g_array_new(FALSE, FALSE, sizeof(gsize));
	for (gsize at = VMS_SAVED_HEADER; at < size; at += 12 + bytes[at + 8] + 256 * bytes[at + 9])
		g_array_append_val(begins, at);
	g_array_append_val(begins, size);
	return begins;
}

static unsigned kind_of(const uint8_t *bytes, const GArray *begins, guint n)
{
	return bytes[g_array_index(begins, gsize, n) + 4];
}

/* The number of the piece that a byte lies in. */
static guint piece_of(const GArray *begins, gsize byte)
{
	guint n = 0;
	while (byte >= g_array_index(begins, gsize, n + 1))
		n++;
	return n;
}

static unsigned count_records(const uint8_t *bytes, const GArray *begins, guint n)
{
	unsigned records = 0;
	for (guint i = 0; i < n; i++)
		records += kind_of(bytes, begins, i) == VMS_SAVED_RECORD_PIECE;
	return records;
}

/* A file that ends at any byte keeps the records before it. */
static void test_cut(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	gsize size;
	g_autofree uint8_t *bytes = save(f, report, &size);
	g_autoptr(GArray) begins = list_pieces(bytes, size);
	for (gsize end = VMS_SAVED_HEADER; end < size; end++) {
		struct vms_flow_saved saved;
		const guint last = piece_of(begins, end);
		const gsize begin = g_array_index(begins, gsize, last);
		g_autofree uint8_t *copy = g_memdup2(bytes, end); /* so that asan sees its end */
		g_autoptr(vms_flow_report) loaded =
			vms_flow_saved_parse((struct vms_bytes) { copy, end }, "it", &saved, NULL);
		g_assert_cmpuint(vms_flow_report_count(loaded), ==,
				 count_records(bytes, begins, last));
		assert_made(f, loaded);
		g_assert_false(saved.is_complete);
		g_assert_cmpuint(saved.damaged_bytes, ==, end - begin);
		g_assert_cmpuint(saved.damaged_at, ==, end > begin ? begin : 0);
	}
}

/* A damaged byte costs the piece that it is in, and what depends on that. */
static void test_damaged(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	gsize size;
	g_autofree uint8_t *bytes = save(f, report, &size);
	g_autoptr(GArray) begins = list_pieces(bytes, size);
	for (gsize byte = 0; byte < size; byte++) {
		struct vms_flow_saved saved;
		bytes[byte] ^= 0x55;
		g_autoptr(vms_flow_report) loaded = vms_flow_saved_parse(
			(struct vms_bytes) { bytes, size }, "it", &saved, NULL);
		bytes[byte] ^= 0x55;
		const bool in_header = byte < VMS_SAVED_HEADER;
		const guint piece = in_header ? 0 : piece_of(begins, byte);
		const unsigned kind = in_header ? 0 : kind_of(bytes, begins, piece);
		const size_t count = vms_flow_report_count(loaded);
		assert_made(f, loaded);
		if (kind == VMS_SAVED_RECORD_PIECE)
			g_assert_cmpuint(count, ==, RECORDS - 1);
		else if (kind == VMS_SAVED_PLACE_PIECE)
			g_assert_cmpuint(count, ==, RECORDS / 2);
		else if (kind != VMS_SAVED_PROBE_PIECE)
			g_assert_cmpuint(count, ==, RECORDS);
		g_assert_cmpint(saved.is_complete, ==, kind != VMS_SAVED_END_PIECE);
		g_assert_cmpuint(saved.missing, ==, saved.is_complete ? RECORDS - count : 0);
		g_assert_cmpuint(saved.damaged_at, ==,
				 in_header ? 0 : g_array_index(begins, gsize, piece));
		g_assert_cmpuint(saved.damaged_bytes, >=, in_header ? 16 : 12);
	}
}

/* A file whose first bytes are gone keeps all that comes after the header. */
static void test_headless(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	gsize size;
	g_autofree uint8_t *bytes = save(f, report, &size);
	for (gsize cut = 1; cut <= VMS_SAVED_HEADER; cut++) {
		struct vms_flow_saved saved;
		g_autoptr(vms_flow_report) loaded = vms_flow_saved_parse(
			(struct vms_bytes) { bytes + cut, size - cut }, "it", &saved, NULL);
		g_assert_cmpuint(vms_flow_report_count(loaded), ==, RECORDS);
		g_assert_cmpuint(saved.begin_real_ns, ==, f->saved.begin_real_ns);
		g_assert_cmpuint(saved.damaged_at, ==, 0);
		g_assert_cmpuint(saved.damaged_bytes, ==, VMS_SAVED_HEADER - cut);
		g_assert_true(saved.is_complete);
	}
}

static void assert_refused(const void *bytes, gsize size, enum vms_error code)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_flow_saved_parse((struct vms_bytes) { bytes, size }, "it", NULL, &error));
	g_assert_error(error, VMS_ERROR, (int)code);
}

static void test_refused(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_flow_report) report = vms_flow_report_new();
	static const char text[] = "This is a letter, and no report at all. Yours sincerely";
	gsize size;
	assert_refused("", 0, VMS_ERROR_MALFORMED);
	assert_refused(text, sizeof(text), VMS_ERROR_MALFORMED);
	g_assert_null(vms_flow_report_load("/nowhere/at/all", NULL, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_clear_error(&error);
	g_assert_null(vms_flow_report_load("/dev/zero", NULL, &error)); /* it has no end */
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_autofree uint8_t *bytes = save(f, report, &size);
	bytes[8] = VMS_SAVED_VERSION + 1;
	const uint32_t check = GUINT32_TO_LE(vms_saved_check(bytes, 12));
	memcpy(bytes + 12, &check, sizeof(check));
	assert_refused(bytes, size, VMS_ERROR_UNSUPPORTED);
}

/* Saves a report on a disk of `room` bytes. Returns the error's text, or NULL if all has room. */
static char *save_within(const struct fixture *f, const struct vms_flow_report *report, gsize room)
{
	g_autoptr(GError) error = NULL;
	struct rlimit before;
	signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
	const struct rlimit small = { room, before.rlim_max };
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
	const bool done = vms_flow_report_save(report, NULL, &f->saved, f->path, &error);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
	if (done)
		return NULL;
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	return g_strdup(error->message);
}

/* Loads what the disk could take: whole records, and no end. */
static struct vms_flow_report *load_part(const struct fixture *f)
{
	g_autoptr(GError) error = NULL;
	struct vms_flow_saved saved;
	struct vms_flow_report *loaded = vms_flow_report_load(f->path, &saved, &error);
	g_assert_no_error(error);
	g_assert_false(saved.is_complete);
	g_assert_cmpuint(saved.damaged_bytes, ==, 0);
	assert_made(f, loaded);
	return loaded;
}

/* The file keeps what the disk could take, and the error says how much that is. */
static void test_full(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = make_report(f, 5000);
	gsize size;
	g_autofree uint8_t *bytes = save(f, report, &size);
	g_autoptr(GArray) begins = list_pieces(bytes, size);
	const gsize room = 200000;
	g_autofree char *error = save_within(f, report, room);
	const unsigned fit = count_records(bytes, begins, piece_of(begins, room));
	g_autoptr(vms_flow_report) loaded = load_part(f);
	g_autofree char *said = g_strdup_printf("only the first %u of 5000 records could be saved: "
						"cannot write",
						fit);
	g_assert_true(g_str_has_prefix(error, said));
	g_assert_cmpuint(fit, >, 1000);
	g_assert_cmpuint(vms_flow_report_count(loaded), ==, fit);
}

/* The same on disks smaller than all that is written at once, down to nothing. */
static void test_full_at_once(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	gsize size;
	g_autofree uint8_t *bytes = save(f, report, &size);
	g_autoptr(GArray) begins = list_pieces(bytes, size);
	for (gsize room = 0; room < size; room++) {
		unlink(f->path);
		g_autofree char *error = save_within(f, report, room);
		const guint pieces = room < VMS_SAVED_HEADER ? 0 : piece_of(begins, room);
		const unsigned fit = count_records(bytes, begins, pieces);
		g_autofree char *said = fit == RECORDS
						? g_strdup("all 20 records are saved, but not")
					: fit ? g_strdup_printf("only the first %u of 20 rec", fit)
					      : g_strdup("none of 20 records could be saved: can");
		g_assert_true(g_str_has_prefix(error, said));
		g_assert_cmpint(g_file_test(f->path, G_FILE_TEST_EXISTS), ==, fit > 0);
		g_autoptr(vms_flow_report) loaded = fit ? load_part(f) : NULL;
		if (loaded)
			g_assert_cmpuint(vms_flow_report_count(loaded), ==, fit);
	}
	g_assert_null(save_within(f, report, size));
}

/* A record that is too large for the format costs none of those before it. */
static void test_too_large(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	g_autofree char *huge = g_strnfill(VMS_SAVED_BODY_MAX, 'x');
	const struct vms_flow_saved_place place = { KERNEL, false, false, f->common,
						    NULL,   NULL,  huge };
	g_autoptr(GByteArray) values = g_byte_array_new();
	put_value(values, "edi", 4);
	const struct vms_flow_raw raw = { .values = values->data, .size = values->len };
	struct vms_flow_place *made = vms_flow_place_new_saved(&place);
	vms_flow_report_take(report, vms_flow_record_from_raw(made, &raw));
	vms_flow_place_unref(made);
	g_assert_false(vms_flow_report_save(report, NULL, &f->saved, f->path, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_assert_true(g_str_has_prefix(error->message, "only the first 20 of 21 records"));
	g_autoptr(vms_flow_report) loaded = load_part(f);
	g_assert_cmpuint(vms_flow_report_count(loaded), ==, RECORDS);
}

/* An open file that was given by its link in /proc keeps what it had. */
static void test_full_behind(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	g_autofree char *open_path = g_strdup(f->path);
	gsize size;
	char *now;
	g_assert_true(g_file_set_contents(f->path, "before", -1, NULL));
	const int fd = open(f->path, O_WRONLY | O_CLOEXEC);
	f->path = (g_free(f->path), g_strdup_printf("/proc/self/fd/%d", fd));
	g_autofree char *error = save_within(f, report, 1000);
	g_free(f->path);
	f->path = g_strdup(open_path);
	close(fd);
	g_assert_true(g_str_has_prefix(error, "only the first "));
	g_assert_true(g_file_get_contents(f->path, &now, &size, NULL));
	g_assert_true(g_str_has_prefix(now, "before" VMS_SAVED_MAGIC));
	g_assert_true(g_file_set_contents(f->path, now + 6, (gssize)(size - 6), NULL));
	g_free(now);
	g_autoptr(vms_flow_report) loaded = load_part(f);
	g_assert_cmpuint(vms_flow_report_count(loaded), >, 0);
}

/* ---- filters that are mostly for saved reports ------------------------------------------------
 */

static void assert_kept(const struct vms_flow_report *report, const struct vms_flow_filter *filter,
			size_t n)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_flow_report) kept = vms_flow_report_filter(report, filter, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(vms_flow_report_count(kept), ==, n);
	g_autoptr(vms_flow_report) others = vms_flow_report_without(report, kept);
	g_assert_cmpuint(vms_flow_report_count(others), ==, vms_flow_report_count(report) - n);
	g_autoptr(vms_flow_report) none = vms_flow_report_filter(others, filter, NULL);
	g_assert_cmpuint(vms_flow_report_count(none), ==, 0);
}

static void test_filter(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct {
		struct vms_flow_match match;
		size_t n;
	} numbers[] = {
		{ { .is_number = true, .number = { 3, 5 } }, 3 },
		{ { .is_number = true, .number = { 3, 5 }, .name = "rax" }, 3 },
		{ { .is_number = true, .number = { 3, 5 }, .name = "edi" }, 0 },
		{ { .is_number = true, .number = { UINT64_MAX - 6, UINT64_MAX } }, 7 }, /* -7…-1 */
		{ { .is_number = true, .number = { UINT64_MAX, 1 }, .name = "rax" }, 3 },
		{ { .is_number = true, .number = { 0xfffffffb, 0xfffffffb } }, 1 },
		/* Negative numbers of 4 bytes are not greater than all others. */
		{ { .is_number = true, .number = { 0x100000000, UINT64_MAX }, .name = "edi" }, 0 },
		{ { .bytes = "hello", .size = 5 }, RECORDS - RECORDS / 3 },
		{ { .bytes = "hello", .size = 5, .name = "text" }, RECORDS - RECORDS / 3 },
		{ { .bytes = "hello", .size = 5, .name = "rax" }, 0 },
		{ { .bytes = "hell", .size = 4 }, 0 },
	};
	struct vms_flow_filter filter = { .size = sizeof(filter), .flags = VMS_FLOW_BY_VALUES };
	g_autoptr(vms_flow_report) report = make_report(f, RECORDS);
	for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
		filter.values = &numbers[i].match;
		filter.n_values = 1;
		assert_kept(report, &filter, numbers[i].n);
	}
	filter.flags = VMS_FLOW_BY_COMM;
	filter.comm = "pro?e*";
	assert_kept(report, &filter, RECORDS / 2);
	filter.comm = "probe";
	assert_kept(report, &filter, 0);
	filter.flags = VMS_FLOW_BY_WHERE;
	filter.where = "vfs_*";
	assert_kept(report, &filter, RECORDS / 2);
	filter.flags |= VMS_FLOW_BY_SEQUENCE | VMS_FLOW_ANY;
	filter.sequence = (struct vms_flow_range) { 1, 4 };
	assert_kept(report, &filter, RECORDS / 2 + 2);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/flow_saved/round_trip", struct fixture, NULL, set_up, test_round_trip,
		   tear_down);
	g_test_add("/flow_saved/typed", struct fixture, NULL, set_up, test_typed, tear_down);
	g_test_add("/flow_saved/cut", struct fixture, NULL, set_up, test_cut, tear_down);
	g_test_add("/flow_saved/damaged", struct fixture, NULL, set_up, test_damaged, tear_down);
	g_test_add("/flow_saved/headless", struct fixture, NULL, set_up, test_headless, tear_down);
	g_test_add("/flow_saved/refused", struct fixture, NULL, set_up, test_refused, tear_down);
	g_test_add("/flow_saved/full", struct fixture, NULL, set_up, test_full, tear_down);
	g_test_add("/flow_saved/full_at_once", struct fixture, NULL, set_up, test_full_at_once,
		   tear_down);
	g_test_add("/flow_saved/full_behind", struct fixture, NULL, set_up, test_full_behind,
		   tear_down);
	g_test_add("/flow_saved/too_large", struct fixture, NULL, set_up, test_too_large,
		   tear_down);
	g_test_add("/flow_saved/filter", struct fixture, NULL, set_up, test_filter, tear_down);
	return g_test_run();
}
