/* SPDX-License-Identifier: MIT */
/* Records that the kernel writes into the rings: samples, births, programs and mappings. */
#include "base/clock.h"
#include "sampler/host/host_engine-private.h"
#include <linux/perf_event.h>
#include <string.h>
#include <sys/sysmacros.h>

#define USER_CODE_MIN UINT64_C(0x1000)
#define USER_CODE_END (UINT64_C(1) << 56) /* with five levels of page tables */

struct numbers { /* the end of all records except samples (sample_id_all) */
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu, reserved;
	uint64_t id;
};

/*
 * False for addresses that cannot be code. The kernel follows frame pointers. Code without frame
 * pointers uses the register for other values, so the walk finds wrong return addresses.
 */
static bool may_be_user_code(uint64_t pc)
{
	return pc >= USER_CODE_MIN && pc < USER_CODE_END;
}

/* Adds the frames of a callchain. Context markers tell the kernel's frames from the user's. */
static void add_frames(struct vms_sample_record *sample, const uint8_t *body, uint64_t n,
		       unsigned depth)
{
	struct vms_stack *stack = &sample->stack;
	bool is_user = true, is_broken = false;
	uint64_t frames = 0;
	stack->n = stack->n_kernel = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t pc;
		memcpy(&pc, body + i * 8, sizeof(pc));
		if (pc >= (uint64_t)PERF_CONTEXT_MAX) {
			is_user = pc != (uint64_t)PERF_CONTEXT_KERNEL;
			continue;
		}
		if (is_user && stack->n > stack->n_kernel && !may_be_user_code(pc)) {
			is_broken = true;
			break;
		}
		frames++;
		if (stack->n == VMS_STACK_LIMIT)
			continue;
		stack->frame[stack->n++] = (struct vms_frame) { .pc = pc, .is_user = is_user };
		stack->n_kernel += !is_user;
	}
	stack->kernel_end = VMS_WALK_ROOT;
	stack->end = is_broken	       ? VMS_WALK_BAD_FRAME
		     : frames >= depth ? VMS_WALK_DEPTH
		     : frames == 0     ? VMS_WALK_UNREADABLE
				       : VMS_WALK_ROOT;
}

/* True if records of a process are dropped. */
static bool is_dropped(const struct vms_host_engine *engine, uint32_t pid)
{
	return engine->names && !vms_name_filter_has(engine->names, (pid_t)pid);
}

bool vms_host_add_waiting(const struct vms_sample_record *sample, uint64_t more, void *data)
{
	struct vms_host_engine *engine = data;
	if (!g_hash_table_contains(engine->pids, GINT_TO_POINTER((pid_t)sample->pid)))
		vms_host_record_process(engine, (pid_t)sample->pid, sample->time_ns);
	if (vms_sampler_add_sample(engine->sampler, sample, vms_clock_now_ns()))
		return true;
	vms_sampler_lose_samples(engine->sampler, sample->vcpu, more);
	return false;
}

/* The first frame that does not only put a thread to sleep is what it waits in. */
static uint32_t find_wait_frame(const struct vms_host_engine *engine, const struct vms_stack *stack)
{
	uint32_t i = 0;
	while (i < stack->n_kernel &&
	       vms_switches_is_sleep_code(&engine->switches, stack->frame[i].pc - (i > 0)))
		i++;
	return i > 0 && i < stack->n_kernel ? i : VMS_NO_WAIT_FRAME;
}

/* Decodes the sample of a thread that a CPU switches away from. `raw` is a size, and as many bytes.
 */
static void decode_switch(struct vms_host_engine *engine, const uint8_t *raw, size_t size)
{
	struct vms_sample_record *sample = engine->sample;
	uint32_t raw_size;
	if (!engine->off_cpu || sample->tid == 0 || size < sizeof(raw_size))
		return;
	memcpy(&raw_size, raw, sizeof(raw_size));
	sample->waits = vms_switches_state(&engine->switches, raw + sizeof(raw_size),
					   MIN(raw_size, size - sizeof(raw_size)));
	if (!sample->waits) /* it has ended */
		return;
	if (sample->waits != 'R')
		sample->wait_frame = find_wait_frame(engine, &sample->stack);
	vms_off_cpu_begin(engine->off_cpu, sample);
}

/* True if KVM's guest executed. Its host's kernel gives no stack then. */
static bool is_of_guest(const struct vms_perf_record *record)
{
	const uint16_t mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	return mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER;
}

static void decode_sample(struct vms_host_engine *engine, const struct vms_perf_record *record)
{
	struct {
		uint64_t id, ip;
		uint32_t pid, tid;
		uint64_t time_ns;
		uint32_t cpu, reserved;
		uint64_t n;
	} head;
	const uint64_t taken_ns = vms_clock_now_ns();
	if (record->size < sizeof(head))
		return;
	memcpy(&head, record->body, sizeof(head));
	if (head.n > (record->size - sizeof(head)) / 8 || is_dropped(engine, head.pid))
		return;
	engine->sample->time_ns = head.time_ns;
	engine->sample->vcpu = head.cpu;
	engine->sample->pid = head.pid;
	engine->sample->tid = head.tid;
	engine->sample->waits = 0;
	engine->sample->wait_frame = VMS_NO_WAIT_FRAME;
	engine->sample->in_guest = is_of_guest(record);
	add_frames(engine->sample, record->body + sizeof(head), head.n, engine->options.depth);
	const size_t callchain_end = sizeof(head) + head.n * 8;
	if (record->size > callchain_end) {
		decode_switch(engine, record->body + callchain_end, record->size - callchain_end);
		return;
	}
	if (engine->off_cpu)
		vms_off_cpu_end(engine->off_cpu, head.tid, head.time_ns);
	engine->running++;
	if (!g_hash_table_contains(engine->pids, GINT_TO_POINTER((pid_t)head.pid)))
		vms_host_record_process(engine, (pid_t)head.pid, head.time_ns);
	vms_sampler_add_sample(engine->sampler, engine->sample, taken_ns);
}

static void decode_mapping(struct vms_host_engine *engine, const struct vms_perf_record *record,
			   const struct numbers *numbers)
{
	struct {
		uint32_t pid, tid;
		uint64_t start, size, offset;
		uint32_t major, minor;
		uint64_t inode, generation;
		uint32_t protection, flags;
	} map;
	if (record->size <= sizeof(map) + sizeof(*numbers))
		return;
	memcpy(&map, record->body, sizeof(map));
	if (is_dropped(engine, map.pid))
		return;
	g_autofree char *path = g_strndup((const char *)record->body + sizeof(map),
					  record->size - sizeof(map) - sizeof(*numbers));
	const struct vms_foreign_name name = {
		.pid = (pid_t)map.pid,
		.start = map.start,
		.end = map.start + map.size,
		.path = strcmp(path, "//anon") == 0 ? "[anon]" : path,
		.device = makedev(map.major, map.minor),
		.inode = map.inode,
	};
	const uint32_t file = vms_host_files_number(engine->files, &name);
	vms_sampler_record_mapping(engine->sampler, numbers->time_ns, map.pid, map.start,
				   map.start + map.size, map.offset, file);
}

static void decode_comm(struct vms_host_engine *engine, const struct vms_perf_record *record,
			const struct numbers *numbers)
{
	uint32_t ids[2];
	if (record->size <= sizeof(ids) + sizeof(*numbers))
		return;
	memcpy(ids, record->body, sizeof(ids));
	g_autofree char *comm = g_strndup((const char *)record->body + sizeof(ids),
					  record->size - sizeof(ids) - sizeof(*numbers));
	if (!(record->misc & PERF_RECORD_MISC_COMM_EXEC)) {
		if (!is_dropped(engine, ids[0]))
			vms_sampler_record_thread(engine->sampler, ids[0], ids[1], comm);
		return;
	}
	if (engine->names && !vms_name_filter_note_program(engine->names, (pid_t)ids[0], comm, 1))
		return;
	g_hash_table_add(engine->pids, GINT_TO_POINTER((pid_t)ids[0]));
	g_autofree char *container = vms_host_read_container((pid_t)ids[0]);
	vms_sampler_record_process(engine->sampler, numbers->time_ns, ids[0], 0, comm, container);
}

static void decode_birth(struct vms_host_engine *engine, const struct vms_perf_record *record,
			 const struct numbers *numbers, bool is_exit)
{
	uint32_t ids[4]; /* pid, parent's pid, tid, parent's tid */
	if (record->size < sizeof(ids) + 8)
		return;
	memcpy(ids, record->body, sizeof(ids));
	if (engine->names && is_exit)
		vms_name_filter_note_exit(engine->names, (pid_t)ids[0]);
	else if (engine->names)
		vms_name_filter_note_birth(engine->names, (pid_t)ids[0], (pid_t)ids[1]);
	if (is_exit) {
		if (engine->off_cpu)
			vms_off_cpu_end(engine->off_cpu, ids[2], numbers->time_ns);
		g_hash_table_remove(engine->tids, GINT_TO_POINTER((pid_t)ids[2]));
		/*
		 * It stays in `pids`: samples of it may still be in another processor's ring. If
		 * its number is used again, the birth of that process is recorded.
		 */
		return;
	}
	g_hash_table_add(engine->tids, GINT_TO_POINTER((pid_t)ids[2]));
	if (ids[0] == ids[1] || is_dropped(engine, ids[0]))
		return;
	g_hash_table_add(engine->pids, GINT_TO_POINTER((pid_t)ids[0]));
	vms_sampler_record_process(engine->sampler, numbers->time_ns, ids[0], ids[1], "", NULL);
}

static void decode_record(const struct vms_perf_record *record, void *data)
{
	struct vms_host_engine *engine = data;
	struct numbers numbers = { 0 };
	if (record->type == PERF_RECORD_SAMPLE) {
		decode_sample(engine, record);
		return;
	}
	if (record->size >= sizeof(numbers))
		memcpy(&numbers, record->body + record->size - sizeof(numbers), sizeof(numbers));
	if (record->type == PERF_RECORD_MMAP2)
		decode_mapping(engine, record, &numbers);
	else if (record->type == PERF_RECORD_COMM)
		decode_comm(engine, record, &numbers);
	else if (record->type == PERF_RECORD_FORK || record->type == PERF_RECORD_EXIT)
		decode_birth(engine, record, &numbers, record->type == PERF_RECORD_EXIT);
	else if (record->type == PERF_RECORD_THROTTLE)
		engine->throttled++;
	else if (engine->off_cpu && !(record->misc & PERF_RECORD_MISC_SWITCH_OUT) &&
		 (record->type == PERF_RECORD_SWITCH ||
		  record->type == PERF_RECORD_SWITCH_CPU_WIDE))
		vms_off_cpu_end(engine->off_cpu, numbers.tid, numbers.time_ns);
}

/* Returns the time of a record. All records except samples end with `struct numbers`. */
static uint64_t get_time(const struct vms_perf_record *record)
{
	const size_t at =
		record->type == PERF_RECORD_SAMPLE
			? 24 /* after id, address, pid and tid */
			: record->size - sizeof(struct numbers) + offsetof(struct numbers, time_ns);
	uint64_t time_ns = 0;
	if (at <= record->size - MIN(record->size, sizeof(time_ns)))
		memcpy(&time_ns, record->body + at, sizeof(time_ns));
	return time_ns;
}

static void queue_record(const struct vms_perf_record *record, void *data)
{
	struct vms_host_engine *engine = data;
	vms_record_queue_put(engine->queue, get_time(record), record);
}

void vms_host_drain_events(struct vms_host_engine *engine)
{
	/*
	 * A ring that was drained may get new records that are older than those of the next ring.
	 */
	const uint64_t until_ns = engine->ends ? UINT64_MAX : vms_clock_now_ns();
	for (unsigned cpu = 0; cpu < engine->n_cpus; cpu++)
		vms_perf_ring_drain(&engine->rings[cpu],
				    engine->queue ? queue_record : decode_record, engine);
	if (engine->queue)
		vms_record_queue_take(engine->queue, until_ns, decode_record, engine);
	if (engine->off_cpu)
		vms_off_cpu_advance(engine->off_cpu, MIN(until_ns, vms_clock_now_ns()));
}
