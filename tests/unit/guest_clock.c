/* SPDX-License-Identifier: MIT */
/* Times of the guest's clock, against pauses that are subtracted by hand. */
#include "calls/guest_clock.h"

#include <string.h>

struct record {
	uint64_t time_ns, word;
};

/* Paused from 100 to 150 and from 200 to 260. */
static uint64_t paused(void *data, uint64_t time_ns)
{
	unsigned *asked = data;
	(*asked)++;
	uint64_t first = time_ns < 100 ? 0 : MIN(time_ns, 150) - 100;
	return first + (time_ns < 200 ? 0 : MIN(time_ns, 260) - 200);
}

static void test_pauses(void)
{
	static const uint64_t host[] = { 1, 99, 100, 120, 150, 151, 199, 200, 255, 260, 300, 1000 };
	static const uint64_t guest[] = { 1, 99, 100, 100, 100, 101, 149, 150, 150, 150, 190, 890 };
	struct record records[G_N_ELEMENTS(host)], ret[G_N_ELEMENTS(host)];
	unsigned asked = 0;
	for (size_t i = 0; i < G_N_ELEMENTS(host); i++)
		records[i] = (struct record) { host[i], ~i };
	vms_calls_convert_times(records, sizeof(records), paused, &asked, ret);
	for (size_t i = 0; i < G_N_ELEMENTS(host); i++) {
		g_assert_cmpuint(ret[i].time_ns, ==, guest[i]);
		g_assert_cmphex(ret[i].word, ==, ~i);
	}
}

/* Millions of records per second go through here: without a pause among them it is not asked. */
static void test_few_questions(void)
{
	struct record records[1000], ret[1000];
	unsigned asked = 0;
	for (size_t i = 0; i < G_N_ELEMENTS(records); i++)
		records[i] = (struct record) { 300 + i, i };
	vms_calls_convert_times(records, sizeof(records), paused, &asked, ret);
	g_assert_cmpuint(asked, ==, 2);
	g_assert_cmpuint(ret[999].time_ns, ==, 1299 - 110);
	vms_calls_convert_times(records, 0, paused, &asked, ret);
	g_assert_cmpuint(asked, ==, 2);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/guest-clock/pauses", test_pauses);
	g_test_add_func("/guest-clock/few-questions", test_few_questions);
	return g_test_run();
}
