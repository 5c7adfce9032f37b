/* SPDX-License-Identifier: MIT */
/*
 * The ring between a vCPU and the client of a trace. Its reader here is written from the protocol's
 * words alone.
 */
#include "agent/calls/uftrace_record.h"
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE	  65536
#define N_STREAMS 3

struct fixture {
	unsigned char *mapped; /* the data with a page that faults before and behind it */
	struct vms_agent_ring shared;
	struct vms_ring ring;
	uint64_t sequences[N_STREAMS];
	int wake[2]; /* the ring's end, and ours */
};

static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	long page = sysconf(_SC_PAGESIZE);
	memset(fixture, 0, sizeof(*fixture));
	fixture->mapped =
		mmap(NULL, SIZE + 2 * (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_assert_true(fixture->mapped != MAP_FAILED);
	g_assert_cmpint(mprotect(fixture->mapped + page, SIZE, PROT_READ | PROT_WRITE), ==, 0);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fixture->wake), ==, 0);
	vms_ring_init(&fixture->ring, &fixture->shared, fixture->mapped + page, SIZE,
		      fixture->wake[0]);
	vms_ring_set_stream(&fixture->ring, 0, &fixture->sequences[0]);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	close(fixture->wake[0]);
	close(fixture->wake[1]);
	munmap(fixture->mapped, SIZE + 2 * (size_t)sysconf(_SC_PAGESIZE));
}

/* ---- the client's side ---------------------------------------------------- */

struct reader {
	struct fixture *fixture;
	uint64_t tail, block; /* where it stands, and where the header of the block it is in lies */
	uint64_t sequences[N_STREAMS];
	uint64_t next;	 /* the number that the next record must carry */
	uint64_t blocks; /* that are not records */
	uint64_t end;
};

static void copy_out(const struct fixture *fixture, uint64_t position, void *to, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)to)[i] = fixture->ring.data[(position + i) % SIZE];
}

/* Which stream the `n`th record belongs to. */
static uint64_t stream_of(uint64_t n)
{
	return n / 1000 % N_STREAMS;
}

static void read_record(struct reader *reader, const struct vms_agent_block *block)
{
	struct vms_uftrace_record record;
	copy_out(reader->fixture, reader->tail, &record, sizeof(record));
	g_assert_cmpuint(record.word >> 3 & 7, ==, 5);
	g_assert_cmpuint(record.word & 7, ==, VMS_UFTRACE_ENTRY);
	g_assert_cmpuint(record.time_ns, ==, reader->next);
	g_assert_cmpuint(record.word >> 16, ==, reader->next);
	g_assert_cmpuint(block->stream, ==, stream_of(reader->next));
	reader->next++;
	reader->tail += sizeof(record);
}

static void read_block(struct reader *reader, const struct vms_agent_block *block)
{
	static const char text[] = "seventeen bytes!";
	char payload[32];
	g_assert_cmpuint(block->kind, ==, VMS_CALLS_SPACE);
	g_assert_cmpuint(block->number, ==, reader->next);
	g_assert_cmpuint(block->size, ==, sizeof(payload));
	copy_out(reader->fixture, reader->block + sizeof(*block), payload, sizeof(payload));
	g_assert_cmpmem(payload, sizeof(text), text, sizeof(text));
	reader->tail += block->size;
	reader->blocks++;
}

/* Reads what there is; true if it was something. */
static bool drain(struct reader *reader)
{
	struct vms_agent_ring *shared = &reader->fixture->shared;
	uint64_t head = atomic_load(&shared->head), begin = reader->tail;
	g_assert_cmpuint(head - begin, <=, SIZE);
	while (reader->tail < head) {
		struct vms_agent_block block;
		copy_out(reader->fixture, reader->block, &block, sizeof(block));
		uint64_t data = reader->block + sizeof(block);
		uint64_t end = block.size ? data + block.size : head;
		if (reader->tail == reader->block) {
			reader->tail = data;
			if (block.kind == VMS_CALLS_RECORDS)
				g_assert_cmpuint(block.sequence, ==,
						 reader->sequences[block.stream]++);
			else
				read_block(reader, &block);
		}
		while (block.kind == VMS_CALLS_RECORDS && reader->tail < MIN(end, head))
			read_record(reader, &block);
		copy_out(reader->fixture, reader->block, &block, sizeof(block));
		if (block.size && reader->tail == data + block.size)
			reader->block = reader->tail;
	}
	atomic_store(&shared->tail, reader->tail);
	syscall(SYS_futex, &shared->tail, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return reader->tail != begin;
}

static gpointer read_all(gpointer data)
{
	struct reader *reader = data;
	while (reader->next < reader->end) {
		drain(reader);
		g_thread_yield();
	}
	return NULL;
}

/* ---- tests ------------------------------------------------------------------ */

/* Writes records `from` … `to`, each with its number as time and address. */
static void write_records(struct fixture *fixture, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		uint64_t stream = stream_of(n);
		if (n % 1000 == 0)
			vms_ring_set_stream(&fixture->ring, stream, &fixture->sequences[stream]);
		if (n % 777 == 0)
			g_assert_true(vms_ring_write_block(&fixture->ring, VMS_CALLS_SPACE, n,
							   "seventeen bytes!", 17));
		vms_uftrace_write(&fixture->ring, n, vms_uftrace_word(VMS_UFTRACE_ENTRY, 3, n));
	}
}

/* A hundred times the ring's size goes through it whole, in order. */
static void test_reader(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct reader reader = { .fixture = fixture, .end = 100 * SIZE / 16 };
	g_autoptr(GThread) thread = g_thread_ref(g_thread_new("reader", read_all, &reader));
	write_records(fixture, 0, reader.end);
	g_thread_join(thread);
	g_assert_cmpuint(reader.next, ==, reader.end);
	g_assert_cmpuint(reader.blocks, ==, (reader.end + 776) / 777);
	g_assert_cmpuint(fixture->shared.lost, ==, 0);
	for (unsigned i = 0; i < N_STREAMS; i++)
		g_assert_cmpuint(reader.sequences[i], ==, fixture->sequences[i]);
	char bytes[256];
	g_assert_cmpint(recv(fixture->wake[1], bytes, sizeof(bytes), MSG_DONTWAIT), >=, 1);
}

/* A client that never takes what wakes it, and that does its worst to the socket. */
static void test_deaf(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	int flags = fcntl(fixture->wake[0], F_GETFL);
	g_assert_cmpint(fcntl(fixture->wake[0], F_SETFL, flags & ~O_NONBLOCK), ==, 0);
	for (unsigned i = 0; i < 100000; i++)
		vms_ring_flush(&fixture->ring);
	close(fixture->wake[1]);
	fixture->wake[1] = -1;
	vms_ring_flush(&fixture->ring); /* no signal kills QEMU */
}

/* A client that stands still: what finds no room is counted, and said once there is some. */
static void test_full(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	uint64_t n =
		SIZE; /* far more than there is room for, and than could be waited for singly */
	for (uint64_t i = 0; i < n; i++)
		vms_uftrace_write(&fixture->ring, i, vms_uftrace_word(VMS_UFTRACE_ENTRY, 3, i));
	uint64_t lost = fixture->shared.lost, head = fixture->shared.head;
	uint64_t headers = fixture->sequences[0] * sizeof(struct vms_agent_block);
	g_assert_cmpuint(head, <=, SIZE);
	g_assert_cmpuint(head, >, SIZE / 2);
	g_assert_cmpuint((head - headers) / 16, ==, n - lost);

	uint64_t word = vms_uftrace_word(VMS_UFTRACE_EXIT, 3, n);
	struct vms_uftrace_record said[2];
	atomic_store(&fixture->shared.tail, head);
	vms_uftrace_write(&fixture->ring, n, word);
	g_assert_cmpuint(fixture->shared.head, >=, head + sizeof(said));
	copy_out(fixture, fixture->shared.head - sizeof(said), said, sizeof(said));
	g_assert_cmphex(said[0].word, ==, vms_uftrace_word(VMS_UFTRACE_LOST, 0, lost));
	g_assert_cmphex(said[1].word, ==, word);
	g_assert_cmpuint(fixture->shared.lost, ==, lost);
}

static gpointer abandon(gpointer data)
{
	vms_ring_abandon(data);
	return NULL;
}

/* Whoever waits for a client that went is let go. */
static void test_abandoned(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	GThread *thread = NULL;
	while (!fixture->shared.lost) {
		if (!thread && fixture->ring.head > SIZE / 2)
			thread = g_thread_new("abandon", abandon, &fixture->ring);
		vms_uftrace_write(&fixture->ring, 0, 0);
	}
	g_thread_join(thread);
	g_assert_false(vms_ring_write_block(&fixture->ring, VMS_CALLS_SPACE, 0, "", 1));
}

/* A tail that cannot be is as if nothing were read: nothing is overwritten. */
static void test_hostile_tail(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	static const uint64_t tails[] = { UINT64_MAX, UINT64_MAX - 15, SIZE * 4, 8, 1 };
	g_autofree unsigned char *before = g_malloc(SIZE);
	while (!fixture->shared.lost)
		vms_uftrace_write(&fixture->ring, 1, 1);
	uint64_t head = fixture->shared.head;
	memcpy(before, fixture->ring.data, SIZE);
	for (size_t i = 0; i < G_N_ELEMENTS(tails); i++) {
		atomic_store(&fixture->shared.tail, tails[i]);
		vms_uftrace_write(&fixture->ring, 2, 2);
	}
	g_assert_cmpuint(fixture->shared.lost, ==, 1 + G_N_ELEMENTS(tails));
	g_assert_cmpuint(fixture->shared.head, ==, head);
	g_assert_cmpmem(before, SIZE, fixture->ring.data, SIZE);
	/* Back again after it was believed once. */
	atomic_store(&fixture->shared.tail, head);
	vms_uftrace_write(&fixture->ring, 3, 3);
	g_assert_cmpuint(fixture->shared.head, >, head);
	atomic_store(&fixture->shared.tail, 0);
	uint64_t lost = fixture->shared.lost;
	for (unsigned i = 0; i < SIZE; i++)
		vms_uftrace_write(&fixture->ring, 4, 4);
	g_assert_cmpuint(fixture->shared.head, <=, head + SIZE);
	g_assert_cmpuint(fixture->shared.lost, >, lost);
}

/* A block too long for the ring is refused, whatever its payload says. */
static void test_long_block(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *payload = g_malloc0(SIZE);
	g_assert_false(vms_ring_write_block(&fixture->ring, VMS_CALLS_SPACE, 0, payload, SIZE));
	g_assert_cmpuint(fixture->shared.head, ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
	g_test_add("/ring/" name, struct fixture, NULL, set_up, function, tear_down)
	ADD("reader", test_reader);
	ADD("deaf", test_deaf);
	ADD("full", test_full);
	ADD("abandoned", test_abandoned);
	ADD("hostile-tail", test_hostile_tail);
	ADD("long-block", test_long_block);
	return g_test_run();
}
