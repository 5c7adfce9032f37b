/* SPDX-License-Identifier: MIT */
/*
 * The processed format of the Firefox Profiler: a track for each vCPU, with its idle time, and then
 * one for each thread. Version 61 of the format is the newest that Perfetto reads too, and newer
 * front ends upgrade it.
 * https://github.com/firefox-devtools/profiler/blob/main/docs-developer/CHANGELOG-formats.md
 */
#include "base/keyed_hash.h"
#include "export/export-private.h"
#include "export/json.h"
#include "export/stacks.h"
#include "export/timeline.h"
#include <inttypes.h>

#define VERSION 61

/* Indices of the categories below. The colour "transparent" makes a category count as idle. */
enum category { CATEGORY_OTHER, CATEGORY_IDLE, CATEGORY_KERNEL, CATEGORY_MODULE, CATEGORY_USER };

static const char categories[] =
	"[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Idle\",\"color\":\"transparent\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Kernel module\",\"color\":\"red\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]}]";

struct firefox {
	const struct vms_profile *profile;
	const struct vms_run_facts *facts;
	struct vms_export_sink *out;
	struct vms_timeline_span span;
	struct vms_stacks *stacks;
	size_t n_labels;
	GHashTable *ids;     /* from a string to its index + 1 */
	GPtrArray *texts;    /* the strings by index; owned by `ids` */
	uint32_t *names;     /* the index of each label's name */
	GArray *files;	     /* uint32_t: the strings of the files */
	uint32_t *resources; /* the index in `files` of each label's file */
	bool has_threads;    /* at least one thread was written */
};

static enum category get_category(const struct vms_label *label)
{
	switch (label->kind) {
	case VMS_LABEL_IDLE: return CATEGORY_IDLE;
	case VMS_LABEL_PROCESS:
	case VMS_LABEL_MARKER: return CATEGORY_OTHER;
	case VMS_LABEL_FUNCTION:
	case VMS_LABEL_ADDRESS: break;
	}
	return label->is_user ? CATEGORY_USER : label->module ? CATEGORY_MODULE : CATEGORY_KERNEL;
}

/* Returns the index of a string. Takes the string. */
static uint32_t intern_string(struct firefox *file, char *text)
{
	guint id = GPOINTER_TO_UINT(g_hash_table_lookup(file->ids, text));

	if (id) {
		g_free(text);
		return id - 1;
	}
	g_ptr_array_add(file->texts, text);
	g_hash_table_insert(file->ids, text, GUINT_TO_POINTER(file->texts->len));
	return file->texts->len - 1;
}

static void name_labels(struct firefox *file)
{
	g_autoptr(GHashTable) known = g_hash_table_new(vms_hash_direct, NULL);

	for (uint32_t i = 0; i < file->n_labels; i++) {
		const struct vms_label *label = vms_profile_label(file->profile, i);
		GString *name = g_string_new(NULL);
		vms_export_append_name(name, label);
		file->names[i] = intern_string(file, g_string_free(name, FALSE));
		uint32_t text = intern_string(file, vms_export_file_name(label));
		gpointer key = GUINT_TO_POINTER(text);
		guint id = GPOINTER_TO_UINT(g_hash_table_lookup(known, key));
		if (!id) {
			g_array_append_val(file->files, text);
			id = file->files->len;
			g_hash_table_insert(known, key, GUINT_TO_POINTER(id));
		}
		file->resources[i] = id - 1;
	}
}

/* ---- tables ----------------------------------------------------------- */

/* Writes the value of row `i` of a column. */
typedef void (*write_value)(const struct firefox *file, GString *out, uint32_t i);

static void write_column(struct firefox *file, const char *name, uint32_t length, write_value write)
{
	GString *out = file->out->text;

	g_string_append_printf(out, "\"%s\":[", name);
	for (uint32_t i = 0; i < length; i++) {
		if (i)
			g_string_append_c(out, ',');
		write(file, out, i);
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append(out, "],\n");
}

/* Writes a column that has the same value in every row. */
static void write_constants(struct firefox *file, const char *name, uint32_t length,
			    const char *value)
{
	g_string_append_printf(file->out->text, "\"%s\":[", name);
	for (uint32_t i = 0; i < length; i++) {
		g_string_append(file->out->text, i ? "," : "");
		g_string_append(file->out->text, value);
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append(file->out->text, "],\n");
}

static void write_index(const struct firefox *file G_GNUC_UNUSED, GString *out, uint32_t i)
{
	vms_export_append_number(out, i);
}

static void write_text(const struct firefox *file, GString *out, uint32_t i)
{
	vms_export_append_json_string(out, g_ptr_array_index(file->texts, i));
}

static void write_name(const struct firefox *file, GString *out, uint32_t label)
{
	vms_export_append_number(out, file->names[label]);
}

static void write_resource(const struct firefox *file, GString *out, uint32_t label)
{
	vms_export_append_number(out, file->resources[label]);
}

static void write_line(const struct firefox *file, GString *out, uint32_t label)
{
	const struct vms_label *l = vms_profile_label(file->profile, label);
	if (l->source && l->line)
		vms_export_append_number(out, l->line);
	else
		g_string_append(out, "null");
}

static void write_category(const struct firefox *file, GString *out, uint32_t label)
{
	vms_export_append_number(out, get_category(vms_profile_label(file->profile, label)));
}

static void write_file(const struct firefox *file, GString *out, uint32_t i)
{
	vms_export_append_number(out, g_array_index(file->files, uint32_t, i));
}

static void write_frame(const struct firefox *file, GString *out, uint32_t stack)
{
	vms_export_append_number(out, file->stacks->tree->nodes[stack].key.value);
}

static void write_prefix(const struct firefox *file, GString *out, uint32_t stack)
{
	uint32_t parent = file->stacks->tree->nodes[stack].parent;
	if (parent == VMS_TREE_ROOT)
		g_string_append(out, "null");
	else
		vms_export_append_number(out, parent);
}

static void begin_table(struct firefox *file, const char *name)
{
	g_string_append_printf(file->out->text, "\"%s\":{", name);
}

static void end_table(struct firefox *file, uint32_t length, const char *end)
{
	g_string_append_printf(file->out->text, "\"length\":%" PRIu32 "}%s\n", length, end);
}

/* A label is one function and one frame. */
static void write_functions(struct firefox *file)
{
	const uint32_t n = (uint32_t)file->n_labels;

	begin_table(file, "funcTable");
	write_column(file, "name", n, write_name);
	write_constants(file, "isJS", n, "false");
	write_constants(file, "relevantForJS", n, "false");
	write_column(file, "resource", n, write_resource);
	write_constants(file, "source", n, "null");
	write_column(file, "lineNumber", n, write_line);
	write_constants(file, "columnNumber", n, "null");
	end_table(file, n, ",");
	begin_table(file, "frameTable");
	write_constants(file, "address", n, "-1");
	write_constants(file, "inlineDepth", n, "0");
	write_column(file, "category", n, write_category);
	write_constants(file, "subcategory", n, "0");
	write_column(file, "func", n, write_index);
	write_constants(file, "nativeSymbol", n, "null");
	write_constants(file, "innerWindowID", n, "null");
	write_column(file, "line", n, write_line);
	write_constants(file, "column", n, "null");
	end_table(file, n, ",");
}

static void write_shared(struct firefox *file)
{
	g_string_append(file->out->text, "\"shared\":{\n");
	write_column(file, "stringArray", file->texts->len, write_text);
	write_functions(file);
	begin_table(file, "resourceTable");
	write_column(file, "name", file->files->len, write_file);
	write_constants(file, "host", file->files->len, "null");
	write_constants(file, "type", file->files->len, "1"); /* a library */
	write_column(file, "lib", file->files->len, write_index);
	end_table(file, file->files->len, ",");
	begin_table(file, "stackTable");
	write_column(file, "frame", file->stacks->tree->n_nodes, write_frame);
	write_column(file, "prefix", file->stacks->tree->n_nodes, write_prefix);
	end_table(file, file->stacks->tree->n_nodes, ",");
	g_string_append(
		file->out->text,
		"\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
		"\"functionSize\":[],\"length\":0},\n"
		"\"sources\":{\"id\":[],\"filename\":[],\"startLine\":[],\"startColumn\":[],"
		"\"sourceMapURL\":[],\"length\":0}},\n");
}

/* ---- the head --------------------------------------------------------- */

static void write_meta(struct firefox *file)
{
	GString *out = file->out->text;
	const struct vms_run_facts *facts = file->facts;

	g_string_append(out, "{\"meta\":{\"interval\":");
	vms_export_append_ms(out, MAX(facts->interval_ns, 1));
	g_string_append(out, ",\"startTime\":");
	vms_export_append_ms(out, (uint64_t)MAX(facts->begin_utc_ns, 0));
	g_string_append(out, ",\"product\":");
	vms_export_append_json_string(out, facts->title);
	g_string_append_printf(
		out,
		",\n\"preprocessedProfileVersion\":%d,\"version\":24,\"processType\":0,"
		"\"stackwalk\":1,\"debug\":false,\"importedFrom\":\"vmscope " VMS_VERSION "\","
		"\"symbolicated\":true,\"usesOnlyOneStackType\":true,"
		"\"sourceCodeIsNotOnSearchfox\":true,\"keepProfileThreadOrder\":true,"
		"\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},"
		"\"markerSchema\":[],\n\"categories\":%s},\n",
		VERSION, categories);
}

/* Writes the files, to which functions refer. Only their names are known. */
static void write_libs(struct firefox *file)
{
	GString *out = file->out->text;

	g_string_append(out, "\"libs\":[");
	for (guint i = 0; i < file->files->len && vms_export_drain(file->out); i++) {
		const char *path =
			g_ptr_array_index(file->texts, g_array_index(file->files, uint32_t, i));
		const char *slash = strrchr(path, '/');
		const char *name = slash && slash[1] ? slash + 1 : path;
		g_string_append(out,
				i ? ",\n{\"arch\":\"\",\"name\":" : "\n{\"arch\":\"\",\"name\":");
		vms_export_append_json_string(out, name);
		g_string_append(out, ",\"path\":");
		vms_export_append_json_string(out, path);
		g_string_append(out, ",\"debugName\":");
		vms_export_append_json_string(out, name);
		g_string_append(out, ",\"debugPath\":");
		vms_export_append_json_string(out, path);
		g_string_append(out, ",\"breakpadId\":\"\",\"codeId\":null}");
	}
	g_string_append(out, "],\n");
}

/* ---- threads ---------------------------------------------------------- */

/* A track, which the profiler calls a thread. */
struct track {
	const char *name, *process;
	uint32_t pid, tid;
	bool is_main;
	const struct vms_timeline *line;
	size_t index;
};

static void write_samples(struct firefox *file, const struct track *track)
{
	GString *out = file->out->text;
	size_t n = vms_timeline_length(track->line, track->index);
	bool weighted = false;

	g_string_append(out, "\"samples\":{\"stack\":[");
	for (size_t i = 0; i < n; i++) {
		const struct vms_profile_sample *sample =
			vms_timeline_get_sample(track->line, track->index, i);
		uint32_t stack = vms_stacks_get(file->stacks, sample);
		weighted |= sample->weight > 1;
		if (i)
			g_string_append_c(out, ',');
		if (stack == VMS_TREE_ROOT)
			g_string_append(out, "null");
		else
			vms_export_append_number(out, stack);
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append(out, "],\n\"time\":[");
	for (size_t i = 0; i < n; i++) {
		const struct vms_profile_sample *sample =
			vms_timeline_get_sample(track->line, track->index, i);
		if (i)
			g_string_append_c(out, ',');
		vms_export_append_ms(out, vms_timeline_get_time(&file->span, sample) -
						  file->span.begin_ns);
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append(out, "],\n\"threadCPUDelta\":[");
	for (size_t i = 0; i < n; i++) {
		const struct vms_profile_sample *sample =
			vms_timeline_get_sample(track->line, track->index, i);
		bool idle = vms_timeline_is_idle(file->profile, sample);
		if (i)
			g_string_append_c(out, ',');
		vms_export_append_number(out, idle ? 0 : file->facts->interval_ns);
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append(out, weighted ? "],\n\"weight\":[" : "],\n\"weight\":null");
	for (size_t i = 0; weighted && i < n; i++) {
		if (i)
			g_string_append_c(out, ',');
		vms_export_append_number(
			out, vms_timeline_get_sample(track->line, track->index, i)->weight);
		if (!vms_export_drain(file->out))
			break;
	}
	g_string_append_printf(out, "%s,\"weightType\":\"samples\",\"length\":%zu},\n",
			       weighted ? "]" : "", n);
}

static void write_track(struct firefox *file, const struct track *track)
{
	GString *out = file->out->text;

	if (vms_timeline_length(track->line, track->index) == 0)
		return;
	g_string_append(out, file->has_threads ? ",\n{\"name\":" : "\n{\"name\":");
	file->has_threads = true;
	vms_export_append_json_string(out, track->name);
	g_string_append(out, ",\"processName\":");
	vms_export_append_json_string(out, track->process);
	g_string_append_printf(out,
			       ",\"pid\":\"%" PRIu32 "\",\"tid\":%" PRIu32
			       ",\"isMainThread\":%s,\"processType\":\"default\","
			       "\"processStartupTime\":0,\"processShutdownTime\":null,"
			       "\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\n",
			       track->pid, track->tid, track->is_main ? "true" : "false");
	write_samples(file, track);
	g_string_append(out, "\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],"
			     "\"endTime\":[],\"phase\":[],\"category\":[],\"length\":0}}");
}

/* Writes the tracks of vCPUs. Their process id is 0, which only idle tasks of a guest have. */
static void write_vcpus(struct firefox *file)
{
	g_autoptr(vms_timeline) line = vms_timeline_new_of_vcpus(file->profile);

	for (size_t i = 0; i < line->n_tracks && vms_export_drain(file->out); i++) {
		g_autofree char *name = g_strdup_printf("vCPU %zu", i);
		const struct track track = {
			.name = name,
			.process = "vCPUs",
			.tid = (uint32_t)i,
			.line = line,
			.index = i,
		};
		write_track(file, &track);
	}
}

static void write_threads(struct firefox *file)
{
	size_t n;
	const struct vms_profile_thread *threads = vms_profile_threads(file->profile, &n);
	g_autoptr(vms_timeline) line = vms_timeline_new_of_threads(file->profile);

	for (size_t i = 0; i < line->n_tracks && vms_export_drain(file->out); i++) {
		g_autofree char *name = vms_export_thread_name(&threads[i]);
		const struct track track = {
			.name = name,
			.process = threads[i].comm ? threads[i].comm : "[unknown]",
			.pid = threads[i].pid,
			.tid = threads[i].tid,
			.is_main = threads[i].tid == threads[i].pid,
			.line = line,
			.index = i,
		};
		write_track(file, &track);
	}
}

static void write_firefox(const struct vms_profile *profile, const struct vms_run_facts *facts,
			  const struct vms_export_options *options G_GNUC_UNUSED,
			  struct vms_export_sink *out)
{
	size_t n = vms_export_count_labels(profile);
	struct firefox file = {
		.profile = profile,
		.facts = facts,
		.out = out,
		.span = vms_timeline_get_span(profile, facts),
		.stacks = vms_stacks_new(profile, true),
		.n_labels = n,
		.ids = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL),
		.texts = g_ptr_array_new(),
		.names = g_new(uint32_t, n),
		.files = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
		.resources = g_new(uint32_t, n),
	};

	name_labels(&file);
	write_meta(&file);
	write_libs(&file);
	write_shared(&file);
	g_string_append(out->text, "\"threads\":[");
	write_vcpus(&file);
	write_threads(&file);
	g_string_append(out->text, "]}\n");
	g_free(file.resources);
	g_array_unref(file.files);
	g_free(file.names);
	g_ptr_array_unref(file.texts);
	g_hash_table_unref(file.ids);
	vms_stacks_free(file.stacks);
}

const struct vms_exporter vms_exporter_firefox = {
	.name = "firefox",
	.suffix = ".json",
	.help = "a timeline of vCPUs and threads for the Firefox Profiler",
	.write = write_firefox,
};
