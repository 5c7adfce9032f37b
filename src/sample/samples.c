/* SPDX-License-Identifier: MIT */
#include "sample/samples.h"

/* The frames of a stack, a process, a marker, and what it waits for. */
#define PATH_LIMIT (VMS_STACK_LIMIT + 3)
/* Those of a host and of a guest, the role of the thread, and where the guest begins. */
#define MACHINE_PATH_LIMIT (2 * PATH_LIMIT + 3)

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

static struct vms_tree_key make_wait_key(const struct vms_sample_record *record)
{
	const struct vms_stack *stack = &record->stack;
	const bool is_known = record->wait_frame < stack->n;
	const struct vms_frame *frame = is_known ? &stack->frame[record->wait_frame] : NULL;
	const uint64_t pc = frame ? frame->pc - frame->is_return : 0;
	return (struct vms_tree_key) { .kind = VMS_TREE_WAIT,
				       .value = (uint64_t)(uint8_t)record->waits << 56 |
						(pc & ~(UINT64_C(0xff) << 56)),
				       .owner = frame ? frame->code : 0 };
}

/* Makes a path from the leaf outwards: frames, and a marker if the stack is incomplete. */
static size_t make_frames(const struct vms_sample_record *record, struct vms_tree_key *path)
{
	const struct vms_stack *stack = &record->stack;
	size_t n = 0;
	for (unsigned i = 0; i < MIN(stack->n, VMS_STACK_LIMIT); i++)
		path[n++] = make_frame_key(record, &stack->frame[i]);
	if (stack->end != VMS_WALK_ROOT || n == 0)
		path[n++] = (struct vms_tree_key) { .kind = VMS_TREE_MARKER,
						    .value = stack->end,
						    .owner = VMS_KERNEL_SPACE };
	return n;
}

/* Makes a path from the leaf outwards, up to the process. */
static size_t make_path(const struct vms_sample_record *record, struct vms_tree_key *path)
{
	if (record->idle) {
		path[0] = (struct vms_tree_key) { .kind = VMS_TREE_IDLE };
		return 1;
	}
	size_t n = make_frames(record, path);
	if (record->waits)
		path[n++] = make_wait_key(record);
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

/* The same for a thread of a machine: the guest's path, the host's, the role, and the process. */
static size_t make_machine_path(const struct vms_sample_record *record,
				const struct vms_guest_part *part, struct vms_tree_key *path)
{
	size_t n = part->guest ? make_path(part->guest, path) : 0;
	if (part->in_guest)
		path[n++] = (struct vms_tree_key) { .kind = VMS_TREE_GUEST,
						    .value = part->guest != NULL };
	/* Where the guest begins, that no frame of the host is known is not worth a marker. */
	if (record->stack.n > 0 || !part->in_guest)
		n += make_frames(record, path + n);
	if (record->waits)
		path[n++] = make_wait_key(record);
	if (part->role >= 0)
		path[n++] = (struct vms_tree_key) { .kind = VMS_TREE_ROLE,
						    .value = (uint64_t)part->role };
	if (record->space != VMS_NO_SPACE)
		path[n++] =
			(struct vms_tree_key) { .kind = VMS_TREE_PROCESS, .owner = record->space };
	return n;
}

uint32_t vms_samples_add_machine_path(struct vms_tree *tree, const struct vms_sample_record *record,
				      const struct vms_guest_part *part, bool leaf_first,
				      uint64_t weight)
{
	struct vms_tree_key path[MACHINE_PATH_LIMIT];
	size_t n = make_machine_path(record, part, path);
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
