/* SPDX-License-Identifier: MIT */
#include "flow_filter.h"
#include "base/keyed_hash.h"
#include "flow_spec.h"
#include "values.h"
#include <math.h>
#include <string.h>

#define SHOWN_NS    1000 /* the resolution of times in text */
#define SECONDS_MAX 1e10

/* A filter that was parsed. */
struct parsed {
	struct vms_flow_filter filter;
	struct vms_flow_match match;
	char *key, *value; /* parts of the text; the filter points to them */
	char *bytes;	   /* of the match, or NULL */
	struct vms_flow_wide first, last;
};

char *flow_filter_explain(void)
{
	return g_strdup(
		"A filter is KEY=VALUE. KEY is one of:\n"
		"  sequence, cpu, pid, tid, address  numbers\n"
		"  time     seconds since the trace began, as they are shown\n"
		"  comm, where  names, with * and ?: the process, the place as it is shown\n"
		"  value    any value that was collected\n"
		"  NAME     the value of that name, as it is shown\n"
		"VALUE is a number, or a range with both ends: 10..20, ..20, 10... Values may be "
		"negative,\n"
		"or texts in quotes (\"bash\"), or bytes (hex:7f45).\n");
}

static void clear_parsed(struct parsed *parsed)
{
	g_free(parsed->key);
	g_free(parsed->value);
	g_free(parsed->bytes);
}

/* ---- values ---------------------------------------------------------------------------- */

/* Parses one bound of a range. */
typedef bool (*parse_end)(const char *text, uint64_t *ret);

static bool parse_signed(const char *text, uint64_t *ret)
{
	const bool is_negative = text[0] == '-';
	if (!value_in_c(text + is_negative, ret))
		return false;
	*ret = is_negative ? 0 - *ret : *ret;
	return true;
}

static bool parse_time(const char *text, uint64_t *ret)
{
	char *end;
	const double seconds = g_ascii_strtod(text, &end);
	*ret = seconds >= 0 && seconds < SECONDS_MAX ? (uint64_t)llround(seconds * 1e9) : 0;
	return end != text && *end == '\0' && seconds >= 0 && seconds < SECONDS_MAX;
}

/* Parses "A", "A..B", "..B" or "A..". */
static bool parse_range(const char *text, parse_end parse, struct vms_flow_range *ret)
{
	const char *dots = strstr(text, "..");
	*ret = (struct vms_flow_range) { 0, UINT64_MAX };
	if (!dots) {
		const bool done = parse(text, &ret->first);
		ret->last = ret->first;
		return done;
	}
	g_autofree char *first = g_strndup(text, (gsize)(dots - text));
	return (*first || dots[2]) && (!*first || parse(first, &ret->first)) &&
	       (!dots[2] || parse(dots + 2, &ret->last));
}

/* Parses pairs of hexadecimal digits. Returns the bytes newly allocated, or NULL. */
static char *parse_hex(const char *text, size_t *size)
{
	*size = strlen(text) / 2;
	g_autofree char *bytes = g_malloc(*size + 1);
	for (size_t i = 0; i < *size; i++) {
		const int high = g_ascii_xdigit_value(text[2 * i]);
		const int low = g_ascii_xdigit_value(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return NULL;
		bytes[i] = (char)(high << 4 | low);
	}
	return *size && strlen(text) % 2 == 0 ? g_steal_pointer(&bytes) : NULL;
}

/* Parses a number in hexadecimal, of any width that a register has. */
static bool parse_wide_hex(const char *text, struct vms_flow_wide *ret)
{
	const size_t n = strlen(text);
	*ret = (struct vms_flow_wide) { 0 };
	for (size_t i = 0; i < n; i++) {
		const int digit = g_ascii_xdigit_value(text[n - 1 - i]);
		if (digit < 0 || i / 2 >= sizeof(ret->bytes))
			return false;
		ret->bytes[i / 2] |= (uint8_t)(digit << (i % 2 ? 4 : 0));
	}
	return n > 0;
}

/* Parses a bound of a wide range. *is_64: it is a number of 64 bits, too, which is `*number`. */
static bool parse_wide_bound(const char *text, struct vms_flow_wide *ret, uint64_t *number,
			     bool *is_64)
{
	*is_64 = parse_signed(text, number);
	if (*is_64) {
		const uint64_t little = GUINT64_TO_LE(*number);
		*ret = (struct vms_flow_wide) { 0 };
		memcpy(ret->bytes, &little, sizeof(little));
		return true;
	}
	return g_ascii_strncasecmp(text, "0x", 2) == 0 && parse_wide_hex(text + 2, ret);
}

/* Parses a number or a range of numbers. Those of more than 64 bits are in hexadecimal. */
static bool parse_numbers(struct parsed *parsed)
{
	struct vms_flow_match *match = &parsed->match;
	const char *dots = strstr(parsed->value, "..");
	g_autofree char *first = dots ? g_strndup(parsed->value, (gsize)(dots - parsed->value))
				      : g_strdup(parsed->value);
	const char *last = dots ? dots + 2 : first;
	bool first_is_64 = true, last_is_64 = true;
	match->number = (struct vms_flow_range) { 0, UINT64_MAX };
	if ((!*first && !*last) ||
	    (*first &&
	     !parse_wide_bound(first, &parsed->first, &match->number.first, &first_is_64)) ||
	    (*last && !parse_wide_bound(last, &parsed->last, &match->number.last, &last_is_64)))
		return false;
	const bool has_sign = *first == '-' || *last == '-';
	if (has_sign && !*first)
		match->number.first = UINT64_C(1) << 63; /* the least number */
	else if (has_sign && !*last)
		match->number.last = INT64_MAX;
	match->wide_first = *first && !has_sign ? &parsed->first : NULL;
	match->wide_last = *last && !has_sign ? &parsed->last : NULL;
	match->is_number = true;
	if (!first_is_64) /* a range that no number is in: see struct vms_flow_match */
		match->number = (struct vms_flow_range) { 1, 0 };
	return true;
}

/* Parses a value: a number, a range, a text in quotes, or bytes. */
static bool parse_match(struct parsed *parsed, GError **error)
{
	struct vms_flow_match *match = &parsed->match;
	const size_t length = strlen(parsed->value);
	if (g_str_has_prefix(parsed->value, "hex:")) {
		parsed->bytes = parse_hex(parsed->value + strlen("hex:"), &match->size);
	} else if (length >= 2 && parsed->value[0] == '"' && parsed->value[length - 1] == '"') {
		g_autofree char *inner = g_strndup(parsed->value + 1, length - 2);
		parsed->bytes = g_strcompress(inner);
		match->size = strlen(parsed->bytes);
	} else {
		parse_numbers(parsed);
	}
	match->bytes = parsed->bytes;
	parsed->filter.flags = VMS_FLOW_BY_VALUES;
	parsed->filter.n_values = 1;
	if (match->is_number || match->bytes)
		return true;
	usage_error(error,
		    "--filter %s=%s: a value is a number, a range like 10..20, a text in quotes "
		    "(mind the shell: '\"text\"'), or bytes like hex:7f45",
		    parsed->key, parsed->value);
	return false;
}

/* ---- keys ------------------------------------------------------------------------------- */

static bool parse_hit_range(struct parsed *parsed, unsigned flag, struct vms_flow_range *range,
			    GError **error)
{
	parsed->filter.flags = flag;
	if (parse_range(parsed->value, value_in_c, range) && range->first <= range->last)
		return true;
	usage_error(error, "--filter %s=%s: a number, or a range like 10..20, is needed",
		    parsed->key, parsed->value);
	return false;
}

/* Times are shown in microseconds, so the upper bound includes its whole microsecond. */
static bool parse_times(struct parsed *parsed, uint64_t begin_ns, GError **error)
{
	struct vms_flow_range *range = &parsed->filter.time_ns;
	parsed->filter.flags = VMS_FLOW_BY_TIME;
	if (!parse_range(parsed->value, parse_time, range) || range->first > range->last) {
		usage_error(error, "--filter time=%s: seconds are needed, like 0.5 or 0.5..1.25",
			    parsed->value);
		return false;
	}
	range->first += begin_ns;
	range->first -= MIN(range->first, SHOWN_NS / 2);
	if (range->last < UINT64_MAX)
		range->last += begin_ns + SHOWN_NS / 2;
	return true;
}

static bool parse_by_key(struct parsed *parsed, uint64_t begin_ns, GError **error)
{
	struct vms_flow_filter *filter = &parsed->filter;
	const struct {
		const char *key;
		unsigned flag;
		struct vms_flow_range *range;
	} ranges[] = {
		{ "sequence", VMS_FLOW_BY_SEQUENCE, &filter->sequence },
		{ "address", VMS_FLOW_BY_ADDRESS, &filter->va },
		{ "cpu", VMS_FLOW_BY_VCPU, &filter->vcpu },
		{ "pid", VMS_FLOW_BY_PID, &filter->pid },
		{ "tid", VMS_FLOW_BY_TID, &filter->tid },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(ranges); i++)
		if (strcmp(parsed->key, ranges[i].key) == 0)
			return parse_hit_range(parsed, ranges[i].flag, ranges[i].range, error);
	if (strcmp(parsed->key, "time") == 0)
		return parse_times(parsed, begin_ns, error);
	if (strcmp(parsed->key, "comm") == 0) {
		filter->flags = VMS_FLOW_BY_COMM;
		filter->comm = parsed->value;
		return true;
	}
	if (strcmp(parsed->key, "where") == 0) {
		filter->flags = VMS_FLOW_BY_WHERE;
		filter->where = parsed->value;
		return true;
	}
	parsed->match.name = strcmp(parsed->key, "value") == 0 ? NULL : parsed->key;
	return parse_match(parsed, error);
}

/* Parses a filter. `ret` must be cleared, also after an error. */
static bool parse_filter(const char *text, uint64_t begin_ns, struct parsed *ret, GError **error)
{
	/* The last "=" separates them: the name of a value may be "arg0 == 3". */
	const char *equals = flow_spec_find_outside(text, '=', false);
	*ret = (struct parsed) { .filter.size = sizeof(ret->filter) };
	if (!equals || equals == text) {
		usage_error(error, "--filter %s: KEY=VALUE is needed, like pid=12 or arg0=3..5",
			    text);
		return false;
	}
	ret->key = g_strndup(text, (gsize)(equals - text));
	ret->value = g_strdup(equals + 1);
	return parse_by_key(ret, begin_ns, error);
}

/* ---- names of values ------------------------------------------------------------------- */

/* Appends the names of a probe's entries that are not in `names` yet. */
static void list_names(const struct vms_probe *probe, GHashTable *probes, GHashTable *names,
		       GString *list)
{
	if (!probe || !g_hash_table_add(probes, (gpointer)probe))
		return;
	for (size_t i = 0; i < vms_probe_entries(probe); i++) {
		const char *name = vms_probe_entry_name(probe, i);
		if (g_hash_table_add(names, (gpointer)name))
			g_string_append_printf(list, "%s%s", list->len ? ", " : "", name);
	}
}

/* Checks that some record has a value of this name. If not, the name is most probably wrong. */
static bool check_name(const struct vms_flow_report *report, const char *name, GError **error)
{
	g_autoptr(GHashTable) probes = g_hash_table_new(vms_hash_direct, NULL);
	g_autoptr(GHashTable) names = g_hash_table_new(vms_hash_text, g_str_equal);
	g_autoptr(GString) list = g_string_new(NULL);
	for (size_t i = 0; i < vms_flow_report_count(report); i++) {
		const struct vms_flow_record *record = vms_flow_report_record(report, i, NULL);
		list_names(vms_flow_record_probe(record), probes, names, list);
		list_names(vms_flow_record_common(record), probes, names, list);
		list_names(vms_flow_record_returned(record), probes, names, list);
	}
	if (g_hash_table_contains(names, name))
		return true;
	usage_error(error, "--filter %s=…: no record has a value with this name%s%s", name,
		    list->len ? ", but " : "", list->str);
	return false;
}

/* ---- applying --------------------------------------------------------------------------- */

/* Returns the records that match a filter, or with `rejects` those that do not. */
static struct vms_flow_report *apply_one(const struct vms_flow_report *whole,
					 const struct vms_flow_report *report, const char *text,
					 bool rejects, uint64_t begin_ns, GError **error)
{
	struct parsed parsed;
	struct vms_flow_report *kept = NULL;
	if (parse_filter(text, begin_ns, &parsed, error) &&
	    (!parsed.match.name || vms_flow_report_count(whole) == 0 ||
	     check_name(whole, parsed.match.name, error))) {
		parsed.filter.values = &parsed.match;
		parsed.filter.flags |= rejects ? VMS_FLOW_REVERSE : 0;
		kept = vms_flow_report_filter(report, &parsed.filter, error);
	}
	clear_parsed(&parsed);
	return kept;
}

struct vms_flow_report *flow_filter_apply(struct vms_flow_report *report, char *const *texts,
					  bool any, bool reverse, uint64_t begin_ns, GError **error)
{
	/* Records that match no filter are the complement of those that match any. */
	const bool rejects = any && texts && *texts;
	g_autoptr(vms_flow_report) kept = vms_flow_report_ref(report);
	for (; texts && *texts; texts++) {
		struct vms_flow_report *next =
			apply_one(report, kept, *texts, rejects, begin_ns, error);
		if (!next)
			return NULL;
		vms_flow_report_unref(kept);
		kept = next;
	}
	return rejects == reverse ? g_steal_pointer(&kept) : vms_flow_report_without(report, kept);
}
