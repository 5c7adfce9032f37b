/* SPDX-License-Identifier: MIT */
/* Exports of `vmscope flow`: hits by stack, in the formats of `vmscope sample`. */
#pragma once

#include "flow_tables.h"

/* What is to be exported. */
struct flow_export {
	const struct vms_exporter *format; /* of --format; NULL: each output's name tells */
	size_t stack;			   /* the entry of the key's probe */
};

/*
 * Checks what --format and --output ask for. `format` may be NULL. True without a format if there
 * is nothing to export. Errors: usage.
 */
bool flow_export_prepare(const struct session *session, const struct flow_tables *tables,
			 const char *format, struct flow_export *ret, GError **error);
/* True if the export, and not a table, is what is printed. */
bool flow_export_prints(const struct session *session, const struct flow_export *export);
/* Writes all files, and prints the export if it is to be printed. */
bool flow_export_write(struct session *session, const struct flow_export *export,
		       struct vms_flow *flow, uint64_t elapsed_ns, GError **error);
