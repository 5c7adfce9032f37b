/* SPDX-License-Identifier: MIT */
/*
 * A user program whose calls are known: every function counts how often it was entered, by all
 * threads and processes that the program makes, and the counts are written at its end, as truth for
 * call traces.
 */
#include "plain_calls.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* Every function that a trace must show. */
#define CALLS(X)                                                                                   \
	PLAIN_CALLS(X)                                                                             \
	X(compare)                                                                                 \
	X(climb)                                                                                   \
	X(come_back)                                                                               \
	X(handle)                                                                                  \
	X(handle_elsewhere)                                                                        \
	X(handle_fault)                                                                            \
	X(handle_alarm)                                                                            \
	X(handle_and_leave)                                                                        \
	X(below_handler)                                                                           \
	X(await_alarms)                                                                            \
	X(coroutine)                                                                               \
	X(step)                                                                                    \
	X(in_thread)                                                                               \
	X(hand_over)                                                                               \
	X(forks)                                                                                   \
	X(in_child)                                                                                \
	X(after_exec)                                                                              \
	X(system_calls)

/* Shared with all children, through exec too. */
static struct counts {
#define COUNTER(name) _Atomic unsigned long name;
	CALLS(COUNTER)
} * counts;
static int counts_file;

#define ENTERED(name) (counts->name++)

static void must(int success, const char *what)
{
	if (!success) {
		perror(what);
		exit(1);
	}
}

/* ---- calls ---------------------------------------------------------------- */

#define AT_THE_BOTTOM() syscall(SYS_getppid) /* the kernel */
#include "plain_calls_code.h"

NOINLINE int compare(const void *a, const void *b)
{
	ENTERED(compare);
	return *(const int *)a - *(const int *)b;
}

static void play_calls(void)
{
	int numbers[500];

	for (unsigned i = 0; i < 100; i++) {
		outer();
		tail_pointer(tail_begin(i));
		pointer();
	}
	recurse(3000);
	for (int i = 0; i < 500; i++)
		numbers[i] = i * 7919 % 500;
	qsort(numbers, 500, sizeof(numbers[0]), compare);
}

/* ---- stacks that are left ------------------------------------------------- */

static jmp_buf mark;
static sigjmp_buf signal_mark;

NOINLINE void climb(unsigned depth)
{
	ENTERED(climb);
	if (depth > 0)
		climb(depth - 1);
	else if (counts)
		longjmp(mark, 1);
	STAY();
}

NOINLINE void come_back(void)
{
	ENTERED(come_back);
	if (setjmp(mark) == 0)
		climb(50);
	leaf();
	STAY();
}

static ucontext_t coroutines[2], first;
static volatile unsigned running;

/* Passes on to the other coroutine from every depth. */
NOINLINE void step(unsigned depth)
{
	unsigned me = running;

	ENTERED(step);
	leaf();
	running = !me;
	swapcontext(&coroutines[me], &coroutines[!me]);
	if (depth > 0)
		step(depth - 1);
	STAY();
}

NOINLINE void coroutine(void)
{
	ENTERED(coroutine);
	step(20);
	STAY();
}

static void play_stacks(void)
{
	static char stacks[2][65536];

	for (int i = 0; i < 20; i++)
		come_back();
	for (int i = 0; i < 2; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = stacks[i];
		coroutines[i].uc_stack.ss_size = sizeof(stacks[i]);
		coroutines[i].uc_link = i == 0 ? &coroutines[1] : &first;
		makecontext(&coroutines[i], coroutine, 0);
	}
	running = 0;
	swapcontext(&first, &coroutines[0]);
}

/* ---- signals -------------------------------------------------------------- */

NOINLINE void below_handler(void)
{
	ENTERED(below_handler);
}

static void handle(int number)
{
	(void)number;
	ENTERED(handle);
	below_handler();
}

/* On the alternate stack; another signal's handler interrupts it. */
static void handle_elsewhere(int number)
{
	(void)number;
	ENTERED(handle_elsewhere);
	raise(SIGUSR1);
	below_handler();
}

static void *guarded;

static void handle_fault(int number)
{
	(void)number;
	ENTERED(handle_fault);
	below_handler();
	mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

static void handle_alarm(int number)
{
	(void)number;
	ENTERED(handle_alarm);
	below_handler();
}

static void handle_and_leave(int number)
{
	(void)number;
	ENTERED(handle_and_leave);
	below_handler();
	siglongjmp(signal_mark, 1);
}

/* They come at any instruction of it. */
NOINLINE void await_alarms(unsigned long n)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };

	ENTERED(await_alarms);
	n += counts->handle_alarm;
	setitimer(ITIMER_REAL, &often, NULL);
	while (counts->handle_alarm < n) {
		outer();
		for (volatile unsigned i = 0; i < 1000; i++)
			;
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

static void set_handler(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	must(sigaction(number, &action, NULL) == 0, "sigaction");
}

static void play_signals(void)
{
	static char stack[65536];
	const stack_t elsewhere = { .ss_sp = stack, .ss_size = sizeof(stack) };

	must(sigaltstack(&elsewhere, NULL) == 0, "sigaltstack");
	set_handler(SIGUSR1, handle, 0);
	set_handler(SIGUSR2, handle_elsewhere, SA_ONSTACK);
	set_handler(SIGSEGV, handle_fault, 0);
	set_handler(SIGALRM, handle_alarm, SA_RESTART);
	set_handler(SIGHUP, handle_and_leave, SA_ONSTACK);
	for (int i = 0; i < 100; i++) {
		raise(SIGUSR1);
		raise(SIGUSR2);
	}
	guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 20; i++) {
		mprotect(guarded, 4096, PROT_NONE);
		*(volatile int *)guarded = i;
		if (sigsetjmp(signal_mark, 1) == 0)
			raise(SIGHUP);
		leaf();
	}
	await_alarms(20);
}

/* ---- threads -------------------------------------------------------------- */

NOINLINE void *in_thread(void *data)
{
	ENTERED(in_thread);
	for (int i = 0; i < 100; i++)
		outer();
	recurse(100);
	return data;
}

static _Atomic unsigned turn; /* a futex */

/* Waits for its turn, then gives it to the other thread. */
NOINLINE void hand_over(unsigned from, unsigned to)
{
	ENTERED(hand_over);
	while (turn != from)
		syscall(SYS_futex, &turn, FUTEX_WAIT, to, NULL, NULL, 0);
	turn = to;
	syscall(SYS_futex, &turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *take_turns(void *data)
{
	for (int i = 0; i < 200; i++)
		hand_over(1, 0);
	return data;
}

static pthread_t begin(void *(*function)(void *))
{
	pthread_t thread;

	must((errno = pthread_create(&thread, NULL, function, NULL)) == 0, "pthread_create");
	return thread;
}

static void play_threads(void)
{
	pthread_t threads[4], other;

	for (int i = 0; i < 4; i++)
		threads[i] = begin(in_thread);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 5; i++) /* on one stack after another */
		pthread_join(begin(in_thread), NULL);
	other = begin(take_turns);
	for (int i = 0; i < 200; i++)
		hand_over(0, 1);
	pthread_join(other, NULL);
}

/* ---- processes ------------------------------------------------------------ */

NOINLINE void in_child(unsigned depth)
{
	ENTERED(in_child);
	if (depth > 0)
		in_child(depth - 1);
	else
		outer();
	STAY();
}

/* The child returns from functions that its parent has called. */
NOINLINE pid_t forks(unsigned depth)
{
	pid_t pid;

	ENTERED(forks);
	pid = depth > 0 ? forks(depth - 1) : fork();
	STAY();
	return pid;
}

NOINLINE void after_exec(void)
{
	ENTERED(after_exec);
	outer();
	STAY();
}

static void await(pid_t pid)
{
	int status;

	must(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
	if (status != 0) {
		fprintf(stderr, "a child ended with status %#x\n", (unsigned)status);
		exit(1);
	}
}

static void play_processes(void)
{
	char file[16], self[256] = "";
	char *const again[] = { self, file, NULL };
	pid_t pid;

	snprintf(file, sizeof(file), "%d", counts_file);
	must(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0, "/proc/self/exe");
	for (int i = 0; i < 10; i++) {
		pid = forks(5);
		if (pid == 0) {
			in_child(10);
			_exit(0);
		}
		await(pid);
	}
	for (int i = 0; i < 10; i++) {
		pid = forks(0);
		if (pid == 0) {
			execv(self, again);
			_exit(127);
		}
		await(pid);
	}
	for (int i = 0; i < 10; i++) { /* by vfork, in glibc */
		must((errno = posix_spawn(&pid, self, NULL, NULL, again, NULL)) == 0,
		     "posix_spawn");
		await(pid);
	}
}

NOINLINE void system_calls(void)
{
	ENTERED(system_calls);
	for (int i = 0; i < 1000; i++)
		syscall(SYS_getppid);
}

int main(int argc, char **argv)
{
	counts_file = argc == 2 ? atoi(argv[1]) : memfd_create("counts", 0);
	must(ftruncate(counts_file, 4096) == 0, "ftruncate");
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, counts_file, 0);
	must(counts != MAP_FAILED, "mmap");
	if (argc == 2) {
		after_exec();
		return 0;
	}
	/* Nothing tells a trace where user code has functions but calls of them. */
	below_handler();
	tail_next(tail_end(0));
	play_calls();
	play_stacks();
	play_signals();
	play_threads();
	play_processes();
	system_calls();
	printf("PID %d\n", getpid());
#define PRINT(name) printf("COUNT " #name " %lu\n", counts->name);
	CALLS(PRINT)
	printf("DONE\n");
	return 0;
}
