/* SPDX-License-Identifier: MIT */
/* Threads off the CPU: at which times samples are given, and what tracepoints tell. */
#include "sampler/host/off_cpu.h"
#include "sampler/host/switches.h"
#include <string.h>

#define FULL 9 /* a thread for whose samples there is no room */

static bool note_sample(const struct vms_sample_record *sample, uint64_t more, void *data)
{
	g_assert_cmpuint(sample->stack.n, ==, 1);
	g_string_append_printf(data, "%u:%c@%" G_GUINT64_FORMAT " ", sample->tid, sample->waits,
			       sample->time_ns);
	if (sample->tid == FULL)
		g_string_append_printf(data, "and %" G_GUINT64_FORMAT " ", more);
	return sample->tid != FULL;
}

static void begin(struct vms_off_cpu *off_cpu, uint32_t tid, char state, uint64_t time_ns)
{
	const struct vms_sample_record sample = {
		.time_ns = time_ns, .tid = tid, .waits = state, .stack.n = 1
	};
	vms_off_cpu_begin(off_cpu, &sample);
}

static void assert_given(GString *given, const char *expected)
{
	g_assert_cmpstr(given->str, ==, expected);
	g_string_set_size(given, 0);
}

/* Samples are at multiples of the period: of a wait from its first moment to before its last. */
static void test_times(void)
{
	g_autoptr(GString) given = g_string_new(NULL);
	struct vms_off_cpu *off_cpu = vms_off_cpu_new(100, note_sample, given);
	begin(off_cpu, 1, 'S', 100);
	vms_off_cpu_end(off_cpu, 1, 300);
	assert_given(given, "1:S@100 1:S@200 ");
	begin(off_cpu, 1, 'D', 301);
	vms_off_cpu_end(off_cpu, 1, 399);
	assert_given(given, "");
	vms_off_cpu_end(off_cpu, 1, 1000); /* it ran already */
	vms_off_cpu_advance(off_cpu, 2000);
	assert_given(given, "");
	vms_off_cpu_free(off_cpu);
}

/* A wait that goes on gives its samples once, however often they are asked for. */
static void test_advance(void)
{
	g_autoptr(GString) given = g_string_new(NULL);
	struct vms_off_cpu *off_cpu = vms_off_cpu_new(100, note_sample, given);
	begin(off_cpu, 1, 'S', 50);
	vms_off_cpu_advance(off_cpu, 101);
	vms_off_cpu_advance(off_cpu, 200);
	assert_given(given, "1:S@100 ");
	vms_off_cpu_end(off_cpu, 1, 201);
	assert_given(given, "1:S@200 ");
	vms_off_cpu_free(off_cpu);
}

/* The samples that have no room are told with the first of them. */
static void test_no_room(void)
{
	g_autoptr(GString) given = g_string_new(NULL);
	struct vms_off_cpu *off_cpu = vms_off_cpu_new(100, note_sample, given);
	begin(off_cpu, FULL, 'S', 100);
	vms_off_cpu_advance(off_cpu, 1000000000);
	assert_given(given, "9:S@100 and 9999998 ");
	vms_off_cpu_end(off_cpu, FULL, 1000000001);
	assert_given(given, "9:S@1000000000 and 0 ");
	vms_off_cpu_free(off_cpu);
}

/*
 * A thread was found asleep at 500. What the kernel has told of it comes later: it ran at 200, and
 * has slept since 300. And a switch back that was lost.
 */
static void test_found(void)
{
	g_autoptr(GString) given = g_string_new(NULL);
	struct vms_off_cpu *off_cpu = vms_off_cpu_new(100, note_sample, given);
	begin(off_cpu, 1, 'S', 500);
	vms_off_cpu_end(off_cpu, 1, 200);
	begin(off_cpu, 1, 'D', 300);
	vms_off_cpu_end(off_cpu, 1, 600);
	assert_given(given, "1:D@300 1:D@400 1:D@500 ");
	begin(off_cpu, 2, 'S', 700);
	begin(off_cpu, 2, 'T', 850);
	vms_off_cpu_end(off_cpu, 2, 901);
	assert_given(given, "2:S@700 2:S@800 2:T@900 ");
	vms_off_cpu_free(off_cpu);
}

#define FORMAT(offset, size)                                                                       \
	"name: sched_switch\nID: 372\nformat:\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\n"     \
	"\tfield:long prev_state;\toffset:" offset ";\tsize:" size ";\tsigned:1;\n"

static void test_format(void)
{
	struct vms_switches switches = { 0 };
	g_assert_true(vms_switches_parse(FORMAT("32", "8"), &switches));
	g_assert_cmpuint(switches.tracepoint, ==, 372);
	g_assert_cmpuint(switches.state_offset, ==, 32);
	const struct {
		uint64_t state;
		char letter;
	} states[] = { { 0, 'R' }, { 0x100, 'R' }, { 1, 'S' },	{ 2, 'D' },    { 4, 'T' },
		       { 8, 't' }, { 0x10, 0 },	   { 0x20, 0 }, { 0x40, 'P' }, { 0x80, 'I' } };
	uint8_t raw[40] = { 0 };
	for (size_t i = 0; i < G_N_ELEMENTS(states); i++) {
		memcpy(raw + 32, &states[i].state, 8);
		g_assert_cmpint(vms_switches_state(&switches, raw, sizeof(raw)), ==,
				states[i].letter);
	}
	g_assert_cmpint(vms_switches_state(&switches, raw, 39), ==, '?');
	g_assert_cmpint(vms_switches_state(&switches, raw, 0), ==, '?');
	g_assert_false(vms_switches_is_sleep_code(&switches, 0));
	g_assert_false(vms_switches_parse("", &switches));
	g_assert_false(vms_switches_parse("ID: 372\n", &switches));
	g_assert_false(vms_switches_parse(FORMAT("32", "2"), &switches));
	g_assert_false(vms_switches_parse(FORMAT("", "8"), &switches));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/off_cpu/times", test_times);
	g_test_add_func("/off_cpu/advance", test_advance);
	g_test_add_func("/off_cpu/no_room", test_no_room);
	g_test_add_func("/off_cpu/found", test_found);
	g_test_add_func("/off_cpu/format", test_format);
	return g_test_run();
}
