/* SPDX-License-Identifier: MIT */
/* Flows, records and reports, with an engine that is hit when the test says so. */
#include "arch/x86_64.h"
#include "base/clock.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "machine/probes.h"
#include <string.h>
#include <vmscope/aggregate.h>

#define DATA 0x2000

/* ---- an engine whose probes the test hits ------------------------------------------------- */

struct fake_probes {
	struct vms_probes probes;
	struct vms_probes_request request;
	struct vms_place places[16];
	gint is_armed;
	uint64_t hits, rejected, unknown;
};

static struct fake_probes *armed; /* the last that were armed */
static bool arm_fails;

static struct vms_probes *arm(struct vms_machine *machine, const struct vms_probes_request *request,
			      GError **error)
{
	if (arm_fails) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE, "there is no code");
		return NULL;
	}
	armed = g_new0(struct fake_probes, 1);
	armed->probes.machine = machine;
	armed->request = *request;
	g_assert_cmpuint(request->n, <=, G_N_ELEMENTS(armed->places));
	memcpy(armed->places, request->places, request->n * sizeof(armed->places[0]));
	armed->is_armed = 1;
	return &armed->probes;
}

static bool take(struct vms_machine *machine, unsigned timeout_ms, GError **error)
{
	(void)machine;
	(void)error;
	g_usleep(MIN(timeout_ms, 1) * 1000);
	return true;
}

static bool disarm(struct vms_probes *probes, GError **error)
{
	(void)error;
	g_atomic_int_set(&((struct fake_probes *)probes)->is_armed, 0);
	return true;
}

static bool is_armed(struct vms_probes *probes)
{
	return g_atomic_int_get(&((struct fake_probes *)probes)->is_armed);
}

static void get_counts(struct vms_probes *probes, struct vms_probes_counts *ret)
{
	const struct fake_probes *fake = (struct fake_probes *)probes;
	*ret = (struct vms_probes_counts) { fake->hits, fake->rejected, fake->unknown, 0 };
}

static void free_probes(struct vms_probes *probes)
{
	g_free(probes);
}

static const struct vms_probe_engine probe_engine = { .arm = arm,
						      .take = take,
						      .disarm = disarm,
						      .is_armed = is_armed,
						      .counts = get_counts,
						      .free = free_probes };

static bool give_register(void *data, unsigned reg, uint64_t *ret)
{
	const struct vms_regs *regs = data;
	*ret = regs->value[reg];
	return vms_regs_have(regs, reg);
}

static struct vms_machine *machine_hit; /* whose memory programs read */

static bool give_memory(void *data, uint64_t va, void *buf, size_t size)
{
	(void)data;
	return vms_machine_read_phys(machine_hit, va, buf, size);
}

/* A vCPU comes to a place. */
static void hit(unsigned place, unsigned vcpu, uint64_t time_ns)
{
	uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
	struct vms_regs *regs = fake_machine_regs(machine_hit, vcpu);
	const struct vms_program_input input = { give_register, give_memory, regs, vcpu };
	struct vms_hit made = {
		.time_ns = time_ns, .place = place, .vcpu = vcpu, .values = output, .regs = regs
	};
	switch (vms_program_run(armed->places[place].program, &input, output, &made.size)) {
	case VMS_PROGRAM_REJECTED: armed->rejected++; return;
	case VMS_PROGRAM_UNKNOWN: armed->unknown++; return;
	case VMS_PROGRAM_COMPLETE:
	default: break;
	}
	made.number = ++armed->hits;
	armed->request.hit(&made, armed->request.data);
	if (armed->request.max_hits == armed->hits)
		g_atomic_int_set(&armed->is_armed, 0);
}

/* ---- what all tests have --------------------------------------------------------------------- */

struct fixture {
	struct vms_machine *machine;
	struct vms_engine engine;
	struct vms_guest *guest;
	struct vms_probe *probe;
	struct vms_flow *flow;
};

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->machine = machine_hit = fake_machine_new(&vms_arch_x86_64, 2);
	f->engine = *f->machine->engine;
	f->engine.probes = &probe_engine;
	f->machine->engine = &f->engine;
	fake_machine_add_ram(f->machine, DATA, 4096);
	f->guest = fake_guest_new(f->machine, VMS_GUEST_LINUX);
	f->probe = vms_probe_new(f->machine, f->guest, "a probe");
	f->flow = vms_flow_new(f->machine, f->guest, NULL, NULL);
	arm_fails = false;
	for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
		struct vms_regs *regs = fake_machine_regs(f->machine, vcpu);
		vms_regs_set(regs, RAX, 0x1122334455667788);
		vms_regs_set(regs, RSI, DATA);
		vms_regs_set(regs, RCX, 2);
	}
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_flow_unref(f->flow);
	vms_probe_unref(f->probe);
	vms_guest_unref(f->guest);
	vms_machine_unref(f->machine);
}

static void enable(struct fixture *f, uint64_t max_hits, uint64_t max_records)
{
	g_autoptr(GError) error = NULL;
	vms_flow_enable(f->flow, max_hits, max_records, &error);
	g_assert_no_error(error);
}

static void add(struct fixture *f, uint64_t va, unsigned moments, struct vms_probe *probe)
{
	g_autoptr(GError) error = NULL;
	vms_flow_add(f->flow, va, moments, probe, &error);
	g_assert_no_error(error);
}

static void assert_fails(bool done, GError **error, enum vms_error code, const char *part)
{
	g_assert_false(done);
	g_assert_error(*error, VMS_ERROR, (int)code);
	g_assert_nonnull(strstr((*error)->message, part));
	g_clear_error(error);
}

static const struct vms_entry rax = { .kind = VMS_ENTRY_REGISTER, .reg = "rax" };

static void assert_value(const struct vms_flow_record *record, size_t index, const void *bytes,
			 size_t size)
{
	struct vms_flow_value value;
	g_assert_true(vms_flow_record_value(record, index, &value));
	g_assert_cmpint(value.status, ==, VMS_FLOW_KNOWN);
	g_assert_cmpmem(value.bytes, value.size, bytes, size);
}

static struct vms_flow_record *last(struct fixture *f)
{
	g_autoptr(vms_flow_report) report = vms_flow_get_report(f->flow);
	struct vms_flow_record *record =
		vms_flow_report_record(report, vms_flow_report_count(report) - 1, NULL);
	return vms_flow_record_ref(record);
}

/* ---- probes ------------------------------------------------------------------------------------
 */

static bool succeed(const struct vms_flow_record *record, struct vms_memory *memory, void *data,
		    GError **error)
{
	(void)record;
	(void)error;
	uint8_t byte;
	*(int *)data += memory && vms_memory_read(memory, DATA, &byte, 1);
	return true;
}

static bool refuse(const struct vms_flow_record *record, struct vms_memory *memory, void *data,
		   GError **error)
{
	(void)record;
	(void)memory;
	(void)data;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "it does not want to");
	return false;
}

static void test_entries(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct vms_entry wrong[] = {
		{ .kind = VMS_ENTRY_REGISTER, .reg = "raxx" },
		{ .kind = VMS_ENTRY_REGISTER },
		{ .kind = VMS_ENTRY_MEMORY, .base = "rsi" },
		{ .kind = VMS_ENTRY_MEMORY, .base = "rsi", .size = 62000 },
		{ .kind = VMS_ENTRY_MEMORY,
		  .base = "rsi",
		  .index = "rcx",
		  .scale = 256,
		  .size = 1 },
		{ .kind = VMS_ENTRY_MEMORY, .base = "foo", .size = 1 },
		{ .kind = VMS_ENTRY_EXPRESSION, .expression = "1 +" },
		{ .kind = VMS_ENTRY_EXPRESSION },
		{ .kind = VMS_ENTRY_CALLBACK },
		{ .kind = VMS_ENTRY_N_KINDS },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
		g_autoptr(GError) error = NULL;
		const struct vms_entry both[] = { rax, wrong[i] };
		g_assert_false(vms_probe_add(f->probe, both, 2, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
		g_assert_cmpuint(vms_probe_entries(f->probe), ==, 0);
	}
	GError *error = NULL;
	assert_fails(vms_probe_add(f->probe, wrong, 1, &error), &error, VMS_ERROR_INVALID_ARGUMENT,
		     "(did you mean rax");
	const struct vms_entry large = { .kind = VMS_ENTRY_MEMORY, .base = "rsi", .size = 40000 };
	g_assert_true(vms_probe_add(f->probe, &large, 1, NULL));
	assert_fails(vms_probe_add(f->probe, &large, 1, &error), &error, VMS_ERROR_INVALID_ARGUMENT,
		     "too much for one hit");
	g_assert_cmpuint(vms_probe_entries(f->probe), ==, 1);
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	assert_fails(vms_probe_add(f->probe, &rax, 1, &error), &error, VMS_ERROR_INVALID_STATE,
		     "part of a flow");
	assert_fails(vms_probe_set_condition(f->probe, "1", &error), &error,
		     VMS_ERROR_INVALID_STATE, "part of a flow");
}

static void test_values(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	int calls = 0;
	const struct vms_entry entries[] = {
		rax,
		{ .kind = VMS_ENTRY_REGISTER, .reg = "eax", .name = "half" },
		{ .kind = VMS_ENTRY_REGISTER, .reg = "ah" },
		{ .kind = VMS_ENTRY_CALLBACK, .callback = succeed, .data = &calls },
		{ .kind = VMS_ENTRY_MEMORY,
		  .base = "rsi",
		  .index = "rcx",
		  .scale = 8,
		  .offset = -6,
		  .size = 3 },
		{ .kind = VMS_ENTRY_MEMORY, .offset = DATA + 1, .size = 2 },
		{ .kind = VMS_ENTRY_CALLBACK, .callback = refuse },
		{ .kind = VMS_ENTRY_MEMORY, .offset = 0x10, .size = 4 },
		{ .kind = VMS_ENTRY_STRING, .expression = "rsi+32", .size = 4 },
		{ .kind = VMS_ENTRY_STRING, .expression = "rsi+32", .size = 16 },
		{ .kind = VMS_ENTRY_REGISTER, .reg = "cr2" },
		{ .kind = VMS_ENTRY_HALT },
	};
	memcpy(fake_machine_at(f->machine, DATA), "0123456789abcdefghijklmnopqrstuvhello", 38);
	g_assert_true(vms_probe_add(f->probe, entries, G_N_ELEMENTS(entries), NULL));
	g_assert_cmpstr(vms_probe_entry_name(f->probe, 1), ==, "half");
	g_assert_cmpstr(vms_probe_entry_name(f->probe, 4), ==, "mem(rsi+rcx*8-6,3)");
	g_assert_cmpstr(vms_probe_entry_name(f->probe, 5), ==, "mem(0x2001,2)");
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	enable(f, 0, 0);
	g_assert_true(armed->places[0].halts);
	hit(0, 1, 77);
	g_autoptr(vms_flow_record) record = last(f);
	assert_value(record, 0, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
	assert_value(record, 1, "\x88\x77\x66\x55", 4);
	assert_value(record, 2, "\x77", 1);
	assert_value(record, 4, "abc", 3);
	assert_value(record, 5, "12", 2);
	assert_value(record, 9, "hello", 5);
	static const enum vms_flow_value_status others[][2] = {
		{ 3, VMS_FLOW_KNOWN }, { 6, VMS_FLOW_FAILED },	    { 7, VMS_FLOW_UNREADABLE },
		{ 8, VMS_FLOW_CUT },   { 10, VMS_FLOW_UNREADABLE },
	};
	struct vms_flow_value value;
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
		g_assert_true(vms_flow_record_value(record, others[i][0], &value));
		g_assert_cmpint(value.status, ==, others[i][1]);
	}
	g_assert_false(vms_flow_record_value(record, G_N_ELEMENTS(entries), &value));
	g_assert_false(vms_flow_record_common_value(record, 0, &value));
	g_assert_cmpint(calls, ==, 1);
}

/* ---- flows
 * --------------------------------------------------------------------------------------- */

static void test_places(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	GError *error = NULL;
	assert_fails(vms_flow_enable(f->flow, 0, 0, &error), &error, VMS_ERROR_INVALID_STATE,
		     "no places");
	assert_fails(vms_flow_add(f->flow, 0x10, 0, f->probe, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "VMS_FLOW_BEFORE");
	assert_fails(vms_flow_add(f->flow, 0x10, 4 | VMS_FLOW_AFTER, f->probe, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "0x6");
	add(f, 0x10, VMS_FLOW_AFTER, f->probe);
	/* One of the two is there: neither is added. */
	assert_fails(
		vms_flow_add(f->flow, 0x10, VMS_FLOW_BEFORE | VMS_FLOW_AFTER, f->probe, &error),
		&error, VMS_ERROR_EXISTS, "after the instruction at 0x10");
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	arm_fails = true;
	assert_fails(vms_flow_enable(f->flow, 0, 0, &error), &error, VMS_ERROR_UNREADABLE,
		     "no code");
	g_assert_true(vms_flow_wait(f->flow, 0)); /* it is not enabled */
	arm_fails = false;
	enable(f, 0, 0);
	assert_fails(vms_flow_enable(f->flow, 0, 0, &error), &error, VMS_ERROR_INVALID_STATE,
		     "already");
	assert_fails(vms_flow_add(f->flow, 0x20, VMS_FLOW_BEFORE, f->probe, &error), &error,
		     VMS_ERROR_INVALID_STATE, "enabled");
	g_assert_cmpuint(armed->request.n, ==, 2);
	g_assert_cmpint(armed->request.vcpu, ==, VMS_ALL_VCPUS);
	hit(1, 0, 5);
	hit(0, 1, 6);
	g_autoptr(vms_flow_record) record = last(f);
	struct vms_flow_hit of;
	vms_flow_record_hit(record, &of);
	g_assert_cmpuint(of.sequence, ==, 2);
	g_assert_cmpuint(of.time_ns, ==, 6);
	g_assert_cmphex(of.va, ==, 0x10);
	g_assert_true(of.is_after);
	g_assert_cmpuint(of.vcpu, ==, 1);
	g_assert_false(of.has_task);
	g_assert_true(vms_flow_record_probe(record) == f->probe);
}

static void test_remove(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	GError *error = NULL;
	const uint64_t gone[] = { 0x10, 0x30 };
	add(f, 0x20, VMS_FLOW_BEFORE, f->probe);
	add(f, 0x10, VMS_FLOW_BEFORE | VMS_FLOW_AFTER, f->probe);
	g_autoptr(GArray) before = vms_flow_addresses(f->flow);
	g_assert_cmpuint(before->len, ==, 2);
	g_assert_cmphex(g_array_index(before, uint64_t, 0), ==, 0x10);
	g_assert_cmphex(g_array_index(before, uint64_t, 1), ==, 0x20);
	enable(f, 0, 0);
	hit(0, 1, 5); /* at 0x10 */
	assert_fails(vms_flow_remove(f->flow, gone, 2, &error), &error, VMS_ERROR_INVALID_STATE,
		     "enabled");
	g_assert_true(vms_flow_disable(f->flow, NULL));
	g_assert_true(vms_flow_remove(f->flow, gone, 2, NULL));
	g_autoptr(GArray) after = vms_flow_addresses(f->flow);
	g_assert_cmpuint(after->len, ==, 1);
	enable(f, 0, 0);
	g_assert_cmpuint(armed->request.n, ==, 1);
	g_assert_cmphex(armed->places[0].va, ==, 0x20);
	/* The record of the place that has gone is still there, and others follow it. */
	hit(0, 0, 6);
	g_autoptr(vms_flow_record) record = last(f);
	struct vms_flow_hit of;
	vms_flow_record_hit(record, &of);
	g_assert_cmpuint(of.sequence, ==, 2);
	g_autoptr(vms_flow_report) report = vms_flow_get_report(f->flow);
	g_assert_cmpuint(vms_flow_report_count(report), ==, 2);
	g_assert_true(vms_flow_disable(f->flow, NULL));
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe); /* the address is free again */
}

static void test_limits(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_flow_progress progress;
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	enable(f, 5, 3);
	g_assert_false(vms_flow_wait(f->flow, 0));
	for (unsigned i = 0; i < 5; i++)
		hit(0, 0, i);
	g_assert_true(vms_flow_wait(f->flow, UINT64_MAX));
	g_assert_true(vms_flow_disable(f->flow, NULL));
	vms_flow_get_progress(f->flow, &progress);
	g_assert_cmpuint(progress.records, ==, 5);
	g_assert_cmpuint(progress.dropped, ==, 2);
	g_autoptr(vms_flow_report) three = vms_flow_get_report(f->flow);
	g_assert_cmpuint(vms_flow_report_count(three), ==, 3);
	/* A lower limit takes effect at once, and the sequence goes on. */
	enable(f, 0, 1);
	g_autoptr(vms_flow_report) one = vms_flow_get_report(f->flow);
	g_assert_cmpuint(vms_flow_report_count(one), ==, 1);
	hit(0, 0, 9);
	g_autoptr(vms_flow_record) record = last(f);
	struct vms_flow_hit of;
	vms_flow_record_hit(record, &of);
	g_assert_cmpuint(of.sequence, ==, 6);
	vms_flow_clear(f->flow);
	g_autoptr(vms_flow_report) none = vms_flow_get_report(f->flow);
	g_assert_cmpuint(vms_flow_report_count(none), ==, 0);
	g_assert_cmpuint(vms_flow_report_count(three), ==, 3);
	vms_flow_get_progress(f->flow, &progress);
	g_assert_cmpuint(progress.records, ==, 6);
	g_assert_cmpuint(progress.dropped, ==, 5);
}

static void test_conditions(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_flow_progress progress;
	g_assert_true(
		vms_probe_set_condition(f->probe, "u8(rsi) == cpu || u8(rsi) == 9 && u8(0)", NULL));
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	enable(f, 0, 0);
	uint8_t *byte = fake_machine_at(f->machine, DATA);
	*byte = 1;
	hit(0, 0, 1);
	hit(0, 1, 2);
	*byte = 9;
	hit(0, 1, 3);
	vms_flow_get_progress(f->flow, &progress);
	g_assert_cmpuint(progress.records, ==, 1);
	g_assert_cmpuint(progress.rejected, ==, 1);
	g_assert_cmpuint(progress.unknown, ==, 1);
	g_assert_true(vms_flow_disable(f->flow, NULL));
	vms_flow_get_progress(f->flow, &progress);
	g_assert_cmpuint(progress.rejected, ==, 1);
}

static void count_records(struct vms_flow_record *record, void *data)
{
	struct vms_flow_hit of;
	uint64_t *sum = data;
	vms_flow_record_hit(record, &of);
	*sum = *sum * 10 + of.sequence;
}

static void test_options(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	uint64_t sum = 0;
	GError *error = NULL;
	g_autoptr(vms_probe) common = vms_probe_new(f->machine, f->guest, NULL);
	g_assert_true(vms_probe_add(common, &rax, 1, NULL));
	g_assert_true(vms_probe_add(f->probe, &rax, 1, NULL));
	struct vms_flow_options options = { .size = sizeof(options),
					    .one_vcpu = true,
					    .vcpu = 2,
					    .common = common,
					    .each = count_records,
					    .data = &sum };
	assert_fails(vms_flow_new(f->machine, f->guest, &options, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "no vCPU 2");
	options.vcpu = 1;
	g_autoptr(vms_flow) flow = vms_flow_new(f->machine, f->guest, &options, NULL);
	assert_fails(vms_probe_add(common, &rax, 1, &error), &error, VMS_ERROR_INVALID_STATE,
		     "part of a flow");
	g_assert_true(vms_flow_add(flow, 0x10, VMS_FLOW_BEFORE, f->probe, NULL));
	g_assert_true(vms_flow_enable(flow, 0, 0, NULL));
	g_assert_cmpint(armed->request.vcpu, ==, 1);
	hit(0, 1, 1);
	hit(0, 1, 2);
	g_assert_cmpuint(sum, ==, 12);
	g_autoptr(vms_flow_report) report = vms_flow_get_report(flow);
	const struct vms_flow_record *record = vms_flow_report_record(report, 0, NULL);
	struct vms_flow_value value;
	g_assert_true(vms_flow_record_common(record) == common);
	g_assert_true(vms_flow_record_common_value(record, 0, &value));
	g_assert_cmpmem(value.bytes, value.size, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
}

/* Records, probes and reports stay when the flow has gone. */
static void test_outlives(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_assert_true(vms_probe_add(f->probe, &rax, 1, NULL));
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	enable(f, 0, 0);
	hit(0, 0, 1);
	g_autoptr(vms_flow_report) report = vms_flow_get_report(f->flow);
	g_autoptr(vms_flow_record) record = last(f);
	g_clear_pointer(&f->flow, vms_flow_unref);
	g_clear_pointer(&f->probe, vms_probe_unref);
	assert_value(record, 0, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
	g_assert_cmpstr(vms_probe_description(vms_flow_record_probe(record)), ==, "a probe");
	g_assert_true(vms_flow_report_record(report, 0, NULL) == record);
}

/* ---- reports
 * --------------------------------------------------------------------------------------- */

static bool stop_at_second(struct vms_flow_record *record, void *data, GError **error)
{
	(void)record;
	if (++*(int *)data < 2)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_CANCELLED, "enough");
	return false;
}

/* The sequence numbers of the records that match, as a decimal number: 1 to 4 are there. */
static unsigned filter(const struct vms_flow_report *report, struct vms_flow_filter filter)
{
	g_autoptr(GError) error = NULL;
	unsigned found = 0;
	filter.size = sizeof(filter);
	g_autoptr(vms_flow_report) matching = vms_flow_report_filter(report, &filter, &error);
	g_assert_no_error(error);
	for (size_t i = 0; i < vms_flow_report_count(matching); i++) {
		struct vms_flow_hit of;
		vms_flow_record_hit(vms_flow_report_record(matching, i, NULL), &of);
		found = found * 10 + (unsigned)of.sequence;
	}
	return found;
}

static void test_filter(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_entry bytes[] = {
		{ .kind = VMS_ENTRY_MEMORY, .base = "rsi", .size = 2 },
		{ .kind = VMS_ENTRY_MEMORY, .base = "rsi", .offset = 2, .size = 1 },
		{ .kind = VMS_ENTRY_MEMORY, .size = 1 }, /* unreadable */
	};
	GError *error = NULL;
	int calls = 0;
	g_assert_true(vms_probe_add(f->probe, bytes, G_N_ELEMENTS(bytes), NULL));
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	add(f, 0x20, VMS_FLOW_BEFORE, f->probe);
	enable(f, 0, 0);
	for (unsigned i = 1; i <= 4; i++) {
		memcpy(fake_machine_at(f->machine, DATA),
		       (const char[]) { 'a', (char)('0' + i), 'z' }, 3);
		hit(i > 2, i % 2, 100 * i);
	}
	g_autoptr(vms_flow_report) all = vms_flow_get_report(f->flow);
	g_assert_false(vms_flow_report_each(all, stop_at_second, &calls, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CANCELLED);
	g_clear_error(&error);
	g_assert_cmpint(calls, ==, 2);
	g_assert_null(vms_flow_report_record(all, 4, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);

	const struct vms_flow_range mid = { 2, 3 }, late = { 300, UINT64_MAX },
				    second = { 0x20, 0x20 }, odd = { 1, 1 };
	const struct vms_flow_match a3 = { "a3", 2 }, z = { "z", 1 }, a = { "a", 1 },
				    zero = { "", 1 };
	const struct vms_flow_match a3_z[] = { z, a3 }, a3_a[] = { a3, a };
	g_assert_cmpuint(filter(all, (struct vms_flow_filter) { 0 }), ==, 1234);
	g_assert_cmpuint(filter(all, (struct vms_flow_filter) { .flags = VMS_FLOW_REVERSE }), ==,
			 0);
	struct vms_flow_filter by = { .flags = VMS_FLOW_BY_SEQUENCE, .sequence = mid };
	g_assert_cmpuint(filter(all, by), ==, 23);
	by.flags |= VMS_FLOW_REVERSE;
	g_assert_cmpuint(filter(all, by), ==, 14);
	by = (struct vms_flow_filter) { .flags = VMS_FLOW_BY_TIME, .time_ns = late };
	g_assert_cmpuint(filter(all, by), ==, 34);
	by = (struct vms_flow_filter) { .flags = VMS_FLOW_BY_ADDRESS | VMS_FLOW_BY_VCPU,
					.va = second,
					.vcpu = odd };
	g_assert_cmpuint(filter(all, by), ==, 3);
	by.flags |= VMS_FLOW_ANY;
	g_assert_cmpuint(filter(all, by), ==, 134);
	by.flags |= VMS_FLOW_REVERSE;
	g_assert_cmpuint(filter(all, by), ==, 2);
	by = (struct vms_flow_filter) { .flags = VMS_FLOW_BY_VALUES, .values = &a3, .n_values = 1 };
	g_assert_cmpuint(filter(all, by), ==, 3);
	by.values = a3_z;
	by.n_values = 2;
	g_assert_cmpuint(filter(all, by), ==, 3);
	by.values =
		a3_a; /* what comes last does not hide what is missing, nor the other way round */
	g_assert_cmpuint(filter(all, by), ==, 0);
	by.values = &zero; /* what cannot be read is not 0 */
	by.n_values = 1;
	g_assert_cmpuint(filter(all, by), ==, 0);
	by = (struct vms_flow_filter) { .flags = VMS_FLOW_BY_PID, .pid = { 0, UINT64_MAX } };
	g_assert_cmpuint(filter(all, by), ==, 0); /* their processes are not known */

	by = (struct vms_flow_filter) { .size = sizeof(by), .flags = 1 << 10 };
	assert_fails(vms_flow_report_filter(all, &by, &error), &error, VMS_ERROR_INVALID_ARGUMENT,
		     "0x400");
	by.flags = VMS_FLOW_BY_TIME;
	by.time_ns = (struct vms_flow_range) { 2, 1 };
	assert_fails(vms_flow_report_filter(all, &by, &error), &error, VMS_ERROR_INVALID_ARGUMENT,
		     "2 to 1");
}

/* ---- aggregation ----------------------------------------------------------------------------- */

/* Sets a number and a key, and hits. */
static void hit_with(struct fixture *f, unsigned place, unsigned vcpu, int64_t number, uint64_t key)
{
	struct vms_regs *regs = fake_machine_regs(f->machine, vcpu);
	vms_regs_set(regs, RAX, (uint64_t)number);
	vms_regs_set(regs, RCX, key);
	hit(place, vcpu, 1);
}

static void assert_row(const struct vms_aggregate *aggregate, size_t index, uint64_t count,
		       uint64_t va, uint64_t key)
{
	struct vms_aggregate_row row;
	struct vms_flow_value value;
	g_assert_true(vms_aggregate_get_row(aggregate, index, &row));
	g_assert_cmpuint(row.count, ==, count);
	g_assert_cmphex(row.va, ==, va);
	g_assert_true(vms_aggregate_get_key(aggregate, index, 0, &value));
	g_assert_cmpint(value.status, ==, VMS_FLOW_KNOWN);
	g_assert_cmpmem(value.bytes, value.size, &key, sizeof(key));
	g_assert_false(vms_aggregate_get_key(aggregate, index, 1, &value));
}

static void assert_sum(const struct vms_aggregate *aggregate, size_t row, size_t index, int64_t sum,
		       int64_t min, int64_t max, double average)
{
	struct vms_aggregate_sum found;
	g_assert_true(vms_aggregate_get_sum(aggregate, row, index, &found));
	g_assert_cmpint((int64_t)found.sum, ==, sum);
	g_assert_cmpint((int64_t)found.min, ==, min);
	g_assert_cmpint((int64_t)found.max, ==, max);
	g_assert_cmpfloat_with_epsilon(found.average, average, 1e-9);
}

/* The cells with hits, as "first..last:count " of each. */
static void assert_cells(const struct vms_aggregate *aggregate, size_t row, size_t index,
			 const char *expected)
{
	g_autoptr(GString) text = g_string_new(NULL);
	struct vms_aggregate_sum sum;
	uint64_t first, last;
	g_assert_true(vms_aggregate_get_sum(aggregate, row, index, &sum));
	for (unsigned i = 0; i < sum.n_cells; i++) {
		g_assert_true(vms_aggregate_cell(aggregate, index, i, &first, &last));
		if (sum.cells[i])
			g_string_append_printf(text,
					       "%" G_GINT64_FORMAT "..%" G_GINT64_FORMAT
					       ":%" G_GUINT64_FORMAT " ",
					       (int64_t)first, (int64_t)last, sum.cells[i]);
	}
	g_assert_false(vms_aggregate_cell(aggregate, index, sum.n_cells, &first, &last));
	g_assert_cmpstr(text->str, ==, expected);
}

/* By rcx, of rax: a histogram of powers of two, and one from -10 to 10. */
static struct vms_aggregate_options aggregate_options(struct fixture *f)
{
	static const struct vms_aggregate_number kinds[] = {
		{ VMS_HISTOGRAM_LOG2 }, { VMS_HISTOGRAM_LINEAR, false, -10, 5, 4 }
	};
	static const struct vms_entry rcx = { .kind = VMS_ENTRY_REGISTER, .reg = "rcx" };
	static const struct vms_entry numbers[] = {
		{ .kind = VMS_ENTRY_REGISTER, .reg = "rax" },
		{ .kind = VMS_ENTRY_EXPRESSION, .expression = "rax + 1" },
	};
	struct vms_aggregate_options options = { .size = sizeof(options), .kinds = kinds };
	options.key = vms_probe_new(f->machine, f->guest, NULL);
	options.numbers = vms_probe_new(f->machine, f->guest, NULL);
	g_assert_true(vms_probe_add(options.key, &rcx, 1, NULL));
	g_assert_true(vms_probe_add(options.numbers, numbers, 2, NULL));
	return options;
}

static void release(struct vms_aggregate_options *options)
{
	vms_probe_unref(options->key);
	vms_probe_unref(options->numbers);
}

/* Hits of several vCPUs, places and times that the flow is enabled. */
static void test_aggregate(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_aggregate_options options = aggregate_options(f);
	struct vms_flow_progress progress;
	options.by_place = true;
	options.max_keys = 3;
	g_assert_true(vms_probe_set_condition(f->probe, "rax != 99", NULL));
	g_assert_true(vms_flow_aggregate(f->flow, &options, NULL));
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	add(f, 0x20, VMS_FLOW_BEFORE, f->probe);
	enable(f, 0, 0);
	hit_with(f, 0, 0, -7, 5);
	hit_with(f, 0, 1, 3, 5);
	hit_with(f, 0, 1, 99, 5);
	hit_with(f, 1, 1, 4, 5);
	hit_with(f, 0, 0, 1, 6);
	hit_with(f, 0, 0, 1, 7); /* no room */
	vms_flow_disable(f->flow, NULL);
	enable(f, 2, 0);
	hit_with(f, 0, 0, 1000, 5);
	hit_with(f, 0, 1, 0, 7);
	g_assert_true(vms_flow_wait(f->flow, UINT64_MAX));
	g_autoptr(vms_aggregate) aggregate = vms_flow_get_aggregate(f->flow, NULL);
	g_assert_cmpuint(vms_aggregate_rows(aggregate), ==, 4);
	g_assert_cmpuint(vms_aggregate_unfit(aggregate), ==, 1);
	assert_row(aggregate, 0, 3, 0x10, 5);
	assert_row(aggregate, 1, 1, 0x10, 6);
	assert_row(aggregate, 2, 1, 0x10, 7);
	assert_row(aggregate, 3, 1, 0x20, 5);
	assert_sum(aggregate, 0, 0, 996, -7, 1000, 332);
	assert_sum(aggregate, 0, 1, 999, -6, 1001, 333);
	assert_cells(aggregate, 0, 0, "-9223372036854775808..-1:1 2..3:1 512..1023:1 ");
	assert_cells(aggregate, 0, 1, "-10..-6:1 0..4:1 10..9223372036854775807:1 ");
	vms_flow_get_progress(f->flow, &progress);
	g_assert_cmpuint(progress.rejected, ==, 1);
	g_assert_cmpuint(progress.records, ==, 0);
	release(&options);
}

/* A snapshot while it is enabled; numbers that cannot be read; without a key. */
static void test_aggregate_live(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct vms_entry at_rax = { .kind = VMS_ENTRY_EXPRESSION,
						 .expression = "u64(rax)" };
	g_autoptr(vms_probe) numbers = vms_probe_new(f->machine, f->guest, NULL);
	const struct vms_aggregate_options options = { .size = sizeof(options),
						       .numbers = numbers };
	struct vms_flow_progress progress;
	struct vms_aggregate_row row;
	g_assert_true(vms_probe_add(numbers, &at_rax, 1, NULL));
	g_assert_true(vms_flow_aggregate(f->flow, &options, NULL));
	add(f, 0x10, VMS_FLOW_BEFORE, f->probe);
	enable(f, 0, 0);
	for (unsigned round = 1; round < 4; round++) {
		hit_with(f, 0, 0, DATA, 0);
		hit_with(f, 0, 0, 0x900000, 0);
		g_autoptr(vms_aggregate) aggregate = vms_flow_get_aggregate(f->flow, NULL);
		g_assert_cmpuint(vms_aggregate_rows(aggregate), ==, 1);
		g_assert_true(vms_aggregate_get_row(aggregate, 0, &row));
		g_assert_cmpuint(row.count, ==, round);
		g_assert_cmphex(row.va, ==, 0);
		vms_flow_get_progress(f->flow, &progress);
		g_assert_cmpuint(progress.unknown, ==, round);
	}
}

static void test_aggregate_errors(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct vms_entry halt = { .kind = VMS_ENTRY_HALT }, bytes = {
		.kind = VMS_ENTRY_BYTES, .expression = "rax", .size = 8
	};
	struct vms_aggregate_options options = aggregate_options(f), wrong;
	g_autoptr(vms_probe) other = vms_probe_new(f->machine, f->guest, NULL);
	GError *error = NULL;
	assert_fails(vms_flow_get_aggregate(f->flow, &error), &error, VMS_ERROR_INVALID_STATE,
		     "does not aggregate");
	wrong = options;
	wrong.max_keys = 1 << 21;
	assert_fails(vms_flow_aggregate(f->flow, &wrong, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "2097152 keys");
	const struct vms_aggregate_number many[] = { { VMS_HISTOGRAM_LINEAR, false, 0, 1,
						       VMS_AGGREGATE_STEPS_MAX + 1 },
						     { VMS_HISTOGRAM_NONE } };
	wrong = options;
	wrong.kinds = many;
	assert_fails(vms_flow_aggregate(f->flow, &wrong, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "1025 cells");
	g_assert_true(vms_probe_add(other, &bytes, 1, NULL));
	wrong = options;
	wrong.numbers = other;
	assert_fails(vms_flow_aggregate(f->flow, &wrong, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "not a number");
	g_assert_true(vms_probe_add(other, &halt, 1, NULL));
	wrong = options;
	wrong.key = other;
	assert_fails(vms_flow_aggregate(f->flow, &wrong, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "no value");
	g_assert_true(vms_flow_aggregate(f->flow, &options, NULL));
	assert_fails(vms_flow_aggregate(f->flow, &options, &error), &error, VMS_ERROR_INVALID_STATE,
		     "already");
	assert_fails(vms_flow_add(f->flow, 0x10, VMS_FLOW_BEFORE, other, &error), &error,
		     VMS_ERROR_INVALID_ARGUMENT, "cannot collect values");
	g_autoptr(vms_flow) flow = vms_flow_new(f->machine, f->guest, NULL, NULL);
	g_assert_true(vms_flow_add(flow, 0x10, VMS_FLOW_BEFORE, f->probe, NULL));
	assert_fails(vms_flow_aggregate(flow, &options, &error), &error, VMS_ERROR_INVALID_STATE,
		     "places");
	release(&options);
}

#define TEST(name) g_test_add("/flow/" #name, struct fixture, NULL, set_up, test_##name, tear_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	TEST(entries);
	TEST(values);
	TEST(places);
	TEST(remove);
	TEST(limits);
	TEST(conditions);
	TEST(options);
	TEST(outlives);
	TEST(filter);
	TEST(aggregate);
	TEST(aggregate_live);
	TEST(aggregate_errors);
	return g_test_run();
}
