/* SPDX-License-Identifier: MIT */
/* The second pass over a recording: its samples, counted by stack. */
#include "base/keyed_hash.h"
#include "capture/fxt_reader.h"
#include "sample/recording-private.h"
#include "sample/tree.h"
#include <string.h>

/* What a sample costs: its record was decoded, it is counted, and named later. */
#define STEPS_OF_SAMPLE 15
#define ENTRY_BYTES	32   /* of a stack, in two tables */
#define ROOM		1024 /* moments that room is taken for at once */

static guint hash_stack(gconstpointer data)
{
	const struct vms_recorded_stack *stack = data;
	const uint64_t hash = vms_keyed_hash(stack->pcs, stack->size);
	return (guint)(hash ^ vms_keyed_hash_u64((uint64_t)stack->cpu << 32 | stack->space));
}

static gboolean equal_stacks(gconstpointer a, gconstpointer b)
{
	const struct vms_recorded_stack *x = a, *y = b;
	return x->space == y->space && x->cpu == y->cpu && x->size == y->size &&
	       x->kinds == y->kinds && x->in_guest == y->in_guest &&
	       memcmp(x->pcs, y->pcs, x->size) == 0;
}

static bool has_room_for_moment(struct vms_recording *recording, const GArray *moments)
{
	return moments->len % ROOM != 0 ||
	       vms_budget_take(recording->budget, VMS_BUDGET_BYTES,
			       ROOM * sizeof(struct vms_recorded_moment));
}

/* Returns false if there is no budget for more samples. */
static bool count_stack(struct vms_recording *recording, struct vms_recorded_system *system,
			const struct vms_fxt_record *record, uint64_t time_ns)
{
	const uint32_t pid = (uint32_t)record->thread.pid;
	const uint64_t n_kernel = vms_records_number(record, "kernel");
	const bool has_user = record->payload_size > n_kernel * 8;
	struct vms_recorded_stack key = {
		.space =
			vms_recorded_process_note_sample(recording, system, pid, time_ns, has_user),
		.cpu = (uint32_t)MIN(vms_records_number(record, "cpu"),
				     VMS_RECORDED_CPUS_LIMIT - 1),
		.pcs = record->payload,
		.size = record->payload_size,
		.kinds = n_kernel | vms_records_number(record, "end") << 32 |
			 vms_records_number(record, "kernel end") << 40 |
			 (uint64_t)(vms_records_number(record, "idle") != 0) << 48 |
			 (vms_records_number(record, "wait") & 0x7f) << 49 |
			 MIN(vms_records_number(record, "wait") >> 8 & 0xffff, 0xff) << 56,
		.is_of_guest = system == &recording->guest,
		.in_guest = vms_records_number(record, "in guest") != 0,
		.node = VMS_TREE_FULL,
	};
	if (!vms_budget_step(recording->budget, STEPS_OF_SAMPLE + VMS_STEPS_OF_BYTES(key.size)) ||
	    !has_room_for_moment(recording, system->moments))
		return false;
	struct vms_recorded_stack *known =
		vms_recorded_stacks_get(recording->stacks, &key, recording->budget);
	if (!known)
		return false;
	known->weight++;
	const struct vms_recorded_moment moment = { time_ns, known, pid,
						    (uint32_t)record->thread.tid };
	g_array_append_val(system->moments, moment);
	return true;
}

void vms_recording_count_stacks(struct vms_recording *recording)
{
	struct vms_fxt_reader *reader = vms_fxt_reader_new(recording->bytes);
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	recording->provider = VMS_RECORDS_HOST;
	recording->stacks = vms_recorded_stacks_new(hash_stack, equal_stacks);
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) != VMS_FXT_END) {
		if (step != VMS_FXT_RECORD)
			continue;
		vms_records_begins_system(&record, &recording->provider);
		if (vms_records_is_sample(&record) && record.payload_size % 8 == 0 &&
		    !count_stack(recording,
				 recording->system_of[recording->provider == VMS_RECORDS_GUEST],
				 &record, vms_fxt_reader_ns(reader, record.time)))
			break;
	}
	vms_fxt_reader_free(reader);
}

void vms_recorded_stack_get(const struct vms_recorded_stack *stack, struct vms_sample_record *ret)
{
	struct vms_fxt_record record = { .type = VMS_FXT_LARGE_BLOB,
					 .kind = VMS_FXT_BLOB_WITH_METADATA,
					 .payload = stack->pcs,
					 .payload_size = stack->size };
	vms_records_add_number(&record, "kernel", stack->kinds & UINT32_MAX);
	vms_records_add_number(&record, "end", stack->kinds >> 32 & 0xff);
	vms_records_add_number(&record, "kernel end", stack->kinds >> 40 & 0xff);
	vms_records_add_number(&record, "idle", vms_recorded_stack_is_idle(stack));
	vms_records_add_number(&record, "wait",
			       (uint64_t)vms_recorded_stack_waits(stack) | stack->kinds >> 56 << 8);
	vms_records_get_sample(&record, ret);
	ret->space = stack->space;
	ret->in_guest = stack->in_guest;
}

/* ---- different stacks -------------------------------------------------------------- */

struct vms_recorded_stacks *vms_recorded_stacks_new(GHashFunc hash, GEqualFunc equal)
{
	struct vms_recorded_stacks *stacks = g_new(struct vms_recorded_stacks, 1);
	stacks->index = g_hash_table_new(hash, equal);
	stacks->all = g_ptr_array_new_with_free_func(g_free);
	return stacks;
}

void vms_recorded_stacks_free(struct vms_recorded_stacks *stacks)
{
	if (!stacks)
		return;
	g_hash_table_unref(stacks->index);
	g_ptr_array_unref(stacks->all);
	g_free(stacks);
}

struct vms_recorded_stack *vms_recorded_stacks_get(struct vms_recorded_stacks *stacks,
						   const struct vms_recorded_stack *key,
						   struct vms_budget *budget)
{
	struct vms_recorded_stack *known = g_hash_table_lookup(stacks->index, key);
	if (known)
		return known;
	if (!vms_budget_take(budget, VMS_BUDGET_BYTES, sizeof(*known) + ENTRY_BYTES))
		return NULL;
	known = g_memdup2(key, sizeof(*key));
	g_hash_table_add(stacks->index, known);
	g_ptr_array_add(stacks->all, known);
	return known;
}
