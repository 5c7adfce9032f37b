/* SPDX-License-Identifier: MIT */
/*
 * Any order of calls, returns, jumps, stacks, privilege and tasks on three vCPUs: the records of
 * every stream nest, have the right depth, and times do not go back, which reading them checks.
 *
 * Covers: agent/calls/call_tracker.c agent/calls/stack_in_use.c agent/calls/filter.c
 * agent/calls/stack.c agent/calls/streams.c agent/calls/contexts.c agent/calls/user.c
 * agent/calls/functions.c agent/calls/uftrace_record.c agent/ring.c.
 */
#include "../unit/call_tracker_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *at, *end;
} input;

static uint8_t byte(void)
{
	return input.at < input.end ? *input.at++ : 0;
}

static unsigned rank(void)
{
	static const unsigned ranks[] = { USER, KERNEL, KERNEL, 1 };
	unsigned choice = byte();
	return choice == 255 ? N_RANKS : ranks[choice % G_N_ELEMENTS(ranks)];
}

/* Mostly on a few stacks that lie close together. */
static uint64_t slot(void)
{
	uint64_t choice = byte();
	if (choice == 255)
		return UINT64_MAX - byte();
	if (choice == 254)
		return byte();
	return KERNEL_SP + (choice >> 5) * 0x1800 - (choice & 31) * 8;
}

static char function(void)
{
	return (char)('A' + byte() % 26);
}

static void task(void)
{
	struct task task = { .va = task_va(byte() % 8), .mm = byte() % 4 };
	task.tid = byte() % 8;
	task.pid = byte() % 8;
	task.name[0] = (char)('a' + byte() % 4);
	track_switch(world.tracker[cpu], &task, ++now);
}

static void seed(void)
{
	struct vms_agent_frame frames[8];
	struct vms_agent_stack stack = {
		.task = byte() % 2 ? task_va(byte() % 8) : 0,
		.vcpu = cpu,
		.n = byte() % G_N_ELEMENTS(frames),
	};
	for (unsigned i = 0; i < stack.n; i++)
		frames[i] = (struct vms_agent_frame) { slot(), fn(function()), byte() % 2 };
	track_open_calls(world.tracker[cpu], &stack, frames, ++now);
}

static const struct vms_agent_function *functions(void)
{
	static struct vms_agent_function all[27];
	for (unsigned i = 0; i < 26; i++)
		all[i] = (struct vms_agent_function) { fn((char)('A' + i)), 0 };
	for (unsigned n = byte() % 8; n > 0; n--)
		all[byte() % 26].flags = 1U << byte() % 9;
	return all;
}

static struct vms_agent_calls options(void)
{
	unsigned filters = byte();
	struct vms_agent_calls options = { .by = byte() % 3, .kernel = 1, .user = 1 };
	if (filters & 1)
		options.threshold = byte();
	if (filters & 2)
		options.max_depth = byte();
	if (filters & 4)
		options.user = 0;
	if (filters & 8)
		options.wait_for_start = 1;
	if (filters & 16) {
		options.n_pids = 1;
		options.pids[0] = byte() % 8;
	}
	return options;
}

static void update(void)
{
	struct vms_agent_calls other = options();
	world_update(&other, functions());
}

static void finish_one(void)
{
	call_tracker_finish(world.tracker[cpu], ++now);
	if (byte() % 2) {
		call_tracker_free(world.tracker[cpu]);
		world.tracker[cpu] = call_tracker_new(world.trackers, cpu, &world.ring[cpu]);
	}
}

static void event(void)
{
	struct call_tracker *tracker = world.tracker[cpu];
	static const char name[] = "abc";
	unsigned at = rank();
	uint64_t where = slot(), found, called;
	if (call_tracker_find_innermost(tracker, at, &found, &called))
		g_assert_cmpint(call_trackers_find_function(world.trackers, called), >=, -1);
	call_tracker_resumes_user(tracker, in('a'), where);
	call_trackers_stopped(world.trackers);
	switch (byte() % 16) {
	case 0:
	case 1:
	case 2:
	case 3: track_call(tracker, at, where, fn(function()), ++now); break;
	case 4:
	case 5: track_return(tracker, at, where, in(function()), ++now); break;
	case 6: track_return(tracker, at, where, fn(function()), ++now); break;
	case 7: track_jump(tracker, at, fn(function()), ++now); break;
	case 8: track_stack_load(tracker, at); break;
	case 9:
		track_entry(tracker, byte() % 2, rank(), slot(), fn(function()), at, in('a'), where,
			    ++now);
		break;
	case 10: track_exit(tracker, at, slot(), rank(), in('a') + byte() % 2, where, ++now); break;
	case 11: task(); break;
	case 12: track_new_space(tracker, byte() % 4, &name[byte() % 4]); break;
	case 13: cpu = byte() % WORLD_VCPUS; break;
	case 14: now += 100ULL * byte() - 1000; break;
	default:
		switch (byte() % 8) {
		case 0: update(); break;
		case 1: seed(); break;
		case 2: finish_one(); break;
		default: track_call(tracker, at, where, fn(function()), ++now);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input.at = data;
	input.end = data + size;
	const struct vms_agent_calls first = options();
	begin_with(&first, functions());
	now = 1000000;
	while (input.at < input.end)
		event();
	end();
	world_tear_down();
	return 0;
}
