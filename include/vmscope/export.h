/* SPDX-License-Identifier: MIT */
/* Writing profiles: text, folded stacks, flame graph. All of this is for any thread. */
#pragma once

#include <vmscope/profile.h>
#include <vmscope/run_facts.h>

VMS_BEGIN_DECLS

struct vms_export_options {
	size_t size;	    /* sizeof(struct vms_export_options) */
	double min_percent; /* text: leave out nodes below this share; 0: none */
};

/* A format. All are constant and in one table. */
struct vms_exporter {
	const char *name;   /* "svg" */
	const char *suffix; /* of its files: ".svg" */
	const char *help;   /* what it is, in a few words */
	bool shows_items;   /* it shows the items of the facts: they are worth reading */
	/* Called by vms_export_text alone, with options that it has checked. */
	void (*write)(const struct vms_profile *profile, const struct vms_run_facts *facts,
		      const struct vms_export_options *options, GString *out);
};

/* All formats, `*n` of them. The first is the default. Constant. */
const struct vms_exporter *const *vms_exporters(size_t *n);
/* The format of that name. Errors: INVALID_ARGUMENT, lists them. */
const struct vms_exporter *vms_exporter_by_name(const char *name, GError **error);
/* The format that the suffix of a file's name asks for, else the default. */
const struct vms_exporter *vms_exporter_by_path(const char *path);

/*
 * Appends a profile to `out`. `facts` are those of the run that it is of. `options` may be NULL.
 * Errors: INVALID_ARGUMENT (the options).
 */
bool vms_export_text(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     GString *out, GError **error);

/*
 * Writes a profile into a file of mode 0600: written without a name, or under a temporary one
 * beside `path`, so that no half file ever has the final name. An existing file is replaced. A
 * symbolic link of another user is not followed. Errors: as above, IO, PERMISSION.
 */
bool vms_export_file(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     const char *path, GError **error);

VMS_END_DECLS
