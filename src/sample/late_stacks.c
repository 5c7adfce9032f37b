/* SPDX-License-Identifier: MIT */
#include "sample/late_stacks.h"

/* A table is found in several steps, each of which needs another part of the file. */
#define TRIES_LIMIT 16

struct late_stack {
	struct vms_sample_record *record; /* without the frames that it does not have */
	struct vms_user_copy *copy;	  /* without the bytes that were not copied; NULL: whole */
	unsigned n_walked;
	struct vms_hold_time time;
	unsigned reading; /* of the files, after which it is walked again */
	unsigned tries;
};

void vms_late_stacks_init(struct vms_late_stacks *late, unsigned *n)
{
	*late = (struct vms_late_stacks) { .n = n, .tries = TRIES_LIMIT };
	g_queue_init(&late->waiting);
}

static void free_stack(void *data)
{
	struct late_stack *stack = data;
	g_free(stack->record);
	g_free(stack->copy);
	g_free(stack);
}

void vms_late_stacks_clear(struct vms_late_stacks *late)
{
	g_queue_clear_full(&late->waiting, free_stack);
}

static size_t get_record_size(const struct vms_sample_record *record, unsigned n)
{
	return G_STRUCT_OFFSET(struct vms_sample_record, stack.frame) +
	       n * sizeof(record->stack.frame[0]);
}

/* A reading that has begun already may have passed by the file. */
static unsigned get_next_reading(const struct vms_file_readings *readings)
{
	return __atomic_load_n(&readings->begun, __ATOMIC_ACQUIRE) + 1;
}

static bool is_read(const struct late_stack *stack, const struct vms_file_readings *readings)
{
	return __atomic_load_n(&readings->done, __ATOMIC_ACQUIRE) >= stack->reading;
}

bool vms_late_stacks_add(struct vms_late_stacks *late, const struct vms_sample_record *record,
			 const struct vms_user_copy *copy, unsigned n_walked,
			 const struct vms_hold_time *time, const struct vms_file_readings *readings)
{
	if (__atomic_add_fetch(late->n, 1, __ATOMIC_RELAXED) > VMS_LATE_STACKS_LIMIT) {
		__atomic_sub_fetch(late->n, 1, __ATOMIC_RELAXED);
		return false;
	}
	struct late_stack *stack = g_new0(struct late_stack, 1);
	stack->record = g_memdup2(record, get_record_size(record, record->stack.n));
	if (record->stack.end == VMS_WALK_NO_TABLE)
		stack->copy = g_memdup2(copy, G_STRUCT_OFFSET(struct vms_user_copy, bytes) +
						      copy->size + copy->other_size);
	stack->n_walked = n_walked;
	stack->time = *time;
	stack->reading = get_next_reading(readings);
	g_queue_push_tail(&late->waiting, stack);
	return true;
}

/* Walks the user half again, if files were read since. */
static void walk_again(struct late_stack *stack, const struct vms_late_walk *walk,
		       struct vms_sample_record *record)
{
	memcpy(record, stack->record, get_record_size(stack->record, stack->record->stack.n));
	if (!stack->copy || !is_read(stack, walk->readings))
		return;
	record->stack.n = stack->n_walked;
	vms_capture_finish(walk->guest, walk->memory, walk->depth, stack->copy, &record->stack);
	stack->reading = get_next_reading(walk->readings);
	stack->tries++;
}

bool vms_late_stacks_take(struct vms_late_stacks *late, const struct vms_late_walk *walk, bool must,
			  struct vms_sample_record *ret, struct vms_hold_time *time)
{
	struct late_stack *stack = g_queue_peek_head(&late->waiting);
	if (!stack || (stack->copy && !must && !is_read(stack, walk->readings)))
		return false;
	walk_again(stack, walk, ret);
	if (ret->stack.end == VMS_WALK_NO_TABLE) {
		if (!must && stack->tries < late->tries)
			return false;
		late->tries = MAX(late->tries / 2, 1);
	} else if (stack->tries > 0) {
		late->tries = MIN(late->tries * 2, TRIES_LIMIT);
	}
	*time = stack->time;
	free_stack(g_queue_pop_head(&late->waiting));
	__atomic_sub_fetch(late->n, 1, __ATOMIC_RELAXED);
	return true;
}
