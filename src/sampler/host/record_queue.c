/* SPDX-License-Identifier: MIT */
#include "sampler/host/record_queue.h"

struct queued {
	uint64_t time_ns;
	struct vms_perf_record record; /* its body is ours */
};

struct vms_record_queue {
	GArray *records; /* struct queued */
};

struct vms_record_queue *vms_record_queue_new(void)
{
	struct vms_record_queue *queue = g_new0(struct vms_record_queue, 1);
	queue->records = g_array_new(FALSE, FALSE, sizeof(struct queued));
	return queue;
}

void vms_record_queue_free(struct vms_record_queue *queue)
{
	if (!queue)
		return;
	for (guint i = 0; i < queue->records->len; i++)
		g_free((void *)g_array_index(queue->records, struct queued, i).record.body);
	g_array_unref(queue->records);
	g_free(queue);
}

void vms_record_queue_put(struct vms_record_queue *queue, uint64_t time_ns,
			  const struct vms_perf_record *record)
{
	struct queued queued = { time_ns, *record };
	queued.record.body = g_memdup2(record->body, record->size);
	g_array_append_val(queue->records, queued);
}

static int compare_times(const void *a, const void *b)
{
	const struct queued *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

void vms_record_queue_take(struct vms_record_queue *queue, uint64_t until_ns,
			   void (*take)(const struct vms_perf_record *record, void *data),
			   void *data)
{
	guint n = 0;
	g_array_sort(queue->records, compare_times); /* stable: it merges */
	for (; n < queue->records->len; n++) {
		struct queued *queued = &g_array_index(queue->records, struct queued, n);
		if (queued->time_ns > until_ns)
			break;
		take(&queued->record, data);
		g_free((void *)queued->record.body);
	}
	g_array_remove_range(queue->records, 0, n);
}
