/* SPDX-License-Identifier: MIT */
/* What a report says of a recording: the machine, its system, and the time of the samples. */
#include "sample/recording-private.h"
#include "sample/run_facts.h"

/* What runs in the guest. */
static void describe_guest_system(const struct vms_recording *recording,
				  struct vms_run_facts *facts)
{
	const struct vms_recorded_system *guest = &recording->guest;
	facts->system = g_strdup(guest->name);
	facts->release = g_strdup(guest->release);
	facts->version = g_strdup(guest->version);
	facts->hostname = g_strdup(guest->host);
	facts->unwinder = g_strdup(recording->unwinder);
}

static void describe_host(const struct vms_recording *recording, struct vms_run_facts *facts)
{
	const struct vms_recorded_system *host = &recording->host;
	facts->is_host = true;
	facts->machine_description = g_strdup_printf(
		"%s, %s %s %s, %" G_GUINT64_FORMAT " CPU%s", host->host ? host->host : "unknown",
		host->name ? host->name : "unknown system", host->release ? host->release : "",
		host->machine ? host->machine : "", host->cpus, host->cpus == 1 ? "" : "s");
	if (recording->joined)
		describe_guest_system(recording, facts);
	const char *guest = recording->machine_name ? recording->machine_name : "a machine";
	facts->title = recording->joined ? g_strdup_printf("%s with its guest, on %s, %.1f s",
							   guest, facts->machine_description,
							   (double)facts->elapsed_ns / 1e9)
					 : g_strdup_printf("Processes of %s, %.1f s",
							   facts->machine_description,
							   (double)facts->elapsed_ns / 1e9);
}

static void describe_guest(const struct vms_recording *recording, struct vms_run_facts *facts)
{
	facts->machine_name = g_strdup(recording->machine_name);
	facts->machine_description =
		g_strdup(recording->description ? recording->description : "unknown machine");
	describe_guest_system(recording, facts);
	facts->n_vcpus = recording->vcpus->len;
	facts->vcpus =
		g_memdup2(recording->vcpus->data, facts->n_vcpus * sizeof(struct vms_sample_stats));
	for (size_t i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		facts->reasons[i] = g_strdup(recording->reasons[i]);
	vms_run_facts_set_title(facts);
}

/* Returns the time between two samples of a CPU; the mean if the period is one of instructions. */
static uint64_t get_interval(const struct vms_recording *recording, uint64_t elapsed_ns)
{
	const struct vms_recording_stats *stats = &recording->stats;
	const uint64_t per_cpu = stats->samples / MAX(recording->shown->cpus, 1);
	return MAX(stats->period_instructions ? elapsed_ns / MAX(per_cpu, 1) : stats->period_ns, 1);
}

struct vms_run_facts *vms_recording_facts(const struct vms_recording *recording)
{
	struct vms_run_facts *facts = g_new0(struct vms_run_facts, 1);
	const bool has_time = recording->last_ns >= recording->first_ns;
	facts->interval_instructions = recording->stats.period_instructions;
	facts->begin_ns = recording->shown->begin_ns;
	facts->begin_utc_ns = (int64_t)recording->stats.begin_real_ns;
	facts->elapsed_ns = recording->stats.is_complete ? recording->stats.session.elapsed_ns
			    : has_time			 ? recording->last_ns - recording->first_ns
							 : 0;
	facts->interval_ns = get_interval(recording, facts->elapsed_ns);
	facts->end = recording->stats.is_complete && !recording->failure ? VMS_SAMPLE_COMPLETE
									 : VMS_SAMPLE_FAILED;
	facts->error = g_strdup(recording->failure);
	facts->items = g_array_new(FALSE, FALSE, sizeof(struct vms_run_item));
	if (recording->shown == &recording->guest)
		describe_guest(recording, facts);
	else
		describe_host(recording, facts);
	return facts;
}
