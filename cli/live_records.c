/* SPDX-License-Identifier: MIT */
#include "live_records.h"
#include "base/outfile.h"
#include "streams.h"

#define MOMENT_US  50000
#define QUEUED_MAX (1 << 20) /* records */

void live_records_init(struct live_records *live)
{
	live->queue = g_async_queue_new_full((GDestroyNotify)vms_flow_record_unref);
	live->n_lost = 0;
	live->file = NULL;
	live->is_silent = false;
}

void live_records_clear(struct live_records *live)
{
	g_async_queue_unref(live->queue);
}

void live_records_add(struct vms_flow_record *record, void *data)
{
	struct live_records *live = data;
	if (g_async_queue_length(live->queue) < QUEUED_MAX)
		g_async_queue_push(live->queue, vms_flow_record_ref(record));
	else
		g_atomic_int_inc(&live->n_lost);
}

static bool write_text(const struct live_records *live, const GString *text, GError **error)
{
	return !text->len ||
	       ((!live->file || vms_outfile_write(live->file, text->str, text->len, error)) &&
		(live->is_silent || streams_print(text, error)));
}

bool live_records_show(struct live_records *live, uint64_t wait_us,
		       bool (*give)(const struct vms_flow_record *record, void *data, GString *out,
				    GError **error),
		       void *data, GError **error)
{
	g_autoptr(GString) out = g_string_new(NULL);
	struct vms_flow_record *record = g_async_queue_timeout_pop(live->queue, wait_us);
	const gint64 end_us = g_get_monotonic_time() + MOMENT_US;
	bool done = true;
	while (record) {
		done = give(record, data, out, done ? error : NULL) && done;
		vms_flow_record_unref(record);
		record =
			g_get_monotonic_time() < end_us ? g_async_queue_try_pop(live->queue) : NULL;
	}
	return write_text(live, out, done ? error : NULL) && done;
}

bool live_records_is_empty(const struct live_records *live)
{
	return g_async_queue_length(live->queue) <= 0;
}

unsigned live_records_left(const struct live_records *live)
{
	const gint queued = g_async_queue_length(live->queue);
	return (unsigned)(MAX(queued, 0) + g_atomic_int_get(&live->n_lost));
}
