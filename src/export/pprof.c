/* SPDX-License-Identifier: MIT */
/*
 * pprof's profile.proto, compressed. A sample of it stands for all samples of a stack, a vCPU and a
 * thread, which its labels tell. Frames are code alone: a process is no frame but a label.
 */
#include "base/keyed_hash.h"
#include "export/export-private.h"
#include "export/protobuf.h"
#include "export/stacks.h"
#include <string.h>

/* The fields of https://github.com/google/pprof/blob/main/proto/profile.proto */
enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NS = 9,
	PROFILE_DURATION_NS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
};
enum value_type_field { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum sample_field { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES = 2, SAMPLE_LABEL = 3 };
enum label_field { LABEL_KEY = 1, LABEL_TEXT = 2, LABEL_NUMBER = 3, LABEL_UNIT = 4 };
enum mapping_field {
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_FILE = 5,
	MAPPING_HAS_FUNCTIONS = 7,
};
enum location_field {
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
};
enum line_field { LINE_FUNCTION = 1, LINE_NUMBER = 2 };
enum function_field { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILE = 4 };

/* A file, and the addresses in it that were seen. */
struct mapping {
	uint64_t file; /* index of its name */
	uint64_t start, limit;
};

struct pprof {
	const struct vms_profile *profile;
	const struct vms_run_facts *facts;
	struct vms_export_sink *out;
	struct vms_stacks *stacks;
	GHashTable *strings;  /* from a string to its index */
	GPtrArray *texts;     /* the strings by index; owned by `strings` */
	GHashTable *mappings; /* from the index of a file's name to the id */
	GArray *maps;	      /* struct mapping; that of id 1 first */
	uint32_t *locations;  /* the id of each label's location, or 0 */
	GArray *labels;	      /* uint32_t: the label of each location; that of id 1 first */
	GArray *path;	      /* uint64_t: the locations of a sample */
	GString *message, *part;
};

static uint64_t intern_string(struct pprof *pprof, const char *text)
{
	gpointer found;

	if (g_hash_table_lookup_extended(pprof->strings, text, NULL, &found))
		return GPOINTER_TO_UINT(found);
	char *copy = g_utf8_make_valid(text, -1);
	g_hash_table_insert(pprof->strings, copy, GUINT_TO_POINTER(pprof->texts->len));
	g_ptr_array_add(pprof->texts, copy);
	return pprof->texts->len - 1;
}

static void begin_message(GString *message)
{
	g_string_truncate(message, 0);
}

/* Ends the message that was begun as a field of the profile. */
static void end_message(struct pprof *pprof, enum profile_field field)
{
	vms_protobuf_append_message(pprof->out->text, field, pprof->message);
	vms_export_drain(pprof->out);
}

static void write_value_type(struct pprof *pprof, enum profile_field field, const char *type,
			     const char *unit)
{
	begin_message(pprof->message);
	vms_protobuf_append_number(pprof->message, VALUE_TYPE, intern_string(pprof, type));
	vms_protobuf_append_number(pprof->message, VALUE_UNIT, intern_string(pprof, unit));
	end_message(pprof, field);
}

/* A halted vCPU is sampled like a busy one, so time is wall-clock time. Hits have no time. */
static void write_head(struct pprof *pprof)
{
	const struct vms_run_facts *facts = pprof->facts;
	GString *text = pprof->out->text;

	write_value_type(pprof, PROFILE_SAMPLE_TYPE, "samples", "count");
	if (facts->interval_ns) {
		write_value_type(pprof, PROFILE_SAMPLE_TYPE, "wall", "nanoseconds");
		write_value_type(pprof, PROFILE_PERIOD_TYPE, "wall", "nanoseconds");
		vms_protobuf_append_number(text, PROFILE_PERIOD, facts->interval_ns);
	}
	vms_protobuf_append_number(text, PROFILE_TIME_NS, (uint64_t)facts->begin_utc_ns);
	vms_protobuf_append_number(text, PROFILE_DURATION_NS, facts->elapsed_ns);
	vms_protobuf_append_number(text, PROFILE_COMMENT, intern_string(pprof, facts->title));
}

/* ---- samples ---------------------------------------------------------- */

static uint64_t get_location(struct pprof *pprof, uint32_t label)
{
	if (!pprof->locations[label]) {
		g_array_append_val(pprof->labels, label);
		pprof->locations[label] = pprof->labels->len;
	}
	return pprof->locations[label];
}

static void add_label(struct pprof *pprof, const char *key, const char *text, uint64_t number)
{
	begin_message(pprof->part);
	vms_protobuf_append_number(pprof->part, LABEL_KEY, intern_string(pprof, key));
	if (text) {
		vms_protobuf_append_number(pprof->part, LABEL_TEXT, intern_string(pprof, text));
	} else {
		vms_protobuf_append_number(pprof->part, LABEL_NUMBER, number);
		vms_protobuf_append_number(pprof->part, LABEL_UNIT, intern_string(pprof, "id"));
	}
	vms_protobuf_append_message(pprof->message, SAMPLE_LABEL, pprof->part);
}

static void add_labels(struct pprof *pprof, const struct vms_profile_sample *sample)
{
	size_t n;
	const struct vms_profile_thread *threads = vms_profile_threads(pprof->profile, &n);
	g_autofree char *vcpu = g_strdup_printf("vcpu%u", sample->vcpu);

	add_label(pprof, "vcpu", vcpu, 0);
	if (sample->thread == VMS_NO_THREAD)
		return;
	if (threads[sample->thread].comm)
		add_label(pprof, "comm", threads[sample->thread].comm, 0);
	add_label(pprof, "pid", NULL, threads[sample->thread].pid);
	add_label(pprof, "tid", NULL, threads[sample->thread].tid);
}

static void write_sample(struct pprof *pprof, const struct vms_profile_sample *sample,
			 uint64_t weight)
{
	const struct vms_tree_node *nodes = pprof->stacks->tree->nodes;
	const uint64_t values[] = { weight, weight * pprof->facts->interval_ns };

	g_array_set_size(pprof->path, 0);
	for (uint32_t i = vms_stacks_get(pprof->stacks, sample); i != VMS_TREE_ROOT;
	     i = nodes[i].parent) {
		uint64_t location = get_location(pprof, (uint32_t)nodes[i].key.value);
		g_array_append_val(pprof->path, location);
	}
	begin_message(pprof->message);
	vms_protobuf_append_packed(pprof->message, SAMPLE_LOCATIONS,
				   (const uint64_t *)(const void *)pprof->path->data,
				   pprof->path->len);
	vms_protobuf_append_packed(pprof->message, SAMPLE_VALUES, values,
				   pprof->facts->interval_ns ? 2 : 1);
	add_labels(pprof, sample);
	end_message(pprof, PROFILE_SAMPLE);
}

static int compare_samples(const void *a, const void *b, void *data G_GNUC_UNUSED)
{
	const struct vms_profile_sample *x = a, *y = b;
	if (x->vcpu != y->vcpu)
		return x->vcpu < y->vcpu ? -1 : 1;
	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* Writes what differs in neither stack nor labels as one sample. */
static void write_samples(struct pprof *pprof)
{
	size_t n;
	const struct vms_profile_sample *samples = vms_profile_samples(pprof->profile, &n);
	g_autofree struct vms_profile_sample *sorted = g_memdup2(samples, n * sizeof(*samples));

	g_qsort_with_data(sorted, (gint)n, sizeof(*sorted), compare_samples, NULL);
	for (size_t i = 0; i < n && vms_export_drain(pprof->out);) {
		const struct vms_profile_sample *first = &sorted[i];
		uint64_t weight = 0;
		while (i < n && compare_samples(first, &sorted[i], NULL) == 0)
			weight += sorted[i++].weight;
		write_sample(pprof, first, weight);
	}
}

/* ---- what samples refer to -------------------------------------------- */

static uint64_t get_mapping(struct pprof *pprof, const struct vms_label *label)
{
	g_autofree char *name = vms_export_file_name(label);
	uint64_t file = intern_string(pprof, name);
	gpointer key = GUINT_TO_POINTER((guint)file);
	guint id = GPOINTER_TO_UINT(g_hash_table_lookup(pprof->mappings, key));

	if (!id) {
		struct mapping mapping = { file, UINT64_MAX, 0 };
		g_array_append_val(pprof->maps, mapping);
		id = pprof->maps->len;
		g_hash_table_insert(pprof->mappings, key, GUINT_TO_POINTER(id));
	}
	struct mapping *mapping = &g_array_index(pprof->maps, struct mapping, id - 1);
	mapping->start = MIN(mapping->start, label->va);
	mapping->limit = MAX(mapping->limit, label->va < UINT64_MAX ? label->va + 1 : label->va);
	return id;
}

/* Writes a location and its function, which have one id. Each needs a function with a name. */
static void write_location(struct pprof *pprof, uint64_t id, const struct vms_label *label)
{
	g_autoptr(GString) name = g_string_new(NULL);
	bool is_code = label->kind == VMS_LABEL_FUNCTION || label->kind == VMS_LABEL_ADDRESS;

	begin_message(pprof->part);
	vms_protobuf_append_number(pprof->part, LINE_FUNCTION, id);
	vms_protobuf_append_number(pprof->part, LINE_NUMBER, label->line);
	begin_message(pprof->message);
	vms_protobuf_append_number(pprof->message, LOCATION_ID, id);
	if (is_code) {
		vms_protobuf_append_number(pprof->message, LOCATION_MAPPING,
					   get_mapping(pprof, label));
		vms_protobuf_append_number(pprof->message, LOCATION_ADDRESS, label->va);
	}
	vms_protobuf_append_message(pprof->message, LOCATION_LINE, pprof->part);
	end_message(pprof, PROFILE_LOCATION);

	/* By address, the location has the offset, and the function is the same for all. */
	if (label->name)
		g_string_assign(name, label->name);
	else
		vms_export_append_name(name, label);
	begin_message(pprof->message);
	vms_protobuf_append_number(pprof->message, FUNCTION_ID, id);
	vms_protobuf_append_number(pprof->message, FUNCTION_NAME, intern_string(pprof, name->str));
	if (label->source)
		vms_protobuf_append_number(pprof->message, FUNCTION_FILE,
					   intern_string(pprof, label->source));
	end_message(pprof, PROFILE_FUNCTION);
}

/* Without has_functions, pprof reads files of its own host that have the same names. */
static void write_mapping(struct pprof *pprof, uint64_t id, const struct mapping *mapping)
{
	begin_message(pprof->message);
	vms_protobuf_append_number(pprof->message, MAPPING_ID, id);
	vms_protobuf_append_number(pprof->message, MAPPING_START, mapping->start);
	vms_protobuf_append_number(pprof->message, MAPPING_LIMIT, mapping->limit);
	vms_protobuf_append_number(pprof->message, MAPPING_FILE, mapping->file);
	vms_protobuf_append_number(pprof->message, MAPPING_HAS_FUNCTIONS, 1);
	end_message(pprof, PROFILE_MAPPING);
}

static void write_tables(struct pprof *pprof)
{
	for (guint i = 0; i < pprof->labels->len && vms_export_drain(pprof->out); i++)
		write_location(pprof, i + 1,
			       vms_profile_label(pprof->profile,
						 g_array_index(pprof->labels, uint32_t, i)));
	for (guint i = 0; i < pprof->maps->len && vms_export_drain(pprof->out); i++)
		write_mapping(pprof, i + 1, &g_array_index(pprof->maps, struct mapping, i));
	for (guint i = 0; i < pprof->texts->len && vms_export_drain(pprof->out); i++) {
		g_string_assign(pprof->message, g_ptr_array_index(pprof->texts, i));
		end_message(pprof, PROFILE_STRING);
	}
}

static void write_pprof(const struct vms_profile *profile, const struct vms_run_facts *facts,
			const struct vms_export_options *options G_GNUC_UNUSED,
			struct vms_export_sink *out)
{
	struct pprof pprof = {
		.profile = profile,
		.facts = facts,
		.out = out,
		.stacks = vms_stacks_new(profile, false),
		.strings = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL),
		.texts = g_ptr_array_new(),
		.mappings = g_hash_table_new(vms_hash_direct, NULL),
		.maps = g_array_new(FALSE, FALSE, sizeof(struct mapping)),
		.locations = g_new0(uint32_t, vms_export_count_labels(profile)),
		.labels = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
		.path = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
		.message = g_string_new(NULL),
		.part = g_string_new(NULL),
	};

	intern_string(&pprof, ""); /* the first string is the empty one */
	write_head(&pprof);
	write_samples(&pprof);
	write_tables(&pprof);
	g_string_free(pprof.part, TRUE);
	g_string_free(pprof.message, TRUE);
	g_array_unref(pprof.path);
	g_array_unref(pprof.labels);
	g_free(pprof.locations);
	g_array_unref(pprof.maps);
	g_hash_table_unref(pprof.mappings);
	g_ptr_array_unref(pprof.texts);
	g_hash_table_unref(pprof.strings);
	vms_stacks_free(pprof.stacks);
}

const struct vms_exporter vms_exporter_pprof = {
	.name = "pprof",
	.suffix = ".pb.gz",
	.help = "a profile for pprof, Parca and Pyroscope",
	.is_binary = true,
	.is_gzip = true,
	.write = write_pprof,
};
