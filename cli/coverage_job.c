/* SPDX-License-Identifier: MIT */
#include "coverage_job.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "progress.h"
#include "values.h"
#include <string.h>

#define TICK_NS	   (UINT64_C(100) * 1000 * 1000)
#define MAX_BLOCKS (1U << 22)

void coverage_entries(struct coverage_words *words, GOptionEntry ret[COVERAGE_ENTRIES])
{
	const GOptionEntry entries[COVERAGE_ENTRIES] = {
		{ "from", 0, 0, G_OPTION_ARG_STRING, &words->from,
		  "Count nothing before this instruction is executed", "SYMBOL|ADDRESS" },
		{ "to", 0, 0, G_OPTION_ARG_STRING, &words->to,
		  "End when this instruction is reached", "SYMBOL|ADDRESS" },
		{ "functions", 0, 0, G_OPTION_ARG_STRING, &words->functions,
		  "Show only functions whose names match", "PATTERN" },
		{ "never", 0, 0, G_OPTION_ARG_NONE, &words->never,
		  "Show the functions that never ran", NULL },
		{ "lcov", 0, 0, G_OPTION_ARG_FILENAME, &words->lcov,
		  "Write a tracefile of lcov; with --symbols VMLINUX also source lines", "FILE" },
		{ "drcov", 0, 0, G_OPTION_ARG_FILENAME, &words->drcov,
		  "Write the blocks in the format of drcov", "FILE" },
		{ "max-blocks", 0, 0, G_OPTION_ARG_STRING, &words->max_blocks,
		  "Blocks that QEMU has memory for (default: a million)", "N" },
	};
	memcpy(ret, entries, sizeof(entries));
}

bool coverage_words_given(const struct coverage_words *words)
{
	return words->from || words->to || words->functions || words->never || words->lcov ||
	       words->drcov || words->max_blocks;
}

void coverage_words_clear(struct coverage_words *words)
{
	g_free(words->from);
	g_free(words->to);
	g_free(words->functions);
	g_free(words->lcov);
	g_free(words->drcov);
	g_free(words->max_blocks);
}

/* ---- files ------------------------------------------------------------------------------ */

/* NULL: not wanted. */
struct files {
	vms_outfile *lcov, *drcov;
};

static bool open_file(const char *path, vms_outfile **ret, GError **error)
{
	*ret = path ? vms_outfile_open(path, error) : NULL;
	return !path || *ret;
}

/* Writes a file. If that fails, the other results are shown all the same. */
static void write_file(struct session *session, vms_outfile *file,
		       void (*append)(const struct vms_coverage_report *report, GString *out),
		       const struct vms_coverage_report *report)
{
	g_autoptr(GString) text = g_string_new(NULL);
	GError *failure = NULL;
	if (!file)
		return;
	append(report, text);
	if (!vms_outfile_write(file, text->str, text->len, &failure) ||
	    !vms_outfile_commit(file, &failure))
		session_note_loss(session, failure);
}

/* ---- the table -------------------------------------------------------------------------- */

/*
 * Makes the table of the functions that `words` select. A function that ran has blocks; a number of
 * 0 means that they are unknown.
 */
static struct vms_table *make_table(const struct vms_coverage_report *report,
				    const struct coverage_words *words)
{
	static const struct vms_column columns[] = {
		{ "address", VMS_COLUMN_ADDRESS }, { "ran", VMS_COLUMN_NUMBER },
		{ "blocks", VMS_COLUMN_NUMBER },   { "function", VMS_COLUMN_TEXT },
		{ "module", VMS_COLUMN_TEXT },	   { NULL }
	};
	struct vms_table *table = vms_table_new(columns);
	GPatternSpec *pattern = g_pattern_spec_new(words->functions ?: "*");
	size_t n;
	const struct vms_covered_function *functions = vms_coverage_report_functions(report, &n);
	for (size_t i = 0; i < n; i++) {
		const struct vms_covered_function *function = &functions[i];
		if (function->ran == (bool)words->never ||
		    !g_pattern_spec_match_string(pattern, function->name))
			continue;
		const bool unknown = function->ran && !function->n_blocks;
		vms_table_add(table, function->va,
			      unknown ? VMS_TABLE_UNKNOWN : (uint64_t)function->n_ran,
			      function->n_blocks ? (uint64_t)function->n_blocks : VMS_TABLE_UNKNOWN,
			      function->name, function->module);
	}
	g_pattern_spec_free(pattern);
	return table;
}

static void append_json(GString *out, const struct vms_coverage_totals *totals,
			const struct vms_table *table)
{
	g_string_append_printf(
		out,
		"{\"functions_ran\": %" G_GUINT64_FORMAT ", \"functions\": %" G_GUINT64_FORMAT
		", \"blocks_ran\": %" G_GUINT64_FORMAT ", \"blocks\": %" G_GUINT64_FORMAT
		", \"nameless\": %" G_GUINT64_FORMAT ", \"cut\": %" G_GUINT64_FORMAT
		", \"lost\": %" G_GUINT64_FORMAT ", \"list\":\n",
		totals->functions_ran, totals->functions, totals->blocks_ran, totals->blocks,
		totals->nameless, totals->cut, totals->lost);
	vms_table_json(table, out);
	g_string_append(out, "}\n");
}

static void append_text(GString *out, const struct vms_coverage_totals *totals,
			const struct vms_table *table)
{
	vms_table_text(table, out);
	g_string_append_printf(out,
			       "%s%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " functions ran, "
			       "%" G_GUINT64_FORMAT " of their %" G_GUINT64_FORMAT " blocks\n",
			       vms_table_rows(table) ? "\n" : "", totals->functions_ran,
			       totals->functions, totals->blocks_ran, totals->blocks);
	if (totals->nameless)
		g_string_append_printf(out,
				       "%" G_GUINT64_FORMAT " blocks ran outside of functions\n",
				       totals->nameless);
}

static void write_results(struct session *session, const struct coverage_job *job,
			  const struct files *files, const struct vms_coverage_report *report)
{
	const struct coverage_words *words = job->words;
	struct vms_coverage_totals totals;
	vms_coverage_report_totals(report, &totals);
	write_file(session, files->lcov, vms_coverage_report_lcov, report);
	write_file(session, files->drcov, vms_coverage_report_drcov, report);
	g_autoptr(vms_table) table = make_table(report, words);
	if (session->json)
		append_json(session->out, &totals, table);
	else
		append_text(session->out, &totals, table);
	if (totals.never_began)
		vms_log(VMS_LOG_WARNING,
			"the coverage has not begun: the instruction at %s (--from) was never "
			"executed",
			words->from);
	if (totals.lost)
		session_note_loss(
			session,
			g_error_new(VMS_ERROR, VMS_ERROR_IO,
				    "incomplete: there was no room in QEMU for %" G_GUINT64_FORMAT
				    " blocks; a higher --max-blocks helps if the host has "
				    "memory for it",
				    totals.lost));
}

/* ---- the job ---------------------------------------------------------------------------- */

static bool take_options(struct session *session, const struct coverage_job *job,
			 struct vms_coverage_options *ret, GError **error)
{
	const struct coverage_words *words = job->words;
	*ret = (struct vms_coverage_options) {
		.size = sizeof(*ret),
		.duration_ns = job->duration_ns,
		.lines = words->lcov && session->symbols,
	};
	return value_unsigned("--max-blocks", words->max_blocks, 4, MAX_BLOCKS, &ret->max_blocks,
			      error) &&
	       (!words->from || session_address(session, words->from, &ret->from, error)) &&
	       (!words->to || session_address(session, words->to, &ret->to, error));
}

static char *describe_progress(void *data)
{
	struct vms_coverage_progress progress;
	vms_coverage_get_progress(data, &progress);
	return g_strdup_printf("coverage: %" G_GUINT64_FORMAT " blocks, %" G_GUINT64_FORMAT
			       " lost%s; Ctrl-C ends it",
			       progress.blocks, progress.lost,
			       progress.waits ? ", waiting for --from" : "");
}

static void wait_for_end(const struct coverage_job *job, struct vms_coverage *coverage)
{
	do {
		while (g_main_context_iteration(NULL, FALSE))
			;
		if (job->stopped)
			vms_coverage_stop(coverage);
	} while (!vms_coverage_wait(coverage, vms_clock_now_ns() + TICK_NS));
}

static bool measure(struct coverage_job *job, struct session *session,
		    const struct vms_coverage_options *options, const struct files *files,
		    GError **error)
{
	g_autoptr(vms_coverage) coverage = vms_coverage_start(session->guest, options, error);
	if (!coverage)
		return false;
	vms_log(VMS_LOG_INFO, "the coverage has begun");
	if (job->started && !job->started(job->data, error))
		return false;
	struct progress *line =
		job->show_progress ? progress_start(describe_progress, coverage) : NULL;
	wait_for_end(job, coverage);
	g_autoptr(vms_coverage_report) report = vms_coverage_finish(coverage, &job->end);
	progress_end(line);
	write_results(session, job, files, report);
	return true;
}

/* The files are opened first: who has waited for a boot must not learn then that one cannot be. */
bool coverage_job_run(struct coverage_job *job, struct session *session, GError **error)
{
	struct vms_coverage_options options;
	struct files files = { 0 };
	const bool done = take_options(session, job, &options, error) &&
			  open_file(job->words->lcov, &files.lcov, error) &&
			  open_file(job->words->drcov, &files.drcov, error) &&
			  measure(job, session, &options, &files, error);
	vms_outfile_close(files.lcov);
	vms_outfile_close(files.drcov);
	return done;
}
