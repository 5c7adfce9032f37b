/* SPDX-License-Identifier: MIT */
#include "flow/aggregation.h"

#include "base/options.h"
#include "flow/stack.h"
#include "probe/program_writer.h"

#define MAX_KEYS 4096 /* the default */

_Static_assert(VMS_AGGREGATE_NUMBERS_MAX == VMS_TALLY_NUMBERS_MAX &&
		       VMS_AGGREGATE_STEPS_MAX == VMS_TALLY_STEPS_MAX,
	       "the limits of the interface are those of tallies");

G_GNUC_PRINTF(2, 3) static bool refuse(GError **error, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	g_autofree char *text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT, text);
	return false;
}

static unsigned count_stacks(const struct vms_probe *key)
{
	unsigned n = 0;
	for (size_t i = 0; key && i < vms_probe_entries(key); i++)
		n += vms_probe_entry_kind(key, i) == VMS_ENTRY_STACK;
	return n;
}

bool vms_aggregation_has_stacks(const struct vms_aggregation *aggregation)
{
	return count_stacks(aggregation->key) > 0;
}

void vms_aggregation_find_stacks(const struct vms_aggregation *aggregation,
				 const struct vms_arch *arch, GArray *stacks)
{
	const struct vms_probe *key = aggregation->key;
	unsigned number = aggregation->shape.n_numbers + aggregation->by_place;
	for (size_t i = 0; key && i < vms_probe_entries(key); i++) {
		const bool is_stack = vms_probe_entry_kind(key, i) == VMS_ENTRY_STACK;
		if (is_stack)
			g_array_append_val(stacks, number);
		number += is_stack ? vms_stack_raw_count(arch) : 1;
	}
}

/* Returns an upper limit for the bytes of a key whose stacks have been walked. */
static size_t get_key_size(const GArray *ops, unsigned n_stacks)
{
	size_t size = n_stacks * (sizeof(struct vms_value_head) + VMS_FLOW_STACK_SIZE);
	for (guint i = 0; i < ops->len; i++) {
		const struct vms_op *op = &g_array_index(ops, struct vms_op, i);
		if (vms_program_collects(op) && op->code != VMS_OP_COLLECT_READABLE)
			size += sizeof(struct vms_value_head) + op->size;
	}
	return size;
}

/*
 * Removes the pointers that entries of kind TYPED collect with their text. Equal texts are one key,
 * whatever their address, so each entry of a key must have one value.
 */
static void drop_pointers(GArray *ops, guint begin)
{
	for (guint i = begin + 1; i < ops->len; i++) {
		struct vms_op *op = &g_array_index(ops, struct vms_op, i);
		if (op[-1].code == VMS_OP_COLLECT_STRING && op->code == VMS_OP_COLLECT)
			*op = (struct vms_op) { .code = VMS_OP_DROP };
	}
}

static void add_key(const struct vms_aggregation *aggregation, uint64_t va, GArray *ops)
{
	if (aggregation->by_place) {
		vms_program_push(ops, va);
		vms_program_add(ops, VMS_OP_COLLECT, sizeof(va), 0);
	}
	const guint begin = ops->len;
	if (aggregation->key)
		vms_probe_add_values(aggregation->key, ops);
	drop_pointers(ops, begin);
}

/* ---- options ------------------------------------------------------------------------- */

static bool check_key(const struct vms_probe *key, GError **error)
{
	for (size_t i = 0; key && i < vms_probe_entries(key); i++) {
		const enum vms_entry_kind kind = vms_probe_entry_kind(key, i);
		if (kind == VMS_ENTRY_CALLBACK || kind == VMS_ENTRY_HALT)
			return refuse(error, "\"%s\" has no value, so it cannot be part of a key",
				      vms_probe_entry_name(key, i));
	}
	return true;
}

static bool check_numbers(const struct vms_probe *numbers, GError **error)
{
	const size_t n = numbers ? vms_probe_entries(numbers) : 0;
	if (n > VMS_TALLY_NUMBERS_MAX)
		return refuse(error, "cannot aggregate %zu numbers: the limit is %u", n,
			      VMS_TALLY_NUMBERS_MAX);
	for (size_t i = 0; i < n; i++) {
		const enum vms_entry_kind kind = vms_probe_entry_kind(numbers, i);
		if (kind == VMS_ENTRY_TYPED)
			return refuse(
				error,
				"\"%s\" cannot be aggregated by its type: only entries of kind "
				"EXPRESSION are numbers of 8 bytes, with their sign",
				vms_probe_entry_name(numbers, i));
		if (kind != VMS_ENTRY_REGISTER && kind != VMS_ENTRY_EXPRESSION)
			return refuse(error, "\"%s\" is not a number, so it cannot be aggregated",
				      vms_probe_entry_name(numbers, i));
	}
	return true;
}

static bool set_number(struct vms_tally_number *number, const struct vms_aggregate_number *kind,
		       GError **error)
{
	static const enum vms_tally_kind kinds[] = {
		[VMS_HISTOGRAM_NONE] = VMS_TALLY_PLAIN,
		[VMS_HISTOGRAM_LOG2] = VMS_TALLY_LOG2,
		[VMS_HISTOGRAM_LINEAR] = VMS_TALLY_LINEAR,
	};
	if ((unsigned)kind->histogram >= G_N_ELEMENTS(kinds))
		return refuse(error, "unknown kind of histogram");
	*number = (struct vms_tally_number) {
		.kind = kinds[kind->histogram],
		.is_signed = !kind->is_unsigned,
		.first = (uint64_t)kind->first,
		.step = kind->step,
		.n_steps = kind->n_steps,
	};
	if (number->kind == VMS_TALLY_LINEAR &&
	    (kind->step == 0 || kind->n_steps == 0 || kind->n_steps > VMS_TALLY_STEPS_MAX))
		return refuse(error,
			      "a histogram cannot have %u cells of %" G_GINT64_MODIFIER
			      "u: 1 to %u, each of 1 or more, can be",
			      kind->n_steps, kind->step, VMS_TALLY_STEPS_MAX);
	return true;
}

static bool make_shape(struct vms_aggregation *aggregation,
		       const struct vms_aggregate_options *options, GError **error)
{
	struct vms_tally_shape *shape = &aggregation->shape;
	g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	shape->n_entries = options->max_keys ? options->max_keys : MAX_KEYS;
	shape->n_numbers = options->numbers ? (uint32_t)vms_probe_entries(options->numbers) : 0;
	for (uint32_t i = 0; i < shape->n_numbers; i++) {
		const struct vms_aggregate_number plain = { VMS_HISTOGRAM_NONE };
		if (!set_number(&shape->numbers[i], options->kinds ? &options->kinds[i] : &plain,
				error))
			return false;
	}
	add_key(aggregation, 0, ops);
	const size_t key_size = get_key_size(ops, count_stacks(aggregation->key));
	shape->key_size = (uint32_t)MIN(key_size, UINT32_MAX);
	if (vms_tally_lay_out(shape, &aggregation->layout))
		return true;
	return refuse(error,
		      "a table with %u keys of up to %zu bytes is too large: at most %u keys, %u "
		      "bytes of a key, and %u MiB for all",
		      shape->n_entries, key_size, VMS_TALLY_ENTRIES_MAX, VMS_PROGRAM_OUTPUT_MAX,
		      VMS_TALLY_SIZE_MAX >> 20);
}

static struct vms_probe *take_probe(struct vms_probe *probe)
{
	if (!probe)
		return NULL;
	vms_probe_freeze(probe);
	return vms_probe_ref(probe);
}

struct vms_aggregation *vms_aggregation_new(const struct vms_aggregate_options *options,
					    GError **error)
{
	struct vms_aggregate_options copy;
	if (!vms_options_copy(options, &copy, sizeof(copy), "vms_aggregate_options", error) ||
	    !check_key(copy.key, error) || !check_numbers(copy.numbers, error))
		return NULL;
	g_autoptr(vms_aggregation) aggregation = g_new0(struct vms_aggregation, 1);
	g_atomic_ref_count_init(&aggregation->refs);
	aggregation->by_place = copy.by_place;
	aggregation->key = take_probe(copy.key);
	aggregation->numbers = take_probe(copy.numbers);
	return make_shape(aggregation, &copy, error) ? g_steal_pointer(&aggregation) : NULL;
}

struct vms_aggregation *vms_aggregation_ref(struct vms_aggregation *aggregation)
{
	g_atomic_ref_count_inc(&aggregation->refs);
	return aggregation;
}

void vms_aggregation_unref(struct vms_aggregation *aggregation)
{
	if (!aggregation || !g_atomic_ref_count_dec(&aggregation->refs))
		return;
	vms_probe_unref(aggregation->key);
	vms_probe_unref(aggregation->numbers);
	g_free(aggregation);
}

void vms_aggregation_add_values(const struct vms_aggregation *aggregation, uint64_t va, GArray *ops)
{
	if (aggregation->numbers)
		vms_probe_add_values(aggregation->numbers, ops);
	add_key(aggregation, va, ops);
}
