/* SPDX-License-Identifier: MIT */
#include "sample/vcpu_records.h"
#include "capture/fxt_writer.h"

/* There are two events per vCPU, because an event has at most fifteen arguments. */
#define NAME	   "vcpu"
#define WALKS_NAME "kernel walks"

struct number {
	const char *name;
	size_t offset; /* in struct vms_sample_stats */
};

#define AT(member) offsetof(struct vms_sample_stats, member)

static const struct number numbers[] = {
	{ "samples", AT(samples) },
	{ "idle", AT(idle) },
	{ "missed", AT(missed) },
	{ "not held", AT(failed[VMS_SAMPLE_FAIL_HOLD]) },
	{ "no registers", AT(failed[VMS_SAMPLE_FAIL_REGS]) },
	{ "torn", AT(failed[VMS_SAMPLE_FAIL_TORN]) },
	{ "paused", AT(failed[VMS_SAMPLE_FAIL_PAUSED]) },
	{ "not now", AT(failed[VMS_SAMPLE_FAIL_NOT_NOW]) },
	{ "hold median", AT(hold_ns_median) },
	{ "hold p99", AT(hold_ns_p99) },
	{ "hold max", AT(hold_ns_max) },
};

static const struct number walks[] = {
	{ "walks", AT(kernel_walks) },
	{ "root", AT(kernel_walks_by_end[VMS_WALK_ROOT]) },
	{ "depth", AT(kernel_walks_by_end[VMS_WALK_DEPTH]) },
	{ "unreadable", AT(kernel_walks_by_end[VMS_WALK_UNREADABLE]) },
	{ "no info", AT(kernel_walks_by_end[VMS_WALK_NO_INFO]) },
	{ "bad frame", AT(kernel_walks_by_end[VMS_WALK_BAD_FRAME]) },
};

static void put_event(GByteArray *out, const char *name, uint64_t time_ns, unsigned vcpu,
		      const struct vms_sample_stats *stats, const struct number *of, size_t n)
{
	struct vms_fxt_record event = vms_records_event(name, time_ns, 0);
	vms_records_add_number(&event, "number", vcpu);
	for (size_t i = 0; i < n; i++)
		vms_records_add_number(&event, of[i].name,
				       G_STRUCT_MEMBER(uint64_t, stats, of[i].offset));
	vms_fxt_write(out, &event);
}

void vms_vcpu_records_put(GByteArray *out, uint64_t time_ns, unsigned vcpu,
			  const struct vms_sample_stats *stats)
{
	put_event(out, NAME, time_ns, vcpu, stats, numbers, G_N_ELEMENTS(numbers));
	put_event(out, WALKS_NAME, time_ns, vcpu, stats, walks, G_N_ELEMENTS(walks));
}

bool vms_vcpu_records_get(const struct vms_fxt_record *event, struct vms_sample_stats *vcpus,
			  size_t n)
{
	const bool is_walks = vms_records_is_event(event, WALKS_NAME);
	const struct number *of = is_walks ? walks : numbers;
	const size_t n_numbers = is_walks ? G_N_ELEMENTS(walks) : G_N_ELEMENTS(numbers);
	if (!is_walks && !vms_records_is_event(event, NAME))
		return false;
	const uint64_t vcpu = vms_records_number(event, "number");
	for (size_t i = 0; vcpu < n && i < n_numbers; i++)
		G_STRUCT_MEMBER(uint64_t, &vcpus[vcpu], of[i].offset) =
			vms_records_number(event, of[i].name);
	return true;
}
