/* SPDX-License-Identifier: MIT */
/* Sets of probes that add up their hits: what the agent accepts of a client, and what it counts. */
#include "probe_request.h"

#include <glib.h>
#include <string.h>

#define VCPUS	  4
#define RING_SIZE (64u << 10)

/* A request with its file, which a test may damage. */
struct start {
	struct vms_agent_probes options;
	struct file {
		struct vms_agent_place place;
		struct vms_op ops[6];
		struct vms_tally_shape shape;
	} file;
	size_t cut; /* bytes that the file lacks */
};

/* Requires that register 1 is not 0; sums up register 0 by register 1. */
static struct start sound_start(void)
{
	return (struct start) {
		.options = { .message = { VMS_AGENT_MAGIC, VMS_AGENT_PROBES_START },
			     .id = 1,
			     .vcpu = VMS_AGENT_ALL_VCPUS,
			     .ring_size = RING_SIZE,
			     .n_places = 1,
			     .n_ops = 6,
			     .tallies = 1 },
		.file.place = { 0x1000, 0, 6 },
		.file.ops = { { .code = VMS_OP_REGISTER, .value = 1 },
			      { .code = VMS_OP_REQUIRE },
			      { .code = VMS_OP_REGISTER },
			      { .code = VMS_OP_COLLECT, .size = 8 },
			      { .code = VMS_OP_REGISTER, .value = 1 },
			      { .code = VMS_OP_COLLECT, .size = 8 } },
		.file.shape = { .n_entries = 2, .key_size = 12, .n_numbers = 1 },
	};
}

static struct probe_set *make_set(const struct start *start, struct reply *reply)
{
	struct probe_set *set = probe_request_send(&start->options, &start->file,
						   sizeof(start->file) - start->cut, VCPUS, reply);
	for (unsigned i = 0; set && i < VCPUS - 1; i++)
		g_assert_true(probe_set_reserve(set, i));
	if (set)
		set->armed = true;
	return set;
}

static void assert_refused(const struct start *start)
{
	struct reply reply = { 0 };
	g_assert_null(make_set(start, &reply));
	g_assert_cmpint(reply.message.kind, ==, VMS_AGENT_ERROR);
}

static void test_requests(void)
{
	struct start start = sound_start();
	start.cut = 1;
	assert_refused(&start);
	start = sound_start();
	start.options.tallies = 2;
	assert_refused(&start);
	start = sound_start();
	start.file.shape.n_entries = 0;
	assert_refused(&start);
	start = sound_start();
	start.file.shape.n_entries = VMS_TALLY_ENTRIES_MAX;
	start.file.shape.key_size = VMS_PROGRAM_OUTPUT_MAX;
	assert_refused(&start);
	start = sound_start();
	start.file.shape.numbers[0].kind = 3;
	assert_refused(&start);
}

/* ---- hits ---------------------------------------------------------------------------------- */

static uint64_t registers[2];
static bool is_first_known = true;

static bool read_register(void *data, unsigned reg, uint64_t *ret)
{
	(void)data;
	*ret = registers[reg];
	return reg > 0 || is_first_known;
}

static bool hit(struct probe_set *set, unsigned vcpu, uint64_t number, uint64_t key)
{
	const struct vms_program_input input = { .reg = read_register, .vcpu = vcpu };
	const struct probe_hit hit = { .place = 0, .vcpu = vcpu, .input = &input };
	registers[0] = number;
	registers[1] = key;
	return probe_set_run(set, &hit);
}

static const struct vms_tally_entry *entry_of(const struct probe_set *set, unsigned vcpu,
					      uint32_t index)
{
	const struct vms_tally *tally = &set->tallies.tally[vcpu];
	g_assert_cmpuint(index, <, tally->n);
	return (const void *)(tally->entries + index * tally->layout.entry_size);
}

static void assert_entry(const struct probe_set *set, unsigned vcpu, uint32_t index, uint64_t count,
			 uint64_t sum)
{
	g_assert_cmpuint(entry_of(set, vcpu, index)->count, ==, count);
	g_assert_cmpuint(entry_of(set, vcpu, index)->sums[0].sum, ==, sum);
}

static void test_counts(void)
{
	struct reply reply = { 0 };
	const struct start start = sound_start();
	struct probe_set *set = make_set(&start, &reply);
	const struct vms_agent_rings *rings = set->rings.shared;
	for (uint64_t i = 1; i <= 6; i++)
		g_assert_false(hit(set, i % 2, i, 5 + i % 4)); /* 6, 7, 8, 5, 6, 7 */
	g_assert_false(hit(set, 0, 9, 0));		       /* rejected */
	is_first_known = false;
	g_assert_false(hit(set, 2, 9, 1)); /* a number is not known */
	is_first_known = true;
	hit(set, 2, 1, 1);
	hit(set, 2, 1, 2);
	hit(set, 2, 1, 3); /* no room */
	hit(set, 2, 4, 2);
	hit(set, 3, 1, 1); /* no memory */
	assert_entry(set, 1, 0, 2, 1 + 5);
	assert_entry(set, 1, 1, 1, 3);
	assert_entry(set, 0, 0, 2, 2 + 6);
	assert_entry(set, 0, 1, 1, 4);
	assert_entry(set, 2, 0, 1, 1);
	assert_entry(set, 2, 1, 2, 5);
	g_assert_cmpuint(set->tallies.tally[2].head->unfit, ==, 1);
	g_assert_cmpuint(rings->ring[0].rejected, ==, 1);
	g_assert_cmpuint(rings->ring[2].unknown, ==, 1);
	g_assert_cmpuint(rings->hits, ==, 1); /* the lost one */
	for (unsigned i = 0; i < VCPUS; i++)
		g_assert_cmpuint(rings->ring[i].head, ==, 0);
	probe_set_free(set);
}

/* A limit is exact, whichever vCPUs come to it, and counts what finds no room, too. */
static void test_limit(void)
{
	struct reply reply = { 0 };
	struct start start = sound_start();
	start.options.max_hits = 4;
	struct probe_set *set = make_set(&start, &reply);
	g_assert_false(hit(set, 0, 1, 1));
	g_assert_false(hit(set, 0, 1, 2));
	g_assert_false(hit(set, 0, 1, 3));
	g_assert_false(hit(set, 0, 1, 0));
	g_assert_cmpuint(set->rings.shared->stopped, ==, 0);
	g_assert_true(hit(set, 1, 1, 1));
	g_assert_cmpuint(set->rings.shared->stopped, ==, 1);
	g_assert_false(hit(set, 1, 1, 1));
	assert_entry(set, 1, 0, 1, 1);
	probe_set_free(set);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/tallies/requests", test_requests);
	g_test_add_func("/tallies/counts", test_counts);
	g_test_add_func("/tallies/limit", test_limit);
	return g_test_run();
}
