/* SPDX-License-Identifier: MIT */
/* Tallies, beside a plain hash table; what does not fit; memory that somebody damages. */
#include "probe/tally.h"

#include <glib.h>
#include <string.h>

#define KEY_SIZE 24u

/* ---- what all tests have ----------------------------------------------------------------- */

struct fixture {
	struct vms_tally_shape shape;
	struct vms_tally_layout layout;
	uint64_t *memory;
	struct vms_tally tally;
};

static void begin(struct fixture *f, uint32_t n_entries)
{
	f->shape = (struct vms_tally_shape) {
		.n_entries = n_entries,
		.key_size = KEY_SIZE,
		.n_numbers = 3,
		.numbers = { { .kind = VMS_TALLY_LOG2, .is_signed = 1 },
			     { .kind = VMS_TALLY_LINEAR, .first = 100, .step = 10, .n_steps = 5 },
			     { .kind = VMS_TALLY_PLAIN } },
	};
	g_assert_true(vms_tally_lay_out(&f->shape, &f->layout));
	f->memory = g_aligned_alloc0(1, f->layout.size, 4096);
	g_assert_true(vms_tally_init(&f->tally, &f->shape, f->memory));
}

static void end(struct fixture *f)
{
	vms_tally_clear(&f->tally);
	g_aligned_free(f->memory);
}

static const uint8_t *key_of(const struct fixture *f, const struct vms_tally_entry *entry)
{
	return (const uint8_t *)entry + f->layout.key_at;
}

static const uint64_t *cells_of(const struct fixture *f, const struct vms_tally_entry *entry,
				unsigned number)
{
	return (const void *)((const uint8_t *)entry + f->layout.cells_at[number]);
}

static struct vms_tally_entry *read_entry(const struct fixture *f, uint32_t index)
{
	struct vms_tally_entry *entry = g_malloc(f->layout.entry_size);
	uint32_t patience = 1000;
	g_assert_true(vms_tally_read(&f->shape, &f->layout, f->memory, index, &patience, entry));
	return entry;
}

/* Keys of different lengths, of which some begin alike. */
static size_t make_key(uint32_t number, uint8_t key[KEY_SIZE])
{
	const size_t size = number % (KEY_SIZE + 1);
	memset(key, 7, KEY_SIZE);
	memcpy(key, &number, MIN(size, sizeof(number)));
	return size;
}

/* ---- truth ------------------------------------------------------------------------------- */

struct expected {
	uint64_t count, sums[3], cells[3][VMS_TALLY_LOG2_CELLS];
	int64_t min, max; /* of the first */
};

/* In which cell a number with a sign is, said in another way. */
static unsigned log2_cell(int64_t number)
{
	unsigned cell = 1;
	if (number < 0)
		return 0;
	while (number) {
		number /= 2;
		cell++;
	}
	return cell;
}

static unsigned linear_cell(uint64_t number)
{
	unsigned cell = 0;
	for (uint64_t end = 100; cell <= 5 && number >= end; end += 10)
		cell++;
	return cell;
}

static void expect(struct expected *expected, const uint64_t numbers[3])
{
	const int64_t first = (int64_t)numbers[0];
	expected->min = expected->count ? MIN(expected->min, first) : first;
	expected->max = expected->count ? MAX(expected->max, first) : first;
	expected->count++;
	for (unsigned i = 0; i < 3; i++)
		expected->sums[i] += numbers[i];
	expected->cells[0][log2_cell(first)]++;
	expected->cells[1][linear_cell(numbers[1])]++;
}

static void assert_expected(const struct fixture *f, const struct vms_tally_entry *entry,
			    const struct expected *expected)
{
	g_assert_nonnull(expected);
	g_assert_cmpuint(entry->count, ==, expected->count);
	g_assert_cmpint((int64_t)entry->sums[0].min, ==, expected->min);
	g_assert_cmpint((int64_t)entry->sums[0].max, ==, expected->max);
	for (unsigned i = 0; i < 3; i++)
		g_assert_cmpuint(entry->sums[i].sum, ==, expected->sums[i]);
	for (unsigned i = 0; i < 2; i++)
		g_assert_cmpmem(cells_of(f, entry, i), f->layout.n_cells[i] * sizeof(uint64_t),
				expected->cells[i], f->layout.n_cells[i] * sizeof(uint64_t));
}

static void test_truth(void)
{
	struct fixture f;
	g_autoptr(GHashTable) truth = g_hash_table_new_full(g_bytes_hash, g_bytes_equal,
							    (GDestroyNotify)g_bytes_unref, g_free);
	begin(&f, 600);
	for (unsigned i = 0; i < 50000; i++) {
		uint8_t key[KEY_SIZE];
		const size_t size = make_key((uint32_t)g_test_rand_int_range(0, 500), key);
		const uint64_t numbers[] = { (uint64_t)(int64_t)g_test_rand_int()
						     << g_test_rand_int_range(0, 33),
					     (uint64_t)g_test_rand_int_range(50, 200),
					     UINT64_MAX - i };
		GBytes *bytes = g_bytes_new(key, size);
		struct expected *expected = g_hash_table_lookup(truth, bytes);
		if (!expected) {
			expected = g_new0(struct expected, 1);
			g_hash_table_insert(truth, g_bytes_ref(bytes), expected);
		}
		expect(expected, numbers);
		vms_tally_add(&f.tally, numbers, key, size);
		g_bytes_unref(bytes);
	}
	g_assert_cmpuint(vms_tally_length(&f.shape, f.memory), ==, g_hash_table_size(truth));
	for (uint32_t i = 0; i < g_hash_table_size(truth); i++) {
		g_autofree struct vms_tally_entry *entry = read_entry(&f, i);
		g_autoptr(GBytes) key = g_bytes_new(key_of(&f, entry), entry->key_size);
		assert_expected(&f, entry, g_hash_table_lookup(truth, key));
	}
	end(&f);
}

/* What is counted, and what found no room, are all. */
static void test_full(void)
{
	static const uint64_t numbers[3] = { 1, 2, 3 };
	struct fixture f;
	uint64_t counted = 0;
	begin(&f, 5);
	for (uint32_t i = 0; i < 1000; i++)
		vms_tally_add(&f.tally, numbers, (const uint8_t *)&i, sizeof(i) - i % 2);
	for (uint32_t i = 0; i < 7; i++) /* the first are known */
		vms_tally_add(&f.tally, numbers, (const uint8_t *)&i, sizeof(i) - i % 2);
	const uint8_t long_key[KEY_SIZE + 1] = { 0 };
	vms_tally_add(&f.tally, numbers, long_key, sizeof(long_key));
	g_assert_cmpuint(vms_tally_length(&f.shape, f.memory), ==, 5);
	for (uint32_t i = 0; i < 5; i++) {
		g_autofree struct vms_tally_entry *entry = read_entry(&f, i);
		counted += entry->count;
	}
	g_assert_cmpuint(counted, ==, 10);
	g_assert_cmpuint(f.tally.head->unfit, ==, 998);
	end(&f);
}

/* ---- shapes, outputs ------------------------------------------------------------------------ */

static void test_shapes(void)
{
	static const struct vms_tally_shape sound = {
		.n_entries = 10, .key_size = 5, .n_numbers = 1, .numbers = { { .kind = 1 } }
	};
	struct vms_tally_layout layout;
	struct vms_tally_shape shapes[10];
	for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
		shapes[i] = sound;
	g_assert_true(vms_tally_lay_out(&sound, &layout));
	g_assert_cmpuint(layout.size, ==, 8192); /* 16 + 10 * (16 + 24 + 65 * 8 + 8) */
	shapes[0].n_entries = 0;
	shapes[1].n_entries = VMS_TALLY_ENTRIES_MAX + 1;
	shapes[2].key_size = VMS_PROGRAM_OUTPUT_MAX + 1;
	shapes[3].n_numbers = VMS_TALLY_NUMBERS_MAX + 1;
	shapes[4].numbers[0].kind = VMS_TALLY_LINEAR + 1;
	shapes[5].numbers[0].is_signed = 2;
	shapes[6].numbers[0] = (struct vms_tally_number) { VMS_TALLY_LINEAR, .n_steps = 1 };
	shapes[7].numbers[0] = (struct vms_tally_number) { VMS_TALLY_LINEAR, .step = 1 };
	shapes[8].numbers[0] = (struct vms_tally_number) { VMS_TALLY_LINEAR, .step = 1,
							   .n_steps = VMS_TALLY_STEPS_MAX + 1 };
	shapes[9].n_entries = VMS_TALLY_ENTRIES_MAX; /* too large in all */
	for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
		g_assert_false(vms_tally_lay_out(&shapes[i], &layout));
}

static void test_cells(void)
{
	static const struct {
		struct vms_tally_number number;
		int64_t value;
		uint32_t cell;
	} cases[] = {
		{ { VMS_TALLY_LOG2, 1 }, INT64_MIN, 0 },
		{ { VMS_TALLY_LOG2, 1 }, -1, 0 },
		{ { VMS_TALLY_LOG2, 1 }, 0, 1 },
		{ { VMS_TALLY_LOG2, 1 }, 1, 2 },
		{ { VMS_TALLY_LOG2, 1 }, 3, 3 },
		{ { VMS_TALLY_LOG2, 1 }, INT64_MAX, 64 },
		{ { VMS_TALLY_LOG2 }, 0, 0 },
		{ { VMS_TALLY_LOG2 }, 1, 1 },
		{ { VMS_TALLY_LOG2 }, -1, 64 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)-10, 5, 4 }, INT64_MIN, 0 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)-10, 5, 4 }, -11, 0 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)-10, 5, 4 }, -10, 1 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)-10, 5, 4 }, 9, 4 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)-10, 5, 4 }, 10, 5 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)-10, 5, 4 }, INT64_MAX, 5 },
		{ { VMS_TALLY_LINEAR, 0, 10, 5, 4 }, -1, 5 },
		{ { VMS_TALLY_LINEAR, 0, 10, 5, 4 }, 9, 0 },
		{ { VMS_TALLY_LINEAR, 1, (uint64_t)INT64_MIN, 1, 1024 }, INT64_MAX, 1025 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
		g_assert_cmpuint(vms_tally_cell(&cases[i].number, (uint64_t)cases[i].value), ==,
				 cases[i].cell);
}

static void test_split(void)
{
	static const struct vms_tally_shape shape = { .n_numbers = 2 };
	/* A number of 8 bytes, one of 2, and a key. */
	static const uint8_t output[] = { 0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0,  0,
					  0, 0, 2, 0, 3, 4, 0, 0, 1, 0, 'x' };
	uint8_t wrong[sizeof(output)];
	uint64_t numbers[VMS_TALLY_NUMBERS_MAX];
	size_t key_at;
	g_assert_true(vms_tally_split(&shape, output, sizeof(output), numbers, &key_at));
	g_assert_cmphex(numbers[0], ==, 0x201);
	g_assert_cmphex(numbers[1], ==, 0x403);
	g_assert_cmpuint(key_at, ==, 18);
	for (size_t size = 0; size < key_at; size++) {
		g_autofree uint8_t *cut = g_memdup2(output, size);
		g_assert_false(vms_tally_split(&shape, cut, size, numbers, &key_at));
		key_at = 18;
	}
	memcpy(wrong, output, sizeof(output));
	wrong[12] = VMS_VALUE_UNREADABLE;
	g_assert_false(vms_tally_split(&shape, wrong, sizeof(wrong), numbers, &key_at));
	wrong[12] = VMS_VALUE_KNOWN;
	wrong[2] = 9;
	g_assert_false(vms_tally_split(&shape, wrong, sizeof(wrong), numbers, &key_at));
}

/* ---- two at once ---------------------------------------------------------------------------- */

#define ROUNDS 300000

static gpointer add_all(gpointer data)
{
	struct fixture *f = data;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		const uint64_t numbers[] = { i, 100 + i % 50, 3 };
		const uint8_t key = (uint8_t)(i % 4);
		vms_tally_add(&f->tally, numbers, &key, sizeof(key));
	}
	return NULL;
}

/* Whenever an entry is read, its parts are of one moment. */
static void test_at_once(void)
{
	struct fixture f;
	uint64_t count = 0;
	begin(&f, 4);
	GThread *thread = g_thread_new("adds", add_all, &f);
	while (count < ROUNDS / 4) {
		if (vms_tally_length(&f.shape, f.memory) == 0)
			continue;
		g_autofree struct vms_tally_entry *entry = g_malloc(f.layout.entry_size);
		uint32_t patience = UINT32_MAX;
		uint64_t in_cells = 0;
		g_assert_true(vms_tally_read(&f.shape, &f.layout, f.memory, 0, &patience, entry));
		g_assert_cmpuint(entry->count, >=, count);
		count = entry->count;
		g_assert_cmpuint(entry->sums[2].sum, ==, 3 * count);
		g_assert_cmpuint(entry->sums[0].max, ==, 4 * (count - 1));
		g_assert_cmpuint(entry->sums[0].sum, ==, 2 * count * (count - 1));
		for (unsigned i = 0; i < f.layout.n_cells[1]; i++)
			in_cells += cells_of(&f, entry, 1)[i];
		g_assert_cmpuint(in_cells, ==, count);
	}
	g_thread_join(thread);
	end(&f);
}

/* ---- damage --------------------------------------------------------------------------------- */

/* Whatever stands in the shared memory: who adds stays within it, and so does who reads. */
static void test_damage(void)
{
	struct fixture f;
	begin(&f, 50);
	const size_t n_words = f.layout.size / sizeof(uint64_t);
	g_autofree struct vms_tally_entry *copy = g_malloc(f.layout.entry_size);
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t key[KEY_SIZE + 8] = { 0 };
		const uint64_t numbers[3] = { round, round, round };
		const uint32_t at = (uint32_t)g_test_rand_int_range(0, (int)n_words);
		f.memory[at] = (uint64_t)g_test_rand_int() << g_test_rand_int_range(0, 33);
		key[0] = (uint8_t)g_test_rand_int_range(0, 100);
		vms_tally_add(&f.tally, numbers, key,
			      (size_t)g_test_rand_int_range(0, sizeof(key) + 1));
		const uint32_t n = vms_tally_length(&f.shape, f.memory);
		uint32_t patience = 3;
		g_assert_cmpuint(n, <=, 50);
		for (uint32_t i = 0; i < n; i += 7)
			if (vms_tally_read(&f.shape, &f.layout, f.memory, i, &patience, copy))
				g_assert_cmpuint(copy->key_size, <=, KEY_SIZE);
	}
	g_assert_cmpuint(f.tally.n, <=, 50);
	end(&f);
}

/* An entry whose writer was killed can be read, and reading does not wait for ever. */
static void test_torn(void)
{
	struct fixture f;
	begin(&f, 2);
	const uint64_t numbers[3] = { 1, 2, 3 };
	uint32_t patience = 5;
	g_autofree struct vms_tally_entry *copy = g_malloc(f.layout.entry_size);
	vms_tally_add(&f.tally, numbers, (const uint8_t *)"x", 1);
	((struct vms_tally_entry *)(void *)f.tally.entries)->sequence = 7;
	g_assert_true(vms_tally_read(&f.shape, &f.layout, f.memory, 0, &patience, copy));
	g_assert_cmpuint(copy->count, ==, 1);
	g_assert_cmpuint(patience, ==, 0);
	end(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/tally/truth", test_truth);
	g_test_add_func("/tally/full", test_full);
	g_test_add_func("/tally/shapes", test_shapes);
	g_test_add_func("/tally/cells", test_cells);
	g_test_add_func("/tally/split", test_split);
	g_test_add_func("/tally/at-once", test_at_once);
	g_test_add_func("/tally/damage", test_damage);
	g_test_add_func("/tally/torn", test_torn);
	return g_test_run();
}
