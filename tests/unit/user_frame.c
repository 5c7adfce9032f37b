/* SPDX-License-Identifier: MIT */
/*
 * User frames by unwind tables: this process walks its own stack, as if it ran in a guest, and
 * compares with what backtrace(3) of the C library finds.
 */
#include "arch/x86_64.h"
#include "fake_machine.h"
#include "guest/guest-private.h"
#include "guest/operations.h"
#include "symbol/binary.h"
#include "unwind/signal_stack.h"
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <ucontext.h>

#ifdef __x86_64__

#define COPY	 65536
#define FRAMES	 64
#define NOINLINE __attribute__((noinline))

/* What was captured where the stack is deepest. */
static struct {
	struct vms_regs regs;
	uint64_t va;
	uint8_t bytes[COPY];
	size_t size;
	/* Another stack, which a signal's handler has interrupted. */
	uint64_t other_va;
	uint8_t other_bytes[COPY];
	size_t other_size;
	void *truth[FRAMES]; /* by backtrace(3), from its caller on */
	int n;
} captured;

/* The files of this process, and what is missing of them: see missing_from. */
static GPtrArray *binaries;
static uint64_t missing_from = UINT64_MAX;

/* ---- the guest -------------------------------------------------------- */

struct part {
	int fd;
};

static bool read_part(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct part *part = data;
	return offset + size <= missing_from &&
	       pread(part->fd, buf, size, (off_t)offset) == (ssize_t)size;
}

static void free_part(void *data)
{
	close(((struct part *)data)->fd);
	g_free(data);
}

static struct vms_binary *find_binary(const char *path)
{
	for (guint i = 0; i < binaries->len; i++)
		if (strcmp(vms_binary_path(binaries->pdata[i]), path) == 0)
			return binaries->pdata[i];
	struct part *part = g_new0(struct part, 1);
	part->fd = open(path, O_RDONLY | O_CLOEXEC);
	const off_t size = part->fd >= 0 ? lseek(part->fd, 0, SEEK_END) : -1;
	if (size < 0) {
		g_free(part);
		return NULL;
	}
	const struct vms_file_source source = { (uint64_t)size, read_part, free_part, part };
	struct vms_binary *binary = vms_binary_new(path, &source);
	g_ptr_array_add(binaries, binary);
	return binary;
}

/* Finds a mapping of this process. */
static bool find_user_code(void *system, struct vms_memory *memory,
			   const struct vms_process *process, uint64_t va, struct vms_mapping *ret)
{
	char line[1024], path[512];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "re");
	(void)system;
	(void)memory;
	(void)process;
	while (!found && fgets(line, sizeof(line), maps)) {
		*ret = (struct vms_mapping) { 0 };
		*path = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %511s",
			   &ret->start, &ret->end, &ret->offset, path) < 3)
			continue;
		found = va >= ret->start && va < ret->end;
	}
	fclose(maps);
	ret->binary = found && *path == '/' ? find_binary(path) : NULL;
	return found;
}

static const struct vms_guest_ops ops = { .user_code = find_user_code };

/* Walks what was captured, of which `size` bytes are left. */
static void walk(size_t size, struct vms_stack *ret)
{
	static const struct vms_process process = { .pid = 1 };
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 1);
	/* A guest without a system is one that was not recognised. */
	struct vms_guest guest = { .machine = machine, .ops = &ops, .system = machine };
	struct vms_memory *memory = vms_memory_new(machine, &captured.regs);
	const struct vms_copied_stack copied = {
		.regs = captured.regs,
		.parts = { { captured.va, captured.bytes, MIN(size, captured.size) },
			   { captured.other_va, captured.other_bytes, captured.other_size } },
	};
	*ret = (struct vms_stack) { 0 };
	binaries = g_ptr_array_new_with_free_func((GDestroyNotify)vms_binary_unref);
	vms_walk_copied_user(&guest, memory, &process, &copied, FRAMES, ret);
	g_ptr_array_unref(binaries);
	vms_memory_free(memory);
	vms_machine_unref(machine);
}

/* ---- capturing -------------------------------------------------------- */

/* Where the kernel's memory map ends the stack. */
static uint64_t find_stack_end(uint64_t sp)
{
	struct vms_mapping mapping;
	binaries = g_ptr_array_new_with_free_func((GDestroyNotify)vms_binary_unref);
	g_assert_true(find_user_code(NULL, NULL, NULL, sp, &mapping));
	g_ptr_array_unref(binaries);
	return mapping.end;
}

/* Has the kernel copy the stack: AddressSanitizer forbids what lies between the variables. */
static void copy_stack(uint64_t va, void *buf, size_t size)
{
	const struct iovec local = { buf, size }, remote = { (void *)(uintptr_t)va, size };
	g_assert_cmpint(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), ==, (ssize_t)size);
}

static NOINLINE void capture(void)
{
	static const struct {
		uint8_t reg, from;
	} regs[] = { { RIP, REG_RIP }, { RSP, REG_RSP }, { RBP, REG_RBP }, { RBX, REG_RBX },
		     { R12, REG_R12 }, { R13, REG_R13 }, { R14, REG_R14 }, { R15, REG_R15 } };
	ucontext_t here;
	getcontext(&here);
	captured.regs = (struct vms_regs) { 0 };
	for (size_t i = 0; i < G_N_ELEMENTS(regs); i++)
		vms_regs_set(&captured.regs, regs[i].reg,
			     (uint64_t)here.uc_mcontext.gregs[regs[i].from]);
	vms_regs_set(&captured.regs, CS, 0x33);
	captured.va = captured.regs.value[RSP];
	captured.size = MIN(COPY, find_stack_end(captured.va) - captured.va);
	copy_stack(captured.va, captured.bytes, captured.size);
	const struct vms_stack_part part = { captured.va, captured.bytes, captured.size };
	captured.other_size = 0;
	if (vms_find_interrupted_stack(&vms_arch_x86_64, &part, &captured.other_va)) {
		captured.other_size =
			MIN(COPY, find_stack_end(captured.other_va) - captured.other_va);
		copy_stack(captured.other_va, captured.other_bytes, captured.other_size);
	}
	captured.n = backtrace(captured.truth, FRAMES);
	/* AddressSanitizer's own backtrace(3) is a frame too. */
	if (captured.n > 2 && captured.truth[2] == __builtin_return_address(0))
		memmove(captured.truth, captured.truth + 1,
			(size_t)--captured.n * sizeof(captured.truth[0]));
}

static NOINLINE int descend(int depth)
{
	char room[100];
	__asm__ volatile("" ::"r"(room) : "memory");
	if (depth == 0)
		capture();
	else
		descend(depth - 1);
	__asm__ volatile("" ::"r"(room) : "memory");
	return depth;
}

/* A frame whose size is not fixed. */
static NOINLINE int spread(size_t size)
{
	char *room = __builtin_alloca(size);
	__asm__ volatile("" ::"r"(room) : "memory");
	const int depth = descend(3);
	__asm__ volatile("" ::"r"(room) : "memory");
	return depth;
}

static int compare(const void *a, const void *b)
{
	spread(*(const int *)a == *(const int *)b ? 50 : 500);
	return 0;
}

static void on_signal(int number)
{
	spread((size_t)number * 16);
}

/* The innermost frame is capture's, at another place than where it called backtrace(3). */
static void check_whole(void)
{
	g_autofree struct vms_stack *stack = g_new(struct vms_stack, 1);
	walk(COPY, stack);
	g_assert_cmpint(stack->end, ==, VMS_WALK_ROOT);
	g_assert_cmpuint(stack->n, ==, captured.n);
	g_assert_cmpuint(stack->n, >, 6);
	for (unsigned i = 1; i < stack->n; i++) {
		g_assert_cmphex(stack->frame[i].pc, ==, (uint64_t)(uintptr_t)captured.truth[i]);
		g_assert_true(stack->frame[i].is_user);
	}
	g_assert_false(stack->frame[0].is_return);
	g_assert_cmpuint(stack->n_kernel, ==, 0);
}

static void test_own_stack(void)
{
	spread(100);
	check_whole();
}

static void test_library(void)
{
	int numbers[] = { 1, 2, 3 };
	qsort(numbers, G_N_ELEMENTS(numbers), sizeof(*numbers), compare);
	check_whole();
}

static void test_signal(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	check_whole();
}

/* A handler with a stack of its own. */
static void test_signal_stack(void)
{
	enum { SIZE = 65536 };
	g_autofree uint8_t *room = g_malloc0(SIZE);
	const stack_t own = { .ss_sp = room, .ss_size = SIZE }, none = { .ss_flags = SS_DISABLE };
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	sigaltstack(&own, NULL);
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
	sigaltstack(&none, NULL);
	g_assert_cmpuint(captured.va - (uint64_t)(uintptr_t)room, <, SIZE);
	g_assert_cmpuint(captured.other_size, >, 0);
	check_whole();
	captured.other_size = 0;
	g_autofree struct vms_stack *stack = g_new(struct vms_stack, 1);
	walk(COPY, stack);
	g_assert_cmpint(stack->end, ==, VMS_WALK_UNREADABLE);
	g_assert_cmpuint(stack->n, >, 4);
}

/* What looks like a signal's frame, but is not. */
static void test_no_signal_stack(void)
{
	enum { VA = 0x7000, WORDS = 64, STACK = 2 };
	uint64_t words[WORDS] = { 0 }, sp;
	const struct vms_stack_part part = { VA, (const uint8_t *)words, sizeof(words) };
	g_assert_false(vms_find_interrupted_stack(&vms_arch_x86_64, &part, &sp));
	words[STACK] = 0x6000;
	words[STACK + 2] = 0x2000;
	words[STACK + 18] = 0x9000;
	g_assert_true(vms_find_interrupted_stack(&vms_arch_x86_64, &part, &sp));
	g_assert_cmphex(sp, ==, 0x9000);
	const struct {
		unsigned word;
		uint64_t value;
	} lies[] = { { STACK, 0x7100 },	      { STACK + 2, 0x1000 },  { STACK + 1, 2 },
		     { STACK + 2, 1u << 30 }, { STACK + 18, 0x6100 }, { STACK + 18, 0x9001 } };
	for (size_t i = 0; i < G_N_ELEMENTS(lies); i++) {
		const uint64_t was = words[lies[i].word];
		words[lies[i].word] = lies[i].value;
		g_assert_false(vms_find_interrupted_stack(&vms_arch_x86_64, &part, &sp));
		words[lies[i].word] = was;
	}
	words[STACK + 18] = UINT64_MAX - 7; /* the kernel's */
	g_assert_false(vms_find_interrupted_stack(&vms_arch_x86_64, &part, &sp));
	const struct vms_stack_part cut = { VA, (const uint8_t *)words, (STACK + 18) * 8 };
	words[STACK + 18] = 0x9000;
	g_assert_false(vms_find_interrupted_stack(&vms_arch_x86_64, &cut, &sp));
}

static gpointer run_thread(gpointer data)
{
	spread(64);
	return data;
}

static void test_thread(void)
{
	g_thread_join(g_thread_new("test", run_thread, NULL));
	check_whole();
}

/* What was not copied cannot be walked: what is said of it is true. */
static void test_short_copy(void)
{
	g_autofree struct vms_stack *stack = g_new(struct vms_stack, 1);
	unsigned last = 0;
	spread(100);
	for (size_t size = 0; size < 4000; size += 200) {
		walk(size, stack);
		g_assert_cmpuint(stack->n, >=, MAX(last, 1));
		if (stack->end != VMS_WALK_ROOT)
			g_assert_cmpint(stack->end, ==, VMS_WALK_UNREADABLE);
		for (unsigned i = 1; i < stack->n; i++)
			g_assert_cmphex(stack->frame[i].pc, ==,
					(uint64_t)(uintptr_t)captured.truth[i]);
		last = stack->n;
	}
}

/* Files of which only the begin is in memory, or not even that: their tables are not. */
static void test_missing_table(void)
{
	static const uint64_t present[] = { 4096, 0 };
	g_autofree struct vms_stack *stack = g_new(struct vms_stack, 1);
	spread(100);
	for (size_t i = 0; i < G_N_ELEMENTS(present); i++) {
		missing_from = present[i];
		walk(COPY, stack);
		missing_from = UINT64_MAX;
		g_assert_cmpuint(stack->n, ==, 1);
		g_assert_cmpint(stack->end, ==, VMS_WALK_NO_TABLE);
	}
}

static void test_lying_registers(void)
{
	g_autofree struct vms_stack *stack = g_new(struct vms_stack, 1);
	spread(100);
	/* Which one a frame is found by is the compiler's choice. */
	captured.regs.value[RSP] += 1;
	captured.regs.value[RBP] += 1;
	walk(COPY, stack);
	g_assert_cmpint(stack->end, !=, VMS_WALK_ROOT);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/user-frame/own-stack", test_own_stack);
	g_test_add_func("/user-frame/library", test_library);
	g_test_add_func("/user-frame/signal", test_signal);
	g_test_add_func("/user-frame/signal-stack", test_signal_stack);
	g_test_add_func("/user-frame/no-signal-stack", test_no_signal_stack);
	g_test_add_func("/user-frame/thread", test_thread);
	g_test_add_func("/user-frame/short-copy", test_short_copy);
	g_test_add_func("/user-frame/missing-table", test_missing_table);
	g_test_add_func("/user-frame/lying-registers", test_lying_registers);
	return g_test_run();
}

#else

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	return g_test_run();
}

#endif
