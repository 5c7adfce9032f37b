/* SPDX-License-Identifier: MIT */
/* Makes a profile of the stacks of a recording. */
#include "sample/profile-private.h"
#include "sample/recording-private.h"
#include "sample/samples.h"
#include <string.h>

#define STEPS_OF_FRAME 8  /* to find its node in a tree */
#define STEPS_OF_TIME  20 /* to sort it, and to find its thread */
#define BYTES_OF_TIME  (sizeof(struct vms_sample_time) + sizeof(struct vms_profile_sample))

/* The samples of each CPU, for a profile. */
struct cpu_samples {
	struct vms_tree *trees[VMS_RECORDED_CPUS_LIMIT]; /* NULL: no samples */
	struct vms_sample_times times[VMS_RECORDED_CPUS_LIMIT];
	size_t n;
};

/* Removes frames at the leaf. */
static void cut_leaf(struct vms_stack *stack, unsigned n)
{
	memmove(stack->frame, stack->frame + n, (stack->n - n) * sizeof(stack->frame[0]));
	stack->n -= n;
	stack->n_kernel -= MIN(n, stack->n_kernel);
}

/* Counts a joined stack. `samples` are two, to decode it. Returns the node. */
static uint32_t add_joined(const struct vms_recording *recording,
			   const struct vms_recorded_stack *stack, struct vms_tree *tree,
			   struct vms_sample_record *samples, bool leaf_first)
{
	struct vms_guest_part part = { .role = stack->role, .in_guest = stack->in_guest };
	cut_leaf(&samples[0].stack, stack->cut);
	if (stack->guest) {
		vms_recorded_stack_get(stack->guest, &samples[1]);
		for (unsigned i = 0; i < samples[1].stack.n_kernel; i++)
			samples[1].stack.frame[i].code = recording->guest_kernel;
		part.guest = &samples[1];
	}
	return vms_samples_add_machine_path(tree, &samples[0], &part, leaf_first, stack->weight);
}

static void add_stacks(const struct vms_recording *recording, struct cpu_samples *samples,
		       bool leaf_first)
{
	g_autofree struct vms_sample_record *sample = g_new(struct vms_sample_record, 2);
	const GPtrArray *stacks = (recording->joined ? recording->joined : recording->stacks)->all;
	for (guint i = 0; i < stacks->len; i++) {
		struct vms_recorded_stack *stack = stacks->pdata[i];
		for (; samples->n <= stack->cpu; samples->n++)
			vms_sample_times_init(&samples->times[samples->n], SIZE_MAX);
		if (!samples->trees[stack->cpu])
			samples->trees[stack->cpu] = vms_tree_new(VMS_TREE_LIMIT);
		struct vms_tree *tree = samples->trees[stack->cpu];
		const uint32_t n_before = tree->n_nodes;
		vms_recorded_stack_get(stack, sample);
		if (!vms_budget_step(recording->budget,
				     (uint64_t)sample->stack.n * STEPS_OF_FRAME)) {
			stack->node = vms_tree_add_out_of_nodes(tree, stack->weight);
			continue;
		}
		stack->node =
			stack->of ? add_joined(recording, stack, tree, sample, leaf_first)
				  : vms_samples_add_path(tree, sample, leaf_first, stack->weight);
		if (!vms_budget_take(recording->budget, VMS_BUDGET_BYTES,
				     (uint64_t)(tree->n_nodes - n_before) * VMS_TREE_NODE_BYTES))
			vms_tree_close(tree);
	}
}

static void add_times(const struct vms_recording *recording, struct cpu_samples *samples)
{
	g_autofree struct vms_sample_record *sample = g_new0(struct vms_sample_record, 1);
	for (guint i = 0; i < recording->shown->moments->len; i++) {
		const struct vms_recorded_moment *moment =
			&g_array_index(recording->shown->moments, struct vms_recorded_moment, i);
		sample->time_ns = moment->time_ns;
		sample->space = moment->stack->space;
		sample->pid = moment->pid;
		sample->tid = moment->tid;
		vms_sample_times_add(&samples->times[moment->stack->cpu], sample,
				     moment->stack->node);
	}
}

static void free_cpu_samples(struct cpu_samples *samples)
{
	for (size_t i = 0; i < samples->n; i++) {
		vms_tree_free(samples->trees[i]);
		vms_sample_times_clear(&samples->times[i]);
	}
	g_free(samples);
}

static int find_role(void *data, uint32_t pid, uint32_t tid)
{
	return vms_machine_threads_role(data, pid, tid);
}

struct vms_profile *vms_recording_profile(struct vms_recording *recording, unsigned flags,
					  bool leaf_first, GError **error)
{
	if (recording->shown->moments->len == 0) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
				    "the recording has no samples");
		return NULL;
	}
	struct cpu_samples *samples = g_new0(struct cpu_samples, 1);
	add_stacks(recording, samples, leaf_first);
	/* Samples without times can be shown by most formats. */
	const bool has_times =
		vms_budget_step(recording->budget,
				(uint64_t)recording->shown->moments->len * STEPS_OF_TIME) &&
		vms_budget_take(recording->budget, VMS_BUDGET_BYTES,
				(uint64_t)recording->shown->moments->len * BYTES_OF_TIME);
	if (has_times)
		add_times(recording, samples);
	g_autofree const struct vms_sample_times **times =
		g_new(const struct vms_sample_times *, samples->n);
	for (size_t i = 0; i < samples->n; i++)
		times[i] = &samples->times[i];
	const struct vms_profile_source source = {
		.symbolizer = recording->symbolizer,
		.trees = (const struct vms_tree *const *)samples->trees,
		.times = has_times ? times : NULL,
		.n_trees = samples->n,
		.flags = flags | VMS_PROFILE_MERGE_VCPUS,
		.leaf_first = leaf_first,
		.roles = recording->threads.roles,
		.role_of = recording->joined ? find_role : NULL,
		.data = &recording->threads,
		.budget = recording->budget,
	};
	struct vms_profile *profile = vms_profile_new(&source);
	vms_recording_note_losses(recording);
	free_cpu_samples(samples);
	return profile;
}
