/* SPDX-License-Identifier: MIT */
/* Trees of mappings, compared with a plain array of pages after random changes. */
#include "symbol/mappings.h"
#include <string.h>

#define PAGES  256
#define PAGE   0x1000u
#define COPIES 4
#define ROUNDS 4000

/* What is mapped at each page: the number of the file, or 0; and where its mapping begins. */
struct model {
	uint64_t file[PAGES], start[PAGES];
};

static struct vms_mapping make_mapping(uint64_t first, uint64_t end, uint64_t file)
{
	return (struct vms_mapping) { .start = first * PAGE, .end = end * PAGE, .file = file };
}

/* Removes the whole of each mapping that lies in [first, end), as the tree does. */
static void clear_pages(struct model *model, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++) {
		const uint64_t start = model->start[i];
		for (uint64_t j = 0; model->file[i] && j < PAGES; j++)
			if (j != i && model->file[j] && model->start[j] == start)
				model->file[j] = 0;
		model->file[i] = 0;
	}
}

static void put_both(struct vms_mappings *mappings, struct model *model, uint64_t file)
{
	const uint64_t first = (uint64_t)g_test_rand_int_range(0, PAGES);
	const uint64_t end =
		(uint64_t)g_test_rand_int_range((gint32)first, MIN(first + 20, PAGES)) + 1;
	const struct vms_mapping mapping = make_mapping(first, end, file);
	vms_mappings_put(mappings, &mapping, PAGES);
	clear_pages(model, first, end);
	for (uint64_t i = first; i < end; i++) {
		model->file[i] = file;
		model->start[i] = first;
	}
}

static void assert_same(const struct vms_mappings *mappings, const struct model *model)
{
	size_t n = 0;
	for (uint64_t i = 0; i < PAGES; i++) {
		const struct vms_mapping *found = vms_mappings_find(mappings, i * PAGE + i % PAGE);
		g_assert_cmpuint(found ? found->file : 0, ==, model->file[i]);
		n += found && found->start == i * PAGE;
	}
	g_assert_cmpuint(vms_mappings_count(mappings), ==, n);
}

/* Copies are made and changed at any time, and neither changes the other. */
static void test_random(void)
{
	struct vms_mappings *trees[COPIES];
	static struct model models[COPIES];
	memset(models, 0, sizeof(models));
	for (unsigned i = 0; i < COPIES; i++)
		trees[i] = vms_mappings_new();
	for (unsigned round = 1; round <= ROUNDS; round++) {
		const int to = g_test_rand_int_range(0, COPIES);
		if (round % 16 == 0) {
			const int from = g_test_rand_int_range(0, COPIES);
			struct vms_mappings *copy = vms_mappings_copy(trees[from]);
			vms_mappings_free(trees[to]);
			trees[to] = copy;
			models[to] = models[from];
		}
		put_both(trees[to], &models[to], round);
		for (unsigned i = 0; round % 8 == 0 && i < COPIES; i++)
			assert_same(trees[i], &models[i]);
	}
	for (unsigned i = 0; i < COPIES; i++)
		vms_mappings_free(trees[i]);
}

/* Mappings in any order, of which later ones may lie over earlier ones. */
static void test_new_of(void)
{
	const struct vms_mapping others[] = { make_mapping(8, 9, 1), make_mapping(1, 5, 2),
					      make_mapping(3, 4, 3) };
	struct vms_mappings *mappings = vms_mappings_new_of(others, G_N_ELEMENTS(others));
	static const uint64_t expected[] = { 0, 2, 2, 3, 0, 0, 0, 0, 1, 0 };
	g_assert_cmpuint(vms_mappings_count(mappings), ==, 3);
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
		const struct vms_mapping *found = vms_mappings_find(mappings, i * PAGE);
		g_assert_cmpuint(found ? found->file : 0, ==, expected[i]);
	}
	g_assert_null(vms_mappings_find(NULL, 0));
	vms_mappings_free(mappings);
}

static void test_limit(void)
{
	struct vms_mappings *mappings = vms_mappings_new();
	for (uint64_t i = 0; i < 5; i++) {
		const struct vms_mapping mapping = make_mapping(2 * i, 2 * i + 1, i + 1);
		vms_mappings_put(mappings, &mapping, 3);
	}
	g_assert_cmpuint(vms_mappings_count(mappings), ==, 3);
	const struct vms_mapping over = make_mapping(0, 3, 9);
	vms_mappings_put(mappings, &over, 3);
	g_assert_cmpuint(vms_mappings_count(mappings), ==, 2);
	g_assert_cmpuint(vms_mappings_find(mappings, 0)->file, ==, 9);
	vms_mappings_free(mappings);
}

/* Returns how many nodes `n` mappings in ascending or descending order make, each after a copy. */
static size_t count_made(size_t n, bool down)
{
	size_t n_made = 0;
	struct vms_mappings *mappings = vms_mappings_new();
	for (size_t i = 0; i < n; i++) {
		const size_t at = down ? n - i : i;
		const struct vms_mapping mapping = make_mapping(at, at + 1, 1);
		struct vms_mappings *copy = vms_mappings_copy(mappings);
		n_made += vms_mappings_put(copy, &mapping, n);
		vms_mappings_free(mappings);
		mappings = copy;
	}
	g_assert_cmpuint(vms_mappings_count(mappings), ==, n);
	vms_mappings_free(mappings);
	return n_made;
}

/* Twice as many mappings make little more than twice as many nodes, whatever their order is. */
static void test_growth(void)
{
	for (int down = 0; down < 2; down++) {
		const size_t once = count_made(4000, down), twice = count_made(8000, down);
		g_assert_cmpuint(twice * 10, <=, once * 26);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/mappings/random", test_random);
	g_test_add_func("/mappings/new-of", test_new_of);
	g_test_add_func("/mappings/limit", test_limit);
	g_test_add_func("/mappings/growth", test_growth);
	return g_test_run();
}
