/* SPDX-License-Identifier: MIT */
#include "sample/profile-private.h"
#include "sample/run_facts.h"
#include "sample/samples.h"
#include <vmscope/flow_profile.h>

/* Sets the address space of the record to that of the program's frames, which they have as code. */
static void set_space(struct vms_sample_record *record)
{
	const struct vms_stack *stack = &record->stack;
	record->space =
		stack->n > stack->n_kernel ? stack->frame[stack->n_kernel].code : VMS_NO_SPACE;
}

/* Adds the stacks of all rows. Returns how many hits they have. */
static uint64_t add_rows(const struct vms_aggregate *aggregate, size_t index, struct vms_tree *tree)
{
	struct vms_sample_record record = { 0 };
	struct vms_aggregate_row row;
	struct vms_flow_value value;
	uint64_t hits = 0;
	for (size_t i = 0; vms_aggregate_get_row(aggregate, i, &row); i++) {
		if (!vms_aggregate_get_key(aggregate, i, index, &value) ||
		    !vms_flow_value_stack(&value, &record.stack))
			continue;
		set_space(&record);
		vms_samples_add_path(tree, &record, false, row.count);
		hits += row.count;
	}
	return hits;
}

struct vms_profile *vms_flow_profile_new(const struct vms_aggregate *aggregate, size_t index,
					 struct vms_guest *guest, GError **error)
{
	g_autoptr(vms_tree) tree = vms_tree_new(VMS_TREE_LIMIT);
	const struct vms_tree *const trees[] = { tree };
	const struct vms_profile_source source = {
		.symbolizer = vms_guest_symbolizer(guest),
		.trees = trees,
		.n_trees = 1,
		.flags = VMS_PROFILE_MERGE_VCPUS,
	};
	if (add_rows(aggregate, index, tree))
		return vms_profile_new(&source);
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "no hit has a stack");
	return NULL;
}

struct vms_run_facts *vms_flow_profile_facts(struct vms_guest *guest, uint64_t elapsed_ns)
{
	struct vms_machine *machine = vms_guest_machine(guest);
	struct vms_run_facts *facts = vms_run_facts_new(machine, guest);
	facts->elapsed_ns = elapsed_ns;
	facts->end = VMS_SAMPLE_COMPLETE;
	facts->title = g_strdup_printf(
		"Hits in %s%s%s on %s, %.1f s", facts->system ? facts->system : "an unknown guest",
		facts->release ? " " : "", facts->release ? facts->release : "",
		facts->machine_description, (double)elapsed_ns / 1e9);
	return facts;
}
