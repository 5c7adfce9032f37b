/* SPDX-License-Identifier: MIT */
/*
 * An option that uftrace has as well has uftrace's letter: -F (filter), -N (notrace), -D (depth).
 * The exception is -t: it is a time filter in uftrace, and the duration of a command in vmscope.
 */
#include "calls_options.h"
#include "session.h"
#include "values.h"

#define MAX_BYTES (UINT64_C(10) << 30) /* default limit: a minute or more of a busy guest */
#define DEPTH_MAX 1024		       /* uftrace's records have 10 bits for the depth */
#define PID_MAX	  (1U << 22)	       /* PID_MAX_LIMIT of Linux on 64-bit machines */

static const struct choice bys[] = { { "vcpu", VMS_CALLS_BY_VCPU },
				     { "level", VMS_CALLS_BY_LEVEL },
				     { "task", VMS_CALLS_BY_TASK },
				     { NULL } };
static const struct choice clocks[] = { { "host", VMS_CALLS_CLOCK_HOST },
					{ "guest", VMS_CALLS_CLOCK_GUEST },
					{ "instructions", VMS_CALLS_CLOCK_INSTRUCTIONS },
					{ NULL } };

GOptionEntry *calls_entries(struct calls_words *words, const GOptionEntry *own)
{
	const GOptionEntry shared[] = {
		{ "by", 0, 0, G_OPTION_ARG_STRING, &words->by,
		  "A file per vCPU (default), per vCPU and privilege level, or per thread of the "
		  "guest",
		  "vcpu|level|task" },
		{ "clock", 0, 0, G_OPTION_ARG_STRING, &words->clock,
		  "Time of the host (default), of the guest's virtual clock, or instructions",
		  "host|guest|instructions" },
		{ "only", 'F', 0, G_OPTION_ARG_STRING_ARRAY, &words->only,
		  "Record FUNC and what it calls; may be repeated", "FUNC" },
		{ "not", 'N', 0, G_OPTION_ARG_STRING_ARRAY, &words->without,
		  "Record neither FUNC nor what it calls; may be repeated", "FUNC" },
		{ "start-at", 0, 0, G_OPTION_ARG_STRING_ARRAY, &words->start_at,
		  "Begin to record when FUNC is called; may be repeated", "FUNC" },
		{ "stop-at", 0, 0, G_OPTION_ARG_STRING_ARRAY, &words->stop_at,
		  "End the trace when FUNC is called; may be repeated", "FUNC" },
		{ "depth", 'D', 0, G_OPTION_ARG_STRING, &words->depth,
		  "Levels of calls to record, 1 to 1024", "N" },
		{ "min-time", 0, 0, G_OPTION_ARG_STRING, &words->min_time,
		  "Leave out calls that take less, like 10us", "TIME" },
		{ "max-size", 0, 0, G_OPTION_ARG_STRING, &words->max_size,
		  "Size at which the trace ends, like 500M or 10G (default), or none", "SIZE" },
		{ "kernel", 0, 0, G_OPTION_ARG_NONE, &words->kernel, "Only the kernel's calls",
		  NULL },
		{ "user", 0, 0, G_OPTION_ARG_NONE, &words->user, "Only calls of user code", NULL },
		{ "process", 0, 0, G_OPTION_ARG_STRING_ARRAY, &words->processes,
		  "Only the guest's process PID; may be repeated", "PID" },
	};
	GArray *entries = g_array_new(TRUE, FALSE, sizeof(GOptionEntry));
	g_array_append_vals(entries, shared, G_N_ELEMENTS(shared));
	for (; own->long_name; own++)
		g_array_append_val(entries, *own);
	return (GOptionEntry *)(void *)g_array_free(entries, FALSE);
}

static bool parse_processes(char **words, uint32_t *pids, size_t *n, GError **error)
{
	for (*n = 0; words && *words; words++) {
		if (*n == CALLS_PIDS_MAX) {
			usage_error(error, "--process: at most %d processes", CALLS_PIDS_MAX);
			return false;
		}
		if (!value_unsigned("--process", *words, 1, PID_MAX, &pids[*n], error))
			return false;
		(*n)++;
	}
	return true;
}

/* Refuses an empty name: it matches no function, so it must be a mistake. */
static bool check_function_names(const char *option, char **names, GError **error)
{
	for (; names && *names; names++) {
		if (!**names) {
			usage_error(error, "%s: a function's name is missing", option);
			return false;
		}
	}
	return true;
}

static bool parse_max_size(const char *word, uint64_t *ret, GError **error)
{
	if (g_strcmp0(word, "none") != 0)
		return value_size("--max-size", word, ret, error);
	*ret = 0;
	return true;
}

bool calls_parse(const struct calls_words *words, struct vms_calls_options *ret,
		 uint32_t pids[CALLS_PIDS_MAX], GError **error)
{
	int by = VMS_CALLS_BY_VCPU, clock = VMS_CALLS_CLOCK_HOST;
	*ret = (struct vms_calls_options) {
		.size = sizeof(*ret),
		.only = (const char *const *)words->only,
		.without = (const char *const *)words->without,
		.start_at = (const char *const *)words->start_at,
		.stop_at = (const char *const *)words->stop_at,
		.kernel_only = words->kernel,
		.user_only = words->user,
		.pids = pids,
		.max_bytes = MAX_BYTES,
	};
	if (words->kernel && words->user) {
		usage_error(error, "--kernel and --user exclude each other");
		return false;
	}
	if (!value_choose("--by", words->by, bys, &by, error) ||
	    !value_choose("--clock", words->clock, clocks, &clock, error) ||
	    !value_unsigned("--depth", words->depth, 1, DEPTH_MAX, &ret->max_depth, error) ||
	    !parse_max_size(words->max_size, &ret->max_bytes, error) ||
	    !value_duration("--min-time", words->min_time, &ret->threshold_ns, error) ||
	    !check_function_names("--only", words->only, error) ||
	    !check_function_names("--not", words->without, error) ||
	    !check_function_names("--start-at", words->start_at, error) ||
	    !check_function_names("--stop-at", words->stop_at, error) ||
	    !parse_processes(words->processes, pids, &ret->n_pids, error))
		return false;
	ret->by = (enum vms_calls_by)by;
	ret->clock = (enum vms_calls_clock)clock;
	return true;
}

bool calls_words_given(const struct calls_words *words)
{
	return words->by || words->clock || words->depth || words->min_time || words->only ||
	       words->without || words->start_at || words->stop_at || words->processes ||
	       words->max_size || words->kernel || words->user;
}

void calls_words_clear(struct calls_words *words)
{
	g_free(words->by);
	g_free(words->clock);
	g_free(words->depth);
	g_free(words->min_time);
	g_free(words->max_size);
	g_strfreev(words->only);
	g_strfreev(words->without);
	g_strfreev(words->start_at);
	g_strfreev(words->stop_at);
	g_strfreev(words->processes);
}

bool calls_check_directory(const char *path, GError **error)
{
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	if (directory ? !g_dir_read_name(directory) : !g_file_test(path, G_FILE_TEST_EXISTS))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_EXISTS,
		    "%s is there already: name a new directory or an empty one", path);
	return false;
}
