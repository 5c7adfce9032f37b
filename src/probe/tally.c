/* SPDX-License-Identifier: MIT */
#include "probe/tally.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* ---- shape ---------------------------------------------------------------------------- */

static bool is_number_valid(const struct vms_tally_number *number)
{
	if (number->is_signed > 1)
		return false;
	return number->kind == VMS_TALLY_PLAIN || number->kind == VMS_TALLY_LOG2 ||
	       (number->kind == VMS_TALLY_LINEAR && number->step > 0 && number->n_steps > 0 &&
		number->n_steps <= VMS_TALLY_STEPS_MAX);
}

static uint32_t count_cells(const struct vms_tally_number *number)
{
	return number->kind == VMS_TALLY_LOG2	  ? VMS_TALLY_LOG2_CELLS
	       : number->kind == VMS_TALLY_LINEAR ? number->n_steps + 2
						  : 0;
}

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

bool vms_tally_lay_out(const struct vms_tally_shape *shape, struct vms_tally_layout *ret)
{
	*ret = (struct vms_tally_layout) { .size = 0 };
	if (shape->n_entries == 0 || shape->n_entries > VMS_TALLY_ENTRIES_MAX ||
	    shape->key_size > VMS_PROGRAM_OUTPUT_MAX || shape->n_numbers > VMS_TALLY_NUMBERS_MAX)
		return false;
	size_t at =
		sizeof(struct vms_tally_entry) + shape->n_numbers * sizeof(struct vms_tally_sum);
	for (uint32_t i = 0; i < shape->n_numbers; i++) {
		if (!is_number_valid(&shape->numbers[i]))
			return false;
		ret->n_cells[i] = count_cells(&shape->numbers[i]);
		ret->cells_at[i] = at;
		at += ret->n_cells[i] * sizeof(uint64_t);
	}
	ret->key_at = at;
	ret->entry_size = round_up(at + shape->key_size, sizeof(uint64_t));
	ret->size =
		round_up(sizeof(struct vms_tally_head) + shape->n_entries * ret->entry_size, PAGE);
	return ret->size <= VMS_TALLY_SIZE_MAX;
}

uint32_t vms_tally_cell(const struct vms_tally_number *number, uint64_t value)
{
	/* Flipping the sign bit makes signed numbers compare like unsigned ones. */
	const uint64_t flip = number->is_signed ? UINT64_C(1) << 63 : 0;
	if (number->kind == VMS_TALLY_LOG2) {
		if ((int64_t)value <= 0 && number->is_signed)
			return value == 0;
		return (value ? 64 - (uint32_t)__builtin_clzll(value) : 0) + number->is_signed;
	}
	if ((value ^ flip) < (number->first ^ flip))
		return 0;
	const uint64_t cell = (value - number->first) / number->step;
	return cell < number->n_steps ? (uint32_t)cell + 1 : number->n_steps + 1;
}

/* ---- adding ---------------------------------------------------------------------------- */

/* A slot of the index: a part of the key's hash, and 1 + the index of its entry; 0: empty. */
struct vms_tally_slot {
	uint32_t hash, entry;
};

bool vms_tally_init(struct vms_tally *tally, const struct vms_tally_shape *shape, void *memory)
{
	*tally = (struct vms_tally) { .shape = *shape, .mask = 1 };
	if (!vms_tally_lay_out(shape, &tally->layout))
		return false;
	while (tally->mask < 2 * shape->n_entries)
		tally->mask = 2 * tally->mask + 1;
	tally->index = calloc((size_t)tally->mask + 1, sizeof(*tally->index));
	if (!tally->index)
		return false;
	tally->head = memory;
	tally->entries = (uint8_t *)memory + sizeof(*tally->head);
	return true;
}

void vms_tally_clear(struct vms_tally *tally)
{
	free(tally->index);
	*tally = (struct vms_tally) { .index = NULL };
}

bool vms_tally_split(const struct vms_tally_shape *shape, const uint8_t *output, size_t size,
		     uint64_t numbers[VMS_TALLY_NUMBERS_MAX], size_t *key_at)
{
	size_t at = 0;
	for (uint32_t i = 0; i < shape->n_numbers; i++) {
		struct vms_value_head head;
		if (size - at < sizeof(head))
			return false;
		memcpy(&head, output + at, sizeof(head));
		at += sizeof(head);
		if (head.status != VMS_VALUE_KNOWN || head.size > sizeof(numbers[i]) ||
		    head.size > size - at)
			return false;
		numbers[i] = 0;
		memcpy(&numbers[i], output + at, head.size);
		at += head.size;
	}
	*key_at = at;
	return true;
}

static uint64_t mix_hash(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static uint32_t hash_key(const uint8_t *key, size_t size)
{
	uint64_t hash = size, word;
	for (; size >= sizeof(word); size -= sizeof(word), key += sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		hash = mix_hash(hash, word);
	}
	word = 0;
	for (size_t i = 0; i < size; i++)
		word = word << 8 | key[i];
	return (uint32_t)mix_hash(hash, word);
}

static struct vms_tally_entry *get_entry(const struct vms_tally *tally, uint32_t index)
{
	return (struct vms_tally_entry *)(void *)(tally->entries +
						  index * tally->layout.entry_size);
}

/*
 * Returns the slot of a key, or an empty one. The keys of entries are in shared memory, where
 * others may change them. A changed key only counts as another key.
 */
static struct vms_tally_slot *find_slot(const struct vms_tally *tally, uint32_t hash,
					const uint8_t *key, size_t size)
{
	for (uint32_t at = hash & tally->mask;; at = (at + 1) & tally->mask) {
		struct vms_tally_slot *slot = &tally->index[at];
		if (slot->entry == 0)
			return slot;
		const struct vms_tally_entry *entry = get_entry(tally, slot->entry - 1);
		if (slot->hash == hash && entry->key_size == size &&
		    memcmp((const uint8_t *)entry + tally->layout.key_at, key, size) == 0)
			return slot;
	}
}

/* True if a is less than b. */
static bool is_less(const struct vms_tally_number *number, uint64_t a, uint64_t b)
{
	return number->is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static void add_number(const struct vms_tally *tally, struct vms_tally_entry *entry, uint32_t i,
		       uint64_t value, bool is_first)
{
	const struct vms_tally_number *number = &tally->shape.numbers[i];
	struct vms_tally_sum *sum = &entry->sums[i];
	sum->sum += value;
	if (is_first || is_less(number, value, sum->min))
		sum->min = value;
	if (is_first || is_less(number, sum->max, value))
		sum->max = value;
	if (number->kind != VMS_TALLY_PLAIN) {
		uint64_t *cells = (void *)((uint8_t *)entry + tally->layout.cells_at[i]);
		cells[vms_tally_cell(number, value)]++;
	}
}

static void add_hit(const struct vms_tally *tally, struct vms_tally_entry *entry,
		    const uint64_t numbers[], bool is_first)
{
	for (uint32_t i = 0; i < tally->shape.n_numbers; i++)
		add_number(tally, entry, i, numbers[i], is_first);
	entry->count++;
}

/* Adds an entry. Readers see it when it is complete. */
static void add_entry(struct vms_tally *tally, const uint64_t numbers[], const uint8_t *key,
		      size_t key_size)
{
	struct vms_tally_entry *entry = get_entry(tally, tally->n);
	entry->key_size = (uint32_t)key_size;
	memcpy((uint8_t *)entry + tally->layout.key_at, key, key_size);
	add_hit(tally, entry, numbers, true);
	atomic_store_explicit(&tally->head->n, ++tally->n, memory_order_release);
}

/* Adds a hit to an entry that others may be reading. */
static void change_entry(const struct vms_tally *tally, struct vms_tally_entry *entry,
			 const uint64_t numbers[])
{
	const uint32_t sequence =
		atomic_load_explicit(&entry->sequence, memory_order_relaxed) & ~UINT32_C(1);
	atomic_store_explicit(&entry->sequence, sequence + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	add_hit(tally, entry, numbers, false);
	atomic_store_explicit(&entry->sequence, sequence + 2, memory_order_release);
}

void vms_tally_add(struct vms_tally *tally, const uint64_t numbers[], const uint8_t *key,
		   size_t key_size)
{
	const uint32_t hash = hash_key(key, key_size);
	struct vms_tally_slot *slot =
		key_size <= tally->shape.key_size ? find_slot(tally, hash, key, key_size) : NULL;
	if (slot && slot->entry) {
		change_entry(tally, get_entry(tally, slot->entry - 1), numbers);
	} else if (slot && tally->n < tally->shape.n_entries) {
		add_entry(tally, numbers, key, key_size);
		*slot = (struct vms_tally_slot) { hash, tally->n };
	} else {
		atomic_store_explicit(&tally->head->unfit, ++tally->unfit, memory_order_relaxed);
	}
}

/* ---- reading ----------------------------------------------------------------------------- */

uint32_t vms_tally_length(const struct vms_tally_shape *shape, const void *memory)
{
	const struct vms_tally_head *head = memory;
	const uint64_t n = atomic_load_explicit(&head->n, memory_order_acquire);
	return n < shape->n_entries ? (uint32_t)n : shape->n_entries;
}

bool vms_tally_read(const struct vms_tally_shape *shape, const struct vms_tally_layout *layout,
		    const void *memory, uint32_t index, uint32_t *patience,
		    struct vms_tally_entry *copy)
{
	const uint8_t *entries = (const uint8_t *)memory + sizeof(struct vms_tally_head);
	const struct vms_tally_entry *entry = (const void *)(entries + index * layout->entry_size);
	uint32_t before, after;
	bool is_torn;
	do {
		before = atomic_load_explicit(&entry->sequence, memory_order_acquire);
		memcpy((void *)copy, (const void *)entry, layout->entry_size);
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
		is_torn = before & 1 || before != after;
	} while (is_torn && *patience && (*patience)--);
	return copy->count > 0 && copy->key_size <= shape->key_size;
}
