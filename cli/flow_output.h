/* SPDX-License-Identifier: MIT */
/* Shows records of a flow trace, as text or as JSON, a line each. */
#pragma once

#include "session.h"
#include <json-c/json.h>

struct json_object;

/* Appends a record. `begin_ns`: times are counted from it. */
void flow_output_record(struct session *session, const struct vms_flow_record *record,
			uint64_t begin_ns, GString *out);
/* Checks that at most one file is to be written. Errors: usage. */
bool flow_output_check_file(const struct session *session, GError **error);
/* Appends what has happened in all. */
void flow_output_summary(struct session *session, const struct vms_flow_progress *progress,
			 GString *out);

/* The next are for those who show values of probes in another way. */

/* Returns the name of a place, or its address. Newly allocated. */
char *flow_output_place(struct session *session, uint64_t va);
/* Appends the value of a probe's entry, or why there is none, for people. */
void flow_output_value(GString *out, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value);
/* Appends the value of an entry of kind STACK, a line for each frame. */
void flow_output_stack(GString *out, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value);
/*
 * Adds "status" and "value" to an object; if it has a type, "type" and "text", too. The value of a
 * stack is an array of its addresses, with their names in "text".
 */
void flow_output_add_value(struct json_object *object, const struct vms_probe *probe, size_t index,
			   const struct vms_flow_value *value);
/* Appends an object as a line, and frees it. */
void flow_output_object(GString *out, struct json_object *object);

/* A count of a summary. Those of 0 are not shown as text, but for the first. */
struct flow_count {
	const char *name, *text;
	uint64_t n;
};
void flow_output_counts(const struct session *session, const struct flow_count *counts, size_t n,
			GString *out);
