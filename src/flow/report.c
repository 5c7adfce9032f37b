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
	vms_flow_report_take(report, vms_flow_record_ref(record));
}

void vms_flow_report_take(struct vms_flow_report *report, struct vms_flow_record *record)
{
	g_ptr_array_add(report->records, record);
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
		    "there is no record %zu: the report has %u records", index,
		    report->records->len);
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
#define CRITERIA  (RANGES | VMS_FLOW_BY_VALUES | VMS_FLOW_BY_COMM | VMS_FLOW_BY_WHERE)
#define ALL_FLAGS (CRITERIA | VMS_FLOW_ANY | VMS_FLOW_REVERSE)

/* A filter with its patterns compiled. */
struct sieve {
	struct vms_flow_filter filter;
	GPatternSpec *comm, *where; /* NULL without their flags */
};

/* One of the ranges of a filter, and the number of a record that must be in it. */
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
			    "the filter has unknown flags: 0x%x",
			    filter->flags & ~(unsigned)ALL_FLAGS);
		return false;
	}
	list_criteria(filter, &nothing, criteria);
	for (unsigned i = 0; i < N_RANGES; i++) {
		if (!(filter->flags & criteria[i].flag) ||
		    criteria[i].range.first <= criteria[i].range.last)
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "a range of the filter ends before it begins: %" G_GINT64_MODIFIER
			    "u to %" G_GINT64_MODIFIER "u",
			    criteria[i].range.first, criteria[i].range.last);
		return false;
	}
	return true;
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

static bool is_in_range(uint64_t number, const struct vms_flow_range *range)
{
	return number >= range->first && number <= range->last;
}

/* True if a number is in a range, either as unsigned or as signed number of its width. */
static bool is_number_in(const struct vms_flow_value *value, const struct vms_flow_range *range)
{
	uint64_t number = 0;
	if (value->size > sizeof(number))
		return false;
	memcpy(&number, value->bytes, value->size);
	number = GUINT64_FROM_LE(number);
	const unsigned above = 64 - 8 * (unsigned)value->size;
	const int64_t with_sign = (int64_t)(number << above) >> above;
	if (range->first > range->last)
		return with_sign >= (int64_t)range->first && with_sign <= (int64_t)range->last;
	/* A negative value is only in a range that begins with a negative number. */
	return is_in_range(number, range) || (with_sign < 0 && (int64_t)range->first < 0 &&
					      is_in_range((uint64_t)with_sign, range));
}

/* Compares numbers of `n` bytes and of 64 bytes; both are little-endian. */
static int compare_wide(const uint8_t *bytes, size_t n, const struct vms_flow_wide *other)
{
	for (size_t i = sizeof(other->bytes); i > 0; i--) {
		const uint8_t byte = i <= n ? bytes[i - 1] : 0;
		if (byte != other->bytes[i - 1])
			return byte < other->bytes[i - 1] ? -1 : 1;
	}
	return 0;
}

static bool is_wide_in(const struct vms_flow_value *value, const struct vms_flow_match *match)
{
	return value->size <= sizeof(match->wide_first->bytes) &&
	       (match->wide_first || match->wide_last) &&
	       (!match->wide_first ||
		compare_wide(value->bytes, value->size, match->wide_first) >= 0) &&
	       (!match->wide_last ||
		compare_wide(value->bytes, value->size, match->wide_last) <= 0);
}

/* True if the value has these bytes. The zero bytes at the end of a text may be left out. */
static bool has_bytes(const struct vms_flow_value *value, bool is_text,
		      const struct vms_flow_match *match)
{
	const size_t length = is_text ? strnlen(value->bytes, value->size) : value->size;
	return (match->size == value->size || match->size == length) &&
	       memcmp(value->bytes, match->bytes, match->size) == 0;
}

static bool is_match(const struct vms_probe *probe, size_t index,
		     const struct vms_flow_value *value, const struct vms_flow_match *match)
{
	if (value->status != VMS_FLOW_KNOWN || !value->size)
		return false;
	if (!match->is_number)
		return has_bytes(value, vms_probe_entry_is_text(probe, index), match);
	if (value->size > sizeof(uint64_t))
		return vms_probe_entry_kind(probe, index) == VMS_ENTRY_REGISTER &&
		       is_wide_in(value, match);
	return is_number_in(value, &match->number);
}

static bool is_among(const struct vms_flow_record *record, const struct vms_probe *probe,
		     get_value get, const struct vms_flow_match *match)
{
	struct vms_flow_value value;
	for (size_t i = 0; get(record, i, &value); i++)
		if ((!match->name || strcmp(match->name, vms_probe_entry_name(probe, i)) == 0) &&
		    is_match(probe, i, &value, match))
			return true;
	return false;
}

/* True if the record has every value of the filter. */
static bool has_values(const struct vms_flow_record *record, const struct vms_flow_filter *filter)
{
	for (size_t i = 0; i < filter->n_values; i++)
		if (!is_among(record, vms_flow_record_probe(record), vms_flow_record_value,
			      &filter->values[i]) &&
		    !is_among(record, vms_flow_record_returned(record),
			      vms_flow_record_returned_value, &filter->values[i]) &&
		    !is_among(record, vms_flow_record_common(record), vms_flow_record_common_value,
			      &filter->values[i]))
			return false;
	return true;
}

/* How many criteria of a filter hold, and how many it has. */
struct verdict {
	unsigned n, n_held;
};

static void add_verdict(struct verdict *verdict, bool holds)
{
	verdict->n++;
	verdict->n_held += holds;
}

/* Checks the criteria about the hit itself, which need no values. */
static void judge_hit(const struct sieve *sieve, const struct vms_flow_record *record,
		      struct verdict *verdict)
{
	struct criterion criteria[N_RANGES];
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	list_criteria(&sieve->filter, &hit, criteria);
	for (unsigned i = 0; i < N_RANGES; i++)
		if (sieve->filter.flags & criteria[i].flag)
			add_verdict(verdict,
				    criteria[i].is_known &&
					    is_in_range(criteria[i].number, &criteria[i].range));
	if (sieve->comm)
		add_verdict(verdict,
			    hit.has_task && g_pattern_spec_match_string(sieve->comm, hit.comm));
}

static bool matches_filter(const struct vms_flow_record *record, const struct sieve *sieve)
{
	const struct vms_flow_filter *filter = &sieve->filter;
	struct verdict verdict = { 0 };
	if (filter->flags & (RANGES | VMS_FLOW_BY_COMM))
		judge_hit(sieve, record, &verdict);
	if (sieve->where) {
		const char *where = vms_flow_record_where(record);
		add_verdict(&verdict, where && g_pattern_spec_match_string(sieve->where, where));
	}
	if (filter->flags & VMS_FLOW_BY_VALUES)
		add_verdict(&verdict, has_values(record, filter));
	if (filter->flags & VMS_FLOW_ANY && verdict.n)
		return verdict.n_held;
	return verdict.n_held == verdict.n;
}

static GPatternSpec *make_pattern(const struct vms_flow_filter *filter, unsigned flag,
				  const char *text)
{
	return filter->flags & flag ? g_pattern_spec_new(text ? text : "") : NULL;
}

struct vms_flow_report *vms_flow_report_filter(const struct vms_flow_report *report,
					       const struct vms_flow_filter *given, GError **error)
{
	struct vms_flow_filter filter;
	if (!vms_options_copy(given, &filter, sizeof(filter), "vms_flow_filter", error) ||
	    !check_filter(&filter, error))
		return NULL;
	struct sieve sieve = { filter, make_pattern(&filter, VMS_FLOW_BY_COMM, filter.comm),
			       make_pattern(&filter, VMS_FLOW_BY_WHERE, filter.where) };
	const bool reverses = filter.flags & VMS_FLOW_REVERSE;
	struct vms_flow_report *to = vms_flow_report_new();
	for (guint i = 0; i < report->records->len; i++)
		if (matches_filter(report->records->pdata[i], &sieve) != reverses)
			vms_flow_report_add(to, report->records->pdata[i]);
	g_clear_pointer(&sieve.comm, g_pattern_spec_free);
	g_clear_pointer(&sieve.where, g_pattern_spec_free);
	return to;
}

struct vms_flow_report *vms_flow_report_without(const struct vms_flow_report *report,
						const struct vms_flow_report *other)
{
	struct vms_flow_report *to = vms_flow_report_new();
	guint left_out = 0; /* records of `other`, which has the same order */
	for (guint i = 0; i < report->records->len; i++) {
		struct vms_flow_record *record = report->records->pdata[i];
		if (left_out < other->records->len && other->records->pdata[left_out] == record)
			left_out++;
		else
			vms_flow_report_add(to, record);
	}
	return to;
}
