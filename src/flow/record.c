/* SPDX-License-Identifier: MIT */
#include "flow/record.h"
#include "base/bytes.h"
#include "base/text.h"
#include "guest/processes.h"
#include "probe/program_writer.h"
#include <string.h>
#include <vmscope/log.h>

#define COMM_BYTES 16 /* of task_struct.comm */

enum { TASK_TID, TASK_PID, TASK_COMM, N_TASK_VALUES }; /* the values of the task, in order */

struct vms_flow_record {
	gatomicrefcount refs;
	uint32_t size;	   /* bytes of the values, and of the texts after them */
	uint32_t texts_at; /* bytes of the values alone */
	uint64_t sequence, time_ns;
	struct vms_flow_place *place;
	uint32_t vcpu;
	/* Bit n: the n-th callback has failed. */
	uint32_t failed, common_failed, returned_failed;
	uint8_t values[]; /* as the program has collected them; then texts, if it was saved */
};

/* ---- places ----------------------------------------------------------------------------- */

/* Appends what takes a task's address, and collects its tid and pid. */
static void add_ids(const struct vms_task_layout *layout, GArray *ops)
{
	if (layout->pid == layout->tid + sizeof(uint32_t)) {
		/* As all kernels have it: by one read. */
		vms_program_load(ops, sizeof(uint64_t), layout->tid);
		vms_program_do(ops, VMS_OP_DUPLICATE);
		vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint32_t), 0);
		vms_program_push(ops, 32);
		vms_program_do(ops, VMS_OP_SHIFT_RIGHT);
	} else {
		vms_program_do(ops, VMS_OP_DUPLICATE);
		vms_program_load(ops, sizeof(uint32_t), layout->tid);
		vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint32_t), 0);
		vms_program_load(ops, sizeof(uint32_t), layout->pid);
	}
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint32_t), 0);
}

/* Appends operations that collect the current task. False if the guest has no tasks. */
static bool add_task(struct vms_guest *guest, GArray *ops)
{
	struct vms_task_layout layout;
	if (!guest || !vms_guest_task_layout(guest, &layout) || !vms_guest_add_current(guest, ops))
		return false;
	vms_program_do(ops, VMS_OP_DUPLICATE);
	add_ids(&layout, ops);
	vms_program_push(ops, layout.comm);
	vms_program_do(ops, VMS_OP_ADD);
	vms_program_add(ops, VMS_OP_COLLECT_MEMORY, COMM_BYTES, 0);
	return true;
}

static bool make_program(const GArray *ops, const struct vms_arch *arch, struct vms_program *ret,
			 GError **error)
{
	ret->ops = (const struct vms_op *)(const void *)ops->data;
	ret->n = ops->len;
	if (vms_program_check(ret, arch->n_regs))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "the values of a probe and of the common probe are too many for one hit");
	return false;
}

/* Appends operations that collect the values of a hit. */
static void add_values(struct vms_flow_place *place, struct vms_guest *guest,
		       const struct vms_aggregation *aggregation)
{
	if (aggregation) {
		vms_aggregation_add_values(aggregation, place->va, place->ops);
		return;
	}
	place->has_task = add_task(guest, place->ops);
	vms_probe_add_values(place->probe, place->ops);
	if (place->common)
		vms_probe_add_values(place->common, place->ops);
}

/* Finds the numbers of the raw values of stacks among all values of a hit. */
static void find_stacks(struct vms_flow_place *place, const struct vms_aggregation *aggregation)
{
	g_autoptr(GArray) stacks = g_array_new(FALSE, FALSE, sizeof(unsigned));
	unsigned number = place->has_task ? N_TASK_VALUES : 0;
	if (aggregation) {
		vms_aggregation_find_stacks(aggregation, place->arch, stacks);
	} else {
		number = vms_probe_find_stacks(place->probe, number, stacks);
		if (place->common)
			number = vms_probe_find_stacks(place->common, number, stacks);
		if (place->returned)
			vms_probe_find_stacks(place->returned, number + 1, stacks);
	}
	g_clear_pointer(&place->stacks, g_array_unref);
	if (stacks->len)
		place->stacks = g_steal_pointer(&stacks);
}

/* True if the program uses the time since a call. */
static bool has_duration(const struct vms_program *program)
{
	for (size_t i = 0; i < program->n; i++)
		if (program->ops[i].code == VMS_OP_ELAPSED)
			return true;
	return false;
}

bool vms_flow_place_check(const struct vms_flow_place *place, GError **error)
{
	if (!has_duration(&place->program))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "\"duration\" is only known at the return of a function whose calls are "
		    "followed");
	return false;
}

/* Checks that the probes have no entries if hits are aggregated. */
static bool check_probes(const struct vms_probe *probe, const struct vms_probe *common,
			 const struct vms_aggregation *aggregation, GError **error)
{
	if (!aggregation ||
	    (vms_probe_entries(probe) == 0 && (!common || vms_probe_entries(common) == 0)))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "a flow that aggregates cannot collect values: remove the entries of its "
		    "probes");
	return false;
}

struct vms_flow_place *vms_flow_place_new(const struct vms_arch *arch, struct vms_guest *guest,
					  uint64_t va, bool is_after, struct vms_probe *probe,
					  struct vms_probe *common,
					  const struct vms_aggregation *aggregation, GError **error)
{
	if (!check_probes(probe, common, aggregation, error))
		return NULL;
	struct vms_flow_place *place = g_new0(struct vms_flow_place, 1);
	g_atomic_ref_count_init(&place->refs);
	place->va = va;
	place->is_after = is_after;
	place->arch = arch;
	place->probe = vms_probe_ref(probe);
	place->common = common ? vms_probe_ref(common) : NULL;
	place->ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	vms_probe_add_condition(probe, place->ops);
	if (common)
		vms_probe_add_condition(common, place->ops);
	place->n_conditions = place->ops->len;
	add_values(place, guest, aggregation);
	find_stacks(place, aggregation);
	if (make_program(place->ops, arch, &place->program, error))
		return place;
	vms_flow_place_unref(place);
	return NULL;
}

bool vms_flow_place_follow(struct vms_flow_place *place, const struct vms_arch *arch,
			   struct vms_probe *returned, const struct vms_aggregation *aggregation,
			   GError **error)
{
	GArray *ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	place->returned = vms_probe_ref(returned);
	place->return_ops = ops;
	vms_probe_add_condition(returned, ops);
	if (aggregation) {
		place->program.n = place->n_conditions; /* nothing is collected at the call */
		vms_aggregation_add_values(aggregation, place->va, ops);
		return check_probes(returned, NULL, aggregation, error) &&
		       make_program(ops, arch, &place->return_program, error);
	}
	vms_program_do(ops, VMS_OP_ELAPSED);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	vms_probe_add_values(returned, ops);
	find_stacks(place, NULL);
	return make_program(ops, arch, &place->return_program, error);
}

struct vms_flow_place *vms_flow_place_new_saved(const struct vms_flow_saved_place *saved)
{
	struct vms_flow_place *place = g_new0(struct vms_flow_place, 1);
	g_atomic_ref_count_init(&place->refs);
	place->va = saved->va;
	place->is_after = saved->is_after;
	place->has_task = saved->has_task;
	place->probe = vms_probe_ref(saved->probe);
	place->common = saved->common ? vms_probe_ref(saved->common) : NULL;
	place->returned = saved->returned ? vms_probe_ref(saved->returned) : NULL;
	place->ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	place->name = g_strdup(saved->name);
	return place;
}

struct vms_flow_place *vms_flow_place_ref(struct vms_flow_place *place)
{
	g_atomic_ref_count_inc(&place->refs);
	return place;
}

void vms_flow_place_unref(struct vms_flow_place *place)
{
	if (!g_atomic_ref_count_dec(&place->refs))
		return;
	vms_probe_unref(place->probe);
	vms_probe_unref(place->common);
	vms_probe_unref(place->returned);
	g_array_unref(place->ops);
	if (place->return_ops)
		g_array_unref(place->return_ops);
	if (place->stacks)
		g_array_unref(place->stacks);
	g_free(place->name);
	g_free(place);
}

/* ---- values ------------------------------------------------------------------------------ */

bool vms_flow_find_value(const uint8_t *values, size_t size, unsigned number,
			 struct vms_value_head *head, const uint8_t **bytes)
{
	size_t at = 0;
	for (unsigned i = 0;; i++) {
		if (size - at < sizeof(*head))
			return false;
		memcpy(head, values + at, sizeof(*head));
		at += sizeof(*head);
		if (head->size > size - at || head->status >= VMS_VALUE_COUNT)
			return false;
		*bytes = values + at;
		at += head->size;
		if (i == number)
			return true;
	}
}

/* Gets the size of `n` values. False if values are missing. */
static bool measure_values(const uint8_t *values, size_t size, unsigned n, uint32_t *ret)
{
	struct vms_value_head head;
	const uint8_t *bytes = values;
	head.size = 0;
	if (n > 0 && !vms_flow_find_value(values, size, n - 1, &head, &bytes))
		return false;
	*ret = n > 0 ? (uint32_t)(bytes + head.size - values) : 0;
	return *ret <= VMS_HIT_VALUES_MAX;
}

/* Finds the text of a value by its number among all texts that were saved. */
static void find_text(const struct vms_flow_record *record, unsigned number,
		      struct vms_flow_value *ret)
{
	const struct vms_bytes all = { record->values + record->texts_at,
				       record->size - record->texts_at };
	struct vms_bytes text = { 0 };
	uint64_t at = 0;
	uint32_t size;
	for (unsigned i = 0; i <= number; i++) {
		if (!vms_bytes_u32(all, at, &size) ||
		    !vms_bytes_slice(all, at + sizeof(size), size, &text))
			return;
		at += sizeof(size) + size;
	}
	ret->text = (const char *)text.data;
	ret->text_size = text.size;
}

/* Counts the entries with texts among the first `n_entries` of a probe. */
static unsigned count_typed(const struct vms_probe *probe, size_t n_entries)
{
	unsigned n = 0;
	for (size_t i = 0; i < n_entries; i++)
		n += vms_probe_has_text(probe, i);
	return n;
}

bool vms_flow_get_value(const uint8_t *values, size_t size, unsigned number,
			struct vms_flow_value *ret)
{
	static const enum vms_flow_value_status statuses[VMS_VALUE_COUNT] = {
		[VMS_VALUE_KNOWN] = VMS_FLOW_KNOWN,
		[VMS_VALUE_UNREADABLE] = VMS_FLOW_UNREADABLE,
		[VMS_VALUE_CUT] = VMS_FLOW_CUT,
	};
	struct vms_value_head head;
	const uint8_t *bytes;
	if (!vms_flow_find_value(values, size, number, &head, &bytes))
		return false;
	*ret = (struct vms_flow_value) { statuses[head.status], bytes, head.size };
	return true;
}

bool vms_flow_value_item(const struct vms_flow_value *value, unsigned index,
			 struct vms_flow_value *ret)
{
	return (value->status == VMS_FLOW_KNOWN || value->status == VMS_FLOW_CUT) &&
	       vms_flow_get_value(value->bytes, value->size, index, ret);
}

/* Counts the values that are collected at a hit, or at the call if calls are followed. */
static unsigned count_at_call(const struct vms_flow_place *place)
{
	return (place->has_task ? N_TASK_VALUES : 0) + vms_probe_collected(place->probe) +
	       (place->common ? vms_probe_collected(place->common) : 0);
}

static unsigned count_collected(const struct vms_flow_place *place)
{
	return count_at_call(place) +
	       (place->returned ? 1 + vms_probe_collected(place->returned) : 0);
}

struct vms_flow_record *vms_flow_record_from_raw(struct vms_flow_place *place,
						 const struct vms_flow_raw *raw)
{
	uint32_t texts_at;
	if (!measure_values(raw->values, raw->size, count_collected(place), &texts_at))
		return NULL;
	struct vms_flow_record *record = g_malloc(sizeof(*record) + raw->size);
	*record = (struct vms_flow_record) {
		.size = (uint32_t)raw->size,
		.texts_at = texts_at,
		.sequence = raw->sequence,
		.time_ns = raw->time_ns,
		.place = vms_flow_place_ref(place),
		.vcpu = raw->vcpu,
		.failed = raw->failed,
		.common_failed = raw->common_failed,
		.returned_failed = raw->returned_failed,
	};
	g_atomic_ref_count_init(&record->refs);
	if (raw->size)
		memcpy(record->values, raw->values, raw->size);
	return record;
}

struct vms_flow_record *vms_flow_record_new(struct vms_flow_place *place, const struct vms_hit *hit,
					    uint64_t sequence)
{
	const struct vms_flow_raw raw = {
		.sequence = sequence,
		.time_ns = hit->time_ns,
		.vcpu = hit->vcpu,
		.values = hit->values,
		.size = hit->size,
	};
	struct vms_flow_record *record = vms_flow_record_from_raw(place, &raw);
	if (record) /* bytes after the values of a hit are not texts */
		record->size = record->texts_at;
	return record;
}

struct vms_flow_place *vms_flow_record_raw(const struct vms_flow_record *record,
					   struct vms_flow_raw *ret)
{
	*ret = (struct vms_flow_raw) {
		.sequence = record->sequence,
		.time_ns = record->time_ns,
		.vcpu = record->vcpu,
		.failed = record->failed,
		.common_failed = record->common_failed,
		.returned_failed = record->returned_failed,
		.values = record->values,
		.size = record->texts_at,
	};
	return record->place;
}

struct vms_flow_record *vms_flow_record_ref(struct vms_flow_record *record)
{
	g_atomic_ref_count_inc(&record->refs);
	return record;
}

void vms_flow_record_unref(struct vms_flow_record *record)
{
	if (!record || !g_atomic_ref_count_dec(&record->refs))
		return;
	vms_flow_place_unref(record->place);
	g_free(record);
}

static uint32_t call_probe(const struct vms_probe *probe, const struct vms_flow_record *record,
			   struct vms_memory *memory)
{
	g_autoptr(GError) why = NULL;
	const uint32_t failed = vms_probe_call(probe, record, memory, &why);
	if (why)
		vms_log(VMS_LOG_WARNING, "a callback of a probe failed: %s", why->message);
	return failed;
}

void vms_flow_record_call(struct vms_flow_record *record, struct vms_memory *memory)
{
	record->failed = call_probe(record->place->probe, record, memory);
	if (record->place->common)
		record->common_failed = call_probe(record->place->common, record, memory);
	if (record->place->returned)
		record->returned_failed = call_probe(record->place->returned, record, memory);
}

/* Gets a collected value of this size. False if it has another size, as unreadable values do. */
static bool get_sized(const struct vms_flow_record *record, unsigned number, void *ret, size_t size)
{
	struct vms_value_head head;
	const uint8_t *bytes;
	if (!vms_flow_find_value(record->values, record->size, number, &head, &bytes) ||
	    head.size != size)
		return false;
	memcpy(ret, bytes, size);
	return true;
}

void vms_flow_record_hit(const struct vms_flow_record *record, struct vms_flow_hit *ret)
{
	*ret = (struct vms_flow_hit) {
		.sequence = record->sequence,
		.time_ns = record->time_ns,
		.va = record->place->va,
		.is_after = record->place->is_after,
		.vcpu = record->vcpu,
	};
	ret->has_task = record->place->has_task &&
			get_sized(record, TASK_TID, &ret->tid, sizeof(ret->tid)) &&
			get_sized(record, TASK_PID, &ret->pid, sizeof(ret->pid)) &&
			get_sized(record, TASK_COMM, ret->comm, COMM_BYTES);
	vms_text_clean(ret->comm);
	ret->is_call = record->place->returned;
	if (ret->is_call)
		get_sized(record, count_at_call(record->place), &ret->duration_ns,
			  sizeof(ret->duration_ns));
}

const char *vms_flow_record_where(const struct vms_flow_record *record)
{
	return record->place->name;
}

const struct vms_probe *vms_flow_record_probe(const struct vms_flow_record *record)
{
	return record->place->probe;
}

const struct vms_probe *vms_flow_record_common(const struct vms_flow_record *record)
{
	return record->place->common;
}

const struct vms_probe *vms_flow_record_returned(const struct vms_flow_record *record)
{
	return record->place->returned;
}

/* A probe of a record, and where its values and texts begin in the record. */
struct share {
	const struct vms_probe *probe;
	unsigned first, first_text; /* numbers of its first value and of its first text */
	uint32_t failed;
};

/* Gets an entry's value. */
static bool get_value(const struct vms_flow_record *record, const struct share *share, size_t index,
		      struct vms_flow_value *ret)
{
	struct vms_flow_value pointer;
	unsigned number;
	const struct vms_probe *probe = share->probe;
	*ret = (struct vms_flow_value) { 0 };
	if (!probe || index >= vms_probe_entries(probe))
		return false;
	const enum vms_value_place where = vms_probe_value_place(probe, index, &number);
	if (where == VMS_VALUE_CALLED)
		ret->status = share->failed >> number & 1 ? VMS_FLOW_FAILED : VMS_FLOW_KNOWN;
	if (where != VMS_VALUE_COLLECTED)
		return true;
	if (!vms_flow_get_value(record->values, record->size, share->first + number, ret))
		return false;
	if (record->texts_at < record->size && vms_probe_has_text(probe, index))
		find_text(record, share->first_text + count_typed(probe, index), ret);
	if (ret->status == VMS_FLOW_UNREADABLE && vms_probe_has_pointer(probe, index) &&
	    vms_flow_get_value(record->values, record->size, share->first + number + 1, &pointer)) {
		ret->bytes = pointer.bytes;
		ret->size = pointer.size;
	}
	return true;
}

/* Counts the texts of a probe in a record that was saved. */
static unsigned count_texts(const struct vms_probe *probe)
{
	return probe ? count_typed(probe, vms_probe_entries(probe)) : 0;
}

bool vms_flow_record_value(const struct vms_flow_record *record, size_t index,
			   struct vms_flow_value *ret)
{
	const struct vms_flow_place *place = record->place;
	const struct share share = { place->probe, place->has_task ? N_TASK_VALUES : 0, 0,
				     record->failed };
	return get_value(record, &share, index, ret);
}

bool vms_flow_record_common_value(const struct vms_flow_record *record, size_t index,
				  struct vms_flow_value *ret)
{
	const struct vms_flow_place *place = record->place;
	const struct share share = { place->common,
				     (place->has_task ? N_TASK_VALUES : 0) +
					     vms_probe_collected(place->probe),
				     count_texts(place->probe), record->common_failed };
	return get_value(record, &share, index, ret);
}

bool vms_flow_record_returned_value(const struct vms_flow_record *record, size_t index,
				    struct vms_flow_value *ret)
{
	const struct vms_flow_place *place = record->place;
	const struct share share = { place->returned, count_at_call(place) + 1,
				     count_texts(place->probe) + count_texts(place->common),
				     record->returned_failed };
	return get_value(record, &share, index, ret);
}
