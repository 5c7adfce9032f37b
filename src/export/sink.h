/* SPDX-License-Identifier: MIT */
/*
 * Where an exporter writes: into a string or a file, through gzip if that is wanted. A million
 * samples are some hundred MiB in some formats, so that text is passed on as it grows. The first
 * error is kept, and all text after it is dropped.
 */
#pragma once

#include "base/outfile.h"

typedef struct vms_export_sink {
	GString *text; /* exporters append here, and drain it now and then */
	GString *out;  /* one of these two gets it; the other one is NULL */
	struct vms_outfile *file;
	struct z_stream_s *gzip; /* NULL: not compressed */
	GError *error;
} vms_export_sink;

/* Makes a sink of one of `out` and `file`, which stay the caller's. */
struct vms_export_sink *vms_export_sink_new(GString *out, struct vms_outfile *file, bool gzip);
void vms_export_sink_free(struct vms_export_sink *sink);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_export_sink, vms_export_sink_free)

/* Passes on what was appended, once it is worth it. Call it after every sample. */
void vms_export_drain(struct vms_export_sink *sink);
/* Passes on all that is left. Errors: IO. */
bool vms_export_sink_finish(struct vms_export_sink *sink, GError **error);

/* Appends a number in decimal. Numbers are most of what is written, and this is quick. */
void vms_export_number(GString *out, uint64_t number);
/* Appends a number of ns as ms, with all its digits. */
void vms_export_ms(GString *out, uint64_t ns);
