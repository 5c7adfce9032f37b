/* SPDX-License-Identifier: MIT */
#include "sample/profile_samples.h"
#include "base/text.h"

void vms_profile_samples_init(struct vms_profile_samples *samples,
			      const struct vms_profile_source *source, struct vms_texts *strings)
{
	*samples = (struct vms_profile_samples) {
		.source = source,
		.strings = strings,
		.timed = g_array_new(FALSE, FALSE, sizeof(struct vms_profile_sample)),
		.others = g_array_new(FALSE, FALSE, sizeof(struct vms_profile_sample)),
		.threads = g_array_new(FALSE, FALSE, sizeof(struct vms_profile_thread)),
		.keys = vms_tree_new(VMS_TREE_LIMIT),
	};
}

void vms_profile_samples_clear(struct vms_profile_samples *samples)
{
	g_array_unref(samples->timed);
	g_array_unref(samples->others);
	g_array_unref(samples->threads);
	vms_tree_free(samples->keys);
}

/* ---- threads ---------------------------------------------------------- */

static void add_thread(struct vms_profile_samples *samples, uint32_t space, uint32_t pid,
		       uint32_t tid)
{
	const struct vms_process *process =
		space == VMS_NO_SPACE ? NULL
				      : vms_symbolizer_process(samples->source->symbolizer, space);
	struct vms_profile_thread thread = {
		.pid = pid,
		.tid = tid,
		.is_idle = process && process->is_idle,
	};
	if (process) {
		g_autofree char *comm = g_strdup(process->is_idle ? "swapper" : process->comm);
		vms_text_clean(comm);
		thread.comm = vms_texts_keep(samples->strings, comm);
	}
	const int role = samples->source->role_of
				 ? samples->source->role_of(samples->source->data, pid, tid)
				 : -1;
	if (role >= 0)
		thread.role = vms_texts_keep(samples->strings,
					     g_ptr_array_index(samples->source->roles, role));
	g_array_append_val(samples->threads, thread);
}

/* A process id may be used again: the space differs then. */
static uint32_t find_thread(struct vms_profile_samples *samples, uint32_t space, uint32_t pid,
			    uint32_t tid)
{
	const struct vms_tree_key key = {
		.kind = VMS_TREE_LABEL,
		.value = (uint64_t)pid << 32 | tid,
		.owner = space,
	};
	if (space == VMS_NO_SPACE && pid == 0 && tid == 0)
		return VMS_NO_THREAD;
	const uint32_t index = vms_tree_child(samples->keys, VMS_TREE_ROOT, key);
	if (index == samples->threads->len)
		add_thread(samples, space, pid, tid);
	return index == VMS_TREE_FULL ? VMS_NO_THREAD : index;
}

/* ---- samples ---------------------------------------------------------- */

static void add_timed(struct vms_profile_samples *samples, const struct vms_sample_time *time,
		      uint32_t node, uint32_t index, uint32_t vcpu)
{
	const struct vms_profile_sample sample = {
		.time_ns = time->time_ns,
		.weight = 1,
		.tree = index,
		.node = node,
		.vcpu = vcpu,
		.thread = find_thread(samples, time->space, time->pid, time->tid),
	};
	g_array_append_val(samples->timed, sample);
}

/* Returns the address space of the process on the path to each node, newly allocated. */
static uint32_t *find_spaces(const struct vms_tree *tree)
{
	uint32_t *spaces = g_new(uint32_t, tree->n_nodes);

	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct vms_tree_node *node = &tree->nodes[i];
		if (node->key.kind == VMS_TREE_PROCESS)
			spaces[i] = node->key.owner;
		else
			spaces[i] =
				node->parent == VMS_TREE_ROOT ? VMS_NO_SPACE : spaces[node->parent];
	}
	return spaces;
}

/* Returns the thread that stands for all of a process, where only that is known. */
static uint32_t find_process_thread(struct vms_profile_samples *samples, uint32_t space)
{
	const struct vms_process *process =
		space == VMS_NO_SPACE ? NULL
				      : vms_symbolizer_process(samples->source->symbolizer, space);
	const uint32_t pid = process ? process->pid : 0;
	return find_thread(samples, space, pid, pid);
}

void vms_profile_samples_add(struct vms_profile_samples *samples, const struct vms_tree *tree,
			     const struct vms_sample_times *times, const uint32_t *to,
			     uint32_t index, uint32_t vcpu)
{
	g_autofree uint64_t *rest = g_new(uint64_t, tree->n_nodes); /* without a time, by node */

	for (uint32_t i = 0; i < tree->n_nodes; i++)
		rest[i] = tree->nodes[i].self;
	for (size_t i = 0; times && i < times->n; i++) {
		const struct vms_sample_time *time = &times->times[i];
		if (time->node >= tree->n_nodes || rest[time->node] == 0 || time->time_ns == 0)
			continue;
		rest[time->node]--;
		if (to[time->node] != VMS_TREE_ROOT)
			add_timed(samples, time, to[time->node], index, vcpu);
	}
	g_autofree uint32_t *spaces = find_spaces(tree);
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		if (rest[i] == 0 || to[i] == VMS_TREE_ROOT)
			continue;
		const struct vms_profile_sample sample = {
			.weight = rest[i],
			.tree = index,
			.node = to[i],
			.vcpu = vcpu,
			.thread = find_process_thread(samples, spaces[i]),
		};
		g_array_append_val(samples->others, sample);
	}
}

static int compare_times(const void *a, const void *b, void *data G_GNUC_UNUSED)
{
	const struct vms_profile_sample *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

void vms_profile_samples_finish(struct vms_profile_samples *samples)
{
	/* Each vCPU's are in order already. The sort keeps the order of equal times. */
	g_qsort_with_data(samples->timed->data, (gint)samples->timed->len,
			  sizeof(struct vms_profile_sample), compare_times, NULL);
	g_array_append_vals(samples->timed, samples->others->data, samples->others->len);
	g_array_set_size(samples->others, 0);
}
