/* SPDX-License-Identifier: MIT */
/* Writes profiles in the formats of many viewers. All of this is for any thread. */
#pragma once

#include <vmscope/budget.h>
#include <vmscope/comparison.h>
#include <vmscope/profile.h>
#include <vmscope/run_facts.h>

VMS_BEGIN_DECLS

struct vms_export_options {
	size_t size;	    /* sizeof(struct vms_export_options) */
	double min_percent; /* text: leaves out nodes with a smaller share; 0: none */
	/*
	 * Shows how the profile has changed, in formats that compare. The profile is the second one
	 * of the comparison. NULL: no comparison.
	 */
	const struct vms_comparison *comparison;
	/* Bounds the output, as a few bytes of foreign data may become many. NULL: no bound. */
	struct vms_budget *budget;
};

struct vms_export_sink;

/* A format. All formats are constant and in one table. */
struct vms_exporter {
	const char *name;   /* "svg" */
	const char *suffix; /* end of its files' names: ".svg" */
	const char *help;   /* what it is, in a few words */
	bool shows_items;   /* it shows the items of the facts, so they should be read before */
	bool is_binary;	    /* nothing for a terminal */
	bool is_gzip;	    /* always compressed, as its readers expect it */
	bool needs_times;   /* it leaves out samples whose time is not known */
	bool compares;	    /* it can show a comparison */
	/*
	 * Writes the profile. Only the functions below call it, after they have checked the
	 * options.
	 */
	void (*write)(const struct vms_profile *profile, const struct vms_run_facts *facts,
		      const struct vms_export_options *options, struct vms_export_sink *out);
};

/* Returns all formats, `*n` of them. The first is the default. The table is constant. */
const struct vms_exporter *const *vms_exporters(size_t *n);
/* Returns the format of that name. Errors: INVALID_ARGUMENT, with a list of all formats. */
const struct vms_exporter *vms_exporter_by_name(const char *name, GError **error);
/*
 * Returns the format that the end of a file's name chooses, or else the default. A name that ends
 * in
 * ".gz" chooses what it would without that.
 */
const struct vms_exporter *vms_exporter_by_path(const char *path);

/*
 * Appends a profile to `out`. `facts` are those of the profile's run. `options` may be NULL.
 * Errors: INVALID_ARGUMENT (the options, or the format cannot show a comparison), BUDGET.
 */
bool vms_export_text(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     GString *out, GError **error);

/*
 * Writes a profile into a file of mode 0600. Until it is complete, the file has no name or a
 * temporary one beside `path`, so that `path` is never half a file. An existing file is replaced. A
 * symbolic link of another user is not followed. A file whose name ends in ".gz" is compressed.
 * Errors: as above, IO, PERMISSION.
 */
bool vms_export_file(const struct vms_exporter *exporter, const struct vms_profile *profile,
		     const struct vms_run_facts *facts, const struct vms_export_options *options,
		     const char *path, GError **error);

VMS_END_DECLS
