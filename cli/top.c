/* SPDX-License-Identifier: MIT */
/* vmscope top: shows what guests execute now, again and again. */
#include "base/clock.h"
#include "commands.h"
#include "end_signals.h"
#include "top_screen.h"
#include "values.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_HZ    99
#define DEFAULT_DELAY 2 /* seconds */
#define LOOK_NS	      UINT64_C(100000000)

struct options {
	char *hz, *delay, *by, *sort, *guests;
	gboolean once, idle;
	int rows;
};

/* Parses a list like "vcpu,function". */
static bool parse_keys(const char *text, unsigned *keys, GError **error)
{
	static const struct choice choices[] = {
		{ "guest", TOP_BY_GUEST },	 { "vcpu", TOP_BY_VCPU },
		{ "process", TOP_BY_PROCESS },	 { "container", TOP_BY_CONTAINER },
		{ "function", TOP_BY_FUNCTION }, { NULL, 0 }
	};
	if (!text)
		return true;
	g_auto(GStrv) words = g_strsplit(text, ",", -1);
	*keys = 0;
	for (char **word = words; *word; word++) {
		int key = 0;
		if (!value_choose("--by", *word, choices, &key, error))
			return false;
		*keys |= (unsigned)key;
	}
	return true;
}

static bool parse_view(const struct options *options, struct top_view *view, GError **error)
{
	static const struct choice orders[] = { { "self", 0 }, { "total", 1 }, { NULL, 0 } };
	int by_total = 0;
	*view = (struct top_view) {
		.keys = TOP_BY_PROCESS | TOP_BY_FUNCTION | (options->guests ? TOP_BY_GUEST : 0),
		.with_idle = options->idle,
	};
	if (!parse_keys(options->by, &view->keys, error) ||
	    !value_choose("--sort", options->sort, orders, &by_total, error))
		return false;
	view->by_total = by_total;
	return true;
}

static bool parse_rounds(const struct options *options, struct top_rounds_options *ret,
			 GError **error)
{
	double hz = DEFAULT_HZ, seconds = DEFAULT_DELAY;
	if (!value_number("--frequency", options->hz, 0.1, 100000, "from 0.1 to 100000 Hz", &hz,
			  error) ||
	    !value_number("--delay", options->delay, 0.1, 3600, "from 0.1 to 3600 s", &seconds,
			  error))
		return false;
	*ret = (struct top_rounds_options) { .interval_us = (uint64_t)ceil(1e6 / hz - 1e-6),
					     .duration_ns = (uint64_t)llround(seconds * 1e9),
					     .pattern = options->guests };
	return true;
}

/* ---- a table ------------------------------------------------------------------------------ */

static struct vms_table *make_guests_table(const struct top_round *round)
{
	static const struct vms_column columns[] = {
		{ "guest", VMS_COLUMN_TEXT },	  { "pid", VMS_COLUMN_NUMBER },
		{ "vcpus", VMS_COLUMN_NUMBER },	  { "idle", VMS_COLUMN_REAL },
		{ "samples", VMS_COLUMN_NUMBER }, { "missed", VMS_COLUMN_NUMBER },
		{ "obstacle", VMS_COLUMN_TEXT },  { NULL }
	};
	struct vms_table *table = vms_table_new(columns);
	for (guint i = 0; i < round->guests->len; i++) {
		const struct top_guest *guest = g_ptr_array_index(round->guests, i);
		vms_table_add(
			table, guest->name, guest->pid ? (uint64_t)guest->pid : VMS_TABLE_UNKNOWN,
			(uint64_t)guest->vcpus,
			guest->samples ? 100.0 * (double)guest->idle / (double)guest->samples : NAN,
			guest->samples, guest->missed, guest->obstacle);
	}
	return table;
}

/* A row has all keys; those that the view does not have are unknown. */
static struct vms_table *make_rows_table(const struct top_rows *rows, const struct top_view *view,
					 int limit)
{
	static const struct vms_column columns[] = {
		{ "self", VMS_COLUMN_REAL },	  { "total", VMS_COLUMN_REAL },
		{ "samples", VMS_COLUMN_NUMBER }, { "guest", VMS_COLUMN_TEXT },
		{ "vcpu", VMS_COLUMN_NUMBER },	  { "container", VMS_COLUMN_TEXT },
		{ "process", VMS_COLUMN_TEXT },	  { "function", VMS_COLUMN_TEXT },
		{ "module", VMS_COLUMN_TEXT },	  { NULL }
	};
	struct vms_table *table = vms_table_new(columns);
	for (guint i = 0; i < rows->rows->len && (limit == 0 || i < (guint)limit); i++) {
		const struct top_row *row = &g_array_index(rows->rows, struct top_row, i);
		vms_table_add(table, row->self, row->total, row->samples, row->guest,
			      view->keys & TOP_BY_VCPU ? (uint64_t)row->vcpu : VMS_TABLE_UNKNOWN,
			      row->container, row->process, row->function, row->module);
	}
	return table;
}

static void print_round(struct session *session, const struct top_round *round,
			const struct top_view *view, int limit)
{
	struct top_rows *rows = top_rows_new(round, view);
	g_autoptr(vms_table) guests = make_guests_table(round);
	g_autoptr(vms_table) table = make_rows_table(rows, view, limit);
	g_string_append(session->out, session->json ? "{\n\"guests\": " : "");
	session_table(session, guests);
	g_string_append(session->out, session->json ? ",\n\"rows\": " : "\n");
	session_table(session, table);
	g_string_append(session->out, session->json ? "}\n" : "");
	top_rows_free(rows);
}

/* Notes why guests were not sampled. Errors: none was. */
static bool check_round(struct session *session, const struct top_round *round, GError **error)
{
	bool is_sampled = false;
	const struct top_guest *missing = NULL;
	for (guint i = 0; i < round->guests->len; i++) {
		const struct top_guest *guest = g_ptr_array_index(round->guests, i);
		is_sampled |= guest->profile != NULL;
		if (guest->obstacle)
			missing = guest;
	}
	if (is_sampled && missing)
		g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s: %s", missing->name,
			    missing->obstacle);
	else if (!is_sampled)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s%s%s",
			    missing ? missing->name : "no guest here is called so",
			    missing ? ": " : "", missing ? missing->obstacle : "");
	if (session->loss)
		session->status = 1;
	return is_sampled;
}

static void finish_round(void *rounds)
{
	top_rounds_finish(rounds);
}

/* Prints what one round finds. A signal ends it early. */
static bool print_once(struct session *session, struct top_rounds *rounds,
		       const struct top_view *view, int limit, GError **error)
{
	struct end_signals signals = { .end = finish_round,
				       .data = rounds,
				       .budget = session->budget };
	struct top_round *round = NULL;
	end_signals_watch(&signals);
	while (!round && !top_rounds_ended(rounds)) {
		round = top_rounds_take(rounds, vms_clock_now_ns() + LOOK_NS);
		while (g_main_context_iteration(NULL, FALSE))
			;
	}
	end_signals_release(&signals);
	const bool done = round && check_round(session, round, error);
	if (done)
		print_round(session, round, view, limit);
	top_round_free(round);
	return done;
}

/* ---- the command --------------------------------------------------------------------------- */

static bool check_options(const struct session *session, const struct options *options,
			  GError **error)
{
	if (options->guests && session_names_target(session))
		usage_error(error, "--guests chooses guests by name: it excludes a target");
	else if (!options->once && (session->json || session->outputs))
		usage_error(error, "--json and --output are for --once");
	else if (!options->once && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)))
		usage_error(error, "a live view needs a terminal: --once prints a table");
	else if (options->rows < 0)
		usage_error(error, "--rows %d: it must be 0 or more", options->rows);
	else
		return true;
	return false;
}

static bool show_top(struct session *session, const struct options *options, GError **error)
{
	struct top_view view;
	struct top_rounds_options rounds_options;
	if (!check_options(session, options, error) || !parse_view(options, &view, error) ||
	    !parse_rounds(options, &rounds_options, error) ||
	    (!options->guests && !session_open_guest(session, error)))
		return false;
	struct top_rounds *rounds = top_rounds_start(session, &rounds_options, error);
	if (!rounds)
		return false;
	const bool done = options->once ? print_once(session, rounds, &view, options->rows, error)
					: top_screen_show(rounds, view, session->budget, error);
	top_rounds_free(rounds);
	return done;
}

static bool run_top(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { 0 };
	const GOptionEntry entries[] = {
		{ "guests", 0, 0, G_OPTION_ARG_STRING, &options.guests,
		  "All guests of this host whose name has this pattern, such as '*'", "PATTERN" },
		{ "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
		  "What a row stands for: guest, vcpu, container, process, function (default "
		  "process,function)",
		  "KEY,…" },
		{ "sort", 0, 0, G_OPTION_ARG_STRING, &options.sort,
		  "By samples of a function itself (default), or with what it calls",
		  "self|total" },
		{ "idle", 0, 0, G_OPTION_ARG_NONE, &options.idle, "Show idle vCPUs, too", NULL },
		{ "delay", 'd', 0, G_OPTION_ARG_STRING, &options.delay,
		  "How long a round takes (default 2)", "SECONDS" },
		{ "frequency", 'F', 0, G_OPTION_ARG_STRING, &options.hz,
		  "Samples per second and vCPU (default 99)", "HZ" },
		{ "once", 0, 0, G_OPTION_ARG_NONE, &options.once,
		  "Print the table of one round, then end", NULL },
		{ "rows", 'n', 0, G_OPTION_ARG_INT, &options.rows,
		  "The first N rows of the table (default: all)", "N" },
		{ NULL }
	};
	const bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
			  show_top(session, &options, error);
	g_free(options.hz);
	g_free(options.delay);
	g_free(options.by);
	g_free(options.sort);
	g_free(options.guests);
	return done;
}

const struct command command_top = {
	.name = "top",
	.arguments = "",
	.summary =
		"What guests execute now, in a live view: functions, processes, containers, vCPUs",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON | SESSION_RUNNING,
	.run = run_top,
};
