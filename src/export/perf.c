/* SPDX-License-Identifier: MIT */
/*
 * The text of `perf script`, which many programs read. Each of them has its own regular
 * expressions, so a name must not look like another part of a line.
 */
#include "export/export-private.h"
#include "export/stacks.h"
#include "export/timeline.h"
#include <inttypes.h>
#include <string.h>

struct script {
	const struct vms_profile *profile;
	const struct vms_run_facts *facts;
	struct vms_timeline_span span;
	struct vms_stacks *stacks;
	GPtrArray *lines; /* by label: the line of a frame, or NULL */
	GPtrArray *comms; /* by thread: the begin of its samples' lines */
};

/* Replaces characters that readers take for the end of a name. */
static void replace_chars(char *text, const char *chars, char by)
{
	for (; *text; text++)
		if (g_ascii_iscntrl(*text) || strchr(chars, *text))
			*text = by;
}

/* Appends a symbol without semicolons, and without text that looks like the file after it. */
static void append_symbol(GString *out, const struct vms_label *label)
{
	g_autoptr(GString) name = g_string_new(NULL);

	vms_export_append_name(name, label);
	replace_chars(name->str, ";", ':');
	for (size_t i = 0; i < name->len; i++)
		if (name->str[i] == ' ' && (i + 1 == name->len || strchr(" (", name->str[i + 1])))
			name->str[i] = '_';
	if (strchr(" (", name->str[0])) /* an empty name, too */
		g_string_prepend_c(name, '_');
	g_string_append(out, name->str);
}

/* Returns the line of a label's frames. Newly allocated. */
static char *make_line(const struct vms_label *label)
{
	GString *line = g_string_new(NULL);
	bool is_code = label->kind == VMS_LABEL_FUNCTION || label->kind == VMS_LABEL_ADDRESS;
	g_autofree char *file = vms_export_file_name(label);

	replace_chars(file, " ();", '_');
	g_string_append_printf(line, "\t%16" PRIx64 " ", is_code ? label->va : 0);
	append_symbol(line, label);
	g_string_append_printf(line, " (%s)\n", file);
	return g_string_free(line, FALSE);
}

static const char *get_line(struct script *script, uint32_t label)
{
	char *line = g_ptr_array_index(script->lines, label);

	if (!line) {
		line = make_line(vms_profile_label(script->profile, label));
		script->lines->pdata[label] = line;
	}
	return line;
}

/* Makes the begin of a thread's lines: "md5sum   123/124   ". Replaces blanks in the name. */
static char *make_comm(const struct vms_profile_thread *thread)
{
	g_autofree char *comm =
		g_strdup(thread->comm && *thread->comm ? thread->comm : "[unknown]");

	replace_chars(comm, " ", '_');
	replace_chars(comm, ";", ':');
	if (comm[0] == '#') /* a comment */
		comm[0] = '_';
	return g_strdup_printf("%s   %" PRIu32 "/%" PRIu32 "   ", comm, thread->pid, thread->tid);
}

static GPtrArray *make_comms(const struct vms_profile *profile)
{
	size_t n;
	const struct vms_profile_thread *threads = vms_profile_threads(profile, &n);
	GPtrArray *comms = g_ptr_array_new_with_free_func(g_free);

	for (size_t i = 0; i < n; i++)
		g_ptr_array_add(comms, make_comm(&threads[i]));
	return comms;
}

static void write_sample(struct script *script, const struct vms_profile_sample *sample,
			 GString *out)
{
	static const struct vms_profile_thread idle = { .comm = "swapper" }, unknown = { 0 };
	const struct vms_tree_node *nodes = script->stacks->tree->nodes;
	uint64_t us = vms_timeline_get_time(&script->span, sample) / 1000;
	const uint64_t interval_ns = script->facts->interval_ns,
		       instructions = script->facts->interval_instructions;

	if (sample->thread != VMS_NO_THREAD) {
		g_string_append(out, g_ptr_array_index(script->comms, sample->thread));
	} else {
		bool is_idle = vms_timeline_is_idle(script->profile, sample);
		g_autofree char *comm = make_comm(is_idle ? &idle : &unknown);
		g_string_append(out, comm);
	}
	g_string_append_printf(out, "[%03u]  %" PRIu64 ".%06" PRIu64 ":   %" PRIu64 " %s: \n",
			       sample->vcpu, us / 1000000, us % 1000000,
			       sample->weight * MAX(instructions ? instructions : interval_ns, 1),
			       instructions  ? "instructions"
			       : interval_ns ? "cpu-clock"
					     : "hits");
	for (uint32_t i = vms_stacks_get(script->stacks, sample); i != VMS_TREE_ROOT;
	     i = nodes[i].parent)
		g_string_append(out, get_line(script, (uint32_t)nodes[i].key.value));
	g_string_append_c(out, '\n');
}

static void write_perf(const struct vms_profile *profile, const struct vms_run_facts *facts,
		       const struct vms_export_options *options G_GNUC_UNUSED,
		       struct vms_export_sink *out)
{
	size_t n;
	const struct vms_profile_sample *samples = vms_profile_samples(profile, &n);
	struct script script = {
		.profile = profile,
		.facts = facts,
		.span = vms_timeline_get_span(profile, facts),
		.stacks = vms_stacks_new(profile, false),
		.lines = g_ptr_array_new_with_free_func(g_free),
		.comms = make_comms(profile),
	};

	g_ptr_array_set_size(script.lines, (gint)vms_export_count_labels(profile));
	for (size_t i = 0; i < n; i++) {
		write_sample(&script, &samples[i], out->text);
		if (!vms_export_drain(out))
			break;
	}
	g_ptr_array_unref(script.comms);
	g_ptr_array_unref(script.lines);
	vms_stacks_free(script.stacks);
}

const struct vms_exporter vms_exporter_perf = {
	.name = "perf",
	.suffix = ".perf",
	.help = "the text of \"perf script\", for FlameGraph, hotspot and many others",
	.write = write_perf,
};
