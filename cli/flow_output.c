/* SPDX-License-Identifier: MIT */
#include "flow_output.h"
#include "flow/names.h"
#include "flow/wide_part.h"
#include "flow_spec.h"
#include "json_values.h"
#include <string.h>

#define STACK_INDENT 17			 /* columns before each frame of a stack */
#define SMALL_MAX    (UINT64_C(1) << 31) /* larger numbers are shown as negative or hexadecimal */
#define NEGATIVE_MAX (UINT64_C(1) << 24) /* below lie the code and the data of x86-64's kernel */

/* Returns a value as a number: it is little-endian, and of at most 8 bytes. */
static uint64_t get_number(const struct vms_flow_value *value)
{
	uint64_t number = 0;
	memcpy(&number, value->bytes, MIN(value->size, sizeof(number)));
	return number;
}

/* Appends a number: error codes as negative numbers, addresses in hexadecimal. */
static void append_number(GString *out, uint64_t number)
{
	if (number < SMALL_MAX || number > UINT64_MAX - NEGATIVE_MAX)
		g_string_append_printf(out, "%" G_GINT64_FORMAT, (int64_t)number);
	else
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", number);
}

static void append_bytes(GString *out, const struct vms_flow_value *value, const char *between)
{
	const uint8_t *bytes = value->bytes;
	for (size_t i = 0; i < value->size; i++)
		g_string_append_printf(out, "%s%02x", i ? between : "", bytes[i]);
}

/* Appends a register: one of more than 64 bits in its full width. */
static void append_register(GString *out, const struct vms_flow_value *value)
{
	if (value->size > sizeof(uint64_t))
		vms_wide_part_append_hex(value->bytes, value->size, out);
	else
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", get_number(value));
}

static char *copy_string(const struct vms_flow_value *value)
{
	g_autofree char *text = g_strndup(value->bytes, value->size);
	return g_strescape(text, NULL);
}

static void append_known(GString *out, const struct vms_probe *probe, size_t index,
			 const struct vms_flow_value *value)
{
	g_autofree char *text = NULL;
	g_autofree char *type = vms_probe_entry_type(probe, index);
	switch (vms_probe_entry_kind(probe, index)) {
	case VMS_ENTRY_TYPED:
		if (type)
			vms_probe_format_value(probe, index, value, out);
		else
			append_number(out, get_number(value));
		break;
	case VMS_ENTRY_REGISTER: append_register(out, value); break;
	case VMS_ENTRY_EXPRESSION: append_number(out, get_number(value)); break;
	case VMS_ENTRY_STACK: vms_probe_format_value(probe, index, value, out); break;
	case VMS_ENTRY_STRING:
		text = copy_string(value);
		g_string_append_printf(out, "\"%s\"%s", text,
				       value->status == VMS_FLOW_CUT ? "…" : "");
		break;
	case VMS_ENTRY_MEMORY:
	case VMS_ENTRY_STRINGS:
	case VMS_ENTRY_PIECES:
	case VMS_ENTRY_BYTES: append_bytes(out, value, " "); break;
	case VMS_ENTRY_CALLBACK:
	case VMS_ENTRY_HALT:
	case VMS_ENTRY_N_KINDS:
	default: g_string_append(out, "done"); break;
	}
}

static const char *status_text(enum vms_flow_value_status status)
{
	switch (status) {
	case VMS_FLOW_UNREADABLE: return "unreadable";
	case VMS_FLOW_CUT: return "cut";
	case VMS_FLOW_FAILED: return "failed";
	case VMS_FLOW_KNOWN:
	default: return "known";
	}
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

/* ---- text ---------------------------------------------------------------------------------- */

void flow_output_value(GString *out, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value)
{
	if (value->status == VMS_FLOW_KNOWN || value->status == VMS_FLOW_CUT)
		append_known(out, probe, index, value);
	else if (vms_probe_entry_kind(probe, index) == VMS_ENTRY_TYPED)
		vms_probe_format_value(probe, index, value, out);
	else
		g_string_append_printf(out, "(%s)", status_text(value->status));
}

static bool is_stack(const struct vms_probe *probe, size_t index)
{
	return vms_probe_entry_kind(probe, index) == VMS_ENTRY_STACK;
}

void flow_output_stack(GString *out, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value)
{
	g_autoptr(GString) text = g_string_new(NULL);
	vms_probe_format_value(probe, index, value, text);
	g_auto(GStrv) frames = g_strsplit(text->str, ";", -1);
	for (char **frame = frames; *frame; frame++)
		g_string_append_printf(out, "%*s%s\n", STACK_INDENT, "", *frame);
}

/* Appends the stacks among the values of a probe. */
static void append_stacks(GString *out, const struct vms_flow_record *record,
			  const struct vms_probe *probe, get_value get)
{
	struct vms_flow_value value;
	for (size_t i = 0; probe && get(record, i, &value); i++)
		if (is_stack(probe, i))
			flow_output_stack(out, probe, i, &value);
}

/*
 * Appends the values of a probe: `begin`, then the values with `between` between them. Stacks are
 * left out: append_stacks appends them on their own lines.
 */
static void append_values(GString *out, const struct vms_flow_record *record,
			  const struct vms_probe *probe, get_value get, const char *begin,
			  const char *between)
{
	struct vms_flow_value value;
	const char *before = begin;
	for (size_t i = 0; probe && get(record, i, &value); i++) {
		if (is_stack(probe, i))
			continue;
		g_string_append_printf(out, "%s%s=", before, vms_probe_entry_name(probe, i));
		flow_output_value(out, probe, i, &value);
		before = between;
	}
}

/* Appends the values of the record's place. Arguments without other values look like a call. */
static void append_own_values(GString *out, const struct vms_flow_record *record)
{
	const struct vms_probe *probe = vms_flow_record_probe(record);
	if (!flow_spec_has_arguments(probe)) {
		append_values(out, record, probe, vms_flow_record_value, "  ", "  ");
		return;
	}
	append_values(out, record, probe, vms_flow_record_value, "(", ", ");
	g_string_append_c(out, ')');
}

char *flow_output_place(struct session *session, uint64_t va)
{
	char *name =
		session->guest ? vms_flow_name_place(session->guest, session->process, va) : NULL;
	return name ? name : g_strdup_printf("0x%" G_GINT64_MODIFIER "x", va);
}

/* Returns the name of a record's place: the saved name, or the one in the guest's symbols. */
static char *name_place(struct session *session, const struct vms_flow_record *record, uint64_t va)
{
	const char *saved = vms_flow_record_where(record);
	return saved ? g_strdup(saved) : flow_output_place(session, va);
}

static void append_text(struct session *session, const struct vms_flow_record *record,
			uint64_t begin_ns, GString *out)
{
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	g_autofree char *where = name_place(session, record, hit.va);
	g_string_append_printf(out, "%12.6f  cpu %u  ", (double)(hit.time_ns - begin_ns) / 1e9,
			       hit.vcpu);
	if (hit.has_task)
		g_string_append_printf(out, "%s %u/%u  ", hit.comm, hit.pid, hit.tid);
	g_string_append_printf(out, "%s%s", where, hit.is_after ? ":after" : "");
	append_own_values(out, record);
	append_values(out, record, vms_flow_record_common(record), vms_flow_record_common_value,
		      "  ", "  ");
	if (hit.is_call) {
		g_string_append(out, "  ->");
		append_values(out, record, vms_flow_record_returned(record),
			      vms_flow_record_returned_value, "  ", "  ");
		g_string_append_printf(out, "  %.1f us", (double)hit.duration_ns / 1e3);
	}
	g_string_append_c(out, '\n');
	append_stacks(out, record, vms_flow_record_probe(record), vms_flow_record_value);
	append_stacks(out, record, vms_flow_record_common(record), vms_flow_record_common_value);
	append_stacks(out, record, vms_flow_record_returned(record),
		      vms_flow_record_returned_value);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static bool is_number(const struct vms_probe *probe, size_t index,
		      const struct vms_flow_value *value)
{
	const enum vms_entry_kind kind = vms_probe_entry_kind(probe, index);
	return kind == VMS_ENTRY_EXPRESSION || kind == VMS_ENTRY_REGISTER ||
	       (kind == VMS_ENTRY_TYPED && value->size <= sizeof(uint64_t));
}

/* Returns the addresses of a stack, innermost first. */
static struct json_object *make_json_stack(const struct vms_flow_value *value)
{
	struct json_object *addresses = json_object_new_array();
	struct vms_stack stack;
	if (!vms_flow_value_stack(value, &stack))
		stack.n = 0;
	for (unsigned i = 0; i < stack.n; i++)
		json_object_array_add(addresses, json_address(stack.frame[i].pc));
	return addresses;
}

static struct json_object *make_json_value(const struct vms_probe *probe, size_t index,
					   const struct vms_flow_value *value)
{
	g_autoptr(GString) text = g_string_new(NULL);
	if (value->status != VMS_FLOW_KNOWN && value->status != VMS_FLOW_CUT)
		return NULL;
	if (is_stack(probe, index))
		return make_json_stack(value);
	if (vms_probe_entry_is_text(probe, index)) {
		const size_t length = strnlen(value->bytes, value->size);
		g_autofree char *valid = g_utf8_make_valid(value->bytes, (gssize)length);
		return json_object_new_string(valid);
	}
	if (is_number(probe, index, value))
		append_register(text, value);
	else
		append_bytes(text, value, "");
	return json_object_new_string(text->str);
}

/* Adds the type of a value, and the value as text. */
static void add_type(struct json_object *object, const struct vms_probe *probe, size_t index,
		     const struct vms_flow_value *value)
{
	g_autofree char *type = vms_probe_entry_type(probe, index);
	g_autoptr(GString) text = g_string_new(NULL);
	if (!type && !is_stack(probe, index))
		return;
	vms_probe_format_value(probe, index, value, text);
	if (type)
		json_object_object_add(object, "type", json_object_new_string(type));
	json_object_object_add(object, "text", json_object_new_string(text->str));
}

void flow_output_add_value(struct json_object *object, const struct vms_probe *probe, size_t index,
			   const struct vms_flow_value *value)
{
	json_object_object_add(object, "status",
			       json_object_new_string(status_text(value->status)));
	json_object_object_add(object, "value", make_json_value(probe, index, value));
	add_type(object, probe, index, value);
}

static void add_values(struct json_object *array, const struct vms_flow_record *record,
		       const struct vms_probe *probe, get_value get)
{
	struct vms_flow_value value;
	for (size_t i = 0; probe && get(record, i, &value); i++) {
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "name",
				       json_object_new_string(vms_probe_entry_name(probe, i)));
		flow_output_add_value(object, probe, i, &value);
		json_object_array_add(array, object);
	}
}

void flow_output_object(GString *out, struct json_object *object)
{
	g_string_append(out,
			json_object_to_json_string_ext(
				object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	g_string_append_c(out, '\n');
	json_object_put(object);
}

static void add_return(struct json_object *object, const struct vms_flow_record *record,
		       uint64_t duration_ns)
{
	struct json_object *values = json_object_new_array();
	add_values(values, record, vms_flow_record_returned(record),
		   vms_flow_record_returned_value);
	json_object_object_add(object, "duration_ns", json_object_new_uint64(duration_ns));
	json_object_object_add(object, "returned", values);
}

static void append_json(struct session *session, const struct vms_flow_record *record,
			uint64_t begin_ns, GString *out)
{
	struct json_object *object = json_object_new_object();
	struct json_object *values = json_object_new_array();
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	g_autofree char *where = name_place(session, record, hit.va);
	json_object_object_add(object, "sequence", json_object_new_uint64(hit.sequence));
	json_object_object_add(object, "time_ns", json_object_new_uint64(hit.time_ns - begin_ns));
	json_object_object_add(object, "address", json_address(hit.va));
	json_object_object_add(object, "where", json_object_new_string(where));
	json_object_object_add(object, "moment",
			       json_object_new_string(hit.is_call    ? "call"
						      : hit.is_after ? "after"
								     : "before"));
	json_object_object_add(object, "cpu", json_object_new_int((int)hit.vcpu));
	json_object_object_add(object, "pid", hit.has_task ? json_object_new_int64(hit.pid) : NULL);
	json_object_object_add(object, "tid", hit.has_task ? json_object_new_int64(hit.tid) : NULL);
	json_object_object_add(object, "comm",
			       hit.has_task ? json_object_new_string(hit.comm) : NULL);
	add_values(values, record, vms_flow_record_probe(record), vms_flow_record_value);
	add_values(values, record, vms_flow_record_common(record), vms_flow_record_common_value);
	json_object_object_add(object, "values", values);
	if (hit.is_call)
		add_return(object, record, hit.duration_ns);
	flow_output_object(out, object);
}

/* ---- both ---------------------------------------------------------------------------------- */

void flow_output_record(struct session *session, const struct vms_flow_record *record,
			uint64_t begin_ns, GString *out)
{
	if (session->json)
		append_json(session, record, begin_ns, out);
	else
		append_text(session, record, begin_ns, out);
}

void flow_output_counts(const struct session *session, const struct flow_count *counts, size_t n,
			GString *out)
{
	struct json_object *object = session->json ? json_object_new_object() : NULL;
	for (size_t i = 0; i < n; i++) {
		if (object)
			json_object_object_add(object, counts[i].name,
					       json_object_new_uint64(counts[i].n));
		else if (counts[i].n || i == 0)
			g_string_append_printf(out, "%s%" G_GINT64_MODIFIER "u %s", i ? ", " : "",
					       counts[i].n, counts[i].text);
	}
	if (object)
		flow_output_object(out, object);
	else
		g_string_append_c(out, '\n');
}

bool flow_output_check_file(const struct session *session, GError **error)
{
	if (!session->outputs || !session->outputs[1])
		return true;
	usage_error(error, "a trace can be saved into one file only, not into %s and %s",
		    session->outputs[0], session->outputs[1]);
	return false;
}

void flow_output_summary(struct session *session, const struct vms_flow_progress *progress,
			 GString *out)
{
	const struct flow_count counts[] = {
		{ "records", progress->records == 1 ? "hit" : "hits", progress->records },
		{ "rejected", "whose condition did not hold", progress->rejected },
		{ "unknown", "whose condition could not be evaluated", progress->unknown },
		{ "dropped", "dropped by --records", progress->dropped },
		{ "lost", "lost", progress->lost },
	};
	flow_output_counts(session, counts, G_N_ELEMENTS(counts), out);
}
