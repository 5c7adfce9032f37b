/* SPDX-License-Identifier: MIT */
/* Exports hits by stack of `vmscope flow` in the formats of `vmscope sample`. */
#pragma once

#include "flow_tables.h"

/* What to export. */
struct flow_export {
	const struct vms_exporter *format; /* of --format; NULL: by the name of each output */
	size_t stack;			   /* the index of its entry in the key's probe */
};

/*
 * Checks --format and --output. `format` may be NULL. If there is nothing to export, returns true,
 * with `ret->format` NULL. Errors: usage.
 */
bool flow_export_prepare(const struct session *session, const struct flow_tables *tables,
			 const char *format, struct flow_export *ret, GError **error);
/* True if the export is printed instead of a table. */
bool flow_export_prints(const struct session *session, const struct flow_export *export);
/* Writes all files, and prints the export if flow_export_prints. */
bool flow_export_write(struct session *session, const struct flow_export *export,
		       struct vms_flow *flow, uint64_t elapsed_ns, GError **error);
