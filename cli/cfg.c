/* SPDX-License-Identifier: MIT */
/* vmscope cfg: shows control flow graphs of the guest's functions. */
#include "cfg_formats.h"
#include "code_mode.h"
#include "commands.h"
#include "conditions.h"
#include "functions.h"
#include "values.h"

enum format { FORMAT_TEXT, FORMAT_DOT, FORMAT_SVG };

struct work {
	struct session *session;
	struct vms_memory *memory;
	struct vms_cfg_options options;
	struct vms_code_mode vcpu_mode;
	unsigned vcpu;
	int bits;
	int format;	   /* enum format; not used for JSON */
	unsigned n_graphs; /* shown so far */
	bool counts;	   /* count how often blocks are executed */
	struct cfg_counting counting;
};

/* Appends a graph to the output. A picture shows one. */
static bool show_graph(struct work *work, const struct vms_cfg *cfg,
		       const struct cfg_counts *counts, GError **error)
{
	struct session *session = work->session;
	const bool is_first = work->n_graphs++ == 0;
	if (session->json) {
		g_string_append_c(session->out, is_first ? '[' : ',');
		cfg_append_json(session, cfg, counts);
		return true;
	}
	if (work->format == FORMAT_TEXT) {
		cfg_append_text(session, cfg, counts);
		return true;
	}
	if (!is_first) {
		usage_error(error,
			    "a picture can show one function only: name one, or use --format text");
		return false;
	}
	if (work->format == FORMAT_SVG)
		return cfg_append_svg(session, cfg, counts, error);
	cfg_append_dot(session, cfg, counts);
	return true;
}

/* Shows the graph of the function at `va`. */
static bool show_function(struct work *work, uint64_t va, GError **error)
{
	struct vms_code_mode mode = work->vcpu_mode;
	code_mode_choose(work->vcpu, va, work->bits, &mode);
	work->options.bits = mode.bits;
	work->options.code_base = mode.code_base;
	g_autoptr(vms_cfg) cfg =
		vms_cfg_new(work->session->guest, work->memory, va, &work->options, error);
	if (!cfg || !work->counts)
		return cfg && show_graph(work, cfg, NULL, error);
	g_autoptr(cfg_counts) counts =
		cfg_counts_measure(work->session, cfg, &work->counting, error);
	return counts && show_graph(work, cfg, counts, error);
}

/* ---- patterns --------------------------------------------------------------------- */

/* Shows the functions at these addresses. Warns about functions whose code is not in memory. */
static bool show_functions(struct work *work, const char *pattern, const GArray *vas,
			   GError **error)
{
	unsigned n_left_out = 0;
	for (guint i = 0; i < vas->len; i++) {
		GError *failure = NULL;
		if (show_function(work, g_array_index(vas, uint64_t, i), &failure))
			continue;
		if (!g_error_matches(failure, VMS_ERROR, VMS_ERROR_UNREADABLE)) {
			g_propagate_error(error, failure);
			return false;
		}
		g_error_free(failure);
		n_left_out++;
	}
	if (n_left_out)
		vms_log(VMS_LOG_WARNING,
			"%u of %u functions that match \"%s\" are left out: their code is not in "
			"memory",
			n_left_out, vas->len, pattern);
	return true;
}

/* Shows all functions whose names match. */
static bool show_matching(struct work *work, const char *pattern, GError **error)
{
	g_autoptr(GArray) vas = functions_match(work->session, pattern, error);
	return vas && show_functions(work, pattern, vas, error);
}

/* ---- the command --------------------------------------------------------------------- */

/* Holds a vCPU briefly to read its page tables and its execution mode. */
static bool observe_vcpu(struct work *work, GError **error)
{
	struct session *session = work->session;
	struct vms_regs regs;
	if (!vms_machine_observe(session->machine, error))
		return false;
	bool done = vms_machine_all_regs(session->machine, work->vcpu, &regs, error);
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL) || !done)
		return false;
	vms_arch_code_mode(vms_machine_arch(session->machine), &regs, &work->vcpu_mode);
	work->memory = vms_memory_new(session->machine, &regs);
	return true;
}

static bool show_named(struct work *work, const char *text, GError **error)
{
	uint64_t va;
	if (functions_is_pattern(text))
		return show_matching(work, text, error);
	return session_address(work->session, text, &va, error) && show_function(work, va, error);
}

/* Checks the options for counting. */
static bool check_counting(bool counts, const struct work *work, int argc, char **argv,
			   bool has_options, GError **error)
{
	if (!counts && has_options)
		usage_error(error, "--time and --if are for --counts");
	else if (counts && (argc > 2 || functions_is_pattern(argv[1])))
		usage_error(error, "--counts needs exactly one function");
	else if (counts && work->session->core)
		usage_error(error, "--counts needs a running machine, not a core file");
	else
		return true;
	return false;
}

static bool run_cfg(struct session *session, int argc, char **argv, GError **error)
{
	static const struct choice formats[] = {
		{ "text", FORMAT_TEXT }, { "dot", FORMAT_DOT }, { "svg", FORMAT_SVG }, { NULL }
	};
	g_autofree char *cpu = NULL, *width = NULL, *format_name = NULL, *seconds = NULL;
	g_autofree char *condition = NULL;
	g_auto(GStrv) conditions = NULL;
	gboolean calls = FALSE, counts = FALSE;
	struct work work = { .session = session, .options.size = sizeof(work.options) };
	const GOptionEntry options[] = {
		{ "format", 0, 0, G_OPTION_ARG_STRING, &format_name,
		  "Text (default), or a picture of one function", "text|dot|svg" },
		{ "calls", 0, 0, G_OPTION_ARG_NONE, &calls, "End blocks at calls, too", NULL },
		{ "counts", 0, 0, G_OPTION_ARG_NONE, &counts,
		  "Count how often the blocks of one function are executed, by the agent", NULL },
		{ "time", 't', 0, G_OPTION_ARG_STRING, &seconds,
		  "How long to count (default: until Ctrl-C)", "SECONDS" },
		{ "if", 0, 0, G_OPTION_ARG_STRING_ARRAY, &conditions,
		  "Count only where an expression is not 0, as for \"flow\"; may be repeated",
		  "EXPRESSION" },
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &cpu,
		  "Use the page tables and the mode of vCPU N", "N" },
		{ "bits", 0, 0, G_OPTION_ARG_STRING, &width,
		  "Width of x86-64 code (default: as the vCPU executes now)", "16|32|64" },
		{ NULL }
	};
	if (!session_parse(session, options, &argc, &argv, 1, -1, error) ||
	    !value_choose("--format", format_name, formats, &work.format, error) ||
	    !code_mode_parse(width, &work.bits, error) ||
	    !value_seconds(seconds, &work.counting.duration_ns, error) ||
	    !check_counting(counts, &work, argc, argv, seconds || conditions, error) ||
	    !conditions_join("--if", NULL, conditions, &condition, error) ||
	    !session_open_guest(session, error) || !code_mode_check(session, work.bits, error) ||
	    !session_vcpu(session, cpu, &work.vcpu, error) || !observe_vcpu(&work, error))
		return false;
	work.options.calls_end_blocks = calls;
	work.counts = counts;
	work.counting.condition = condition;
	bool done = true;
	for (int i = 1; done && i < argc; i++)
		done = show_named(&work, argv[i], error);
	if (session->json)
		g_string_append(session->out, work.n_graphs ? "]\n" : "[]\n");
	vms_memory_free(work.memory);
	return done;
}

const struct command command_cfg = {
	.name = "cfg",
	.arguments = "FUNCTION|ADDRESS|PATTERN…",
	.summary = "Control flow graph of functions of the guest",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_cfg,
};
