/* SPDX-License-Identifier: MIT */
/* Writing profiles: text, folded stacks, flame graph. */
#pragma once

#include <vmscope/profile.h>
#include <vmscope/run_facts.h>

VMS_BEGIN_DECLS

struct vms_export_options {
	double min_percent; /* text: leave out nodes below this share; 0: none */
};

/* A format. All are constant and in one table. */
struct vms_exporter {
	const char *name;   /* "svg" */
	const char *suffix; /* of its files: ".svg" */
	const char *help;   /* what it is, in a few words */
	bool shows_items;   /* it shows the items of the facts: they are worth reading */
	/* Appends the profile to `out`. `facts` are those of the run that it is of. */
	void (*write)(const struct vms_profile *profile, const struct vms_run_facts *facts,
		      const struct vms_export_options *options, GString *out);
};

/* The formats in the order of the table; NULL beyond the last. The first is the default. */
const struct vms_exporter *vms_exporter_get(size_t index);
/* The format of that name. Errors: INVALID_ARGUMENT, lists them. */
const struct vms_exporter *vms_exporter_by_name(const char *name, GError **error);
/* The format that the suffix of a file's name asks for, else the default. */
const struct vms_exporter *vms_exporter_by_path(const char *path);

/*
 * Writes a profile into a file of mode 0600: written without a name, or under a temporary one
 * beside `path`, so that no half file ever has the final name. An existing file is replaced. A
 * symbolic link of another user is not followed. Errors: IO, PERMISSION.
 */
bool vms_export_file(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     const char *path, GError **error);

VMS_END_DECLS
