/* SPDX-License-Identifier: MIT */
/* Formats records of a flow trace as text or JSON, one per line. */
#pragma once

#include "session.h"
#include <json-c/json.h>

struct json_object;

/* Appends a record. Times are relative to `begin_ns`. */
void flow_output_record(struct session *session, const struct vms_flow_record *record,
			uint64_t begin_ns, GString *out);
/* Checks that there is at most one --output. Errors: usage. */
bool flow_output_check_file(const struct session *session, GError **error);
/* Appends the counts of all hits. */
void flow_output_summary(struct session *session, const struct vms_flow_progress *progress,
			 GString *out);

/* The next functions are for other outputs of probes' values. */

/* Returns the name of a place, or its address if it has none. Newly allocated. */
char *flow_output_place(struct session *session, uint64_t va);
/* Appends the value of a probe's entry as text, or the reason why it is missing. */
void flow_output_value(GString *out, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value);
/* Appends the value of an entry of kind STACK, one line per frame. */
void flow_output_stack(GString *out, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value);
/*
 * Adds "status" and "value" of a value to an object. If the value has a type, it adds "type" and
 * "text", too. The value of a stack is an array of addresses, with their names in "text".
 */
void flow_output_add_value(struct json_object *object, const struct vms_probe *probe, size_t index,
			   const struct vms_flow_value *value);
/* Appends an object as a line, and frees it. */
void flow_output_object(GString *out, struct json_object *object);

/* A count of a summary. As text, counts of 0 are left out, except for the first one. */
struct flow_count {
	const char *name, *text;
	uint64_t n;
};
void flow_output_counts(const struct session *session, const struct flow_count *counts, size_t n,
			GString *out);
