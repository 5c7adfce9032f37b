/* SPDX-License-Identifier: MIT */
/* The client's end of the rings: what an agent writes, and what none would. */
#include "agent/calls/uftrace_record.h"
#include "calls/drain.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vmscope/error.h>

#define RINGS	  2
#define RING_SIZE (64u << 10)
#define OFFSET	  4096
#define MEMORY	  (OFFSET + RINGS * RING_SIZE)
#define N_STREAMS 4
#define MM	  4096 /* the address space that goes */
#define OTHER_MM  8192

/* What the receiver was told, in its order. */
struct told {
	enum vms_calls_block_kind kind;
	uint64_t stream;
	uint64_t value; /* of RECORDS: the first one's time; else the block's pid or vCPU */
	size_t size;
};

struct fixture {
	struct vms_agent_rings *shared;
	struct vms_calls_drain *drain;
	struct vms_ring rings[RINGS];
	uint64_t sequences[N_STREAMS];
	uint64_t next[N_STREAMS]; /* the time that the next record of each stream must have */
	GArray *told;
	char name[32];
	unsigned n_gone; /* processes whose end was told late */
	unsigned n_late; /* of which that is said while they are told of */
	bool fails;
	int wake[2]; /* the ring's end, and ours */
};

/* ---- the receiver ------------------------------------------------------ */

static void tell(struct fixture *f, enum vms_calls_block_kind kind, uint64_t stream, uint64_t value,
		 size_t size)
{
	const struct told told = { kind, stream, value, size };
	g_array_append_val(f->told, told);
}

static void on_stream(uint64_t id, const struct vms_calls_stream *stream, void *data)
{
	struct fixture *f = data;
	g_strlcpy(f->name, stream->name, sizeof(f->name));
	tell(f, VMS_CALLS_STREAM, id, stream->vcpu, 0);
}

static void on_space(uint64_t id, const struct vms_calls_space *space, void *data)
{
	struct fixture *f = data;
	g_strlcpy(f->name, space->name, sizeof(f->name));
	tell(f, VMS_CALLS_SPACE, id, space->pid, 0);
}

static void on_process(const struct vms_calls_space *space, bool gone, void *data)
{
	struct fixture *f = data;
	f->n_gone += gone;
	f->n_late += space->mm && vms_calls_drain_is_late(f->drain, space->mm);
	for (unsigned i = 0; i < RINGS; i++)
		g_assert_cmpuint(f->shared->ring[i].answered, !=, 77);
	tell(f, VMS_CALLS_PROCESS, space->mm, space->pid, 0);
}

static bool on_records(uint64_t id, const void *records, size_t size, void *data, GError **error)
{
	struct fixture *f = data;
	if (f->fails) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_IO, "the disk is full");
		return false;
	}
	g_assert_cmpuint(size % 16, ==, 0);
	uint64_t time_ns;
	memcpy(&time_ns, records, sizeof(time_ns));
	tell(f, VMS_CALLS_RECORDS, id, time_ns, size);
	for (size_t at = 0; id < N_STREAMS && at < size; at += 16) {
		memcpy(&time_ns, (const char *)records + at, sizeof(time_ns));
		g_assert_cmpuint(time_ns, ==, f->next[id]);
		f->next[id]++;
	}
	return true;
}

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	GError *error = NULL;
	memset(f, 0, sizeof(*f));
	f->shared = g_aligned_alloc0(1, MEMORY, 4096);
	f->shared->n_rings = RINGS;
	f->shared->ring_size = RING_SIZE;
	f->shared->rings_offset = OFFSET;
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->wake), ==, 0);
	f->told = g_array_new(FALSE, FALSE, sizeof(struct told));
	for (unsigned i = 0; i < RINGS; i++)
		vms_ring_init(&f->rings[i], &f->shared->ring[i],
			      (char *)f->shared + OFFSET + i * RING_SIZE, RING_SIZE, f->wake[0]);
	const struct vms_calls_receiver receiver = { on_stream, on_space, on_process, on_records,
						     f };
	f->drain = vms_calls_drain_new(f->shared, MEMORY, &receiver, &error);
	g_assert_no_error(error);
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_calls_drain_free(f->drain);
	g_array_unref(f->told);
	close(f->wake[0]);
	close(f->wake[1]);
	g_aligned_free(f->shared);
}

static void run(struct fixture *f)
{
	GError *error = NULL;
	g_assert_true(vms_calls_drain_run(f->drain, &error));
	g_assert_no_error(error);
}

/* The ring's vCPU goes on with a stream, as `n` records whose times count on from `first`. */
static void write_stream(struct fixture *f, unsigned ring, uint64_t stream, uint64_t first,
			 unsigned n)
{
	vms_ring_set_stream(&f->rings[ring], stream, &f->sequences[stream]);
	for (unsigned i = 0; i < n; i++)
		vms_uftrace_write(&f->rings[ring], first + i, 0);
}

/* The vCPU stops with its stream and goes on with nothing. */
static void leave_stream(struct fixture *f, unsigned ring)
{
	vms_ring_set_stream(&f->rings[ring], 0, &f->sequences[0]);
}

/* ---- what agents write ------------------------------------------------- */

/* Many times round the ring, taken in pieces of all sizes. */
static void test_round(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	uint64_t written = 0;
	vms_ring_set_stream(&f->rings[0], 1, &f->sequences[1]);
	for (unsigned i = 0; i < 2000; i++) {
		unsigned n = (i * 7919u) % 50;
		for (unsigned j = 0; j < n; j++)
			vms_uftrace_write(&f->rings[0], written++, 0);
		run(f);
		g_assert_cmpuint(f->next[1], ==, written);
	}
	g_assert_cmpuint(written * 16, >, 4 * RING_SIZE);
	g_assert_cmpuint(vms_calls_drain_lost(f->drain), ==, 0);
}

/* A stream goes from vCPU to vCPU; later parts are in the ring that is looked at first. */
static void test_order(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	write_stream(f, 1, 1, 0, 10);
	write_stream(f, 1, 2, 0, 3);
	write_stream(f, 0, 1, 10, 10);
	write_stream(f, 0, 2, 3, 4);
	write_stream(f, 1, 1, 20, 10);
	run(f);
	g_assert_cmpuint(f->next[1], ==, 30);
	g_assert_cmpuint(f->next[2], ==, 7);
}

/* The part before is complete, but that was not known yet when it was taken. */
static void test_closed_later(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	write_stream(f, 1, 1, 0, 10);
	run(f);
	leave_stream(f, 1);
	write_stream(f, 0, 1, 10, 10);
	run(f);
	g_assert_cmpuint(f->next[1], ==, 20);
}

/* A part whose predecessor has not come yet waits for it. */
static void test_wait(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->sequences[1] = 1;
	write_stream(f, 0, 1, 10, 10);
	run(f);
	g_assert_cmpuint(f->told->len, ==, 0);
	f->sequences[1] = 0;
	write_stream(f, 1, 1, 0, 10);
	leave_stream(f, 1);
	run(f);
	g_assert_cmpuint(f->next[1], ==, 20);
}

/* … but not when nothing comes any more. */
static void test_missing(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	GError *error = NULL;
	f->sequences[1] = 1;
	write_stream(f, 0, 1, 0, 10);
	run(f);
	g_assert_cmpuint(f->told->len, ==, 0);
	g_assert_true(vms_calls_drain_finish(f->drain, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(f->next[1], ==, 10);
}

static void test_other_blocks(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_calls_stream stream = { .vcpu = 5 };
	struct vms_calls_space space = { .pid = 6, .mm = 4096 };
	memset(stream.name, 'n', sizeof(stream.name));
	memset(space.name, 'm', sizeof(space.name));
	write_stream(f, 0, 2, 0, 0);
	g_assert_true(
		vms_ring_write_block(&f->rings[0], VMS_CALLS_STREAM, 0, &stream, sizeof(stream)));
	vms_uftrace_write(&f->rings[0], 0, 0);
	run(f);
	g_assert_cmpuint(strlen(f->name), ==, sizeof(stream.name) - 1);
	g_assert_true(
		vms_ring_write_block(&f->rings[0], VMS_CALLS_SPACE, 0, &space, sizeof(space)));
	g_assert_true(
		vms_ring_write_block(&f->rings[0], VMS_CALLS_PROCESS, 77, &space, sizeof(space)));
	vms_uftrace_write(&f->rings[0], 1, 0);
	run(f);
	g_assert_cmpuint(f->shared->ring[0].answered, ==, 77);
	g_assert_cmpuint(f->shared->ring[1].answered, ==, 0);
	g_assert_cmpuint(strlen(f->name), ==, sizeof(space.name) - 1);

	static const struct told expected[] = {
		{ VMS_CALLS_STREAM, 2, 5, 0 },	   { VMS_CALLS_RECORDS, 2, 0, 16 },
		{ VMS_CALLS_SPACE, 2, 6, 0 },	   { VMS_CALLS_PROCESS, 0, 0, 0 }, /* 1 to 76 */
		{ VMS_CALLS_PROCESS, 4096, 6, 0 }, { VMS_CALLS_RECORDS, 2, 1, 16 }
	};
	g_assert_cmpuint(f->told->len, ==, G_N_ELEMENTS(expected));
	for (guint i = 0; i < f->told->len; i++) {
		const struct told *told = &g_array_index(f->told, struct told, i);
		g_assert_cmpint(told->kind, ==, expected[i].kind);
		g_assert_cmpuint(told->stream, ==, expected[i].stream);
		g_assert_cmpuint(told->value, ==, expected[i].value);
		g_assert_cmpuint(told->size, ==, expected[i].size);
	}
}

/* A vCPU tells that an address space goes before it has recorded anything. */
static void test_process_first(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_calls_space space = { .pid = 6, .mm = 4096 };
	g_assert_true(
		vms_ring_write_block(&f->rings[0], VMS_CALLS_PROCESS, 1, &space, sizeof(space)));
	write_stream(f, 0, 1, 0, 10);
	run(f);
	g_assert_cmpuint(f->shared->ring[0].answered, ==, 1);
	g_assert_cmpuint(f->next[1], ==, 10);
	g_assert_cmpuint(vms_calls_drain_lost(f->drain), ==, 0);
}

static void write_process(struct fixture *f, unsigned ring, uint64_t number, bool waits)
{
	const struct vms_calls_space space = { .pid = 6, .mm = MM };
	g_assert_true(vms_ring_write_block(&f->rings[ring], VMS_CALLS_PROCESS, number, &space,
					   sizeof(space)));
	if (!waits)
		f->shared->ring[ring].given_up = (uint32_t)number;
}

static bool is_late(struct fixture *f)
{
	return vms_calls_drain_is_late(f->drain, MM);
}

/* The client is told what the agent has not waited for, and that there is such. */
static void test_process_late(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	write_process(f, 0, 1, true);
	g_assert_false(is_late(f));
	run(f);
	g_assert_cmpuint(f->n_gone, ==, 0);
	write_process(f, 0, 2, false);
	write_process(f, 0, 3, true);
	g_assert_true(is_late(f));
	run(f);
	g_assert_false(is_late(f));
	g_assert_cmpuint(f->n_gone, ==, 1);
	write_process(f, 1, 1, false);
	g_assert_true(is_late(f));
	run(f);
	g_assert_cmpuint(f->n_gone, ==, 2);
	g_assert_cmpuint(f->n_late, ==, 2);
	g_assert_cmpuint(f->shared->ring[0].answered, ==, 3);
	g_assert_cmpuint(f->shared->ring[1].answered, ==, 1);
}

/* What a vCPU has not waited for makes nothing else doubtful, also in the middle of a block. */
static void test_late_other(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_calls_space other = { .pid = 7, .mm = OTHER_MM };
	write_stream(f, 0, 1, 0, 5);
	run(f);
	vms_uftrace_write(&f->rings[0], 5, 0);
	g_assert_true(
		vms_ring_write_block(&f->rings[0], VMS_CALLS_SPACE, 1, &other, sizeof(other)));
	write_stream(f, 0, 1, 6, 5);
	write_process(f, 0, 2, false);
	write_stream(f, 0, 1, 11, 1);
	g_assert_true(is_late(f));
	g_assert_false(vms_calls_drain_is_late(f->drain, OTHER_MM));
	run(f);
	g_assert_false(is_late(f));
	g_assert_cmpuint(f->next[1], ==, 12);
}

/* A vCPU that waits keeps its address space there, whatever another has not waited for. */
static void test_late_elsewhere(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->shared->ring[1].given_up = 1; /* found no room */
	write_process(f, 0, 1, true);
	g_assert_true(is_late(f));
	run(f);
	g_assert_cmpuint(f->n_late, ==, 0);
	g_assert_cmpuint(f->n_gone, ==, 1);
	write_process(f, 1, 2, false);
	write_process(f, 0, 2, true);
	run(f);
	g_assert_cmpuint(f->n_late, ==, 1); /* by the block that was not waited for */
	g_assert_cmpuint(f->n_gone, ==, 2);
}

/* One that found no room may have told of any; when the ring is empty, it is known to be missing.
 */
static void test_process_missing(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	write_stream(f, 0, 1, 0, 5);
	f->shared->ring[0].given_up = 1;
	g_assert_true(vms_calls_drain_is_late(f->drain, OTHER_MM));
	run(f);
	g_assert_false(vms_calls_drain_is_late(f->drain, OTHER_MM));
	g_assert_cmpuint(f->n_gone, ==, 1);
	g_assert_cmpuint(f->shared->ring[0].answered, ==, 1);
	/* The one behind it is waited for. */
	f->shared->ring[0].given_up = 2;
	write_process(f, 0, 3, true);
	g_assert_true(vms_calls_drain_is_late(f->drain, OTHER_MM));
	run(f);
	g_assert_cmpuint(f->n_gone, ==, 2);
	g_assert_cmpuint(f->n_late, ==, 0);
	g_assert_cmpuint(f->shared->ring[0].answered, ==, 3);
	run(f);
	g_assert_cmpuint(f->n_gone, ==, 2);
}

static gpointer write_much(gpointer data)
{
	struct fixture *f = data;
	write_stream(f, 0, 1, 0, 1000000);
	return NULL;
}

/* A full ring waits for the client, which lets it go on. */
static void test_both_ends(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	GThread *writer = g_thread_new("writer", write_much, f);
	while (f->next[1] < 1000000) {
		run(f);
		g_thread_yield();
	}
	g_thread_join(writer);
	g_assert_cmpuint(vms_calls_drain_lost(f->drain), ==, 0);
}

static void test_failure(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	f->fails = true;
	write_stream(f, 0, 1, 0, 10);
	g_assert_false(vms_calls_drain_run(f->drain, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
}

/* ---- what none writes --------------------------------------------------- */

struct hostile {
	const char *name;
	uint64_t head, stream;
	uint32_t kind, size;
	unsigned told; /* how much of it is believed */
};

static const struct hostile hostile[] = {
	{ "good", 48, 1, VMS_CALLS_RECORDS, 16, 1 },
	{ "odd-head", 49, 1, VMS_CALLS_RECORDS, 16, 0 },
	{ "far-head", RING_SIZE + 16, 1, VMS_CALLS_RECORDS, 16, 0 },
	{ "negative-head", UINT64_MAX - 15, 1, VMS_CALLS_RECORDS, 16, 0 },
	{ "half-a-header", 16, 1, VMS_CALLS_RECORDS, 16, 0 },
	{ "no-kind", 48, 1, 0, 16, 0 },
	{ "unknown-kind", 48, 1, 5, 16, 0 },
	{ "stream-0", 48, 0, VMS_CALLS_RECORDS, 16, 0 },
	{ "large-stream", 48, UINT64_C(1) << 31, VMS_CALLS_RECORDS, 16, 0 },
	{ "odd-size", 48, 1, VMS_CALLS_RECORDS, 17, 0 },
	{ "large-size", 48, 1, VMS_CALLS_RECORDS, UINT32_MAX - 15, 0 },
	{ "size-beyond-head", 48, 1, VMS_CALLS_RECORDS, 32, 1 },
	{ "block-beyond-head", 48, 1, VMS_CALLS_STREAM, 32, 0 },
	{ "large-block", 48, 1, VMS_CALLS_SPACE, UINT32_MAX - 15, 0 },
	{ "odd-block", 48, 1, VMS_CALLS_STREAM, 15, 0 },
	{ "short-block", 48, 1, VMS_CALLS_STREAM, 16, 1 },
	{ "empty-block", 32, 1, VMS_CALLS_SPACE, 0, 1 },
};

/* A ring that makes no sense leaves the others as they are. */
static void test_hostile(struct fixture *f, gconstpointer data)
{
	const struct hostile *test = data;
	GError *error = NULL;
	struct vms_agent_block block = { .kind = test->kind, .stream = test->stream };
	atomic_store(&block.size, test->size);
	memcpy((char *)f->shared + OFFSET, &block, sizeof(block));
	f->shared->ring[0].head = test->head;
	write_stream(f, 1, 2, 0, 1);
	run(f);
	g_assert_cmpuint(f->told->len, ==, 1 + test->told);
	g_assert_cmpuint(f->next[2], ==, 1);
	g_assert_true(vms_calls_drain_finish(f->drain, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(f->told->len, ==, 1 + test->told);
}

/* The size that a block turns out to have is less than what was taken of it. */
static void test_shrinking_block(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_agent_block *block = (void *)((char *)f->shared + OFFSET);
	write_stream(f, 0, 1, 0, 10);
	run(f);
	g_assert_cmpuint(f->next[1], ==, 10);
	atomic_store(&block->size, 16);
	vms_uftrace_write(&f->rings[0], 10, 0);
	run(f);
	g_assert_cmpuint(f->next[1], ==, 10);
	g_assert_cmpuint(vms_calls_drain_lost(f->drain), ==, 1);
}

static void test_layout(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_agent_rings good = *f->shared;
	const struct vms_agent_rings bad[] = {
		{ OFFSET, RING_SIZE, 0, 0 },
		{ OFFSET, RING_SIZE, RINGS + 1, 0 },
		{ OFFSET, RING_SIZE, UINT32_MAX, 0 },
		{ OFFSET, RING_SIZE - 16, RINGS, 0 },
		{ OFFSET, 32u << 10, RINGS, 0 },
		{ OFFSET, UINT64_C(1) << 63, RINGS, 0 },
		{ OFFSET + 8, RING_SIZE, RINGS - 1, 0 },
		{ 16, RING_SIZE, RINGS - 1, 0 },
		{ UINT64_MAX - 15, RING_SIZE, RINGS, 0 },
		{ MEMORY + 16, RING_SIZE, RINGS, 0 },
	};
	const struct vms_calls_receiver receiver = { 0 };
	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
		g_autoptr(GError) error = NULL;
		*f->shared = bad[i];
		g_assert_null(vms_calls_drain_new(f->shared, MEMORY, &receiver, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL);
	}
	*f->shared = good;
	for (size_t size = 0; size < MEMORY; size += MEMORY / 8)
		g_assert_null(vms_calls_drain_new(f->shared, size, &receiver, NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test)                                                                            \
	g_test_add("/calls_drain/" path, struct fixture, NULL, set_up, test, tear_down)
	ADD("round", test_round);
	ADD("order", test_order);
	ADD("closed-later", test_closed_later);
	ADD("wait", test_wait);
	ADD("missing", test_missing);
	ADD("other-blocks", test_other_blocks);
	ADD("process-first", test_process_first);
	ADD("process-late", test_process_late);
	ADD("late-other", test_late_other);
	ADD("late-elsewhere", test_late_elsewhere);
	ADD("process-missing", test_process_missing);
	ADD("both-ends", test_both_ends);
	ADD("failure", test_failure);
	ADD("shrinking-block", test_shrinking_block);
	ADD("layout", test_layout);
	for (size_t i = 0; i < G_N_ELEMENTS(hostile); i++) {
		g_autofree char *path = g_strconcat("/calls_drain/hostile/", hostile[i].name, NULL);
		g_test_add(path, struct fixture, &hostile[i], set_up, test_hostile, tear_down);
	}
	return g_test_run();
}
