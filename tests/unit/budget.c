/* SPDX-License-Identifier: MIT */
#include "base/budget.h"
#include "base/bytes.h"

static struct vms_budget *new_budget(uint64_t steps, unsigned percent)
{
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns = steps * VMS_BUDGET_STEP_NS,
		.bytes = 1000,
		.items = 100,
		.percent = percent,
	};
	struct vms_budget *budget = vms_budget_new(&options, NULL);
	g_assert_nonnull(budget);
	return budget;
}

static uint64_t count_steps(struct vms_budget *budget, uint64_t most)
{
	uint64_t n = 0;
	while (n < most && vms_budget_step(budget, 1))
		n++;
	return n;
}

/* Every step counts, however many there are between two looks. */
static void test_steps(void)
{
	g_autoptr(vms_budget) budget = new_budget(10000, 0);
	g_assert_cmpuint(vms_budget_left(budget, VMS_BUDGET_STEPS), ==, 10000);
	g_assert_cmpuint(count_steps(budget, 5001), ==, 5001);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_STEPS), ==, 5001);
	g_assert_cmpuint(vms_budget_left(budget, VMS_BUDGET_STEPS), ==, 4999);
	g_assert_false(vms_budget_step(budget, 5000));
	g_assert_true(vms_budget_step(budget, 4999));
	g_assert_false(vms_budget_step(budget, 1));
	g_assert_false(vms_budget_has_left(budget));
	g_autofree char *losses = vms_budget_describe_losses(budget);
	g_assert_cmpstr(losses, ==, "all: more than 0.00 s of processor time");
}

/* A source that is used up leaves three quarters to the others, and is told of once. */
static void test_parts(void)
{
	g_autoptr(vms_budget) budget = new_budget(16000, 0);
	g_autoptr(vms_budget) bad = vms_budget_new_part(budget, "a bad disk");
	g_assert_cmpuint(count_steps(bad, UINT64_MAX), ==, 4000);
	g_assert_false(vms_budget_step(bad, 1));
	g_autoptr(vms_budget) good = vms_budget_new_part(budget, "a good disk");
	g_autoptr(vms_budget) file = vms_budget_new_part(good, "its file");
	g_assert_cmpuint(count_steps(file, UINT64_MAX), ==, 750);
	g_assert_cmpuint(count_steps(good, UINT64_MAX), ==, 3000 - 750);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_STEPS), ==, 7000);
	g_autofree char *losses = vms_budget_describe_losses(budget);
	g_assert_cmpstr(losses, ==,
			"a bad disk: more than 0.00 s of processor time; "
			"its file: more than 0.00 s of processor time; "
			"a good disk: more than 0.00 s of processor time");
}

/* If the whole is used up, that is what is told, not the part that met it. */
static void test_whole_is_used_up(void)
{
	g_autoptr(vms_budget) budget = new_budget(8000, 0);
	g_autoptr(vms_budget) part = vms_budget_new_part(budget, "a disk");
	g_assert_cmpuint(count_steps(budget, UINT64_MAX), ==, 8000);
	g_assert_false(vms_budget_step(part, 1));
	g_autofree char *losses = vms_budget_describe_losses(budget);
	g_assert_cmpstr(losses, ==, "all: more than 0.00 s of processor time");
}

static void test_other_units(void)
{
	g_autoptr(vms_budget) budget = new_budget(8000, 0);
	g_assert_true(vms_budget_take(budget, VMS_BUDGET_BYTES, 900));
	g_assert_false(vms_budget_take(budget, VMS_BUDGET_BYTES, 101));
	vms_budget_give_back(budget, VMS_BUDGET_BYTES, 1);
	g_assert_true(vms_budget_take(budget, VMS_BUDGET_BYTES, 101));
	g_assert_true(vms_budget_take(budget, VMS_BUDGET_ITEMS, 100));
	g_assert_false(vms_budget_take(budget, VMS_BUDGET_ITEMS, 1));
	g_autofree char *losses = vms_budget_describe_losses(budget);
	g_assert_cmpstr(losses, ==, "all: more than 1000 B of memory");
}

static void test_cancel(void)
{
	g_autoptr(vms_budget) budget = new_budget(1000000, 0);
	g_autoptr(vms_budget) part = vms_budget_new_part(budget, "a disk");
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_budget_step(part, 1));
	vms_budget_cancel(budget);
	g_assert_cmpuint(count_steps(part, UINT64_MAX), <, 5000); /* up to its next look */
	g_assert_false(vms_budget_has_left(part));
	g_assert_null(vms_budget_describe_losses(budget));
	vms_budget_set_error(part, "cannot read a disk", &error);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CANCELLED);
}

/* Whoever hurries gets 50 ms, whatever is left. */
static void test_hurry(void)
{
	const uint64_t hurry_steps = UINT64_C(50000000) / VMS_BUDGET_STEP_NS;
	g_autoptr(vms_budget) budget = new_budget(100 * hurry_steps, 100);
	g_autoptr(vms_budget) part = vms_budget_new_part(budget, "a disk");
	g_assert_true(vms_budget_step(part, 1000));
	g_assert_false(vms_budget_hurries(part));
	vms_budget_hurry(budget);
	g_assert_true(vms_budget_hurries(part));
	const uint64_t n = count_steps(part, UINT64_MAX);
	g_assert_cmpuint(n, >=, hurry_steps);
	g_assert_cmpuint(n, <, hurry_steps + 5000); /* up to its next look */
}

/* Time adds to a budget, and a quarter of that to its part. */
static void test_refill(void)
{
	g_autoptr(vms_budget) budget = new_budget(1000, 100);
	g_autoptr(vms_budget) part = vms_budget_new_part(budget, "a disk");
	while (!vms_budget_step(part, 10000))
		g_usleep(100);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_STEPS), >=, 10000);
}

static void test_none(void)
{
	g_assert_true(vms_budget_step(NULL, UINT64_MAX));
	g_assert_true(vms_budget_take(NULL, VMS_BUDGET_BYTES, UINT64_MAX));
	g_assert_null(vms_budget_new_part(NULL, "a disk"));
}

/* Who reads beyond a budget gets zeros, and is told. */
static void test_bytes(void)
{
	const uint8_t data[] = { 1, 2, 3, 4 };
	g_autoptr(vms_budget) budget = new_budget(2, 0);
	const struct vms_bytes bytes = { data, sizeof(data), budget };
	struct vms_bytes part;
	uint32_t value;
	uint8_t byte;
	g_assert_true(vms_bytes_u32(bytes, 0, &value));
	g_assert_cmpuint(value, ==, 0x04030201);
	g_assert_true(vms_bytes_slice(bytes, 1, 2, &part));
	g_assert_true(vms_bytes_u8(part, 0, &byte));
	g_assert_false(vms_bytes_u32(bytes, 0, &value));
	g_assert_cmpuint(value, ==, 0);
}

static void test_error(void)
{
	g_autoptr(vms_budget) budget = new_budget(10, 0);
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_budget_step(budget, 11));
	vms_budget_note_loss(budget, "a disk", "it was ended by signal 11");
	vms_budget_set_error(budget, "cannot read the tasks", &error);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_BUDGET);
	g_assert_nonnull(strstr(error->message, "a disk: it was ended by signal 11"));
}

/* What was done already is counted as far as it can be: it cannot be done again and again. */
static void test_measured(void)
{
	g_autoptr(vms_budget) budget = new_budget(10000, 0);
	g_assert_true(vms_budget_step_ns(budget, 100 * VMS_BUDGET_STEP_NS));
	g_assert_cmpuint(vms_budget_left(budget, VMS_BUDGET_STEPS), ==, 9900);
	g_assert_false(vms_budget_step_ns(budget, 9901 * VMS_BUDGET_STEP_NS));
	g_assert_cmpuint(vms_budget_left(budget, VMS_BUDGET_STEPS), ==, 0);
	g_assert_false(vms_budget_step(budget, 1));
}

/* What is decompressed costs its size, or its time if that is much more. */
static void test_decompressed(void)
{
	const uint64_t size = 6000, usual = VMS_STEPS_OF_DECOMPRESSING(size);
	g_autoptr(vms_budget) budget = new_budget(100 * usual, 0);
	g_assert_true(vms_budget_step_decompressed(budget, size, 0));
	g_assert_true(
		vms_budget_step_decompressed(budget, size, usual * VMS_BUDGET_STEP_NS * 3 / 2));
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_STEPS), ==, 2 * usual);
	g_assert_true(vms_budget_step_decompressed(budget, size, 50 * usual * VMS_BUDGET_STEP_NS));
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_STEPS), ==, 52 * usual);
	g_assert_false(vms_budget_step_decompressed(budget, 0, 49 * usual * VMS_BUDGET_STEP_NS));
	g_assert_cmpuint(vms_budget_left(budget, VMS_BUDGET_STEPS), ==, 0);
	g_assert_true(vms_budget_step_decompressed(NULL, size, UINT64_MAX));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/budget/steps", test_steps);
	g_test_add_func("/budget/parts", test_parts);
	g_test_add_func("/budget/whole is used up", test_whole_is_used_up);
	g_test_add_func("/budget/measured", test_measured);
	g_test_add_func("/budget/decompressed", test_decompressed);
	g_test_add_func("/budget/other units", test_other_units);
	g_test_add_func("/budget/cancel", test_cancel);
	g_test_add_func("/budget/hurry", test_hurry);
	g_test_add_func("/budget/refill", test_refill);
	g_test_add_func("/budget/none", test_none);
	g_test_add_func("/budget/bytes", test_bytes);
	g_test_add_func("/budget/error", test_error);
	return g_test_run();
}
