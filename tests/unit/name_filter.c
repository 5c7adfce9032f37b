/* SPDX-License-Identifier: MIT */
/* Programs that are waited for by name, and the order of the kernel's records. */
#include "sampler/host/name_filter.h"
#include "sampler/host/record_queue.h"

static void test_births(void)
{
	struct vms_name_filter *filter = vms_name_filter_new();
	vms_name_filter_add(filter, "/usr/bin/a-name-that-is-too-long");
	g_assert_false(vms_name_filter_note_program(filter, 10, "sh", 1));
	vms_name_filter_note_birth(filter, 11, 10);
	g_assert_false(vms_name_filter_has(filter, 11));
	g_assert_false(vms_name_filter_ended(filter)); /* it has not begun */
	g_assert_true(vms_name_filter_note_program(filter, 11, "a-name-that-is-", 1));
	g_assert_false(vms_name_filter_has(filter, 10));
	vms_name_filter_note_birth(filter, 11, 11); /* a thread */
	vms_name_filter_note_birth(filter, 12, 11); /* a process, which runs another program */
	g_assert_true(vms_name_filter_note_program(filter, 12, "sh", 1));
	vms_name_filter_note_exit(filter, 11);
	g_assert_true(vms_name_filter_has(filter, 11)); /* the other thread */
	vms_name_filter_note_exit(filter, 11);
	g_assert_false(vms_name_filter_has(filter, 11));
	g_assert_false(vms_name_filter_ended(filter));
	vms_name_filter_note_exit(filter, 12);
	vms_name_filter_note_exit(filter, 13);
	g_assert_true(vms_name_filter_ended(filter));
	vms_name_filter_free(filter);
}

static bool is_even(pid_t pid)
{
	return pid % 2 == 0;
}

/* Ends that were lost. */
static void test_prune(void)
{
	struct vms_name_filter *filter = vms_name_filter_new();
	vms_name_filter_add(filter, "it");
	for (pid_t pid = 1; pid < 5; pid++)
		vms_name_filter_note_program(filter, pid, "it", 3);
	vms_name_filter_prune(filter, is_even);
	g_assert_true(vms_name_filter_has(filter, 1)); /* its last records may come */
	vms_name_filter_prune(filter, is_even);
	g_assert_false(vms_name_filter_has(filter, 1) || vms_name_filter_has(filter, 3));
	g_assert_true(vms_name_filter_has(filter, 2) && vms_name_filter_has(filter, 4));
	vms_name_filter_free(filter);
}

static void note(const struct vms_perf_record *record, void *data)
{
	g_string_append_len(data, (const char *)record->body, record->size);
}

static void put(struct vms_record_queue *queue, uint64_t time_ns, const char *text)
{
	const struct vms_perf_record record = { .size = (uint32_t)strlen(text),
						.body = (const uint8_t *)text };
	vms_record_queue_put(queue, time_ns, &record);
}

static void test_order(void)
{
	struct vms_record_queue *queue = vms_record_queue_new();
	g_autoptr(GString) text = g_string_new(NULL);
	put(queue, 3, "c");
	put(queue, 1, "a1");
	put(queue, 1, "a2");
	put(queue, 9, "d");
	vms_record_queue_take(queue, 3, note, text);
	g_assert_cmpstr(text->str, ==, "a1a2c");
	put(queue, 4, "b");
	vms_record_queue_take(queue, UINT64_MAX, note, text);
	g_assert_cmpstr(text->str, ==, "a1a2cbd");
	put(queue, 1, "left"); /* which is freed with it */
	vms_record_queue_free(queue);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/name_filter/births", test_births);
	g_test_add_func("/name_filter/prune", test_prune);
	g_test_add_func("/name_filter/order", test_order);
	return g_test_run();
}
