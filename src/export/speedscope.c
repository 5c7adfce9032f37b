/* SPDX-License-Identifier: MIT */
/*
 * speedscope's own format: a profile for each vCPU, then one for each thread. Consecutive samples
 * with the same stack are written as one.
 */
#include "export/export-private.h"
#include "export/json.h"
#include "export/stacks.h"
#include "export/timeline.h"
#include <inttypes.h>

struct speedscope {
	const struct vms_profile *profile;
	const struct vms_run_facts *facts;
	struct vms_stacks *stacks;
	struct vms_export_sink *out;
	GArray *path;	 /* uint32_t: the frames of a sample, leaf first */
	GArray *weights; /* uint64_t: of the samples of a profile */
	bool is_first;	 /* no profile has been written yet */
};

static void write_frames(struct speedscope *file)
{
	GString *out = file->out->text;
	size_t n = vms_export_count_labels(file->profile);

	g_string_append(out, "\"shared\":{\"frames\":[");
	for (uint32_t i = 0; i < n; i++) {
		const struct vms_label *label = vms_profile_label(file->profile, i);
		g_autoptr(GString) name = g_string_new(NULL);
		g_autofree char *where = vms_export_file_name(label);
		vms_export_append_name(name, label);
		g_string_append(out, i ? ",\n{\"name\":" : "\n{\"name\":");
		vms_export_append_json_string(out, name->str);
		g_string_append(out, ",\"file\":");
		vms_export_append_json_string(out, label->source ? label->source : where);
		if (label->source && label->line)
			g_string_append_printf(out, ",\"line\":%u", label->line);
		g_string_append_c(out, '}');
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append(out, "]},\n\"profiles\":[");
}

/*
 * Writes the frames of a stack. Those of a thread omit the process, which is in the thread's name.
 */
static void write_stack(struct speedscope *file, bool with_process, uint32_t stack)
{
	const struct vms_tree_node *nodes = file->stacks->tree->nodes;
	GString *out = file->out->text;

	g_array_set_size(file->path, 0);
	for (; stack != VMS_TREE_ROOT; stack = nodes[stack].parent) {
		uint32_t label = (uint32_t)nodes[stack].key.value;
		if (with_process ||
		    vms_profile_label(file->profile, label)->kind != VMS_LABEL_PROCESS)
			g_array_append_val(file->path, label);
	}
	g_string_append(out, file->weights->len ? ",\n[" : "\n[");
	for (guint i = file->path->len; i-- > 0;) {
		vms_export_append_number(out, g_array_index(file->path, uint32_t, i));
		if (i)
			g_string_append_c(out, ',');
	}
	g_string_append_c(out, ']');
}

/* Writes the stacks of a track, and keeps their weights. Returns the sum of the weights. */
static uint64_t write_stacks(struct speedscope *file, bool with_process,
			     const struct vms_timeline *line, size_t track)
{
	uint32_t last = VMS_TREE_ROOT;
	uint64_t sum = 0;

	g_array_set_size(file->weights, 0);
	const size_t n = vms_timeline_length(line, track);
	for (size_t i = 0; i < n && vms_export_drain(file->out); i++) {
		const struct vms_profile_sample *sample = vms_timeline_get_sample(line, track, i);
		uint32_t stack = vms_stacks_get(file->stacks, sample);
		uint64_t weight = sample->weight * MAX(file->facts->interval_ns, 1);
		sum += weight;
		if (stack == last && file->weights->len) {
			g_array_index(file->weights, uint64_t, file->weights->len - 1) += weight;
			continue;
		}
		write_stack(file, with_process, stack);
		g_array_append_val(file->weights, weight);
		last = stack;
	}
	return sum;
}

static void write_profile(struct speedscope *file, const char *name, bool with_process,
			  const struct vms_timeline *line, size_t track)
{
	GString *out = file->out->text;

	g_string_append(out, file->is_first ? "\n" : ",\n");
	file->is_first = false;
	g_string_append(out, "{\"type\":\"sampled\",\"name\":");
	vms_export_append_json_string(out, name);
	g_string_append_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[",
			       file->facts->interval_ns ? "nanoseconds" : "none");
	uint64_t sum = write_stacks(file, with_process, line, track);
	g_string_append(out, "],\n\"weights\":[");
	for (guint i = 0; i < file->weights->len; i++) {
		if (i)
			g_string_append_c(out, ',');
		vms_export_append_number(out, g_array_index(file->weights, uint64_t, i));
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append_printf(out, "],\"endValue\":%" PRIu64 "}", sum);
}

static void write_vcpus(struct speedscope *file)
{
	g_autoptr(vms_timeline) line = vms_timeline_new_of_vcpus(file->profile);

	for (size_t i = 0; i < line->n_tracks && vms_export_drain(file->out); i++) {
		g_autofree char *name = g_strdup_printf("vCPU %zu", i);
		if (vms_timeline_length(line, i))
			write_profile(file, name, true, line, i);
	}
}

static void write_threads(struct speedscope *file)
{
	size_t n;
	const struct vms_profile_thread *threads = vms_profile_threads(file->profile, &n);
	g_autoptr(vms_timeline) line = vms_timeline_new_of_threads(file->profile);

	for (size_t i = 0; i < line->n_tracks && vms_export_drain(file->out); i++) {
		g_autofree char *name = vms_export_thread_name(&threads[i]);
		if (vms_timeline_length(line, i))
			write_profile(file, name, false, line, i);
	}
}

static void write_speedscope(const struct vms_profile *profile, const struct vms_run_facts *facts,
			     const struct vms_export_options *options G_GNUC_UNUSED,
			     struct vms_export_sink *out)
{
	struct speedscope file = {
		.profile = profile,
		.facts = facts,
		.stacks = vms_stacks_new(profile, true),
		.out = out,
		.path = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
		.weights = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
		.is_first = true,
	};

	g_string_append(out->text,
			"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
			"\"exporter\":\"vmscope " VMS_VERSION
			"\",\"activeProfileIndex\":0,\"name\":");
	vms_export_append_json_string(out->text, facts->title);
	g_string_append(out->text, ",\n");
	write_frames(&file);
	write_vcpus(&file);
	write_threads(&file);
	g_string_append(out->text, "]}\n");
	g_array_unref(file.path);
	g_array_unref(file.weights);
	vms_stacks_free(file.stacks);
}

const struct vms_exporter vms_exporter_speedscope = {
	.name = "speedscope",
	.suffix = ".speedscope.json",
	.help = "a profile of each vCPU and thread for speedscope",
	.write = write_speedscope,
};
