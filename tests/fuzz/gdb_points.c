/* SPDX-License-Identifier: MIT */
/*
 * What a gdb stub answers to requests about breakpoints and steps. Input: the text of each of its
 * packets, a line each, which gets its checksum here.
 *
 * Covers: src/machine/gdb/breakpoints.c.
 */
#include "machine/gdb/breakpoints.h"
#include "peer.h"

#define N_VCPUS	 2
#define N_POINTS 3
#define STEP_NS	 1000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A client that has greeted its stub: the pc is the first register in the answer to `g`. */
static void begin(struct vms_gdb *gdb)
{
	*gdb = (struct vms_gdb) { .arch = &vms_arch_x86_64, .interrupts = true, .stopped = true };
	gdb->slots[gdb->arch->pc] = (struct vms_gdb_slot) { .number = 16, .size = 8 };
	gdb->general_size = 8;
	gdb->payload = g_string_new(NULL);
	gdb->threads = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	for (uint64_t thread = 1; thread <= N_VCPUS; thread++)
		g_array_append_val(gdb->threads, thread);
	gdb->known = g_new0(struct vms_regs, N_VCPUS);
}

static GString *make_packets(const uint8_t *data, size_t size)
{
	GString *packets = g_string_new(NULL);
	g_autofree char *text = g_strndup((const char *)data, size);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		uint8_t sum = 0;
		for (const char *c = *line; *c; c++)
			sum += (uint8_t)*c;
		g_string_append_printf(packets, "$%s#%02x", *line, sum);
	}
	return packets;
}

/* What fails leaves a connection of which nothing is known any more. */
static void check(const struct vms_gdb *gdb, bool done)
{
	g_assert_true(done || gdb->broken);
}

/* A hit, as an engine deals with it, and the removal of what was left. */
static void deal_with_hit(struct vms_gdb *gdb)
{
	struct vms_gdb_point points[N_POINTS] = { { .va = 0x1000 },
						  { .va = 0x2000, .is_hardware = true },
						  { .va = 0x3000 } };
	struct vms_gdb_step step = { .removes = true, .limit_ns = STEP_NS };
	struct vms_gdb_departure departure = { .vcpu = 0, .go = "cont" };
	struct vms_gdb_look look;
	check(gdb, vms_gdb_set_points(gdb, points, N_POINTS, true, NULL));
	check(gdb, vms_gdb_look(gdb, &look, NULL));
	vms_gdb_look_clear(&look);
	check(gdb, vms_gdb_step(gdb, &step, &points[0], NULL));
	points[1].is_unwanted = true;
	check(gdb, vms_gdb_depart(gdb, &departure, points, N_POINTS, NULL));
	g_free(departure.refusal);
	check(gdb, vms_gdb_set_points(gdb, points, N_POINTS, false, NULL));
	check(gdb, vms_gdb_clear_points(gdb, N_VCPUS, NULL));
	check(gdb, vms_gdb_end_lost_steps(gdb, N_VCPUS, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_gdb gdb;
	struct vms_hold hold = { 0 };
	g_autoptr(GString) packets = make_packets(data, size);
	begin(&gdb);
	gdb.hold = &hold;
	vms_hold_begin(&hold, VMS_HOLD_LOOKING, 0, UINT64_MAX);
	int peer = fuzz_peer_start(&gdb.stream, (const uint8_t *)packets->str, packets->len);
	deal_with_hit(&gdb);
	vms_gdb_close(&gdb);
	fuzz_peer_stop(peer);
	return 0;
}
