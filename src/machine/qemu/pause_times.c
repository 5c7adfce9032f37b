/* SPDX-License-Identifier: MIT */
#include "machine/qemu/pause_times.h"
#include "base/search.h"

static struct vms_pause *pause_at(const struct vms_pauses *pauses, guint index)
{
	return &g_array_index(pauses->pauses, struct vms_pause, index);
}

static struct vms_pause *last_pause(const struct vms_pauses *pauses)
{
	guint n = pauses->pauses ? pauses->pauses->len : 0;
	return n ? pause_at(pauses, n - 1) : NULL;
}

void vms_pauses_clear(struct vms_pauses *pauses)
{
	g_clear_pointer(&pauses->pauses, g_array_unref);
}

void vms_pauses_begin(struct vms_pauses *pauses, uint64_t time_ns)
{
	const struct vms_pause *before = last_pause(pauses);
	struct vms_pause pause = { .begin_ns = time_ns, .end_ns = UINT64_MAX };
	if (before && before->end_ns == UINT64_MAX)
		return;
	if (before) {
		pause.begin_ns = MAX(time_ns, before->end_ns);
		pause.before_ns = before->before_ns + (before->end_ns - before->begin_ns);
	}
	if (!pauses->pauses)
		pauses->pauses = g_array_new(FALSE, FALSE, sizeof(pause));
	g_array_append_val(pauses->pauses, pause);
}

void vms_pauses_end(struct vms_pauses *pauses, uint64_t time_ns)
{
	struct vms_pause *pause = last_pause(pauses);
	if (pause && pause->end_ns == UINT64_MAX)
		pause->end_ns = MAX(time_ns, pause->begin_ns);
}

uint64_t vms_pauses_until(const struct vms_pauses *pauses, uint64_t time_ns)
{
	guint n = pauses->pauses ? pauses->pauses->len : 0;
	guint begun = (guint)VMS_SEARCH(n, i, pause_at(pauses, (guint)i)->begin_ns < time_ns);
	if (begun == 0)
		return 0;
	const struct vms_pause *pause = pause_at(pauses, begun - 1);
	return pause->before_ns + MIN(time_ns, pause->end_ns) - pause->begin_ns;
}
