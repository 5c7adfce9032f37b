/* SPDX-License-Identifier: MIT */
/*
 * Timers and clocks of a kernel in memory of any content (words.h), which every CPU has its own of.
 *
 * Covers: src/guest/linux/timer.c src/guest/linux/clock.c src/guest/linux/percpu.c.
 */
#include "guest/linux/clock.h"
#include "guest/linux/timer.h"
#include "words.h"

enum {
	OLD_ROOT = 1,	    /* of a tree, before 5.4 */
	NO_MEMBERS = 2,	    /* something is missing */
	ONE_CPU = 4,	    /* nothing is per CPU */
	NO_CPU_COUNT = 8,   /* how many CPUs there are is not told */
	NO_SOURCE = 16,	    /* which clock source is used the timekeeper tells */
	CPUS_OUTSIDE = 32,  /* the per-CPU bases cannot be read */
	COUNT_OUTSIDE = 64, /* nor how many there are */
};

#define BASES	  (WORDS_RAM + 0x100)
#define N_BASES	  8
#define BASE_SIZE 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct encoder_member root[] = { { "rb_node", 0, 8 }, { 0 } };
static const struct encoder_member cached_root[] = { { "rb_root", 0, 8, root }, { 0 } };
static const struct encoder_member new_queue[] = { { "rb_root", 0, 8, cached_root }, { 0 } };
static const struct encoder_member old_queue[] = { { "head", 0, 8, root }, { 0 } };
static const struct encoder_member queue_node[] = { { "node", 0, 16 },
						    { "expires", 16, 8 },
						    { 0 } };
static const struct encoder_member read_base[] = { { "clock", 0, 8 }, { 0 } };

static const struct words_structure structures[] = {
	{ "hrtimer_cpu_base", { 0, 0 }, { { "clock_base", 8, N_BASES *BASE_SIZE } } },
	{ "hrtimer_clock_base",
	  { 0, OLD_ROOT },
	  { { "clockid", 0, 4 }, { "active", 8, 8, new_queue } } },
	{ "hrtimer_clock_base",
	  { OLD_ROOT, 0 },
	  { { "clockid", 0, 4 }, { "active", 8, 8, old_queue } } },
	{ "rb_node", { 0, 0 }, { { "rb_right", 0, 8 }, { "rb_left", 8, 8 } } },
	{ "hrtimer", { 0, NO_MEMBERS }, { { "node", 0, 24, queue_node }, { "function", 24, 8 } } },
	{ "clocksource", { 0, 0 }, { { "name", 0, 8 }, { "rating", 8, 4 } } },
	{ "tick_device", { 0, NO_MEMBERS }, { { "evtdev", 0, 8 } } },
	{ "clock_event_device",
	  { 0, 0 },
	  { { "name", 0, 8 }, { "rating", 8, 4 }, { "next_event", 16, 8 } } },
	{ "timekeeper", { 0, 0 }, { { "tkr_mono", 0, 8, read_base } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "__per_cpu_offset", WORDS_RAM + 0x10, { 0, ONE_CPU | CPUS_OUTSIDE } },
	{ "__per_cpu_offset", 0x1000, { CPUS_OUTSIDE, ONE_CPU } },
	{ "nr_cpu_ids", WORDS_RAM, { 0, NO_CPU_COUNT | COUNT_OUTSIDE } },
	{ "nr_cpu_ids", 0x2000, { COUNT_OUTSIDE, NO_CPU_COUNT } },
	{ "hrtimer_bases", BASES, { 0, 0 } },
	{ "tick_cpu_device", WORDS_RAM + 0x200, { 0, 0 } },
	{ "curr_clocksource", WORDS_RAM + 8, { 0, NO_SOURCE } },
	{ "timekeeper", WORDS_RAM + 0x300, { 0, 0 } },
	{ 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_kernel kernel = { &vms_arch_x86_64, symbols, structures, { 0 } };
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	g_autoptr(GArray) timers = vms_linux_timers(guest, NULL);
	for (guint i = 0; timers && i < timers->len; i++)
		g_assert_nonnull(g_array_index(timers, struct vms_timer, i).clock);
	g_autoptr(GArray) clocks = vms_linux_clocks(guest, NULL);
	for (guint i = 0; clocks && i < clocks->len; i++)
		words_check_name(g_array_index(clocks, struct vms_clock, i).name);
	words_linux_free(guest);
	return 0;
}
