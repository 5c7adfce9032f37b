/* SPDX-License-Identifier: MIT */
/*
 * What recordings cost that are made to cost much: in steps and in bytes, which are the same each
 * time. Twice the records cost little more than twice as much.
 */
#include "base/budget.h"
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"
#include "sample/annotation.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vmscope/export.h>
#include <vmscope/recording.h>
#include <vmscope/run_facts.h>
#include <vmscope/sample.h>

#define PAGE	  UINT64_C(0x1000)
#define KERNEL	  UINT64_C(0xffffffff80000000)
#define COUNT	  1000
#define LITTLE_NS 200000 /* less than any of these costs */

static void put_event(GByteArray *out, const struct vms_fxt_record *event)
{
	g_assert_true(vms_fxt_write(out, event));
}

static void put_process(GByteArray *out, uint64_t time, uint32_t pid, uint32_t parent)
{
	struct vms_fxt_record event = vms_records_event("process", time, pid);
	vms_records_add_text(&event, "comm", "busy");
	vms_records_add_number(&event, "parent", parent);
	put_event(out, &event);
}

static void put_mapping(GByteArray *out, uint64_t time, uint32_t pid, uint64_t start,
			uint64_t pages, uint64_t file)
{
	struct vms_fxt_record event = vms_records_event("mapping", time, pid);
	vms_records_add_number(&event, "start", start);
	vms_records_add_number(&event, "end", start + pages * PAGE);
	vms_records_add_number(&event, "offset", 0);
	vms_records_add_number(&event, "file", file);
	put_event(out, &event);
}

static void put_file(GByteArray *out, uint64_t number, struct vms_fxt_string path)
{
	struct vms_fxt_record event = vms_records_event("file", 1, 0);
	vms_records_add_number(&event, "number", number);
	event.arguments[event.n_arguments++] = (struct vms_fxt_argument) {
		.type = VMS_FXT_TEXT, .name = vms_fxt_inline("path"), .text = path
	};
	put_event(out, &event);
}

static void put_symbols(GByteArray *out, const char *name, const char *text)
{
	const struct vms_fxt_record record = { .type = VMS_FXT_LARGE_BLOB,
					       .kind = VMS_FXT_BLOB_ATTACHMENT,
					       .category = vms_fxt_inline(VMS_RECORDS_CATEGORY),
					       .name = vms_fxt_inline(name),
					       .payload = text,
					       .payload_size = strlen(text) };
	put_event(out, &record);
}

static void put_sample(GByteArray *out, uint32_t pid, uint64_t time, uint64_t leaf, unsigned n)
{
	g_autofree struct vms_sample_record *sample = g_new0(struct vms_sample_record, 1);
	sample->time_ns = time;
	sample->pid = sample->tid = pid;
	sample->stack.n = n;
	sample->stack.n_kernel = leaf >= KERNEL;
	for (unsigned i = 0; i < n; i++)
		sample->stack.frame[i].pc = leaf + i * PAGE;
	vms_records_put_sample(out, sample);
}

/* ---- kinds ------------------------------------------------------------ */

static void put_files(GByteArray *out, unsigned n)
{
	for (uint64_t i = 1; i <= n; i++)
		put_file(out, i << 32 | i, vms_fxt_inline("/lib"));
}

static void put_stacks(GByteArray *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_sample(out, 1, i, (uint64_t)i << 32 | i, 3);
}

static void put_deep(GByteArray *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_sample(out, 1, i, PAGE * (1 + i), 100);
}

static void put_names(GByteArray *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		g_autofree char *line =
			g_strdup_printf("%" G_GINT64_MODIFIER "x 10 name%u\n", KERNEL + i * 16, i);
		put_symbols(out, VMS_RECORDS_KERNEL, line);
		put_sample(out, 1, i, KERNEL + i * 16, 1);
	}
}

static void put_generations(GByteArray *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_process(out, 1000 + i, 1, 0);
	for (unsigned i = 0; i < n; i++)
		put_sample(out, 1, 1 + i * 2, PAGE, 1);
}

static void put_births(GByteArray *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_mapping(out, 1, 1, PAGE * (1 + i), 1, 1);
	for (unsigned i = 0; i < n; i++) {
		put_process(out, 2, 2 + i, 1);
		put_mapping(out, 3, 2 + i, PAGE * (1 + i), 1, 2);
		put_sample(out, 2 + i, 4, PAGE, 1);
	}
}

static void put_mappings(GByteArray *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_mapping(out, i, 1, PAGE * 2 * (n - i), 3, i % 2);
}

static void put_functions(GByteArray *out, unsigned n)
{
	for (unsigned i = 1; i <= n; i++) {
		g_autofree char *path = g_strdup_printf("/lib/%u", i);
		g_autofree char *symbols = g_strdup_printf("%u\n0 1000 evil\n", i);
		put_file(out, i, vms_fxt_inline(path));
		put_symbols(out, VMS_RECORDS_SYMBOLS, symbols);
		put_mapping(out, 1, i, PAGE * i, 1, i);
		put_sample(out, i, 2, PAGE * i, 1);
	}
}

/* ---- what they cost --------------------------------------------------- */

typedef void (*put_kind)(GByteArray *out, unsigned n);

static GByteArray *make_file(put_kind put, unsigned n)
{
	GByteArray *out = g_byte_array_new();
	struct vms_fxt_record session = vms_records_event("session", 1, 0);
	vms_records_put_start(out, VMS_RECORDS_HOST);
	vms_records_add_number(&session, "period", 1000000);
	put_event(out, &session);
	put_process(out, 1, 1, 0);
	put(out, n);
	put_sample(out, 1, 1, PAGE, 1);
	return out;
}

static struct vms_budget *make_budget(uint64_t processor_ns, uint64_t bytes, uint64_t printed)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .processor_ns = processor_ns,
						    .bytes = bytes,
						    .printed = printed };
	return vms_budget_new(&options, NULL);
}

static struct vms_recording *load(const GByteArray *file, struct vms_budget *budget)
{
	const int fd = memfd_create("recording", MFD_CLOEXEC);
	g_assert_cmpint(write(fd, file->data, file->len), ==, (ssize_t)file->len);
	struct vms_recording *recording = vms_recording_load_fd(fd, "it", budget, NULL);
	close(fd);
	g_assert_nonnull(recording);
	return recording;
}

static uint64_t count_samples(const struct vms_profile *profile)
{
	size_t n;
	uint64_t samples = 0;
	const struct vms_profile_tree *trees = vms_profile_trees(profile, &n);
	for (size_t i = 0; i < n; i++)
		samples += trees[i].samples;
	return samples;
}

/* Spends a budget on a recording with a profile, none of which is cut off. */
static struct vms_budget *spend(put_kind put, unsigned n)
{
	struct vms_budget *budget = make_budget(0, 0, 0);
	g_autoptr(GByteArray) file = make_file(put, n);
	g_autoptr(vms_recording) recording = load(file, budget);
	g_autoptr(vms_profile) profile =
		vms_recording_profile(recording, VMS_PROFILE_BY_ADDRESS, false, NULL);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	g_assert_cmpuint(count_samples(profile), ==, stats.samples);
	g_assert_null(vms_budget_describe_losses(budget));
	return budget;
}

static void test_growth(gconstpointer data)
{
	put_kind put = *(const put_kind *)data;
	g_autoptr(vms_budget) once = spend(put, COUNT), twice = spend(put, 2 * COUNT);
	const enum vms_budget_unit units[] = { VMS_BUDGET_STEPS, VMS_BUDGET_BYTES };
	for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
		const uint64_t spent = vms_budget_spent(once, units[i]);
		g_assert_cmpuint(spent, >, COUNT);
		g_assert_cmpuint(vms_budget_spent(twice, units[i]) * 10, <=, spent * 23);
	}
}

/* A text of the file that many records name is kept once. */
static void test_texts(void)
{
	enum { N = 3000, LENGTH = 30000 };
	g_autofree char *text = g_strnfill(LENGTH, 'a');
	g_autoptr(vms_budget) budget = make_budget(0, 0, 0);
	g_autoptr(GByteArray) file = make_file(put_stacks, 1);
	struct vms_fxt_record record = { .type = VMS_FXT_STRING,
					 .number = 100,
					 .name = vms_fxt_inline(text) };
	const struct vms_fxt_string again = { .text = text, .length = LENGTH, .index = 100 };
	put_event(file, &record);
	for (unsigned i = 1; i <= N; i++)
		put_file(file, i, again);
	g_autoptr(vms_recording) recording = load(file, budget);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	g_assert_cmpuint(stats.samples, ==, 2);
	g_assert_null(vms_budget_describe_losses(budget));
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), <, 10 * 1000 * 1000);
}

/* What is cut off is told once, as the first damage; the samples that are there are all shown. */
static void test_cut(gconstpointer data)
{
	put_kind put = *(const put_kind *)data;
	g_autoptr(vms_budget) budget = make_budget(LITTLE_NS, 0, 0);
	g_autoptr(GByteArray) file = make_file(put, COUNT);
	g_autoptr(vms_recording) recording = load(file, budget);
	g_autoptr(vms_profile) profile = vms_recording_profile(recording, 0, false, NULL);
	struct vms_recording_stats stats;
	size_t n;
	vms_recording_get_stats(recording, &stats);
	g_assert_cmpuint(profile ? count_samples(profile) : 0, ==, stats.samples);
	const struct vms_recording_damage *damages = vms_recording_damages(recording, &n);
	g_assert_cmpuint(n, ==, 1);
	g_assert_true(damages[0].is_costly);
	g_assert_nonnull(strstr(damages[0].reason, "processor time"));
}

/* What a format may print is on the budget, too. */
static void test_printed(void)
{
	g_autoptr(vms_budget) budget = make_budget(0, 0, 0), little = make_budget(0, 0, 100000);
	g_autoptr(GByteArray) file = make_file(put_deep, COUNT);
	g_autoptr(vms_recording) recording = load(file, budget);
	g_autoptr(vms_profile) profile = vms_recording_profile(recording, 0, false, NULL);
	g_autoptr(vms_run_facts) facts = vms_recording_facts(recording);
	const struct vms_export_options options = { .size = sizeof(options), .budget = little };
	static const char *const formats[] = { "text", "folded", "firefox",  "speedscope",
					       "perf", "svg",	 "perfetto", "pprof" };
	for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
		g_autoptr(GString) out = g_string_new(NULL);
		g_autoptr(GError) error = NULL;
		g_assert_false(vms_export_text(vms_exporter_by_name(formats[i], NULL), profile,
					       facts, &options, out, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_BUDGET);
		g_assert_cmpuint(out->len, <=, 100000);
	}
}

/* A function of one name in each of many files, each in a process of its own. */
static void test_annotations(void)
{
	g_autoptr(GByteArray) file = make_file(put_functions, COUNT);
	g_autoptr(vms_recording) recording = load(file, NULL);
	g_autoptr(vms_profile) profile =
		vms_recording_profile(recording, VMS_PROFILE_BY_ADDRESS, false, NULL);
	g_autoptr(GPtrArray) found =
		vms_annotations_find(profile, vms_recording_symbolizer(recording), "evil", NULL);
	g_autoptr(GHashTable) modules = g_hash_table_new(g_str_hash, g_str_equal);
	g_assert_cmpuint(found->len, ==, COUNT);
	for (guint i = 0; i < found->len; i++) {
		const struct vms_annotation *annotation = found->pdata[i];
		g_assert_cmpuint(annotation->hits, ==, annotation->start == PAGE ? 2 : 1);
		g_assert_cmpuint(annotation->size, ==, PAGE);
		g_assert_cmpstr(annotation->path, ==, annotation->module);
		g_assert_true(g_hash_table_add(modules, annotation->module));
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		put_kind put;
	} kinds[] = { { "files", put_files },
		      { "stacks", put_stacks },
		      { "deep", put_deep },
		      { "names", put_names },
		      { "generations", put_generations },
		      { "births", put_births },
		      { "mappings", put_mappings },
		      { "functions", put_functions } };
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		g_autofree char *name = g_strdup_printf("/recording-costs/%s", kinds[i].name);
		g_autofree char *cut = g_strconcat(name, "/cut", NULL);
		g_test_add_data_func(name, &kinds[i].put, test_growth);
		g_test_add_data_func(cut, &kinds[i].put, test_cut);
	}
	g_test_add_func("/recording-costs/texts", test_texts);
	g_test_add_func("/recording-costs/printed", test_printed);
	g_test_add_func("/recording-costs/annotations", test_annotations);
	return g_test_run();
}
