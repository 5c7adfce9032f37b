/* SPDX-License-Identifier: MIT */
/*
 * A user program with instructions that tests put probes on. Each has a symbol. How often each is
 * executed, and with which registers, the command line says.
 *
 *   probed calls N      the_call executes lseek(77, 1000 + i, 2000 + i) for i below N
 *   probed steps N      the_step adds 3 to `sum` N times, by calls of step(&sum, i)
 *   probed loads N      the_load reads; every third time memory that is not there
 *   probed threads N T  N steps in each of T threads at once, in turn on the CPUs there are
 *   probed stopped …    the same after it has stopped itself and was continued
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

long call_kernel(long number, long a, long b, long c);
long step(uint64_t *sum, long i); /* i + 7 */
long load(const void *address);
extern const char after_load[];

__asm__(".type call_kernel, %function\n"
	".type step, %function\n"
	".type leaf, %function\n"
	".type load, %function\n");
#if defined(__x86_64__)
__asm__(".globl call_kernel, the_call, after_call, step, the_step, after_step, the_branch\n"
	".globl leaf, the_return, after_branch, load, the_load, after_load\n"
	"call_kernel: mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"the_call: syscall\n"
	"after_call: ret\n"
	"step:\n"
	"the_step: addq $3, (%rdi)\n"
	"after_step: lea 6(%rsi), %rax\n"
	"the_branch: call leaf\n"
	"after_branch: ret\n"
	"leaf: inc %rax\n"
	"the_return: ret\n"
	"load: mov $-1, %rax\n"
	"the_load: mov (%rdi), %rax\n"
	"after_load: ret\n");
#else
__asm__(".globl call_kernel, the_call, after_call, step, the_step, after_step, the_branch\n"
	".globl leaf, the_return, after_branch, load, the_load, after_load\n"
	"call_kernel: mov x8, x0\n"
	"	mov x0, x1\n"
	"	mov x1, x2\n"
	"	mov x2, x3\n"
	"the_call: svc #0\n"
	"after_call: ret\n"
	"step: stp x29, x30, [sp, #-16]!\n"
	"	ldr x2, [x0]\n"
	"	add x2, x2, #3\n"
	"the_step: str x2, [x0]\n"
	"after_step: add x0, x1, #6\n"
	"the_branch: bl leaf\n"
	"after_branch: ldp x29, x30, [sp], #16\n"
	"	ret\n"
	"leaf: add x0, x0, #1\n"
	"the_return: ret\n"
	"load: mov x1, x0\n"
	"	mov x0, #-1\n"
	"the_load: ldr x0, [x1]\n"
	"after_load: ret\n");
#endif

uint64_t sum; /* of the main thread */
static long n;

/* Goes on behind the instruction that has faulted. */
static void skip_load(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	(void)number, (void)info;
#if defined(__x86_64__)
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)after_load;
#else
	context->uc_mcontext.pc = (uintptr_t)after_load;
#endif
}

static void make_loads(void)
{
	const struct sigaction action = { .sa_sigaction = skip_load, .sa_flags = SA_SIGINFO };
	const uint64_t value = 5;
	long found = 0;
	sigaction(SIGSEGV, &action, NULL);
	for (long i = 0; i < n; i++)
		found += load(i % 3 ? &value : (const void *)16) == 5;
	printf("found %ld\n", found);
}

static void make_steps(void)
{
	long returned = 0;
	for (long i = 0; i < n; i++)
		returned += step(&sum, i) == i + 7;
	printf("sum %lu returned %ld\n", (unsigned long)sum, returned);
}

/* A scheduler need not spread what takes less than one of its time slices. */
static void go_to_cpu(long cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		abort();
}

static void *run_thread(void *data)
{
	uint64_t own = 0;
	go_to_cpu((intptr_t)data % sysconf(_SC_NPROCESSORS_ONLN));
	for (long i = 0; i < n; i++)
		step(&own, i);
	return NULL;
}

static void make_threads(int count)
{
	pthread_t threads[64];
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, run_thread, (void *)(intptr_t)i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "stopped") == 0) {
		raise(SIGSTOP);
		argc--;
		argv++;
	}
	if (argc < 3)
		return 2;
	n = atol(argv[2]);
	if (strcmp(argv[1], "calls") == 0)
		for (long i = 0; i < n; i++)
			call_kernel(SYS_lseek, 77, 1000 + i, 2000 + i);
	else if (strcmp(argv[1], "steps") == 0)
		make_steps();
	else if (strcmp(argv[1], "loads") == 0)
		make_loads();
	else if (argc > 3)
		make_threads(atoi(argv[3]));
	return 0;
}
