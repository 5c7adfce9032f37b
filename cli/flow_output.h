/* SPDX-License-Identifier: MIT */
/* Shows records of a flow trace, as text or as JSON, a line each. */
#pragma once

#include "session.h"

struct json_object;

/* Appends a record. `begin_ns`: times are counted from it. */
void flow_output_record(struct session *session, const struct vms_flow_record *record,
			uint64_t begin_ns, GString *out);
/* Appends a JSON object, and frees it. */
void flow_output_object(GString *out, struct json_object *object);
/* Checks that at most one file is to be written. Errors: usage. */
bool flow_output_check_file(const struct session *session, GError **error);
/* Appends what has happened in all. */
void flow_output_summary(struct session *session, const struct vms_flow_progress *progress,
			 GString *out);
