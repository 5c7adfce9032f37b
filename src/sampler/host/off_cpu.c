/* SPDX-License-Identifier: MIT */
#include "sampler/host/off_cpu.h"
#include "base/keyed_hash.h"
#include <string.h>

struct vms_off_cpu {
	uint64_t period_ns;
	vms_off_cpu_give give;
	void *data;
	GHashTable *
		threads; /* tid to struct vms_sample_record; its time: from when on none is given */
};

struct vms_off_cpu *vms_off_cpu_new(uint64_t period_ns, vms_off_cpu_give give, void *data)
{
	struct vms_off_cpu *off_cpu = g_new0(struct vms_off_cpu, 1);
	off_cpu->period_ns = period_ns;
	off_cpu->give = give;
	off_cpu->data = data;
	off_cpu->threads = g_hash_table_new_full(vms_hash_direct, NULL, NULL, g_free);
	return off_cpu;
}

void vms_off_cpu_free(struct vms_off_cpu *off_cpu)
{
	if (!off_cpu)
		return;
	g_hash_table_unref(off_cpu->threads);
	g_free(off_cpu);
}

/* Gives the samples of a thread at multiples of the period before `until_ns`. */
static void give_until(struct vms_off_cpu *off_cpu, struct vms_sample_record *sample,
		       uint64_t until_ns)
{
	const uint64_t period_ns = off_cpu->period_ns, from_ns = sample->time_ns;
	if (until_ns <= from_ns)
		return;
	for (uint64_t ns = (from_ns + period_ns - 1) / period_ns * period_ns; ns < until_ns;
	     ns += period_ns) {
		sample->time_ns = ns;
		if (!off_cpu->give(sample, (until_ns - 1 - ns) / period_ns, off_cpu->data))
			break;
	}
	sample->time_ns = until_ns;
}

void vms_off_cpu_begin(struct vms_off_cpu *off_cpu, const struct vms_sample_record *sample)
{
	const size_t size = G_STRUCT_OFFSET(struct vms_sample_record, stack.frame) +
			    sample->stack.n * sizeof(sample->stack.frame[0]);
	struct vms_sample_record *known =
		g_hash_table_lookup(off_cpu->threads, GUINT_TO_POINTER(sample->tid));
	if (known)
		give_until(off_cpu, known, sample->time_ns);
	g_hash_table_insert(off_cpu->threads, GUINT_TO_POINTER(sample->tid),
			    g_memdup2(sample, size));
}

void vms_off_cpu_end(struct vms_off_cpu *off_cpu, uint32_t tid, uint64_t time_ns)
{
	struct vms_sample_record *known =
		g_hash_table_lookup(off_cpu->threads, GUINT_TO_POINTER(tid));
	if (!known || known->time_ns > time_ns)
		return;
	give_until(off_cpu, known, time_ns);
	g_hash_table_remove(off_cpu->threads, GUINT_TO_POINTER(tid));
}

void vms_off_cpu_advance(struct vms_off_cpu *off_cpu, uint64_t until_ns)
{
	GHashTableIter iter;
	gpointer sample;
	g_hash_table_iter_init(&iter, off_cpu->threads);
	while (g_hash_table_iter_next(&iter, NULL, &sample))
		give_until(off_cpu, sample, until_ns);
}
