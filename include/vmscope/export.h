/* SPDX-License-Identifier: MIT */
/* Writing sample reports: text, folded stacks, flame graph. */
#pragma once

#include <vmscope/sample.h>

G_BEGIN_DECLS

enum vms_format {
	VMS_FORMAT_TEXT,   /* call trees and functions, then the machine's facts */
	VMS_FORMAT_FOLDED, /* frame;frame;frame COUNT, for flamegraph.pl, speedscope … */
	VMS_FORMAT_SVG,	   /* an interactive flame graph in one file */
};
/* The format called `name` ("text", "folded", "svg"). Errors: INVALID_ARGUMENT, lists them. */
bool vms_format_by_name(const char *name, enum vms_format *ret, GError **error);

struct vms_export_options {
	unsigned profile_flags;	  /* enum vms_profile_flags */
	const char *const *facts; /* NULL-terminated items for the text report; NULL: the default */
	double min_percent;	  /* text: leave out nodes below this share; 0: none */
};

/* The report as text of the given format. Errors: INVALID_STATE as vms_sample_report_profile. */
GString *vms_export(struct vms_sample_report *report, enum vms_format format,
		    const struct vms_export_options *options, GError **error);
/*
 * The same into a file of mode 0600: written without a name, or under a temporary one beside
 * `path`, so that no half file ever has the final name. An existing file is replaced. A symbolic
 * link of another user is not followed. Errors: IO, PERMISSION and those of vms_export.
 */
bool vms_export_file(struct vms_sample_report *report, enum vms_format format,
		     const struct vms_export_options *options, const char *path, GError **error);

G_END_DECLS
