/* SPDX-License-Identifier: MIT */
/*
 * Work for the test guests, named by the first argument: each keeps a vCPU, or part of one, in a
 * known part of the kernel or of this program until it is killed. `mix` runs several at once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

/* ---- user code --------------------------------------------------------- */

/* Burns time where a sample shows it; the asm keeps each call a call and its frame in place. */
NOINLINE void burn(unsigned rounds)
{
	for (volatile unsigned i = 0; i < rounds; i++)
		;
}

#define LEVEL(n, next)                                                                             \
	NOINLINE void deep_##n(unsigned rounds)                                                    \
	{                                                                                          \
		next(rounds);                                                                      \
		__asm__ volatile("");                                                              \
	}
LEVEL(8, burn)
LEVEL(7, deep_8)
LEVEL(6, deep_7)
LEVEL(5, deep_6)
LEVEL(4, deep_5)
LEVEL(3, deep_4)
LEVEL(2, deep_3)
LEVEL(1, deep_2)

static void work_deep(void)
{
	for (;;)
		deep_1(100000);
}

/*
 * A counting process per vCPU, each with its number of rounds in /tmp/count, a cache line apart:
 * benchmarks tell a slowdown by their sum.
 */
#define COUNT_STRIDE 8
#define COUNT_SIZE   4096

static volatile uint64_t *open_counts(int flags)
{
	int file = open("/tmp/count", flags, 0600);
	void *counts;

	if (file < 0 || (flags & O_CREAT && ftruncate(file, COUNT_SIZE) < 0))
		exit(1);
	counts = mmap(NULL, COUNT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (counts == MAP_FAILED)
		exit(1);
	return counts;
}

static void count_on_all(void (*round)(void))
{
	volatile uint64_t *count = open_counts(O_RDWR | O_CREAT | O_TRUNC);
	cpu_set_t cpus;
	int cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;

	while (cpu > 0 && fork() != 0)
		cpu--;
	CPU_ZERO(&cpus);
	CPU_SET((size_t)cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (;;) {
		round();
		count[cpu * COUNT_STRIDE]++;
	}
}

/* As tight as a loop gets. */
static void burn_some(void)
{
	burn(1000);
}

static void work_count(void)
{
	count_on_all(burn_some);
}

static int compare_words(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* As programs are: functions that call each other, loops with something in them, memory. */
static void sort_some(void)
{
	static uint32_t words[256];
	uint32_t word = 1;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		word ^= word << 13;
		word ^= word >> 17;
		word ^= word << 5;
		words[i] = word;
	}
	qsort(words, sizeof(words) / sizeof(*words), sizeof(*words), compare_words);
}

static void work_sort(void)
{
	count_on_all(sort_some);
}

static void show_count(void)
{
	const volatile uint64_t *count = open_counts(O_RDWR);
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT_SIZE / sizeof(uint64_t); i += COUNT_STRIDE)
		sum += count[i];
	printf("%llu\n", (unsigned long long)sum);
}

/* ---- kernel code ------------------------------------------------------- */

static void work_fork(char *self)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			execl(self, self, "nothing", (char *)NULL);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
	}
}

static void work_file(void)
{
	static char block[65536];
	char name[64];

	for (;;) {
		int file;

		snprintf(name, sizeof(name), "/tmp/file-%d", getpid());
		file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		for (int i = 0; i < 32 && write(file, block, sizeof(block)) > 0; i++)
			;
		lseek(file, 0, SEEK_SET);
		while (read(file, block, sizeof(block)) > 0)
			;
		close(file);
		unlink(name);
	}
}

static void work_pipe(void)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) < 0 || pipe(back) < 0)
		exit(1);
	if (fork() == 0) {
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	while (write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1)
		;
}

static void work_fault(void)
{
	const size_t size = 8 << 20;

	for (;;) {
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);

		for (size_t at = 0; memory != MAP_FAILED && at < size; at += 4096)
			memory[at] = 1;
		munmap(memory, size);
	}
}

static void work_sleep(void)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	for (;;)
		nanosleep(&millisecond, NULL);
}

/* Writes a title over its arguments and into its environment, which has to be long enough. */
static void work_title(void)
{
	static const char title[] = "workload: a title longer than the arguments";

	memcpy(program_invocation_name, title, sizeof(title));
	pause();
}

/* Nearly all its time is kernel time. */
static void work_syscall(void)
{
	static char block[4096];

	for (;;) {
		struct stat status;
		int file = open("/proc/self/maps", O_RDONLY);
		DIR *directory = opendir("/proc");

		while (read(file, block, sizeof(block)) > 0)
			;
		close(file);
		while (directory && readdir(directory))
			;
		if (directory)
			closedir(directory);
		stat("/proc/self/exe", &status);
	}
}

/* Few system calls, each of which lasts. */
static void work_zero(void)
{
	static char block[1 << 20];
	int zero = open("/dev/zero", O_RDONLY);

	while (read(zero, block, sizeof(block)) > 0)
		;
}

static void work_mix(char *self)
{
	static const char *const parts[] = { "deep",  "fork",  "file",	 "pipe",
					     "fault", "sleep", "syscall" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (fork() == 0) {
			execl(self, self, parts[i], (char *)NULL);
			_exit(127);
		}
	}
	while (wait(NULL) > 0)
		;
}

/* Packets through a BPF program, which the kernel compiles and calls bpf_prog_…_test_filter. */
static void work_filter(void)
{
	enum { LENGTH = 2000 };
	static struct bpf_insn program[LENGTH + 2] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		[LENGTH + 1] = { .code = BPF_JMP | BPF_EXIT },
	};
	int ends[2];
	char packet[64] = "";

	for (int i = 1; i <= LENGTH; i++)
		program[i] = (struct bpf_insn) { .code = BPF_ALU64 | BPF_ADD | BPF_K, .imm = 1 };
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)program,
		.insn_cnt = LENGTH + 2,
		.license = (uintptr_t) "GPL",
		.prog_name = "test_filter",
	};
	int filter = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if (filter < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 ||
	    setsockopt(ends[1], SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter)) != 0) {
		perror("BPF");
		return;
	}
	while (write(ends[0], packet, sizeof(packet)) > 0 &&
	       read(ends[1], packet, sizeof(packet)) > 0)
		;
	perror("packet");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*work)(void);
		void (*work_with_self)(char *self);
	} works[] = {
		{ .name = "deep", .work = work_deep },
		{ .name = "count", .work = work_count },
		{ .name = "sort", .work = work_sort },
		{ .name = "show", .work = show_count },
		{ .name = "fork", .work_with_self = work_fork },
		{ .name = "file", .work = work_file },
		{ .name = "pipe", .work = work_pipe },
		{ .name = "fault", .work = work_fault },
		{ .name = "filter", .work = work_filter },
		{ .name = "sleep", .work = work_sleep },
		{ .name = "syscall", .work = work_syscall },
		{ .name = "title", .work = work_title },
		{ .name = "zero", .work = work_zero },
		{ .name = "mix", .work_with_self = work_mix },
	};
	char self[] = "/bin/workload";

	for (size_t i = 0; argc > 1 && i < sizeof(works) / sizeof(works[0]); i++) {
		if (strcmp(argv[1], works[i].name) != 0)
			continue;
		if (works[i].work)
			works[i].work();
		else
			works[i].work_with_self(self);
		return 0;
	}
	return argc > 1 && strcmp(argv[1], "nothing") == 0 ? 0 : 2;
}
