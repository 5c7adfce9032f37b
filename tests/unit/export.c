/* SPDX-License-Identifier: MIT */
/* The formats, of a run in which each of four vCPUs is sampled exactly once. */
#include "fake_guest.h"
#include "fake_machine.h"
#include "self_file.h"
#include <glib/gstdio.h>
#include <string.h>
#include <vmscope/export.h>
#include <vmscope/sample.h>

#define N_VCPUS 4
#define OUTER	UINT64_C(0xffff800000001000)
#define INNER	UINT64_C(0xffff800000001100)
#define DRIVER	UINT64_C(0xffff900000000000)
#define USER	UINT64_C(0x400000)

struct fixture {
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_sample_report *report;
	struct fake_sample samples[N_VCPUS];
	struct self_file driver; /* its code's lines */
};

static void set_up(struct fixture *fixture, gconstpointer leaf_first)
{
	fixture->machine = fake_machine_new(&vms_arch_x86_64, N_VCPUS);
	fixture->guest = fake_guest_new(fixture->machine, VMS_GUEST_LINUX);
	fake_guest_add_symbol(fixture->guest, "outer", NULL, OUTER, 0x100);
	fake_guest_add_symbol(fixture->guest, "inner;\n", NULL, INNER, 0x100);
	fake_guest_add_symbol(fixture->guest, "probe", "driver", DRIVER, 0x100);
	struct vms_symbol_file *file = self_file_open(DRIVER, &fixture->driver);
	g_assert_true(vms_guest_add_symbols(fixture->guest, file, &fixture->driver.base, NULL));
	const struct vms_process *process = fake_guest_add_process(fixture->guest, "sh", 7, false);
	fixture->samples[0] =
		(struct fake_sample) { .process = process,
				       .frames = { { INNER + 2 }, { OUTER + 5, true } } };
	fixture->samples[1] =
		(struct fake_sample) { .process = process,
				       .frames = { { INNER + 4 }, { OUTER + 5, true } } };
	fixture->samples[2] = (struct fake_sample) { .idle = true };
	fixture->samples[3] = (struct fake_sample) {
		.process = process,
		.frames = { { DRIVER + SELF_FILE_LATER }, { USER + 1, true, true } },
		.end = VMS_WALK_DEPTH,
	};
	for (unsigned i = 0; i < N_VCPUS; i++)
		fake_guest_set_samples(fixture->guest, i, &fixture->samples[i], 1);
	fixture->report =
		vms_sample_report_new(fixture->machine, fixture->guest, VMS_SAMPLE_INTERVAL_MAX_US,
				      leaf_first ? VMS_SAMPLE_LEAF_FIRST : 0, NULL);
	/* The first tick is due at once, the next long after the end. */
	g_assert_true(vms_sample_report_start(fixture->report, 1, NULL, NULL, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_clear_pointer(&fixture->report, vms_sample_report_unref);
	g_clear_pointer(&fixture->guest, vms_guest_unref);
	g_clear_pointer(&fixture->machine, vms_machine_unref);
}

/* The profile and the facts of a run, for all formats alike. */
struct result {
	struct vms_profile *profile;
	struct vms_run_facts *facts;
};

static struct result get_result(struct fixture *fixture, unsigned flags, const char *const *items)
{
	g_autoptr(GError) error = NULL;
	struct result result = {
		.profile = vms_sample_report_profile(fixture->report, flags, &error),
		.facts = vms_sample_report_facts(fixture->report),
	};
	g_assert_no_error(error);
	vms_run_facts_read_items(result.facts, vms_sample_report_guest(fixture->report), items);
	return result;
}

static void clear_result(struct result *result)
{
	vms_profile_free(result->profile);
	vms_run_facts_free(result->facts);
}

static char *export_with(struct fixture *fixture, const char *format, unsigned flags,
			 const char *const *items, double min_percent)
{
	const struct vms_exporter *exporter = vms_exporter_by_name(format, NULL);
	const struct vms_export_options options = { .size = sizeof(options),
						    .min_percent = min_percent };
	struct result result = get_result(fixture, flags, items);
	GString *text = g_string_new(NULL);
	g_assert_true(
		vms_export_text(exporter, result.profile, result.facts, &options, text, NULL));
	clear_result(&result);
	return g_string_free(text, FALSE);
}

static char *export(struct fixture *fixture, const char *format, unsigned flags)
{
	return export_with(fixture, format, flags, NULL, 0);
}

static void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		g_error("\"%s\"\nis not in\n%s", part, text);
}

static void assert_lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		g_error("\"%s\"\nshould not be in\n%s", part, text);
}

/* Each is found by its name and by its suffix, and only it; who asks for another is told of all. */
static void test_formats(struct fixture *fixture G_GNUC_UNUSED, gconstpointer data G_GNUC_UNUSED)
{
	size_t n;
	const struct vms_exporter *const *exporters = vms_exporters(&n);
	g_autoptr(GString) choice = g_string_new("choose ");
	g_autoptr(GError) error = NULL;
	for (size_t i = 0; i < n; i++) {
		const struct vms_exporter *exporter = exporters[i];
		g_autofree char *path = g_strconcat("a.b/c", exporter->suffix, NULL);
		g_assert_true(vms_exporter_by_name(exporter->name, NULL) == exporter);
		g_assert_true(vms_exporter_by_path(path) == exporter);
		g_assert_cmpint(exporter->suffix[0], ==, '.');
		bool last = i == n - 1;
		const char *separator = i == 0 ? "" : last ? " or " : ", ";
		g_string_append_printf(choice, "%s%s", separator, exporter->name);
	}
	g_assert_null(vms_exporter_by_name("pdf", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_assert_true(g_str_has_suffix(error->message, choice->str));
	g_assert_cmpstr(exporters[0]->name, ==, "text");
	g_assert_true(vms_exporter_by_path("svg") == exporters[0]);
	g_assert_true(vms_exporter_by_path("") == exporters[0]);
}

static void test_text(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *text = export(fixture, "text", 0);
	assert_contains(text, "Linux 1.2.3 on a fake machine, 4 vCPUs, 0.0 s at 0.1 Hz\n");
	assert_contains(text, "Linux 1.2.3 #1\n");
	assert_contains(text, "Machine:  a fake machine, fake, 4 vCPUs\n");
	assert_contains(text, "outermost caller first, percentages of a vCPU's samples\n");
	assert_contains(text, " complete after ");
	assert_contains(text, "vCPU 0: 1 samples, one every 10000000 us for ");
	assert_contains(text, ", 0 missed, 0 failed\n");
	assert_contains(text, "\n1 100.00% sh (7)\n"
			      "    1 100.00% outer (vmlinux) [0xffff800000001000]\n"
			      "        1 100.00% inner;? (vmlinux) [0xffff800000001100]\n"
			      "\n");
	assert_contains(text, "\n1 100.00% [idle]\n\n");
	g_autofree char *stack = g_strdup_printf(
		"\n1 100.00%% sh (7)\n"
		"    1 100.00%% [truncated]\n"
		"        1 100.00%% [0x400001]\n"
		"            1 100.00%% probe (driver) [0xffff900000000000] " SELF_FILE_SOURCE
		":%u\n"
		"\n",
		fixture->driver.begin);
	assert_contains(text, stack);
	assert_contains(text, "idle 100.00%, ");
	assert_contains(text, "kernel stacks complete 0.00% of 1, 1 truncated\n");
	assert_contains(text, "kernel stacks complete 100.00% of 1\n");
}

static void test_text_by_address(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *text =
		export(fixture, "text", VMS_PROFILE_BY_ADDRESS | VMS_PROFILE_MERGE_VCPUS);
	assert_contains(text, ", percentages of all vCPUs' samples\n");
	g_autofree char *tree = g_strdup_printf(
		"\n3 75.00%% sh (7)\n"
		"    2 50.00%% outer+0x5 (vmlinux) [0xffff800000001005]\n"
		"        1 25.00%% inner;?+0x2 (vmlinux) [0xffff800000001102]\n"
		"        1 25.00%% inner;?+0x4 (vmlinux) [0xffff800000001104]\n"
		"    1 25.00%% [truncated]\n"
		"        1 25.00%% [0x400001]\n"
		"            1 25.00%% probe+0x80 (driver) [0xffff900000000080] " SELF_FILE_SOURCE
		":%u\n"
		"1 25.00%% [idle]\n\n",
		fixture->driver.later);
	assert_contains(text, tree);
	/* The functions are functions all the same. */
	assert_contains(text, "         2  50.00%          2  50.00%  inner;? (vmlinux) "
			      "[0xffff800000001100]\n");
	assert_contains(text, "         0   0.00%          2  50.00%  outer (vmlinux) "
			      "[0xffff800000001000]\n");
}

static void test_min_percent(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *text = export_with(fixture, "text", VMS_PROFILE_MERGE_VCPUS, NULL, 50);
	assert_contains(text, "\n3 75.00% sh (7)\n    2 50.00% outer");
	assert_contains(text, "less than 50%");
	assert_lacks(text, "25.00%");
}

/* Items: those of the default, those asked for; and none is left out without a word. */
static void test_items(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const wanted[] = { "weight", "sound", NULL };
	static const char *const none[] = { NULL };
	g_autofree char *text = export(fixture, "text", 0);
	assert_contains(text, "\nWhat colour it is\n-----------------\n");
	assert_contains(text, "green\n");
	assert_contains(text,
			"\nHow old it is\n-------------\nnot available: nobody knows the age\n");
	assert_lacks(text, "heavy");

	g_autofree char *asked = export_with(fixture, "text", 0, wanted, 0);
	assert_contains(asked, "heavy\nincomplete: its feet are not weighed\n");
	assert_contains(asked, "not available: nobody knows the sound\n");
	assert_lacks(asked, "green");

	g_autofree char *bare = export_with(fixture, "text", 0, none, 0);
	assert_lacks(bare, "green");
}

/* A profile and its facts outlive the machine, the guest and the report. */
static void test_value(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	size_t n;
	const struct vms_exporter *const *exporters = vms_exporters(&n);
	struct result result = get_result(fixture, 0, NULL);
	g_autoptr(GPtrArray) before = g_ptr_array_new_with_free_func(g_free);
	for (size_t i = 0; i < n; i++) {
		GString *text = g_string_new(NULL);
		g_assert_true(vms_export_text(exporters[i], result.profile, result.facts, NULL,
					      text, NULL));
		g_ptr_array_add(before, g_string_free(text, FALSE));
	}
	g_clear_pointer(&fixture->report, vms_sample_report_unref);
	g_clear_pointer(&fixture->guest, vms_guest_unref);
	g_clear_pointer(&fixture->machine, vms_machine_unref);
	for (size_t i = 0; i < n; i++) {
		g_autoptr(GString) text = g_string_new(NULL);
		g_assert_true(vms_export_text(exporters[i], result.profile, result.facts, NULL,
					      text, NULL));
		g_assert_cmpstr(text->str, ==, before->pdata[i]);
	}
	clear_result(&result);
}

/* Lines in any order. */
static void assert_lines(const char *text, const char *const *lines, size_t n)
{
	g_auto(GStrv) found = g_strsplit(text, "\n", -1);
	g_assert_cmpuint(g_strv_length(found), ==, n + 1);
	for (size_t i = 0; i < n; i++)
		if (!g_strv_contains((const char *const *)found, lines[i]))
			g_error("no line \"%s\" in\n%s", lines[i], text);
}

static void test_folded(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const merged[] = { "sh (7);outer;inner:? 2", "[idle] 1",
					      "sh (7);[truncated];0x400001;probe 1" };
	static const char *const each[] = { "vCPU 0;sh (7);outer+0x5;inner:?+0x2 1",
					    "vCPU 1;sh (7);outer+0x5;inner:?+0x4 1",
					    "vCPU 2;[idle] 1",
					    "vCPU 3;sh (7);[truncated];0x400001;probe+0x80 1" };
	g_autofree char *all = export(fixture, "folded", VMS_PROFILE_MERGE_VCPUS);
	assert_lines(all, merged, G_N_ELEMENTS(merged));
	g_autofree char *by_vcpu = export(fixture, "folded", VMS_PROFILE_BY_ADDRESS);
	assert_lines(by_vcpu, each, G_N_ELEMENTS(each));
}

/* Two functions of one name are one frame of folded stacks. */
static void test_folded_same_name(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const lines[] = { "twin 2", "[idle] 1",
					     "sh (7);[truncated];0x400001;probe 1" };
	fake_guest_add_symbol(fixture->guest, "twin", NULL, DRIVER + 0x1000, 0x10);
	fake_guest_add_symbol(fixture->guest, "twin", NULL, DRIVER + 0x2000, 0x10);
	fixture->samples[0] = (struct fake_sample) { .frames = { { DRIVER + 0x1000 } } };
	fixture->samples[1] = (struct fake_sample) { .frames = { { DRIVER + 0x2000 } } };
	g_assert_true(vms_sample_report_start(fixture->report, 1, NULL, NULL, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	g_autofree char *text = export(fixture, "folded", VMS_PROFILE_MERGE_VCPUS);
	assert_lines(text, lines, G_N_ELEMENTS(lines));
}

static void test_leaf_first(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const lines[] = { "inner:?;outer;sh (7) 2", "[idle] 1",
					     "probe;0x400001;[truncated];sh (7) 1" };
	g_autofree char *folded = export(fixture, "folded", VMS_PROFILE_MERGE_VCPUS);
	assert_lines(folded, lines, G_N_ELEMENTS(lines));
	g_autofree char *text = export(fixture, "text", 0);
	assert_contains(text, "leaf first");
	assert_contains(text, "\n1 100.00% inner;? (vmlinux) [0xffff800000001100]\n"
			      "    1 100.00% outer (vmlinux) [0xffff800000001000]\n"
			      "        1 100.00% sh (7)\n");
}

static void test_file(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(GError) folder_error = NULL;
	g_autoptr(GError) full_error = NULL;
	g_autofree char *folder = g_dir_make_tmp("vmscope-export-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(folder, "report.folded", NULL);
	g_autofree char *written = NULL;
	g_autofree char *expected = export(fixture, "folded", 0);
	const struct vms_exporter *exporter = vms_exporter_by_path(path);
	struct result result = get_result(fixture, 0, NULL);

	g_assert_true(vms_export_file(exporter, result.profile, result.facts, NULL, path, &error));
	g_assert_no_error(error);
	g_assert_true(g_file_get_contents(path, &written, NULL, NULL));
	g_assert_cmpstr(written, ==, expected);
	g_assert_false(vms_export_file(exporter, result.profile, result.facts, NULL, folder,
				       &folder_error));
	g_assert_error(folder_error, VMS_ERROR, VMS_ERROR_IO);
	g_assert_false(vms_export_file(exporter, result.profile, result.facts, NULL, "/dev/full",
				       &full_error));
	g_assert_error(full_error, VMS_ERROR, VMS_ERROR_IO);
	clear_result(&result);
	g_unlink(path);
	g_assert_cmpint(g_rmdir(folder), ==, 0); /* nothing else was left in it */
}

/* Before anything was sampled there is no profile; the facts say that nothing was run. */
static void test_nothing(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_sample_report) report =
		vms_sample_report_new(fixture->machine, NULL, 1000, 0, NULL);
	g_autoptr(vms_run_facts) facts = vms_sample_report_facts(report);
	g_autoptr(GError) error = NULL;

	g_assert_null(vms_sample_report_profile(report, 0, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_cmpint(facts->end, ==, VMS_SAMPLE_NOT_RUN);
	g_assert_cmpuint(facts->n_vcpus, ==, 0);
	g_assert_cmpstr(facts->system, ==, NULL);
	g_assert_cmpstr(facts->machine_name, ==, "fake");
}

/* Without an operating system: said as such. */
static void test_no_guest(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_sample_report_unref(fixture->report);
	fixture->report =
		vms_sample_report_new(fixture->machine, NULL, VMS_SAMPLE_INTERVAL_MAX_US, 0, NULL);
	g_assert_true(vms_sample_report_start(fixture->report, 1, NULL, NULL, NULL));
	vms_sample_report_wait(fixture->report, UINT64_MAX);
	g_autofree char *text = export(fixture, "text", 0);
	assert_contains(text, "no operating system detected: no vCPU has paging on");
	assert_contains(text, "Unknown guest on a fake machine");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct fixture *fixture, gconstpointer data);
		bool leaf_first;
	} tests[] = {
		{ "/export/formats", test_formats },
		{ "/export/text", test_text },
		{ "/export/text-by-address", test_text_by_address },
		{ "/export/min-percent", test_min_percent },
		{ "/export/items", test_items },
		{ "/export/value", test_value },
		{ "/export/folded", test_folded },
		{ "/export/folded-same-name", test_folded_same_name },
		{ "/export/leaf-first", test_leaf_first, true },
		{ "/export/file", test_file },
		{ "/export/nothing", test_nothing },
		{ "/export/no-guest", test_no_guest },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].name, struct fixture, tests[i].leaf_first ? tests : NULL,
			   set_up, tests[i].run, tear_down);
	return g_test_run();
}
