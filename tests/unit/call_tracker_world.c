/* SPDX-License-Identifier: MIT */
#include "call_tracker_world.h"

#include <stdlib.h>
#include <string.h>

struct world world;
uint64_t now;
unsigned cpu;

struct world_block {
	uint64_t sequence;
	GArray *records;
};

/* As on x86: the kernel is the most privileged. */
static const struct privilege_levels levels = { .kernel = 3, .number = { 3, 2, 1, 0 } };

/* A copy that the trackers may free. */
static struct vms_agent_function *copy(const struct vms_agent_function *functions, size_t *n)
{
	for (*n = 0; functions && functions[*n].va;)
		++*n;
	struct vms_agent_function *copied = calloc(MAX(*n, 1), sizeof(*copied));
	for (size_t i = 0; i < *n; i++)
		copied[i] = functions[i];
	return copied;
}

void world_set_up(const struct vms_agent_calls *options, const struct vms_agent_function *functions,
		  size_t ring_size)
{
	size_t n;
	struct vms_agent_function *copied = copy(functions, &n);
	memset(&world, 0, sizeof(world));
	world.trackers = call_trackers_new(options, &levels, copied, n, WORLD_VCPUS);
	g_assert_nonnull(world.trackers);
	for (unsigned i = 0; i < WORLD_VCPUS; i++) {
		world.data[i] = g_malloc(ring_size);
		vms_ring_init(&world.ring[i], &world.shared[i], world.data[i], ring_size, -1);
		vms_ring_abandon(&world.ring[i]); /* nobody reads before the end */
		world.tracker[i] = call_tracker_new(world.trackers, i, &world.ring[i]);
		g_assert_nonnull(world.tracker[i]);
	}
	g_assert_null(call_tracker_new(world.trackers, WORLD_VCPUS, &world.ring[0]));
}

void world_update(const struct vms_agent_calls *options, const struct vms_agent_function *functions)
{
	size_t n;
	struct vms_agent_function *copied = copy(functions, &n);
	g_assert_true(call_trackers_update(world.trackers, options, copied, n));
}

/* ---- reading ---------------------------------------------------------------- */

static void free_block(gpointer data)
{
	struct world_block *block = data;
	g_array_unref(block->records);
	g_free(block);
}

static void free_stream(gpointer data)
{
	struct world_stream *stream = data;
	g_ptr_array_unref(stream->blocks);
	g_array_unref(stream->spaces);
	g_array_unref(stream->records);
	g_free(stream);
}

struct world_stream *world_stream(uint64_t id)
{
	return g_hash_table_lookup(world.streams, &id);
}

static struct world_stream *get_stream(uint64_t id)
{
	struct world_stream *stream = world_stream(id);
	if (stream)
		return stream;
	stream = g_new0(struct world_stream, 1);
	stream->id = id;
	stream->blocks = g_ptr_array_new_with_free_func(free_block);
	stream->spaces = g_array_new(FALSE, FALSE, sizeof(struct vms_calls_space));
	stream->records = g_array_new(FALSE, FALSE, sizeof(struct vms_uftrace_record));
	g_hash_table_insert(world.streams, &stream->id, stream);
	return stream;
}

static void copy_out(const struct vms_ring *ring, uint64_t position, void *to, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)to)[i] = ring->data[(position + i) % ring->size];
}

static void read_block(const struct vms_ring *ring, uint64_t position,
		       const struct vms_agent_block *header, uint64_t size)
{
	struct world_stream *stream = get_stream(header->stream);
	if (header->kind == VMS_CALLS_STREAM) {
		copy_out(ring, position, &stream->about, sizeof(stream->about));
	} else if (header->kind == VMS_CALLS_SPACE) {
		struct vms_calls_space space;
		copy_out(ring, position, &space, sizeof(space));
		g_array_append_val(stream->spaces, space);
	} else {
		struct world_block *block = g_new(struct world_block, 1);
		g_assert_cmpuint(header->kind, ==, VMS_CALLS_RECORDS);
		g_assert_cmpuint(size % sizeof(struct vms_uftrace_record), ==, 0);
		block->sequence = header->sequence;
		block->records = g_array_new(FALSE, FALSE, sizeof(struct vms_uftrace_record));
		g_array_set_size(block->records, (guint)(size / sizeof(struct vms_uftrace_record)));
		if (size)
			copy_out(ring, position, block->records->data, size);
		g_ptr_array_add(stream->blocks, block);
	}
}

static void read_ring(const struct vms_ring *ring)
{
	uint64_t head = atomic_load(&ring->shared->head), position = 0;
	while (position < head) {
		struct vms_agent_block header;
		copy_out(ring, position, &header, sizeof(header));
		position += sizeof(header);
		uint64_t size = header.size ? header.size : head - position;
		g_assert_cmpuint(size, <=, head - position);
		read_block(ring, position, &header, size);
		position += size;
	}
}

static int by_sequence(gconstpointer a, gconstpointer b)
{
	uint64_t one = (*(struct world_block *const *)a)->sequence;
	uint64_t other = (*(struct world_block *const *)b)->sequence;
	return one < other ? -1 : one > other;
}

/* ---- checking --------------------------------------------------------------- */

static void check_stream(const struct world_stream *stream)
{
	g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	uint64_t time = 0;
	bool lost = false;
	for (guint i = 0; i < stream->records->len; i++) {
		const struct vms_uftrace_record *record =
			&g_array_index(stream->records, struct vms_uftrace_record, i);
		uint64_t address = record->word >> 16, depth = record->word >> 6 & 1023;
		g_assert_cmpuint(record->word >> 2 & 0xf, ==, 5 << 1);
		g_assert_cmpuint(record->time_ns, >=, time);
		time = record->time_ns;
		lost |= (record->word & 3) == VMS_UFTRACE_LOST;
		if (lost)
			continue;
		if ((record->word & 3) == VMS_UFTRACE_ENTRY) {
			g_assert_cmpuint(depth, ==, MIN(open->len, 1023));
			g_array_append_val(open, address);
			continue;
		}
		g_assert_cmpuint(record->word & 3, ==, VMS_UFTRACE_EXIT);
		g_assert_cmpuint(open->len, >, 0);
		g_assert_cmpuint(depth, ==, MIN(open->len - 1, 1023));
		g_assert_cmpuint(g_array_index(open, uint64_t, open->len - 1), ==, address);
		g_array_set_size(open, open->len - 1);
	}
	for (unsigned i = 0; i < WORLD_VCPUS; i++)
		lost |= world.shared[i].lost > 0;
	g_assert_true(lost || open->len == 0);
}

static void order_stream(struct world_stream *stream)
{
	g_ptr_array_sort(stream->blocks, by_sequence);
	for (guint i = 0; i < stream->blocks->len; i++) {
		struct world_block *block = g_ptr_array_index(stream->blocks, i);
		g_assert_cmpuint(block->sequence, ==, i);
		g_array_append_vals(stream->records, block->records->data, block->records->len);
	}
	g_assert_true(stream->blocks->len == 0 || stream->about.name[0] || stream->about.tid);
}

void world_finish(uint64_t time)
{
	GHashTableIter iter;
	struct world_stream *stream;
	world.streams = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, free_stream);
	for (unsigned i = 0; i < WORLD_VCPUS; i++)
		call_tracker_finish(world.tracker[i], time);
	for (unsigned i = 0; i < WORLD_VCPUS; i++)
		read_ring(&world.ring[i]);
	g_hash_table_iter_init(&iter, world.streams);
	while (g_hash_table_iter_next(&iter, NULL, (void **)&stream)) {
		order_stream(stream);
		check_stream(stream);
	}
}

void world_tear_down(void)
{
	for (unsigned i = 0; i < WORLD_VCPUS; i++)
		call_tracker_free(world.tracker[i]);
	call_trackers_free(world.trackers);
	for (unsigned i = 0; i < WORLD_VCPUS; i++)
		g_free(world.data[i]);
	g_clear_pointer(&world.streams, g_hash_table_unref);
}

/* ---- events --------------------------------------------------------------------- */

#define RING (1 << 20)

uint64_t fn(char name)
{
	return (g_ascii_isupper(name) ? 0xffffffff81000000 : 0x401000) + (uint64_t)name * 0x100;
}

uint64_t in(char name)
{
	return fn(name) + 0x20;
}

static char name_of(uint64_t address)
{
	for (char name = 'A'; name <= 'z'; name++)
		if (g_ascii_isalpha(name) && (fn(name) & VMS_UFTRACE_ADDRESS) == address)
			return name;
	return '?';
}

void begin_with(const struct vms_agent_calls *options, const struct vms_agent_function *functions)
{
	now = 1000;
	cpu = 0;
	world_set_up(options, functions, RING);
}

void begin(enum vms_agent_by by, const struct vms_agent_function *functions)
{
	const struct vms_agent_calls options = { .by = by, .kernel = 1, .user = 1 };
	begin_with(&options, functions);
}

void call(unsigned rank, uint64_t slot, char name)
{
	track_call(world.tracker[cpu], rank, slot, fn(name), ++now);
}

void ret(unsigned rank, uint64_t slot)
{
	track_return(world.tracker[cpu], rank, slot, in('z'), ++now);
}

void ret_to(unsigned rank, uint64_t slot, char name)
{
	track_return(world.tracker[cpu], rank, slot, fn(name), ++now);
}

void jump(unsigned rank, char name)
{
	track_jump(world.tracker[cpu], rank, fn(name), ++now);
}

void load_stack(unsigned rank)
{
	track_stack_load(world.tracker[cpu], rank);
}

void interrupt(uint64_t slot, char name, uint64_t sp)
{
	track_entry(world.tracker[cpu], ENTRY_INTERRUPT, KERNEL, slot, fn(name), KERNEL, in('Z'),
		    sp, ++now);
}

void back(uint64_t slot, uint64_t sp)
{
	track_exit(world.tracker[cpu], KERNEL, slot, KERNEL, in('Z'), sp, ++now);
}

void enter(enum entry_kind kind, char name, uint64_t pc, uint64_t sp)
{
	/* On a stack of its own, before the kernel loads that of the task. */
	track_entry(world.tracker[cpu], kind, KERNEL, 0xfffffe0000002fd8, fn(name), USER, pc, sp,
		    ++now);
	load_stack(KERNEL);
}

void leave(uint64_t pc, uint64_t sp)
{
	track_exit(world.tracker[cpu], KERNEL, 0xfffffe0000002fd8, USER, pc, sp, ++now);
}

uint64_t task_va(unsigned n)
{
	return 0xffff888000000000 + n * 0x2000ULL;
}

uint64_t task_mm(unsigned n)
{
	return n ? 0xffff888010000000 + n * 0x1000ULL : 0;
}

uint64_t stack_of(unsigned n)
{
	return KERNEL_SP + n * 0x10000ULL;
}

void switch_to(unsigned n)
{
	struct task task = {
		.va = task_va(n ? n : 1000 + cpu),
		.mm = task_mm(n),
		.tid = n ? 100 + n : 0,
		.pid = n ? 100 + n : 0,
	};
	g_snprintf(task.name, sizeof(task.name), n ? "task%u" : "swapper", n);
	track_switch(world.tracker[cpu], &task, ++now);
}

/* A stream as a tree. */
static char *tree(uint64_t id)
{
	struct world_stream *stream = world_stream(id);
	GString *text = g_string_new("");
	for (guint i = 0; stream && i < stream->records->len; i++) {
		uint64_t word = g_array_index(stream->records, struct vms_uftrace_record, i).word;
		if ((word & 3) == VMS_UFTRACE_ENTRY)
			g_string_append_printf(text, "%c(", name_of(word >> 16));
		else
			g_string_append_c(text, (word & 3) == VMS_UFTRACE_EXIT ? ')' : '!');
	}
	return g_string_free(text, FALSE);
}

void end(void)
{
	world_finish(++now);
}

void expect(uint64_t id, const char *expected)
{
	g_autofree char *got = tree(id);
	g_assert_cmpstr(got, ==, expected);
}

void end_with(uint64_t id, const char *expected)
{
	end();
	expect(id, expected);
	world_tear_down();
}
