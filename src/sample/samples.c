/* SPDX-License-Identifier: MIT */
#include "sample/samples.h"

/* The frames of a stack, a process and a marker. */
#define PATH_LIMIT (VMS_STACK_LIMIT + 2)

void vms_samples_init(struct vms_samples *samples, uint32_t node_limit, size_t time_limit)
{
	*samples = (struct vms_samples) { .tree = vms_tree_new(node_limit) };
	vms_sample_times_init(&samples->times, time_limit);
	g_mutex_init(&samples->lock);
}

void vms_samples_clear(struct vms_samples *samples)
{
	vms_tree_free(samples->tree);
	vms_sample_times_clear(&samples->times);
	g_mutex_clear(&samples->lock);
}

static struct vms_tree_key make_frame_key(const struct vms_sample_record *record,
					  const struct vms_frame *frame)
{
	if (!frame->is_user && frame->code > 0)
		return (struct vms_tree_key) {
			.kind = frame->is_return ? VMS_TREE_LOADED_RETURN : VMS_TREE_LOADED_PC,
			.value = frame->pc,
			.owner = frame->code,
		};
	return (struct vms_tree_key) {
		.kind = frame->is_return ? VMS_TREE_RETURN : VMS_TREE_PC,
		.value = frame->pc,
		.owner = frame->is_user ? record->space : VMS_KERNEL_SPACE,
	};
}

/* Makes a path from the leaf outwards: frames, a marker if the stack is incomplete, the process. */
static size_t make_path(const struct vms_sample_record *record, struct vms_tree_key *path)
{
	const struct vms_stack *stack = &record->stack;
	size_t n = 0;

	if (record->idle) {
		path[n++] = (struct vms_tree_key) { .kind = VMS_TREE_IDLE };
		return n;
	}
	for (unsigned i = 0; i < MIN(stack->n, VMS_STACK_LIMIT); i++)
		path[n++] = make_frame_key(record, &stack->frame[i]);
	if (stack->end != VMS_WALK_ROOT || n == 0)
		path[n++] = (struct vms_tree_key) { .kind = VMS_TREE_MARKER,
						    .value = stack->end,
						    .owner = VMS_KERNEL_SPACE };
	if (record->space != VMS_NO_SPACE)
		path[n++] =
			(struct vms_tree_key) { .kind = VMS_TREE_PROCESS, .owner = record->space };
	return n;
}

static void reverse_path(struct vms_tree_key *path, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct vms_tree_key key = path[i];
		path[i] = path[n - 1 - i];
		path[n - 1 - i] = key;
	}
}

static void count_sample(struct vms_sample_stats *stats, const struct vms_sample_record *record)
{
	stats->samples++;
	if (record->idle) {
		stats->idle++;
	} else if (record->stack.n_kernel > 0) {
		stats->kernel_walks++;
		stats->kernel_walks_by_end[record->stack.kernel_end]++;
	}
}

uint32_t vms_samples_add_path(struct vms_tree *tree, const struct vms_sample_record *record,
			      bool leaf_first, uint64_t weight)
{
	struct vms_tree_key path[PATH_LIMIT];
	size_t n = make_path(record, path);
	if (!leaf_first)
		reverse_path(path, n);
	return vms_tree_add(tree, path, n, weight);
}

bool vms_samples_add(struct vms_samples *samples, const struct vms_sample_record *record,
		     bool leaf_first, uint64_t held_ns)
{
	g_mutex_lock(&samples->lock);
	uint32_t before = samples->tree->n_nodes;
	uint32_t node = vms_samples_add_path(samples->tree, record, leaf_first, 1);
	vms_sample_times_add(&samples->times, record, node);
	bool is_new = samples->tree->n_nodes != before;
	count_sample(&samples->stats, record);
	vms_histogram_add(&samples->held_ns, held_ns);
	g_mutex_unlock(&samples->lock);
	return is_new;
}

void vms_samples_count(struct vms_samples *samples, const struct vms_sample_record *record,
		       uint64_t held_ns)
{
	g_mutex_lock(&samples->lock);
	count_sample(&samples->stats, record);
	vms_histogram_add(&samples->held_ns, held_ns);
	g_mutex_unlock(&samples->lock);
}

void vms_samples_fail(struct vms_samples *samples, enum vms_sample_failure reason)
{
	g_mutex_lock(&samples->lock);
	samples->stats.failed[reason]++;
	g_mutex_unlock(&samples->lock);
}

void vms_samples_stats(struct vms_samples *samples, struct vms_sample_stats *ret)
{
	g_mutex_lock(&samples->lock);
	*ret = samples->stats;
	ret->hold_ns_median = vms_histogram_quantile(&samples->held_ns, 0.5);
	ret->hold_ns_p99 = vms_histogram_quantile(&samples->held_ns, 0.99);
	ret->hold_ns_max = samples->held_ns.max;
	g_mutex_unlock(&samples->lock);
}
