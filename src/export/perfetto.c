/* SPDX-License-Identifier: MIT */
/*
 * Perfetto's trace: a sample of each thread at its time, and on a track of each vCPU what ran
 * there. What samples refer to is written where it is needed first, so that nothing but what was
 * written already has to be remembered.
 */
#include "base/keyed_hash.h"
#include "export/export-private.h"
#include "export/protobuf.h"
#include "export/stacks.h"
#include "export/timeline.h"

/* The fields of https://github.com/google/perfetto/tree/main/protos/perfetto/trace */
enum trace_field { TRACE_PACKET = 1 };
enum packet_field {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
	PACKET_PERF_SAMPLE = 66,
	PACKET_FIRST = 87,
};
enum packet_flags { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum interned_field {
	INTERNED_FUNCTION = 5,
	INTERNED_FRAME = 6,
	INTERNED_CALLSTACK = 7,
	INTERNED_PATH = 17,
	INTERNED_MAPPING = 19,
};
enum string_field { STRING_ID = 1, STRING_TEXT = 2 };
enum frame_field { FRAME_ID = 1, FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_PC = 4 };
enum callstack_field { CALLSTACK_ID = 1, CALLSTACK_FRAMES = 2 };
enum mapping_field { MAPPING_ID = 1, MAPPING_START = 4, MAPPING_END = 5, MAPPING_PATH = 7 };
enum sample_field {
	SAMPLE_CPU = 1,
	SAMPLE_PID = 2,
	SAMPLE_TID = 3,
	SAMPLE_CALLSTACK = 4,
	SAMPLE_MODE = 5,
};
enum cpu_mode { MODE_GUEST_KERNEL = 4, MODE_GUEST_USER = 5 };
enum track_field { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4 };
enum process_field { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum thread_field { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum event_field { EVENT_TYPE = 9, EVENT_TRACK = 11, EVENT_CATEGORY = 22, EVENT_NAME = 23 };
enum event_type { EVENT_BEGIN = 1, EVENT_END = 2 };

#define SEQUENCE 1
/*
 * The process that has what no thread of the guest does: idle vCPUs, and guests of which nothing is
 * known. Its id is one more than the largest of Linux (PID_MAX_LIMIT). Its threads are the vCPUs.
 */
#define VCPUS_PID UINT64_C(4194305)

struct perfetto {
	const struct vms_profile *profile;
	const struct vms_profile_thread *threads;
	size_t n_threads;
	const struct vms_run_facts *facts;
	struct vms_export_sink *out;
	struct vms_stacks *stacks;
	bool *has_stack, *has_frame; /* by stack and by label: written already */
	bool *has_thread;	     /* by thread */
	GHashTable *mappings;	     /* from a file's name to its id */
	GArray *path;		     /* uint64_t: the frames of a stack, outermost first */
	uint64_t n_tracks;	     /* so many have an id */
	GString *packet, *message, *part;
};

/* ---- packets ---------------------------------------------------------- */

static void begin_packet(struct perfetto *trace, uint64_t time_ns)
{
	g_string_truncate(trace->packet, 0);
	vms_protobuf_append_number(trace->packet, PACKET_TIMESTAMP, time_ns);
	vms_protobuf_append_number(trace->packet, PACKET_SEQUENCE, SEQUENCE);
}

static void end_packet(struct perfetto *trace)
{
	vms_protobuf_append_message(trace->out->text, TRACE_PACKET, trace->packet);
	vms_export_drain(trace->out);
}

static void write_first_packet(struct perfetto *trace)
{
	begin_packet(trace, 0);
	vms_protobuf_append_number(trace->packet, PACKET_FLAGS, FLAG_STATE_CLEARED);
	vms_protobuf_append_number(trace->packet, PACKET_FIRST, 1);
	end_packet(trace);
}

/* ---- tracks ----------------------------------------------------------- */

/* Writes a track that has a name only. Returns its id. */
static uint64_t write_track(struct perfetto *trace, const char *name)
{
	g_string_truncate(trace->message, 0);
	vms_protobuf_append_number(trace->message, TRACK_UUID, ++trace->n_tracks);
	vms_protobuf_append_text(trace->message, TRACK_NAME, name);
	begin_packet(trace, 0);
	vms_protobuf_append_message(trace->packet, PACKET_TRACK, trace->message);
	end_packet(trace);
	return trace->n_tracks;
}

/* Names a thread, and its process if the thread is its first. */
static void name_thread(struct perfetto *trace, uint64_t pid, uint64_t tid, const char *process,
			const char *name)
{
	g_string_truncate(trace->part, 0);
	vms_protobuf_append_any_number(trace->part, PROCESS_PID, pid);
	vms_protobuf_append_text(trace->part, PROCESS_NAME, process);
	g_string_truncate(trace->message, 0);
	vms_protobuf_append_number(trace->message, TRACK_UUID, ++trace->n_tracks);
	vms_protobuf_append_message(trace->message, TRACK_PROCESS, trace->part);
	begin_packet(trace, 0);
	vms_protobuf_append_message(trace->packet, PACKET_TRACK, trace->message);
	end_packet(trace);

	g_string_truncate(trace->part, 0);
	vms_protobuf_append_any_number(trace->part, THREAD_PID, pid);
	vms_protobuf_append_any_number(trace->part, THREAD_TID, tid);
	vms_protobuf_append_text(trace->part, THREAD_NAME, name);
	g_string_truncate(trace->message, 0);
	vms_protobuf_append_number(trace->message, TRACK_UUID, ++trace->n_tracks);
	vms_protobuf_append_message(trace->message, TRACK_THREAD, trace->part);
	begin_packet(trace, 0);
	vms_protobuf_append_message(trace->packet, PACKET_TRACK, trace->message);
	end_packet(trace);
}

/* ---- what runs on a vCPU ---------------------------------------------- */

/* Returns what a vCPU did, as the name of a slice. Newly allocated. */
static char *name_slice(const struct perfetto *trace, const struct vms_profile_sample *sample)
{
	if (vms_timeline_is_idle(trace->profile, sample))
		return g_strdup("[idle]");
	return sample->thread == VMS_NO_THREAD
		       ? g_strdup("[unknown]")
		       : vms_export_thread_name(&trace->threads[sample->thread]);
}

static void write_event(struct perfetto *trace, uint64_t track, uint64_t time_ns, const char *name)
{
	g_string_truncate(trace->message, 0);
	vms_protobuf_append_number(trace->message, EVENT_TYPE, name ? EVENT_BEGIN : EVENT_END);
	vms_protobuf_append_number(trace->message, EVENT_TRACK, track);
	if (name) {
		vms_protobuf_append_text(trace->message, EVENT_CATEGORY, "vcpu");
		vms_protobuf_append_text(trace->message, EVENT_NAME, name);
	}
	begin_packet(trace, time_ns);
	vms_protobuf_append_message(trace->packet, PACKET_TRACK_EVENT, trace->message);
	end_packet(trace);
}

/* True if the second sample of a vCPU found it doing what the first did. */
static bool is_same_work(const struct perfetto *trace, const struct vms_profile_sample *a,
			 const struct vms_profile_sample *b)
{
	return a->thread == b->thread &&
	       vms_timeline_is_idle(trace->profile, a) == vms_timeline_is_idle(trace->profile, b);
}

/*
 * Writes a slice from the first sample of the same work to the next sample. Where samples were
 * missed, nobody knows what was done, and the slice ends an interval after the last one.
 */
static void write_slices(struct perfetto *trace, const struct vms_timeline *line, size_t vcpu,
			 uint64_t track)
{
	const uint64_t interval_ns = trace->facts->interval_ns;
	const size_t n = vms_timeline_length(line, vcpu);

	for (size_t i = 0; i < n && vms_export_drain(trace->out);) {
		const struct vms_profile_sample *first = vms_timeline_get_sample(line, vcpu, i);
		const struct vms_profile_sample *last = first, *next = NULL;
		if (first->time_ns == 0)
			return;
		while (++i < n && (next = vms_timeline_get_sample(line, vcpu, i))->time_ns &&
		       is_same_work(trace, first, next) &&
		       next->time_ns - last->time_ns < 2 * interval_ns)
			last = next;
		uint64_t end_ns = last->time_ns + interval_ns;
		if (i < n && next->time_ns)
			end_ns = MIN(end_ns, next->time_ns);
		g_autofree char *name = name_slice(trace, first);
		write_event(trace, track, first->time_ns, name);
		write_event(trace, track, end_ns, NULL);
	}
}

static void write_vcpus(struct perfetto *trace)
{
	g_autoptr(vms_timeline) line = vms_timeline_new_of_vcpus(trace->profile);

	for (size_t i = 0; i < line->n_tracks && vms_export_drain(trace->out); i++) {
		g_autofree char *name = g_strdup_printf("vCPU %zu", i);
		if (vms_timeline_length(line, i) == 0)
			continue;
		name_thread(trace, VCPUS_PID, VCPUS_PID + 1 + i, "vCPUs", name);
		write_slices(trace, line, i, write_track(trace, name));
	}
}

/* ---- samples ---------------------------------------------------------- */

static void append_string(struct perfetto *trace, enum interned_field field, uint64_t id,
			  const char *text)
{
	g_string_truncate(trace->part, 0);
	vms_protobuf_append_number(trace->part, STRING_ID, id);
	vms_protobuf_append_text(trace->part, STRING_TEXT, text);
	vms_protobuf_append_message(trace->message, field, trace->part);
}

/* Returns the id of a label's file. Appends it to the interned data if it is new. */
static uint64_t intern_mapping(struct perfetto *trace, const struct vms_label *label)
{
	g_autofree char *path = vms_export_file_name(label);
	guint id = GPOINTER_TO_UINT(g_hash_table_lookup(trace->mappings, path));
	if (id)
		return id;
	id = g_hash_table_size(trace->mappings) + 1;
	append_string(trace, INTERNED_PATH, id, path);
	g_string_truncate(trace->part, 0);
	vms_protobuf_append_number(trace->part, MAPPING_ID, id);
	vms_protobuf_append_number(trace->part, MAPPING_END, UINT64_MAX);
	vms_protobuf_append_number(trace->part, MAPPING_PATH, id);
	vms_protobuf_append_message(trace->message, INTERNED_MAPPING, trace->part);
	g_hash_table_insert(trace->mappings, g_steal_pointer(&path), GUINT_TO_POINTER(id));
	return id;
}

/* Appends a frame, and its function, which has the same id. */
static void intern_frame(struct perfetto *trace, uint32_t index)
{
	const struct vms_label *label = vms_profile_label(trace->profile, index);
	g_autoptr(GString) name = g_string_new(NULL);
	const uint64_t id = (uint64_t)index + 1;
	const uint64_t mapping = intern_mapping(trace, label);

	vms_export_append_name(name, label);
	append_string(trace, INTERNED_FUNCTION, id, name->str);
	g_string_truncate(trace->part, 0);
	vms_protobuf_append_number(trace->part, FRAME_ID, id);
	vms_protobuf_append_number(trace->part, FRAME_FUNCTION, id);
	vms_protobuf_append_number(trace->part, FRAME_MAPPING, mapping);
	/* Frames of one file are told apart by this: where addresses are none, by the label. */
	vms_protobuf_append_number(trace->part, FRAME_PC, label->va ? label->va : id);
	vms_protobuf_append_message(trace->message, INTERNED_FRAME, trace->part);
	trace->has_frame[index] = true;
}

/* Appends a stack and its frames to the interned data of the packet, if they are new. */
static void intern_stack(struct perfetto *trace, uint32_t stack)
{
	const struct vms_tree_node *nodes = trace->stacks->tree->nodes;

	if (trace->has_stack[stack])
		return;
	trace->has_stack[stack] = true;
	g_string_truncate(trace->message, 0);
	g_array_set_size(trace->path, 0);
	for (uint32_t i = stack; i != VMS_TREE_ROOT; i = nodes[i].parent) {
		uint64_t id = nodes[i].key.value + 1;
		if (!trace->has_frame[id - 1])
			intern_frame(trace, (uint32_t)id - 1);
		g_array_append_val(trace->path, id);
	}
	uint64_t *ids = (uint64_t *)(void *)trace->path->data;
	for (guint i = 0; i < trace->path->len / 2; i++) {
		uint64_t id = ids[i];
		ids[i] = ids[trace->path->len - 1 - i];
		ids[trace->path->len - 1 - i] = id;
	}
	g_string_truncate(trace->part, 0);
	vms_protobuf_append_number(trace->part, CALLSTACK_ID, (uint64_t)stack + 1);
	for (guint i = 0; i < trace->path->len; i++)
		vms_protobuf_append_number(trace->part, CALLSTACK_FRAMES, ids[i]);
	vms_protobuf_append_message(trace->message, INTERNED_CALLSTACK, trace->part);
	vms_protobuf_append_message(trace->packet, PACKET_INTERNED, trace->message);
}

/* Writes a sample of a thread, or of a vCPU if no thread ran. */
static void write_sample(struct perfetto *trace, const struct vms_profile_sample *sample)
{
	const struct vms_profile_thread *thread =
		sample->thread == VMS_NO_THREAD ? NULL : &trace->threads[sample->thread];
	const uint32_t stack = vms_stacks_get(trace->stacks, sample);
	uint64_t pid = VCPUS_PID, tid = VCPUS_PID + 1 + sample->vcpu;

	if (thread && !thread->is_idle && !vms_timeline_is_idle(trace->profile, sample)) {
		pid = thread->pid;
		tid = thread->tid;
		if (!trace->has_thread[sample->thread])
			name_thread(trace, pid, tid, thread->comm, thread->comm);
		trace->has_thread[sample->thread] = true;
	}
	begin_packet(trace, sample->time_ns);
	vms_protobuf_append_number(trace->packet, PACKET_FLAGS, FLAG_NEEDS_STATE);
	if (stack != VMS_TREE_ROOT)
		intern_stack(trace, stack);
	g_string_truncate(trace->message, 0);
	vms_protobuf_append_any_number(trace->message, SAMPLE_CPU, sample->vcpu);
	vms_protobuf_append_any_number(trace->message, SAMPLE_PID, pid);
	vms_protobuf_append_any_number(trace->message, SAMPLE_TID, tid);
	if (stack != VMS_TREE_ROOT) {
		const bool is_user = vms_stacks_label(trace->stacks, stack)->is_user;
		vms_protobuf_append_number(trace->message, SAMPLE_CALLSTACK, (uint64_t)stack + 1);
		vms_protobuf_append_number(trace->message, SAMPLE_MODE,
					   is_user ? MODE_GUEST_USER : MODE_GUEST_KERNEL);
	}
	vms_protobuf_append_message(trace->packet, PACKET_PERF_SAMPLE, trace->message);
	end_packet(trace);
}

static void write_perfetto(const struct vms_profile *profile, const struct vms_run_facts *facts,
			   const struct vms_export_options *options G_GNUC_UNUSED,
			   struct vms_export_sink *out)
{
	size_t n;
	const struct vms_profile_sample *samples = vms_profile_samples(profile, &n);
	struct perfetto trace = {
		.profile = profile,
		.facts = facts,
		.out = out,
		.stacks = vms_stacks_new(profile, false),
		.has_frame = g_new0(bool, vms_export_count_labels(profile)),
		.mappings = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL),
		.path = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
		.packet = g_string_new(NULL),
		.message = g_string_new(NULL),
		.part = g_string_new(NULL),
	};

	trace.threads = vms_profile_threads(profile, &trace.n_threads);
	trace.has_thread = g_new0(bool, trace.n_threads);
	trace.has_stack = g_new0(bool, trace.stacks->tree->n_nodes);
	write_first_packet(&trace);
	write_vcpus(&trace);
	for (size_t i = 0; i < n && samples[i].time_ns && vms_export_drain(out); i++)
		write_sample(&trace, &samples[i]);
	g_string_free(trace.part, TRUE);
	g_string_free(trace.message, TRUE);
	g_string_free(trace.packet, TRUE);
	g_array_unref(trace.path);
	g_hash_table_unref(trace.mappings);
	g_free(trace.has_stack);
	g_free(trace.has_thread);
	g_free(trace.has_frame);
	vms_stacks_free(trace.stacks);
}

const struct vms_exporter vms_exporter_perfetto = {
	.name = "perfetto",
	.suffix = ".pftrace",
	.help = "samples of threads over time, and what ran on each vCPU, for ui.perfetto.dev",
	.is_binary = true,
	.needs_times = true,
	.write = write_perfetto,
};
