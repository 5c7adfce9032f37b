/* SPDX-License-Identifier: MIT */
#include "recorder.h"
#include "base/clock.h"
#include "interrupts.h"
#include "recording_room.h"
#include <vmscope/log.h>

#define READ_NS (UINT64_C(100) * 1000 * 1000)

void recorder_add(struct recorder *recorder, struct vms_sampler *sampler)
{
	g_assert(recorder->n < G_N_ELEMENTS(recorder->samplers));
	recorder->samplers[recorder->n++] = sampler;
}

void recorder_clear(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->n; i++)
		vms_sampler_free(recorder->samplers[i]);
	recorder->n = 0;
	g_clear_pointer(&recorder->full, g_free);
}

/* Keeps what is in the file, if it is something. The rest of what was sampled is lost. */
static bool keep_written(struct recorder *recorder, struct vms_outfile *file, GError **error)
{
	g_autoptr(GError) failure = g_steal_pointer(error);
	if (!recording_cut(file, UINT64_MAX, error))
		return false;
	if (vms_outfile_size(file) == 0) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return false;
	}
	recorder->full = g_strdup(failure->message);
	return true;
}

static bool write_new(struct recorder *recorder, struct vms_outfile *file, GError **error)
{
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autoptr(GError) failure = NULL;
	if (recorder->full)
		return true;
	for (size_t i = 0; i < recorder->n; i++)
		vms_sampler_read(recorder->samplers[i], bytes);
	if (bytes->len == 0 || vms_outfile_write(file, bytes->data, bytes->len, &failure))
		return true;
	const bool is_kept = vms_outfile_is_full(file) && keep_written(recorder, file, &failure);
	if (!is_kept)
		g_propagate_error(error, g_steal_pointer(&failure));
	return is_kept;
}

/* Stops the first `n` sessions. */
static void stop_sessions(struct recorder *recorder, size_t n)
{
	for (size_t i = 0; i < n; i++)
		vms_sampler_stop(recorder->samplers[i], NULL);
}

static bool start_sessions(struct recorder *recorder, GError **error)
{
	for (size_t i = 0; i < recorder->n; i++) {
		if (vms_sampler_start(recorder->samplers[i], error))
			continue;
		stop_sessions(recorder, i);
		return false;
	}
	return true;
}

/* Waits a moment. True if the targets of one of the sessions have ended. */
static bool wait_for_end(struct recorder *recorder, uint64_t until_ns)
{
	bool ended = vms_sampler_wait(recorder->samplers[0], until_ns);
	for (size_t i = 1; i < recorder->n; i++)
		ended |= vms_sampler_wait(recorder->samplers[i], 0);
	return ended;
}

bool recorder_write(struct recorder *recorder, struct vms_outfile *file, uint64_t duration_ns,
		    GError **error)
{
	bool done = true, ended = false;
	const bool started = start_sessions(recorder, error);
	if (started)
		vms_log(VMS_LOG_INFO, "recording has begun");
	const uint64_t end_ns = duration_ns ? vms_clock_now_ns() + duration_ns : UINT64_MAX;
	while (started && done && !ended && !recorder->full && !interrupts_came() &&
	       vms_clock_now_ns() < end_ns) {
		ended = wait_for_end(recorder, MIN(vms_clock_now_ns() + READ_NS, end_ns));
		done = write_new(recorder, file, error);
	}
	if (started)
		stop_sessions(recorder, recorder->n);
	return started && done && write_new(recorder, file, error);
}

char *recorder_failure(const struct recorder *recorder)
{
	char *failure = g_strdup(recorder->full);
	for (size_t i = recorder->n; i-- > 0 && !failure;)
		failure = vms_sampler_failure(recorder->samplers[i]);
	return failure;
}
