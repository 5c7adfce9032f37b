/* SPDX-License-Identifier: MIT */
/*
 * What test_record.py records. "shares SECONDS": runs two functions, and prints the processor time
 * of each in ns. LONG and SHORT are how many rounds they have. "births N": threads and processes
 * that start and end; prints "TID PID" of each.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef LONG
#define LONG 3000000
#endif
#ifndef SHORT
#define SHORT 1000000
#endif

static volatile unsigned long sum;

static uint64_t used_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) static void burn_long(void)
{
	for (int i = 0; i < LONG; i++)
		sum += (unsigned long)i;
}

__attribute__((noinline)) static void burn_short(void)
{
	for (int i = 0; i < SHORT; i++)
		sum ^= (unsigned long)i;
}

#ifdef __x86_64__
#define COUNT_DOWN "1: dec %0; jnz 1b"
#else
#define COUNT_DOWN "1: subs %0, %0, #1; b.ne 1b"
#endif

/* The same loop twice; the second one goes round three times as often. */
__attribute__((noinline)) static void two_loops(void)
{
	unsigned long once = 1000000, thrice = 3000000;
	__asm__ volatile(COUNT_DOWN : "+r"(once));
	__asm__ volatile(COUNT_DOWN : "+r"(thrice));
}

static void run_loops(double seconds)
{
	const uint64_t end = used_ns() + (uint64_t)(seconds * 1e9);
	while (used_ns() < end)
		two_loops();
}

static void run_shares(double seconds)
{
	uint64_t long_ns = 0, short_ns = 0;
	while ((double)(long_ns + short_ns) < seconds * 1e9) {
		const uint64_t begin = used_ns();
		burn_long();
		const uint64_t middle = used_ns();
		burn_short();
		long_ns += middle - begin;
		short_ns += used_ns() - middle;
	}
	printf("%llu %llu\n", (unsigned long long)long_ns, (unsigned long long)short_ns);
}

/* A fixed piece of work, for benchmarks. */
static void run_rounds(int n)
{
	for (int i = 0; i < n; i++) {
		burn_long();
		burn_short();
	}
}

/* Runs for 30 ms, and says who it is. */
static void *live(void *data)
{
	const uint64_t end = used_ns() + 30000000;
	(void)data;
	while (used_ns() < end)
		burn_short();
	printf("%ld %d\n", syscall(SYS_gettid), (int)getpid());
	fflush(stdout);
	return NULL;
}

static void run_births(int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, live, NULL);
		const pid_t child = fork();
		if (child == 0) {
			pthread_t own;
			pthread_create(&own, NULL, live, NULL);
			pthread_join(own, NULL);
			_exit(0);
		}
		pthread_join(thread, NULL);
		waitpid(child, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 1;
	if (strcmp(argv[1], "shares") == 0)
		run_shares(atof(argv[2]));
	else if (strcmp(argv[1], "loops") == 0)
		run_loops(atof(argv[2]));
	else if (strcmp(argv[1], "rounds") == 0)
		run_rounds(atoi(argv[2]));
	else
		run_births(atoi(argv[2]));
	return 0;
}
