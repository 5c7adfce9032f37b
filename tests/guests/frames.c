/* SPDX-License-Identifier: MIT */
/*
 * Known stacks without frame pointers. The argument says where the program ends up: `spin` burns
 * time three levels deep, a quarter of it on one way and the rest on another; `wait` sleeps there;
 * `signal` does so in a signal's handler that has a stack of its own, `signal-spin` burns time
 * there; `threads` sleeps in four threads.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE    __attribute__((noinline, noclone))
#define THREADS	    4
#define STACK_BYTES 65536

/* Keeps the call before it a call, and what is on the stack there. */
#define KEEP_FRAME     __asm__ volatile("" ::: "memory")
#define KEEP(variable) __asm__ volatile("" ::"r"(variable) : "memory")

NOINLINE void burn(unsigned rounds)
{
	for (volatile unsigned i = 0; i < rounds; i++)
		;
}

NOINLINE void seldom(unsigned rounds)
{
	char room[64];
	KEEP(room);
	burn(rounds);
	KEEP_FRAME;
}

NOINLINE void often(unsigned rounds, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		burn(rounds);
		KEEP_FRAME;
	}
}

NOINLINE void spin(void)
{
	for (;;) {
		seldom(1000000);
		often(1000000, 3);
	}
}

NOINLINE void wait_inner(void)
{
	char room[4000];
	KEEP(room);
	pause();
	KEEP_FRAME;
}

NOINLINE void wait_middle(unsigned depth)
{
	char room[32];
	KEEP(room);
	if (depth > 0)
		wait_middle(depth - 1);
	else
		wait_inner();
	KEEP_FRAME;
}

NOINLINE void wait_outer(unsigned depth)
{
	/* An array of a size that the compiler does not know: the frame has no fixed size. */
	char room[depth * 16 + 16];
	KEEP(room);
	wait_middle(depth);
	KEEP_FRAME;
}

static bool spins;

static NOINLINE void on_signal(int number)
{
	(void)number;
	if (spins)
		spin();
	wait_outer(0);
	KEEP_FRAME;
}

static NOINLINE void raise_signal(void)
{
	stack_t stack = { .ss_size = STACK_BYTES };
	struct sigaction action = { .sa_flags = SA_ONSTACK };
	stack.ss_sp =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, NULL);
	kill(getpid(), SIGUSR1);
	KEEP_FRAME;
}

static void *run_thread(void *data)
{
	wait_outer((unsigned)(size_t)data);
	KEEP_FRAME;
	return data;
}

static NOINLINE void start_threads(void)
{
	pthread_t thread;
	for (size_t i = 1; i <= THREADS; i++)
		pthread_create(&thread, NULL, run_thread, (void *)i);
	wait_outer(0);
	KEEP_FRAME;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (strcmp(mode, "spin") == 0)
		spin();
	else if (strcmp(mode, "wait") == 0)
		wait_outer(2);
	else if (strcmp(mode, "signal") == 0)
		raise_signal();
	else if (strcmp(mode, "signal-spin") == 0)
		spins = true, raise_signal();
	else if (strcmp(mode, "threads") == 0)
		start_threads();
	KEEP_FRAME;
	return 2;
}
