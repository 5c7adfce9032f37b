/* SPDX-License-Identifier: MIT */
/*
 * vmscope record: samples processes of this host, or of a guest, into a file, which "vmscope
 * report" shows.
 */
#include "commands.h"
#include "interrupts.h"
#include "recorder.h"
#include "recording_room.h"
#include "values.h"
#include <math.h>
#include <string.h>
#include <sys/wait.h>

#define DEFAULT_HZ	     99
#define UNKNOWN_SHARE	     10 /* more than a tenth is worth a warning */
#define MISSED_WORTH_TELLING 20
#define BUFFER_HELP	     "Bytes per CPU for samples that are not written yet (default 8M)"

struct options {
	char *hz, *period_us, *instructions, *seconds, *pid, *tid, *job, *cgroup, *buffer, *name;
	gboolean all, user, wall, host;
	int depth;
};

static bool parse_period(const struct options *options, struct vms_sample_specification *ret,
			 GError **error)
{
	double hz = DEFAULT_HZ, us = 0;
	unsigned instructions = 0;
	if ((options->hz != NULL) + (options->period_us != NULL) + (options->instructions != NULL) >
	    1) {
		usage_error(error, "--frequency, --period and --instructions exclude each other");
		return false;
	}
	if (!value_number("--frequency", options->hz, 0.1, 100000, "from 0.1 to 100000 Hz", &hz,
			  error) ||
	    !value_number("--period", options->period_us, 10, 10000000, "from 10 to 10000000 us",
			  &us, error) ||
	    !value_unsigned("--instructions", options->instructions, 1000, G_MAXINT, &instructions,
			    error))
		return false;
	*ret = (struct vms_sample_specification) {
		.timebase = instructions ? VMS_TIMEBASE_INSTRUCTIONS : VMS_TIMEBASE_NANOSECONDS,
		.period = instructions	       ? instructions
			  : options->period_us ? (uint64_t)llround(us * 1e3)
					       : (uint64_t)llround(1e9 / hz),
	};
	return true;
}

static bool add_number(struct vms_sampler *sampler, const char *option, const char *text,
		       enum vms_sampler_target_kind kind, GError **error)
{
	struct vms_sampler_target target = { .kind = kind };
	unsigned id = 0;
	if (!text)
		return true;
	if (!value_unsigned(option, text, 1, G_MAXINT, &id, error))
		return false;
	target.id = (pid_t)id;
	return vms_sampler_add(sampler, &target, error);
}

static bool add_targets(struct session *session, struct vms_sampler *sampler,
			const struct options *options, GError **error)
{
	const bool whole_guest = session->machine && !options->pid && !options->tid &&
				 !options->job && !options->cgroup && !options->name;
	const struct vms_sampler_target system = { .kind = VMS_SAMPLER_SYSTEM };
	const struct vms_sampler_target cgroup = { .kind = VMS_SAMPLER_CGROUP,
						   .name = options->cgroup };
	const struct vms_sampler_target name = { .kind = VMS_SAMPLER_NAME, .name = options->name };
	const struct vms_sampler_target command = { .kind = VMS_SAMPLER_COMMAND,
						    .command =
							    (const char *const *)session->launch };
	if (!options->pid && !options->tid && !options->job && !options->cgroup && !options->all &&
	    !options->name && !session->launch && !whole_guest) {
		usage_error(error, "nothing to sample: give --pid, --tid, --job, --cgroup, --name, "
				   "--all or -- COMMAND");
		return false;
	}
	if (options->name && !*options->name) {
		usage_error(error, "--name is empty: it is the name of programs, as ps shows it");
		return false;
	}
	return add_number(sampler, "--pid", options->pid, VMS_SAMPLER_PROCESS, error) &&
	       add_number(sampler, "--tid", options->tid, VMS_SAMPLER_THREAD, error) &&
	       add_number(sampler, "--job", options->job, VMS_SAMPLER_JOB, error) &&
	       (!options->cgroup || vms_sampler_add(sampler, &cgroup, error)) &&
	       (!(options->all || whole_guest) || vms_sampler_add(sampler, &system, error)) &&
	       (!options->name || vms_sampler_add(sampler, &name, error)) &&
	       (!session->launch || vms_sampler_add(sampler, &command, error));
}

/*
 * Adds the session of the machine's threads on this host, which "--host" records beside those of
 * the guest.
 */
static bool add_host(struct session *session, const struct vms_sampler_options *options,
		     struct recorder *recorder, GError **error)
{
	struct vms_sampler_options own = *options;
	const struct vms_sampler_target machine = { .kind = VMS_SAMPLER_MACHINE,
						    .id = vms_machine_info(session->machine)->pid };
	if (!machine.id) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "--host: which process runs %s is not known, or it runs elsewhere; "
			    "--qmp, --agent or --guest PID names a machine of this host",
			    vms_machine_info(session->machine)->name);
		return false;
	}
	own.machine = NULL;
	own.guest = NULL;
	struct vms_sampler *sampler = vms_sampler_new(vms_sampler_engine_host(), &own, error);
	if (!sampler)
		return false;
	recorder_add(recorder, sampler);
	return vms_sampler_add(sampler, &machine, error);
}

/* "--host" is of a whole machine: each sample of a vCPU's thread needs one of its guest. */
static bool check_host(const struct session *session, const struct options *options, GError **error)
{
	if (!options->host)
		return true;
	if (!session_names_guest(session))
		usage_error(error, "--host records the threads of a guest's machine, too: name the "
				   "guest, as by --guest; without one, --pid records a process of "
				   "this host");
	else if (options->pid || options->tid || options->job || options->name || options->cgroup)
		usage_error(error,
			    "--host records the whole machine: give no targets in the guest");
	else if (options->instructions || options->user)
		usage_error(error, "--host excludes --instructions and --user");
	else
		return true;
	return false;
}

/* Makes the sessions, and adds their targets. */
static bool make_sessions(struct session *session, const struct options *options,
			  struct recorder *recorder, GError **error)
{
	struct vms_sample_specification specification = { 0 };
	struct vms_sampler_options own = { .size = sizeof(own),
					   .specifications = &specification,
					   .n_specifications = 1,
					   .depth = (unsigned)options->depth,
					   .user_only = options->user,
					   .wall = options->wall,
					   .budget = session->budget };
	const bool names_guest = session_names_guest(session);
	if (options->depth < 1 || options->depth > VMS_SAMPLER_DEPTH) {
		usage_error(error, "--depth %d: it must be from 1 to %d", options->depth,
			    VMS_SAMPLER_DEPTH);
		return false;
	}
	if (options->wall && options->user) {
		usage_error(error, "--wall and --user exclude each other: threads wait in the "
				   "kernel");
		return false;
	}
	if (!check_host(session, options, error) || !parse_period(options, &specification, error) ||
	    !value_size("--buffer", options->buffer, &own.buffer_size, error) ||
	    (names_guest && !session_open_guest(session, error)))
		return false;
	own.machine = session->machine;
	own.guest = session->guest;
	if (options->host && !add_host(session, &own, recorder, error))
		return false;
	/* A thread of the guest that waits is on no vCPU: it has no thread of the host above it. */
	own.wall = options->wall && !options->host;
	struct vms_sampler *sampler = vms_sampler_new(
		names_guest ? vms_sampler_engine_guest() : vms_sampler_engine_host(), &own, error);
	if (!sampler)
		return false;
	recorder_add(recorder, sampler);
	return add_targets(session, sampler, options, error);
}

/* ---- the run ---------------------------------------------------------------------- */

/* Adds the names to what was written, and says how many samples there are. */
static bool write_names(struct session *session, const struct recorder *recorder,
			struct vms_outfile *file, struct vms_recording_stats *stats, GError **error)
{
	g_autofree char *link = vms_outfile_link(file);
	g_autoptr(GByteArray) names = g_byte_array_new();
	g_autoptr(vms_recording) recording = vms_recording_load(link, error);
	if (!recording)
		return false;
	vms_recording_write_names(recording, session->debug_files, session->budget, names);
	if (!recording_add_names(file, names, error))
		return false;
	if (vms_outfile_is_full(file))
		session->status = 1;
	/* There may be less in it now, or names tell that the guest executed. */
	if (vms_outfile_is_full(file) || recorder->n > 1) {
		vms_recording_free(g_steal_pointer(&recording));
		recording = vms_recording_load(link, error);
	}
	if (recording)
		vms_recording_get_stats(recording, stats);
	return recording;
}

/* The guest's part of a recording with its machine: how much of it is not known, and why. */
static void tell_unknown(const struct vms_recording_stats *stats)
{
	const uint64_t unknown = stats->in_guest - stats->joined;
	if (unknown > stats->in_guest / UNKNOWN_SHARE)
		vms_log(VMS_LOG_WARNING,
			"what the guest executed is not known for %" G_GUINT64_FORMAT
			" of %" G_GUINT64_FORMAT " samples in it: its vCPUs could not be held near "
			"them, or were halted, or share a thread; on a busy host a lower "
			"--frequency has fewer",
			unknown, stats->in_guest);
}

/* Of processes of this host: each thread has a period of its own, so a short life has no sample. */
static void tell_missed(const struct session *session, const struct vms_sampler_stats *stats)
{
	if (session->machine || stats->missed <= stats->collected ||
	    stats->missed < MISSED_WORTH_TELLING)
		return;
	vms_log(VMS_LOG_WARNING,
		"most samples were missed, %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
		": threads that end within their first period have none. --name or --all samples "
		"by CPU, where they have their share; a higher --frequency misses fewer",
		stats->missed, stats->missed + stats->collected);
}

static void tell_losses(const struct vms_sampler_stats *stats)
{
	if (stats->lost)
		vms_log(VMS_LOG_WARNING,
			"%" G_GUINT64_FORMAT " samples were lost: a buffer was full; a larger "
			"--buffer or a lower --frequency has fewer",
			stats->lost);
	if (stats->throttled)
		vms_log(VMS_LOG_WARNING,
			"the kernel has throttled sampling %" G_GUINT64_FORMAT
			" times (sysctl kernel.perf_cpu_time_max_percent)",
			stats->throttled);
	if (stats->mappings_lost)
		vms_log(VMS_LOG_WARNING, "%" G_GUINT64_FORMAT " mappings were lost: names may miss",
			stats->mappings_lost);
}

/* A recording that ended before its targets: what was sampled until then is in the file. */
static void note_failure(struct session *session, const struct recorder *recorder)
{
	g_autofree char *failure = recorder_failure(recorder);
	if (!failure || session->loss)
		return;
	session->status = 1;
	g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_IO, "recording ended early: %s", failure);
}

/*
 * Samples, and adds the names. A signal ends the sampling, as users end it; the names are then read
 * on the budget, which the next signal hurries.
 */
static bool write_recording(struct session *session, struct recorder *recorder,
			    struct vms_outfile *file, uint64_t duration_ns,
			    struct vms_recording_stats *stats, GError **error)
{
	struct interrupts interrupts;
	interrupts_catch(&interrupts, NULL);
	bool is_written = recorder_write(recorder, file, duration_ns, error);
	interrupts_hurry(session->budget);
	is_written = is_written && write_names(session, recorder, file, stats, error);
	interrupts_release(&interrupts);
	return is_written;
}

static bool record(struct session *session, const struct options *options,
		   struct recorder *recorder, GError **error)
{
	struct vms_recording_stats stats;
	uint64_t duration_ns;
	if (!session->outputs || session->prints) {
		usage_error(error, "--output FILE is missing: a recording is written into a file");
		return false;
	}
	if (session->outputs[1]) {
		usage_error(error, "--output may be given only once: a recording is one file");
		return false;
	}
	if (!value_seconds(options->seconds, &duration_ns, error))
		return false;
	if (!make_sessions(session, options, recorder, error))
		return false;
	g_autoptr(vms_outfile) file = vms_outfile_open_random(session->outputs[0], true, error);
	if (!file || !write_recording(session, recorder, file, duration_ns, &stats, error))
		return false;
	if (recorder->full && stats.samples == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "%s", recorder->full);
		return false;
	}
	if (!vms_outfile_commit(file, error))
		return false;
	tell_losses(&stats.session);
	tell_missed(session, &stats.session);
	tell_losses(&stats.guest_session);
	tell_unknown(&stats);
	note_failure(session, recorder);
	if (!stats.is_complete) /* the file lacks its end */
		vms_sampler_get_stats(recorder->samplers[0], &stats.session);
	if (stats.session.user_only && !options->user)
		vms_log(VMS_LOG_WARNING,
			"without the kernel's part: the sysctl kernel.perf_event_paranoid allows "
			"no more without CAP_PERFMON");
	if (!session->quiet)
		g_printerr("vmscope: %" G_GUINT64_FORMAT " samples of %" G_GUINT64_FORMAT
			   " process%s in %.1f s (%" G_GUINT64_FORMAT " lost, %" G_GUINT64_FORMAT
			   " missed) in %s\n",
			   stats.samples, stats.processes, stats.processes == 1 ? "" : "es",
			   (double)stats.session.elapsed_ns / 1e9, stats.session.lost,
			   stats.session.missed, session->outputs[0]);
	const int status = vms_sampler_command_status(recorder->samplers[recorder->n - 1]);
	if (session->launch && status < 0)
		vms_log(VMS_LOG_WARNING, "%s goes on: the recording has ended before it",
			session->launch[0]);
	if (session->launch && status > 0)
		vms_log(VMS_LOG_WARNING, "%s has ended with %s %d", session->launch[0],
			WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return true;
}

static bool run_record(struct session *session, int argc, char **argv, GError **error)
{
	struct options options = { .depth = VMS_SAMPLER_DEPTH };
	struct recorder recorder = { .n = 0 };
	const GOptionEntry entries[] = {
		{ "pid", 'p', 0, G_OPTION_ARG_STRING, &options.pid,
		  "All threads of a process, and what they start", "PID" },
		{ "tid", 0, 0, G_OPTION_ARG_STRING, &options.tid, "One thread, and what it starts",
		  "TID" },
		{ "job", 0, 0, G_OPTION_ARG_STRING, &options.job,
		  "A process and all its descendants", "PID" },
		{ "cgroup", 0, 0, G_OPTION_ARG_FILENAME, &options.cgroup,
		  "A control group, by its folder; of a guest, by its path", "FOLDER" },
		{ "name", 0, 0, G_OPTION_ARG_STRING, &options.name,
		  "Processes that run, or begin, a program of that name", "NAME" },
		{ "all", 'a', 0, G_OPTION_ARG_NONE, &options.all,
		  "Everything on this host, or in the guest", NULL },
		{ "frequency", 'F', 0, G_OPTION_ARG_STRING, &options.hz,
		  "Samples per second that a thread runs, or with --wall lives (default 99)",
		  "HZ" },
		{ "period", 0, 0, G_OPTION_ARG_STRING, &options.period_us,
		  "Microseconds between samples, 10 to 10000000", "US" },
		{ "instructions", 0, 0, G_OPTION_ARG_STRING, &options.instructions,
		  "Instructions of a guest's vCPU between samples: the same in every run", "N" },
		{ "time", 't', 0, G_OPTION_ARG_STRING, &options.seconds,
		  "How long to record (default: until all has ended, or Ctrl-C)", "SECONDS" },
		{ "user", 0, 0, G_OPTION_ARG_NONE, &options.user, "Without the kernel's part",
		  NULL },
		{ "wall", 0, 0, G_OPTION_ARG_NONE, &options.wall,
		  "Threads that wait, too, and what they wait for", NULL },
		{ "host", 0, 0, G_OPTION_ARG_NONE, &options.host,
		  "The guest's machine, too: its threads on this host, below the guest's stacks",
		  NULL },
		{ "depth", 0, 0, G_OPTION_ARG_INT, &options.depth,
		  "Frames per stack, 1 to 127 (default 127)", "N" },
		{ "buffer", 0, 0, G_OPTION_ARG_STRING, &options.buffer, BUFFER_HELP, "SIZE" },
		{ NULL }
	};
	const bool done = session_parse(session, entries, &argc, &argv, 0, 0, error) &&
			  record(session, &options, &recorder, error);
	recorder_clear(&recorder);
	char *const texts[] = { options.hz,   options.period_us,   options.seconds, options.pid,
				options.tid,  options.job,	   options.cgroup,  options.buffer,
				options.name, options.instructions };
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
		g_free(texts[i]);
	return done;
}

static char *explain_record(void)
{
	return g_strdup(
		"\"-- COMMAND\" at the end starts a command, and records it with all that it "
		"starts.\nSeveral targets may be given. \"vmscope report FILE\" shows the "
		"file, anywhere.\nWith an option that names a guest, the processes are the "
		"guest's; without a target, all of them.\n");
}

const struct command command_record = {
	.name = "record",
	.arguments = "-o FILE",
	.summary = "Sample processes of this host, or of a guest, into a file",
	.options = SESSION_OUTPUTS | SESSION_MAY_TARGET | SESSION_GUEST | SESSION_RUNNING,
	.explain = explain_record,
	.run = run_record,
};
