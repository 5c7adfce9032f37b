/* SPDX-License-Identifier: MIT */
/* A sampler session: its state, its buffers, and its records of processes. Engines do the rest. */
#include "base/budget.h"
#include "base/clock.h"
#include "base/options.h"
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"
#include "sampler/engine.h"
#include <string.h>
#include <vmscope/guest.h>

/* The limit of bytes for records of processes between two reads. */
#define RECORDS_LIMIT (UINT32_C(256) << 20)

struct vms_sampler {
	const struct vms_sampler_engine *engine;
	void *engine_data;
	struct vms_sampler_config config;
	struct vms_sample_buffer *buffers; /* of each CPU */
	unsigned n_buffers;
	GByteArray *encoded; /* one sample; used by the engine's thread */
	GMutex lock;	     /* guards all below */
	GCond ended_cond;
	bool ended, has_target;
	char *failure; /* why it has ended before its targets, or NULL */
	enum vms_sampler_state state;
	GByteArray *records; /* of processes, files and mappings */
	uint64_t records_lost;
	struct vms_histogram took_ns;
	uint64_t took_sum_ns, took_min_ns;
	uint64_t begin_ns, end_ns;
};

static bool check_specification(const struct vms_sampler_options *options, GError **error)
{
	const char *fault = NULL;
	const struct vms_sample_specification *specification = options->specifications;
	if (options->n_specifications != 1 || !specification)
		fault = "a session needs exactly one sample specification";
	else if (specification->timebase != VMS_TIMEBASE_NANOSECONDS &&
		 (specification->timebase != VMS_TIMEBASE_INSTRUCTIONS || !options->guest))
		fault = "the time base of samples must be nanoseconds, or for a guest instructions";
	else if (specification->call_graph != VMS_CALL_GRAPH_FRAME_POINTERS)
		fault = "call graphs are found by frame pointers only";
	else if (specification->timebase == VMS_TIMEBASE_NANOSECONDS &&
		 specification->period < VMS_SAMPLER_PERIOD_MIN_NS)
		fault = "the period between samples must be at least 10 us";
	else if (options->buffer_size && (options->buffer_size < VMS_SAMPLER_BUFFER_MIN ||
					  options->buffer_size > VMS_SAMPLER_BUFFER_MAX))
		fault = "the buffer of a CPU must have from 4 KiB to 1 GiB";
	else if (options->depth > VMS_SAMPLER_DEPTH)
		fault = "the depth of stacks must be at most 127 frames";
	else if (options->wall && specification->timebase == VMS_TIMEBASE_INSTRUCTIONS)
		fault = "threads that wait execute no instructions";
	else if (options->wall && options->user_only)
		fault = "threads wait in the kernel: samples of the user's part alone have none";
	if (fault)
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT, fault);
	return !fault;
}

static bool make_buffers(struct vms_sampler *sampler, uint64_t size, GError **error)
{
	sampler->n_buffers = sampler->engine->count_cpus(&sampler->config);
	sampler->buffers = g_new0(struct vms_sample_buffer, sampler->n_buffers);
	for (unsigned i = 0; i < sampler->n_buffers; i++)
		if (!vms_sample_buffer_init(&sampler->buffers[i], size, error))
			return false;
	return true;
}

static struct vms_budget *make_budget(void)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .percent = VMS_BUDGET_RUNNING_PERCENT };
	return vms_budget_new(&options, NULL); /* cannot fail */
}

struct vms_sampler *vms_sampler_new(const struct vms_sampler_engine *engine,
				    const struct vms_sampler_options *options, GError **error)
{
	struct vms_sampler_options own;
	if (!vms_options_copy(options, &own, sizeof(own), "vms_sampler_options", error) ||
	    !check_specification(&own, error))
		return NULL;
	const bool counts = own.specifications->timebase == VMS_TIMEBASE_INSTRUCTIONS;
	g_autoptr(vms_sampler) sampler = g_new0(struct vms_sampler, 1);
	g_mutex_init(&sampler->lock);
	g_cond_init(&sampler->ended_cond);
	sampler->config = (struct vms_sampler_config) {
		.period_ns = counts ? 0 : own.specifications->period,
		.instructions = counts ? own.specifications->period : 0,
		.depth = own.depth ? own.depth : VMS_SAMPLER_DEPTH,
		.user_only = own.user_only,
		.wall = own.wall,
		.machine = own.machine,
		.guest = own.guest,
	};
	sampler->engine = engine;
	sampler->config.budget = own.budget ? vms_budget_ref(own.budget) : make_budget();
	if (own.machine)
		vms_machine_ref(own.machine);
	if (own.guest)
		vms_guest_ref(own.guest);
	sampler->encoded = g_byte_array_new();
	sampler->records = g_byte_array_new();
	if (!make_buffers(sampler, own.buffer_size ? own.buffer_size : VMS_SAMPLER_BUFFER, error))
		return NULL;
	sampler->engine_data = engine->open(sampler, error);
	return sampler->engine_data ? g_steal_pointer(&sampler) : NULL;
}

void vms_sampler_free(struct vms_sampler *sampler)
{
	if (!sampler)
		return;
	vms_sampler_stop(sampler, NULL);
	if (sampler->engine_data)
		sampler->engine->close(sampler->engine_data);
	for (unsigned i = 0; i < sampler->n_buffers; i++)
		vms_sample_buffer_clear(&sampler->buffers[i]);
	g_free(sampler->buffers);
	g_byte_array_unref(sampler->encoded);
	g_byte_array_unref(sampler->records);
	g_free(sampler->failure);
	vms_budget_unref(sampler->config.budget);
	vms_guest_unref(sampler->config.guest);
	g_clear_pointer(&sampler->config.machine, vms_machine_unref);
	g_mutex_clear(&sampler->lock);
	g_cond_clear(&sampler->ended_cond);
	g_free(sampler);
}

static bool refuse_state(GError **error, const char *what)
{
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_INVALID_STATE, what);
	return false;
}

bool vms_sampler_add(struct vms_sampler *sampler, const struct vms_sampler_target *target,
		     GError **error)
{
	if (vms_sampler_state(sampler) == VMS_SAMPLER_STOPPED)
		return refuse_state(error, "cannot add a target: the session has ended");
	if (!sampler->engine->add(sampler->engine_data, target, error))
		return false;
	g_mutex_lock(&sampler->lock);
	sampler->has_target = true;
	sampler->ended = false;
	g_mutex_unlock(&sampler->lock);
	return true;
}

/* Records the facts of the session. Readers need them first. */
static void record_session(struct vms_sampler *sampler)
{
	struct vms_sampler_place place = { 0 };
	sampler->engine->describe(sampler->engine_data, &place);
	struct vms_fxt_record event = vms_records_event("session", sampler->begin_ns, 0);
	vms_records_add_text(&event, "engine", sampler->engine->name);
	vms_records_add_text(&event, "system", place.system);
	vms_records_add_text(&event, "release", place.release);
	vms_records_add_text(&event, "version", place.version);
	vms_records_add_text(&event, "machine", place.machine);
	vms_records_add_text(&event, "host", place.host);
	vms_records_add_text(&event, "guest", place.guest);
	vms_records_add_text(&event, "description", place.description);
	vms_records_add_text(&event, "unwinder", place.unwinder);
	vms_records_add_number(&event, "cpus", sampler->n_buffers);
	vms_records_add_number(&event, "period", sampler->config.period_ns);
	if (sampler->config.instructions)
		vms_records_add_number(&event, "instructions", sampler->config.instructions);
	vms_records_add_number(&event, "real", (uint64_t)g_get_real_time() * 1000);
	vms_fxt_write(sampler->records, &event);
}

bool vms_sampler_start(struct vms_sampler *sampler, GError **error)
{
	g_mutex_lock(&sampler->lock);
	const bool may = sampler->state == VMS_SAMPLER_READY && sampler->has_target;
	if (may) {
		sampler->begin_ns = vms_clock_now_ns();
		record_session(sampler);
		sampler->state = VMS_SAMPLER_RUNNING;
	}
	g_mutex_unlock(&sampler->lock);
	if (!may)
		return refuse_state(error, "cannot start: the session has no target, or was "
					   "started before");
	if (sampler->engine->start(sampler->engine_data, error))
		return true;
	sampler->engine->stop(sampler->engine_data);
	g_mutex_lock(&sampler->lock);
	sampler->state = VMS_SAMPLER_READY;
	g_byte_array_set_size(sampler->records, 0);
	g_mutex_unlock(&sampler->lock);
	return false;
}

static void record_stats(struct vms_sampler *sampler)
{
	struct vms_sampler_stats stats;
	vms_sampler_get_stats(sampler, &stats);
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = { { "collected", stats.collected },
			{ "lost", stats.lost },
			{ "missed", stats.missed },
			{ "throttled", stats.throttled },
			{ "mappings lost", stats.mappings_lost },
			{ "mean", stats.sample_ns_mean },
			{ "median", stats.sample_ns_median },
			{ "min", stats.sample_ns_min },
			{ "max", stats.sample_ns_max },
			{ "elapsed", stats.elapsed_ns },
			{ "user only", stats.user_only } };
	struct vms_fxt_record event = vms_records_event("end", sampler->end_ns, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
		vms_records_add_number(&event, numbers[i].name, numbers[i].value);
	g_mutex_lock(&sampler->lock);
	vms_records_add_text(&event, "failure", sampler->failure);
	vms_fxt_write(sampler->records, &event);
	g_mutex_unlock(&sampler->lock);
}

bool vms_sampler_stop(struct vms_sampler *sampler, GError **error)
{
	g_mutex_lock(&sampler->lock);
	const bool may = sampler->state == VMS_SAMPLER_RUNNING;
	if (may) {
		sampler->state = VMS_SAMPLER_STOPPED;
		sampler->end_ns = vms_clock_now_ns();
	}
	g_mutex_unlock(&sampler->lock);
	if (!may)
		return refuse_state(error, "cannot stop: the session is not running");
	sampler->engine->stop(sampler->engine_data);
	record_stats(sampler);
	return true;
}

bool vms_sampler_wait(struct vms_sampler *sampler, uint64_t until_ns)
{
	const gint64 until_us = (gint64)(until_ns / 1000);
	g_mutex_lock(&sampler->lock);
	while (!sampler->ended && sampler->state == VMS_SAMPLER_RUNNING &&
	       g_cond_wait_until(&sampler->ended_cond, &sampler->lock, until_us))
		;
	const bool ended = sampler->ended;
	g_mutex_unlock(&sampler->lock);
	return ended;
}

enum vms_sampler_state vms_sampler_state(struct vms_sampler *sampler)
{
	g_mutex_lock(&sampler->lock);
	const enum vms_sampler_state state = sampler->state;
	g_mutex_unlock(&sampler->lock);
	return state;
}

void vms_sampler_get_stats(struct vms_sampler *sampler, struct vms_sampler_stats *ret)
{
	*ret = (struct vms_sampler_stats) { .user_only = sampler->config.user_only };
	for (unsigned i = 0; i < sampler->n_buffers; i++) {
		ret->collected += atomic_load(&sampler->buffers[i].kept);
		ret->lost += atomic_load(&sampler->buffers[i].lost);
	}
	g_mutex_lock(&sampler->lock);
	const uint64_t n = sampler->took_ns.n;
	ret->sample_ns_mean = n ? sampler->took_sum_ns / n : 0;
	ret->sample_ns_median = vms_histogram_quantile(&sampler->took_ns, 0.5);
	ret->sample_ns_min = sampler->took_min_ns;
	ret->sample_ns_max = sampler->took_ns.max;
	ret->mappings_lost = sampler->records_lost;
	if (sampler->begin_ns)
		ret->elapsed_ns = (sampler->end_ns ? sampler->end_ns : vms_clock_now_ns()) -
				  sampler->begin_ns;
	g_mutex_unlock(&sampler->lock);
	sampler->engine->add_stats(sampler->engine_data, ret);
}

char *vms_sampler_failure(struct vms_sampler *sampler)
{
	g_mutex_lock(&sampler->lock);
	char *failure = g_strdup(sampler->failure);
	g_mutex_unlock(&sampler->lock);
	return failure;
}

int vms_sampler_command_status(struct vms_sampler *sampler)
{
	return sampler->engine->command_status
		       ? sampler->engine->command_status(sampler->engine_data)
		       : -1;
}

void vms_sampler_read(struct vms_sampler *sampler, GByteArray *out)
{
	g_mutex_lock(&sampler->lock);
	if (sampler->records->len) /* another session may have written into the file meanwhile */
		vms_records_put_start(out, sampler->engine->system);
	g_byte_array_append(out, sampler->records->data, sampler->records->len);
	g_byte_array_set_size(sampler->records, 0);
	g_mutex_unlock(&sampler->lock);
	for (unsigned i = 0; i < sampler->n_buffers; i++) {
		struct vms_sample_buffer *buffer = &sampler->buffers[i];
		if (atomic_load(&buffer->written) == atomic_load(&buffer->read))
			continue;
		/* A reader of a damaged file continues here. */
		vms_records_put_start(out, sampler->engine->system);
		vms_sample_buffer_drain(buffer, out);
	}
}

/* ---- for engines ----------------------------------------------------------------- */

const struct vms_sampler_config *vms_sampler_config(struct vms_sampler *sampler)
{
	return &sampler->config;
}

static struct vms_sample_buffer *get_buffer(struct vms_sampler *sampler, uint32_t cpu)
{
	return &sampler->buffers[cpu % sampler->n_buffers];
}

void vms_sampler_lose_samples(struct vms_sampler *sampler, uint32_t cpu, uint64_t n)
{
	atomic_fetch_add(&get_buffer(sampler, cpu)->lost, n);
}

bool vms_sampler_add_sample(struct vms_sampler *sampler, const struct vms_sample_record *sample,
			    uint64_t taken_ns)
{
	g_byte_array_set_size(sampler->encoded, 0);
	vms_records_put_sample(sampler->encoded, sample);
	const bool is_kept = vms_sample_buffer_put(get_buffer(sampler, sample->vcpu),
						   sampler->encoded->data, sampler->encoded->len);
	const uint64_t took_ns = vms_clock_now_ns() - taken_ns;
	g_mutex_lock(&sampler->lock);
	vms_histogram_add(&sampler->took_ns, took_ns);
	sampler->took_sum_ns += took_ns;
	if (!sampler->took_min_ns || took_ns < sampler->took_min_ns)
		sampler->took_min_ns = took_ns;
	g_mutex_unlock(&sampler->lock);
	return is_kept;
}

static void put_record(struct vms_sampler *sampler, const struct vms_fxt_record *event)
{
	g_mutex_lock(&sampler->lock);
	if (sampler->records->len > RECORDS_LIMIT || !vms_fxt_write(sampler->records, event))
		sampler->records_lost++;
	g_mutex_unlock(&sampler->lock);
}

void vms_sampler_record_process(struct vms_sampler *sampler, uint64_t time_ns, uint32_t pid,
				uint32_t parent, const char *comm, const char *container)
{
	struct vms_fxt_record event = vms_records_event("process", time_ns, pid);
	vms_records_add_text(&event, "comm", comm);
	vms_records_add_text(&event, "container", container);
	if (parent)
		vms_records_add_number(&event, "parent", parent);
	put_record(sampler, &event);
}

void vms_sampler_record_file(struct vms_sampler *sampler, uint32_t number, const char *path,
			     const char *build_id, uint64_t stamp)
{
	struct vms_fxt_record event = vms_records_event("file", vms_clock_now_ns(), 0);
	vms_records_add_number(&event, "number", number);
	vms_records_add_text(&event, "path", path);
	if (build_id)
		vms_records_add_text(&event, "build id", build_id);
	else if (stamp)
		vms_records_add_number(&event, "stamp", stamp);
	put_record(sampler, &event);
}

void vms_sampler_record_mapping(struct vms_sampler *sampler, uint64_t time_ns, uint32_t pid,
				uint64_t start, uint64_t end, uint64_t offset, uint32_t file)
{
	struct vms_fxt_record event = vms_records_event("mapping", time_ns, pid);
	vms_records_add_number(&event, "start", start);
	vms_records_add_number(&event, "end", end);
	vms_records_add_number(&event, "offset", offset);
	vms_records_add_number(&event, "file", file);
	put_record(sampler, &event);
}

void vms_sampler_record_thread(struct vms_sampler *sampler, uint32_t pid, uint32_t tid,
			       const char *name)
{
	g_autoptr(GByteArray) record = g_byte_array_new();
	vms_records_put_thread(record, pid, tid, name);
	vms_sampler_add_records(sampler, record);
}

void vms_sampler_add_records(struct vms_sampler *sampler, const GByteArray *records)
{
	g_mutex_lock(&sampler->lock);
	if (records->len > RECORDS_LIMIT - MIN(RECORDS_LIMIT, sampler->records->len))
		sampler->records_lost++;
	else
		g_byte_array_append(sampler->records, records->data, records->len);
	g_mutex_unlock(&sampler->lock);
}

void vms_sampler_record_end(struct vms_sampler *sampler, const char *failure)
{
	g_mutex_lock(&sampler->lock);
	sampler->ended = true;
	if (failure && !sampler->failure)
		sampler->failure = g_strdup(failure);
	g_cond_broadcast(&sampler->ended_cond);
	g_mutex_unlock(&sampler->lock);
}
