/* SPDX-License-Identifier: MIT */
#include "flow/report.h"
#include "base/options.h"
#include <string.h>

struct vms_flow_report {
	gatomicrefcount refs;
	GPtrArray *records; /* struct vms_flow_record *, by sequence */
};

static void unref_record(gpointer record)
{
	vms_flow_record_unref(record);
}

struct vms_flow_report *vms_flow_report_new(void)
{
	struct vms_flow_report *report = g_new0(struct vms_flow_report, 1);
	g_atomic_ref_count_init(&report->refs);
	report->records = g_ptr_array_new_with_free_func(unref_record);
	return report;
}

void vms_flow_report_add(struct vms_flow_report *report, struct vms_flow_record *record)
{
	g_ptr_array_add(report->records, vms_flow_record_ref(record));
}

struct vms_flow_report *vms_flow_report_ref(struct vms_flow_report *report)
{
	g_atomic_ref_count_inc(&report->refs);
	return report;
}

void vms_flow_report_unref(struct vms_flow_report *report)
{
	if (!report || !g_atomic_ref_count_dec(&report->refs))
		return;
	g_ptr_array_unref(report->records);
	g_free(report);
}

size_t vms_flow_report_count(const struct vms_flow_report *report)
{
	return report->records->len;
}

struct vms_flow_record *vms_flow_report_record(const struct vms_flow_report *report, size_t index,
					       GError **error)
{
	if (index < report->records->len)
		return report->records->pdata[index];
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "there is no record %zu: the report has %u", index, report->records->len);
	return NULL;
}

bool vms_flow_report_each(const struct vms_flow_report *report,
			  bool (*each)(struct vms_flow_record *record, void *data, GError **error),
			  void *data, GError **error)
{
	for (guint i = 0; i < report->records->len; i++)
		if (!each(report->records->pdata[i], data, error))
			return false;
	return true;
}

/* ---- filters ------------------------------------------------------------------------- */

#define RANGES                                                                                     \
	(VMS_FLOW_BY_SEQUENCE | VMS_FLOW_BY_TIME | VMS_FLOW_BY_ADDRESS | VMS_FLOW_BY_VCPU |        \
	 VMS_FLOW_BY_PID | VMS_FLOW_BY_TID)
#define ALL_FLAGS (RANGES | VMS_FLOW_BY_VALUES | VMS_FLOW_ANY | VMS_FLOW_REVERSE)

/* One of the ranges of a filter, and the number of a record that it is about. */
struct criterion {
	unsigned flag;
	struct vms_flow_range range;
	uint64_t number;
	bool is_known;
};

#define N_RANGES 6

static void list_criteria(const struct vms_flow_filter *filter, const struct vms_flow_hit *hit,
			  struct criterion ret[N_RANGES])
{
	const struct criterion criteria[N_RANGES] = {
		{ VMS_FLOW_BY_SEQUENCE, filter->sequence, hit->sequence, true },
		{ VMS_FLOW_BY_TIME, filter->time_ns, hit->time_ns, true },
		{ VMS_FLOW_BY_ADDRESS, filter->va, hit->va, true },
		{ VMS_FLOW_BY_VCPU, filter->vcpu, hit->vcpu, true },
		{ VMS_FLOW_BY_PID, filter->pid, hit->pid, hit->has_task },
		{ VMS_FLOW_BY_TID, filter->tid, hit->tid, hit->has_task },
	};
	memcpy(ret, criteria, sizeof(criteria));
}

static bool check_filter(const struct vms_flow_filter *filter, GError **error)
{
	const struct vms_flow_hit nothing = { 0 };
	struct criterion criteria[N_RANGES];
	if (filter->flags & ~(unsigned)ALL_FLAGS) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "a filter has unknown flags: 0x%x",
			    filter->flags & ~(unsigned)ALL_FLAGS);
		return false;
	}
	list_criteria(filter, &nothing, criteria);
	for (unsigned i = 0; i < N_RANGES; i++) {
		if (!(filter->flags & criteria[i].flag) ||
		    criteria[i].range.first <= criteria[i].range.last)
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "a range of a filter ends before it begins: %" G_GINT64_MODIFIER
			    "u to %" G_GINT64_MODIFIER "u",
			    criteria[i].range.first, criteria[i].range.last);
		return false;
	}
	return true;
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

static bool is_among(const struct vms_flow_record *record, get_value get,
		     const struct vms_flow_match *match)
{
	struct vms_flow_value value;
	for (size_t i = 0; get(record, i, &value); i++)
		if (value.status == VMS_FLOW_KNOWN && value.size == match->size && value.size &&
		    memcmp(value.bytes, match->bytes, match->size) == 0)
			return true;
	return false;
}

/* True if every wanted value is among those of the record. */
static bool has_values(const struct vms_flow_record *record, const struct vms_flow_filter *filter)
{
	for (size_t i = 0; i < filter->n_values; i++)
		if (!is_among(record, vms_flow_record_value, &filter->values[i]) &&
		    !is_among(record, vms_flow_record_common_value, &filter->values[i]))
			return false;
	return true;
}

static bool matches(const struct vms_flow_record *record, const struct vms_flow_filter *filter)
{
	const bool any = filter->flags & VMS_FLOW_ANY;
	bool all_hold = true, one_holds = false;
	struct criterion criteria[N_RANGES];
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	list_criteria(filter, &hit, criteria);
	for (unsigned i = 0; i < N_RANGES; i++) {
		const struct criterion *criterion = &criteria[i];
		if (!(filter->flags & criterion->flag))
			continue;
		const bool holds = criterion->is_known &&
				   criterion->number >= criterion->range.first &&
				   criterion->number <= criterion->range.last;
		all_hold &= holds;
		one_holds |= holds;
	}
	if (filter->flags & VMS_FLOW_BY_VALUES) {
		const bool holds = has_values(record, filter);
		all_hold &= holds;
		one_holds |= holds;
	}
	return any && filter->flags & (RANGES | VMS_FLOW_BY_VALUES) ? one_holds : all_hold;
}

struct vms_flow_report *vms_flow_report_filter(const struct vms_flow_report *report,
					       const struct vms_flow_filter *given, GError **error)
{
	struct vms_flow_filter filter;
	if (!vms_options_copy(given, &filter, sizeof(filter), "vms_flow_filter", error) ||
	    !check_filter(&filter, error))
		return NULL;
	const bool reverses = filter.flags & VMS_FLOW_REVERSE;
	struct vms_flow_report *to = vms_flow_report_new();
	for (guint i = 0; i < report->records->len; i++)
		if (matches(report->records->pdata[i], &filter) != reverses)
			vms_flow_report_add(to, report->records->pdata[i]);
	return to;
}
