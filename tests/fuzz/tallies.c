/* SPDX-License-Identifier: MIT */
/*
 * Tallies in memory that a hostile agent or client writes while hits are added and read. Input: the
 * kind of the number (1 byte); then steps, each of which writes bytes somewhere (offset: 2 bytes,
 * how many: 1, the bytes) and adds a hit (its number and its key: a byte each).
 *
 * Covers: src/probe/tally.c src/flow/aggregate.c.
 */
#include "flow/aggregate.h"

#include "../unit/fake_machine.h"
#include "arch/x86_64.h"
#include <string.h>

#define ENTRIES 8
#define CANARY	64 /* bytes behind the memory that nothing may touch */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two values make a key: a register, and a string of 4 bytes at most. */
static struct vms_aggregation *make_aggregation(struct vms_machine *machine, uint8_t kind)
{
	const struct vms_entry entries[] = {
		{ .kind = VMS_ENTRY_REGISTER, .reg = "rax" },
		{ .kind = VMS_ENTRY_STRING, .expression = "rax", .size = 4 },
	};
	const struct vms_aggregate_number number = { (enum vms_aggregate_histogram)(kind % 3),
						     kind & 4, -10, 7, 5 };
	g_autoptr(vms_probe) key = vms_probe_new(machine, NULL, NULL);
	g_autoptr(vms_probe) numbers = vms_probe_new(machine, NULL, NULL);
	g_assert_true(vms_probe_add(key, entries, G_N_ELEMENTS(entries), NULL));
	g_assert_true(vms_probe_add(numbers, entries, 1, NULL));
	const struct vms_aggregate_options options = { .size = sizeof(options),
						       .key = key,
						       .by_place = kind & 8,
						       .numbers = numbers,
						       .kinds = &number,
						       .max_keys = ENTRIES };
	struct vms_aggregation *aggregation = vms_aggregation_new(&options, NULL);
	g_assert_nonnull(aggregation);
	return aggregation;
}

static void add_hit(struct vms_tally *tally, uint8_t number, uint8_t name)
{
	const uint8_t key[] = { 0, 0, 8,	0, name, 0, 0, 0, 0, 0, 0, 0,
				0, 0, name % 8, 0, 1,	 2, 3, 4, 5, 6, 7 };
	const uint64_t numbers[VMS_TALLY_NUMBERS_MAX] = { (uint64_t)(int8_t)number };
	vms_tally_add(tally, numbers, key, 16 + name % 8);
}

/* Takes a step of the input. Returns how many bytes it had. */
static size_t take_step(struct vms_tally *tally, uint8_t *memory, const uint8_t *step, size_t size)
{
	if (size < 5)
		return size;
	const size_t offset = (step[0] | (size_t)step[1] << 8) % tally->layout.size;
	size_t n = MIN(step[2], size - 5);
	n = MIN(n, tally->layout.size - offset);
	memcpy(memory + offset, step + 5, n);
	add_hit(tally, step[3], step[4]);
	return 5 + n;
}

static void read_tally(const struct vms_aggregation *aggregation, const void *memory,
		       struct vms_aggregate *aggregate)
{
	const uint32_t n = vms_tally_length(&aggregation->shape, memory);
	g_autofree struct vms_tally_entry *entry = g_malloc(aggregation->layout.entry_size);
	uint32_t patience = 10;
	g_assert_cmpuint(n, <=, ENTRIES);
	for (uint32_t i = 0; i < n; i++)
		if (vms_tally_read(&aggregation->shape, &aggregation->layout, memory, i, &patience,
				   entry))
			vms_aggregate_add(aggregate, entry);
}

static void check_row(const struct vms_aggregate *aggregate, size_t index, bool by_place)
{
	struct vms_aggregate_row row;
	struct vms_aggregate_sum sum;
	struct vms_flow_value value;
	uint64_t first, last;
	uint64_t all = 0; /* so that all is read */
	g_assert_true(vms_aggregate_get_row(aggregate, index, &row));
	g_assert_true(by_place || row.va == 0);
	for (size_t i = 0; i < 2; i++) {
		g_assert_true(vms_aggregate_get_key(aggregate, index, i, &value));
		for (size_t at = 0; at < value.size; at++)
			all += ((const uint8_t *)value.bytes)[at];
	}
	g_assert_false(vms_aggregate_get_key(aggregate, index, 2, &value));
	g_assert_true(vms_aggregate_get_sum(aggregate, index, 0, &sum));
	for (unsigned cell = 0; cell < sum.n_cells; cell++) {
		g_assert_true(vms_aggregate_cell(aggregate, 0, cell, &first, &last));
		all += sum.cells[cell];
	}
	g_assert_true(all || row.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t untouched[CANARY] = { 0 };
	const uint8_t kind = size > 0 ? data[0] : 0;
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 1);
	g_autoptr(vms_aggregation) aggregation = make_aggregation(machine, kind);
	const size_t memory_size = aggregation->layout.size;
	uint8_t *memory = g_aligned_alloc0(1, memory_size + CANARY, 64);
	g_autoptr(vms_aggregate) aggregate = vms_aggregate_new(aggregation);
	struct vms_tally tally;
	g_assert_true(vms_tally_init(&tally, &aggregation->shape, memory));
	for (size_t at = 1; at < size;) {
		at += take_step(&tally, memory, data + at, size - at);
		read_tally(aggregation, memory, aggregate);
	}
	vms_aggregate_sort(aggregate);
	for (size_t row = 0; row < vms_aggregate_rows(aggregate); row++)
		check_row(aggregate, row, kind & 8);
	g_assert_cmpmem(memory + memory_size, CANARY, untouched, CANARY);
	vms_tally_clear(&tally);
	g_aligned_free(memory);
	vms_machine_unref(machine);
	return 0;
}
