/* SPDX-License-Identifier: MIT */
#include "agent/probes/open_calls.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 65536

static struct open_calls *calls;

static bool add(uint32_t place, uint64_t sp, uint64_t pc, const char *text)
{
	const struct open_call call = {
		.key = { .sp = sp, .pc = pc, .space = 7 },
		.begin_ns = sp,
		.place = place,
		.size = (uint32_t)strlen(text),
	};
	return open_calls_add(calls, &call, text);
}

/* Takes the calls of a key, and returns their places and values, "1:text 2:text". */
static char *take(uint64_t sp, uint64_t pc, uint64_t space)
{
	const struct call_key key = { sp, pc, space };
	GString *text = g_string_new(NULL);
	struct open_call *call = open_calls_take(calls, &key);
	while (call) {
		struct open_call *next = call->next;
		g_assert_cmpuint(call->begin_ns, ==, sp);
		g_string_append_printf(text, "%s%u:%.*s", text->len ? " " : "", call->place,
				       (int)call->size, (const char *)call->values);
		free(call);
		call = next;
	}
	return g_string_free(text, FALSE);
}

static void assert_taken(uint64_t sp, uint64_t pc, uint64_t space, const char *expected)
{
	g_autofree char *taken = take(sp, pc, space);
	g_assert_cmpstr(taken, ==, expected);
}

static void test_keys(void)
{
	g_assert_true(add(1, 100, 50, "a"));
	g_assert_true(add(1, 101, 50, "b"));
	g_assert_true(add(1, 100, 51, ""));
	assert_taken(100, 50, 8, "");
	assert_taken(102, 50, 7, "");
	assert_taken(100, 50, 7, "1:a");
	assert_taken(100, 50, 7, "");
	assert_taken(100, 51, 7, "1:");
	assert_taken(101, 50, 7, "1:b");
}

/* A function that ends by jumping to another: both return at once. */
static void test_last_acts(void)
{
	g_assert_true(add(1, 100, 50, "outer"));
	g_assert_true(add(2, 100, 50, "inner"));
	assert_taken(100, 50, 7, "2:inner 1:outer");
}

/* A call that never returned: its stack is in use again. */
static void test_forgotten(void)
{
	g_assert_true(add(1, 100, 50, "dead"));
	g_assert_true(add(1, 100, 50, "alive"));
	assert_taken(100, 50, 7, "1:alive");
}

static void test_limit(void)
{
	for (uint64_t i = 0; i < CALLS_MAX; i++)
		g_assert_true(add(1, i, 50, "x"));
	g_assert_false(add(1, CALLS_MAX, 50, "x"));
	assert_taken(CALLS_MAX, 50, 7, "");
	assert_taken(CALLS_MAX / 2, 50, 7, "1:x");
	g_assert_true(add(1, CALLS_MAX, 50, "x"));
	assert_taken(CALLS_MAX, 50, 7, "1:x");
}

#define THREADS 4
#define ROUNDS	20000

/* Each thread returns out of the calls of the one before it. */
static gpointer call_and_return(gpointer data)
{
	const uint64_t self = GPOINTER_TO_UINT(data), other = (self + 1) % THREADS;
	uint64_t taken = 0;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		g_assert_true(add(1, self, i, "value"));
		g_autofree char *text = take(other, i, 7);
		taken += *text != 0;
		g_assert_true(!*text || strcmp(text, "1:value") == 0);
	}
	return GUINT_TO_POINTER(taken);
}

static void test_threads(void)
{
	GThread *threads[THREADS];
	uint64_t taken = 0;
	for (unsigned i = 0; i < THREADS; i++)
		threads[i] = g_thread_new(NULL, call_and_return, GUINT_TO_POINTER(i));
	for (unsigned i = 0; i < THREADS; i++)
		taken += GPOINTER_TO_UINT(g_thread_join(threads[i]));
	for (unsigned i = 0; i < THREADS; i++)
		for (uint64_t round = 0; round < ROUNDS; round++) {
			g_autofree char *text = take(i, round, 7);
			taken += *text != 0;
		}
	g_assert_cmpuint(taken, ==, THREADS * ROUNDS);
}

struct test {
	const char *name;
	void (*run)(void);
};

static void run(gconstpointer test)
{
	calls = open_calls_new();
	g_assert_nonnull(calls);
	const struct test *which = test;
	which->run();
	open_calls_free(calls);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "/open_calls/keys", test_keys },
		{ "/open_calls/last-acts", test_last_acts },
		{ "/open_calls/forgotten", test_forgotten },
		{ "/open_calls/limit", test_limit },
		{ "/open_calls/threads", test_threads },
	};
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add_data_func(tests[i].name, &tests[i], run);
	return g_test_run();
}
