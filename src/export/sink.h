/* SPDX-License-Identifier: MIT */
/*
 * The output of an exporter: a string or a file, optionally compressed by gzip. In some formats a
 * million samples have some hundred MiB, so the text is written in blocks as it grows. The first
 * error is kept, and all text after it is dropped.
 */
#pragma once

#include "base/budget.h"
#include "base/outfile.h"

typedef struct vms_export_sink {
	GString *text; /* exporters append here, and call vms_export_drain */
	GString *out;  /* one of these two is the target; the other one is NULL */
	struct vms_outfile *file;
	struct z_stream_s *gzip;   /* NULL: not compressed */
	struct vms_budget *budget; /* of what is written; NULL: no bound */
	GError *error;
} vms_export_sink;

/* Makes a sink for one of `out` and `file`, which the caller still owns. */
struct vms_export_sink *vms_export_sink_new(GString *out, struct vms_outfile *file, bool gzip);
void vms_export_sink_free(struct vms_export_sink *sink);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_export_sink, vms_export_sink_free)

/*
 * Writes the appended text if there is enough of it. Call it after every sample. False if there was
 * an error: more text would be dropped.
 */
bool vms_export_drain(struct vms_export_sink *sink);
/* Writes the remaining text. Errors: IO, BUDGET. */
bool vms_export_sink_finish(struct vms_export_sink *sink, GError **error);

/* Appends a number in decimal. It is fast, because numbers are most of the output. */
void vms_export_append_number(GString *out, uint64_t number);
/* Appends a time in ns as ms, with all digits. */
void vms_export_append_ms(GString *out, uint64_t ns);
