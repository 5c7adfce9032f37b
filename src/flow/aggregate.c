/* SPDX-License-Identifier: MIT */
#include "flow/aggregate.h"
#include "base/keyed_hash.h"
#include "flow/record.h"
#include <string.h>

struct vms_aggregate {
	struct vms_aggregation *aggregation;
	GHashTable *by_key; /* a set of struct row * */
	GPtrArray *rows;    /* the same rows in order; empty until they are sorted */
	uint64_t unfit;
};

struct row {
	const uint8_t *key; /* of `entry` */
	size_t key_size;
	struct vms_tally_entry *entry;
};

/* ---- rows ------------------------------------------------------------------------------ */

static guint hash_row(gconstpointer data)
{
	const struct row *row = data;
	return (guint)vms_keyed_hash(row->key, row->key_size);
}

static gboolean is_same_key(gconstpointer a, gconstpointer b)
{
	const struct row *x = a, *y = b;
	return x->key_size == y->key_size && memcmp(x->key, y->key, x->key_size) == 0;
}

static void free_row(gpointer data)
{
	struct row *row = data;
	g_free(row->entry);
	g_free(row);
}

struct vms_aggregate *vms_aggregate_new(struct vms_aggregation *aggregation)
{
	struct vms_aggregate *aggregate = g_new0(struct vms_aggregate, 1);
	aggregate->aggregation = vms_aggregation_ref(aggregation);
	aggregate->by_key = g_hash_table_new_full(hash_row, is_same_key, NULL, free_row);
	aggregate->rows = g_ptr_array_new();
	return aggregate;
}

void vms_aggregate_free(struct vms_aggregate *aggregate)
{
	if (!aggregate)
		return;
	g_ptr_array_unref(aggregate->rows);
	g_hash_table_unref(aggregate->by_key);
	vms_aggregation_unref(aggregate->aggregation);
	g_free(aggregate);
}

/* ---- adding ---------------------------------------------------------------------------- */

static size_t count_values(const struct vms_aggregation *aggregation)
{
	return aggregation->by_place + (aggregation->key ? vms_probe_entries(aggregation->key) : 0);
}

/* True if the bytes are the values of a key, without more bytes after them. */
static bool is_whole_key(const struct vms_aggregation *aggregation, const uint8_t *key, size_t size)
{
	const size_t n = count_values(aggregation);
	struct vms_value_head head;
	const uint8_t *bytes;
	if (n == 0)
		return size == 0;
	return vms_flow_find_value(key, size, (unsigned)n - 1, &head, &bytes) &&
	       bytes + head.size == key + size;
}

static uint64_t *get_cells(const struct vms_aggregation *aggregation,
			   const struct vms_tally_entry *entry, size_t number)
{
	return (void *)((char *)entry + aggregation->layout.cells_at[number]);
}

static void merge_number(const struct vms_aggregation *aggregation, struct vms_tally_entry *to,
			 const struct vms_tally_entry *from, size_t i)
{
	const bool is_signed = aggregation->shape.numbers[i].is_signed;
	const struct vms_tally_sum *sum = &from->sums[i];
	struct vms_tally_sum *all = &to->sums[i];
	uint64_t *cells = get_cells(aggregation, to, i);
	all->sum += sum->sum;
	if (is_signed ? (int64_t)sum->min < (int64_t)all->min : sum->min < all->min)
		all->min = sum->min;
	if (is_signed ? (int64_t)sum->max > (int64_t)all->max : sum->max > all->max)
		all->max = sum->max;
	for (uint32_t cell = 0; cell < aggregation->layout.n_cells[i]; cell++)
		cells[cell] += get_cells(aggregation, from, i)[cell];
}

static void merge_entry(const struct vms_aggregation *aggregation, struct vms_tally_entry *to,
			const struct vms_tally_entry *from)
{
	to->count += from->count;
	for (uint32_t i = 0; i < aggregation->shape.n_numbers; i++)
		merge_number(aggregation, to, from, i);
}

static void add_row(struct vms_aggregate *aggregate, const struct vms_tally_entry *entry)
{
	const struct vms_tally_layout *layout = &aggregate->aggregation->layout;
	struct row *row = g_new(struct row, 1);
	row->entry = g_memdup2(entry, layout->entry_size);
	row->key = (const uint8_t *)row->entry + layout->key_at;
	row->key_size = entry->key_size;
	g_hash_table_add(aggregate->by_key, row);
}

void vms_aggregate_add(struct vms_aggregate *aggregate, const struct vms_tally_entry *entry)
{
	const struct vms_aggregation *aggregation = aggregate->aggregation;
	const struct row wanted = { .key = (const uint8_t *)entry + aggregation->layout.key_at,
				    .key_size = entry->key_size };
	if (!is_whole_key(aggregation, wanted.key, wanted.key_size))
		return;
	const struct row *row = g_hash_table_lookup(aggregate->by_key, &wanted);
	if (row)
		merge_entry(aggregation, row->entry, entry);
	else
		add_row(aggregate, entry);
}

void vms_aggregate_count(struct vms_aggregate *aggregate, const uint64_t numbers[],
			 const uint8_t *key, size_t key_size)
{
	const struct vms_aggregation *aggregation = aggregate->aggregation;
	const struct row wanted = { .key = key, .key_size = key_size };
	g_autofree struct vms_tally_entry *entry = g_malloc0(aggregation->layout.entry_size);
	if (g_hash_table_size(aggregate->by_key) >= aggregation->shape.n_entries &&
	    !g_hash_table_contains(aggregate->by_key, &wanted)) {
		aggregate->unfit++;
		return;
	}
	entry->count = 1;
	entry->key_size = (uint32_t)key_size;
	for (uint32_t i = 0; i < aggregation->shape.n_numbers; i++) {
		const struct vms_tally_number *number = &aggregation->shape.numbers[i];
		entry->sums[i] = (struct vms_tally_sum) { numbers[i], numbers[i], numbers[i] };
		if (aggregation->layout.n_cells[i])
			get_cells(aggregation, entry, i)[vms_tally_cell(number, numbers[i])] = 1;
	}
	memcpy((uint8_t *)entry + aggregation->layout.key_at, key, key_size);
	vms_aggregate_add(aggregate, entry);
}

void vms_aggregate_add_unfit(struct vms_aggregate *aggregate, uint64_t n)
{
	aggregate->unfit += n;
}

void vms_aggregate_merge(struct vms_aggregate *aggregate, const struct vms_aggregate *other)
{
	GHashTableIter iter;
	gpointer row;
	g_hash_table_iter_init(&iter, other->by_key);
	while (g_hash_table_iter_next(&iter, &row, NULL))
		vms_aggregate_add(aggregate, ((const struct row *)row)->entry);
	aggregate->unfit += other->unfit;
}

/* The greatest count comes first. Keys of equal count are ordered, so the order is repeatable. */
static int compare_rows(gconstpointer a, gconstpointer b)
{
	const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
	if (x->entry->count != y->entry->count)
		return x->entry->count > y->entry->count ? -1 : 1;
	const int order = memcmp(x->key, y->key, MIN(x->key_size, y->key_size));
	return order ? order : (x->key_size > y->key_size) - (x->key_size < y->key_size);
}

void vms_aggregate_sort(struct vms_aggregate *aggregate)
{
	GHashTableIter iter;
	gpointer row;
	g_hash_table_iter_init(&iter, aggregate->by_key);
	while (g_hash_table_iter_next(&iter, &row, NULL))
		g_ptr_array_add(aggregate->rows, row);
	g_ptr_array_sort(aggregate->rows, compare_rows);
}

/* ---- getting ----------------------------------------------------------------------------- */

uint64_t vms_aggregate_unfit(const struct vms_aggregate *aggregate)
{
	return aggregate->unfit;
}

size_t vms_aggregate_rows(const struct vms_aggregate *aggregate)
{
	return aggregate->rows->len;
}

static const struct row *get_row(const struct vms_aggregate *aggregate, size_t row)
{
	return row < aggregate->rows->len ? aggregate->rows->pdata[row] : NULL;
}

bool vms_aggregate_get_row(const struct vms_aggregate *aggregate, size_t row,
			   struct vms_aggregate_row *ret)
{
	const struct row *found = get_row(aggregate, row);
	struct vms_value_head head;
	const uint8_t *bytes;
	*ret = (struct vms_aggregate_row) { 0 };
	if (!found)
		return false;
	ret->count = found->entry->count;
	if (aggregate->aggregation->by_place &&
	    vms_flow_find_value(found->key, found->key_size, 0, &head, &bytes))
		memcpy(&ret->va, bytes, MIN(head.size, sizeof(ret->va)));
	return true;
}

bool vms_aggregate_get_key(const struct vms_aggregate *aggregate, size_t row, size_t index,
			   struct vms_flow_value *ret)
{
	const struct vms_aggregation *aggregation = aggregate->aggregation;
	const struct row *found = get_row(aggregate, row);
	*ret = (struct vms_flow_value) { 0 };
	return found && aggregation->key && index < vms_probe_entries(aggregation->key) &&
	       vms_flow_get_value(found->key, found->key_size,
				  (unsigned)index + aggregation->by_place, ret);
}

static double compute_average(const struct vms_tally_entry *entry, size_t number, bool is_signed)
{
	const uint64_t sum = entry->sums[number].sum;
	return (is_signed ? (double)(int64_t)sum : (double)sum) / (double)entry->count;
}

bool vms_aggregate_get_sum(const struct vms_aggregate *aggregate, size_t row, size_t index,
			   struct vms_aggregate_sum *ret)
{
	const struct vms_aggregation *aggregation = aggregate->aggregation;
	const struct row *found = get_row(aggregate, row);
	*ret = (struct vms_aggregate_sum) { 0 };
	if (!found || index >= aggregation->shape.n_numbers)
		return false;
	*ret = (struct vms_aggregate_sum) {
		.sum = found->entry->sums[index].sum,
		.min = found->entry->sums[index].min,
		.max = found->entry->sums[index].max,
		.average = compute_average(found->entry, index,
					   aggregation->shape.numbers[index].is_signed),
		.cells = get_cells(aggregation, found->entry, index),
		.n_cells = aggregation->layout.n_cells[index],
	};
	return true;
}

static void get_log2_cell(unsigned cell, bool is_signed, uint64_t *first, uint64_t *last)
{
	if (is_signed && cell == 0) {
		*first = (uint64_t)INT64_MIN;
		*last = UINT64_MAX; /* -1 */
		return;
	}
	cell -= is_signed;
	*first = cell ? UINT64_C(1) << (cell - 1) : 0;
	*last = cell ? *first - 1 + *first : 0;
}

static void get_linear_cell(const struct vms_tally_number *number, unsigned cell, uint64_t *first,
			    uint64_t *last)
{
	const uint64_t begin = number->first + ((uint64_t)cell - 1) * number->step;
	*first = cell ? begin : number->is_signed ? (uint64_t)INT64_MIN : 0;
	*last = cell <= number->n_steps ? begin + number->step - 1
		: number->is_signed	? (uint64_t)INT64_MAX
					: UINT64_MAX;
	if (cell == 0)
		*last = number->first - 1;
}

bool vms_aggregate_cell(const struct vms_aggregate *aggregate, size_t index, unsigned cell,
			uint64_t *first, uint64_t *last)
{
	const struct vms_aggregation *aggregation = aggregate->aggregation;
	if (index >= aggregation->shape.n_numbers || cell >= aggregation->layout.n_cells[index])
		return false;
	const struct vms_tally_number *number = &aggregation->shape.numbers[index];
	if (number->kind == VMS_TALLY_LOG2)
		get_log2_cell(cell, number->is_signed, first, last);
	else
		get_linear_cell(number, cell, first, last);
	return true;
}
