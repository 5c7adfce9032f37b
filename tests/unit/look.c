/* SPDX-License-Identifier: MIT */
/* Looks that vCPUs ask a client for, and what its answers end. */
#include "agent/look.h"

#include "agent/qemu/kick.h"
#include <glib.h>

void kick_begin_wait(void)
{
}

void kick_end_wait(void)
{
}

/* Each vCPU waits for its own look, also if it asks while the client makes that of another one. */
static void test_two(void)
{
	_Atomic uint32_t looks = UINT32_MAX - 1, looked = UINT32_MAX - 1;
	struct look first = { 0 }, second = { 0 };
	g_assert_true(look_ask(&first, &looks, &looked));
	/* It asked before, and was answered. */
	second = (struct look) { .number = UINT32_MAX - 1, .end_ns = 1 };
	g_assert_true(look_ask(&second, &looks, &looked));
	g_assert_cmpuint(looks, ==, 0);
	g_assert_true(look_is_awaited(&first, &looked));
	g_assert_true(look_is_awaited(&second, &looked));
	atomic_store(&looked, UINT32_MAX);
	g_assert_false(look_is_awaited(&first, &looked));
	g_assert_true(look_is_awaited(&second, &looked));
	atomic_store(&looked, 0);
	g_assert_false(look_is_awaited(&second, &looked));
}

/* Nobody waits again for a client that did not answer in time, until it has answered. */
static void test_no_answer(void)
{
	_Atomic uint32_t looks = 1, looked = 0;
	struct look look = { .number = 1, .end_ns = 1 };
	g_assert_false(look_is_awaited(&look, &looked));
	g_assert_false(look_ask(&look, &looks, &looked));
	g_assert_false(look_is_awaited(&look, &looked));
	atomic_store(&looked, 2);
	g_assert_true(look_ask(&look, &looks, &looked));
	g_assert_true(look_is_awaited(&look, &looked));
	/* Two questions before the vCPU waits: it waits for both. */
	g_assert_true(look_ask(&look, &looks, &looked));
	atomic_store(&looked, 3);
	g_assert_true(look_is_awaited(&look, &looked));
	atomic_store(&looked, 4);
	g_assert_false(look_is_awaited(&look, &looked));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/look/two", test_two);
	g_test_add_func("/look/no-answer", test_no_answer);
	return g_test_run();
}
