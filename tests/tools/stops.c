/* SPDX-License-Identifier: MIT */
/*
 * The least that a sampler of vCPUs can do to a thread (bench/kvm.py).
 *
 *   stops kick|stop THREAD HERTZ
 *
 * `stop`: the thread is stopped by ptrace(2) and let go at once, again and again, with nothing
 * read. `kick`: it gets SIGUSR1, which its program handles: KVM_RUN returns, and is called again.
 * It says "ok" when it begins. At the end of its input it ends, and says how long a stop lasted:
 * median and 99th percentile, in ns.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000
#define STOPS_MAX 1000000
#define PROCESSOR 39 /* the field of /proc/PID/stat */

static uint64_t taken_ns[STOPS_MAX];
static size_t n_taken;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The processor that the thread had last. */
static int processor_of(pid_t thread)
{
	char path[64], text[1024] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)thread);
	FILE *file = fopen(path, "re");
	if (!file || !fgets(text, sizeof(text), file))
		fail(path);
	fclose(file);
	const char *field = strrchr(text, ')');
	for (int i = 2; i < PROCESSOR && field; i++)
		field = strchr(field + 1, ' ');
	return field ? atoi(field) : -1;
}

/* There a thread that polls does not keep the other one from stopping. */
static void leave_processor(int processor)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		fail("sched_getaffinity");
	CPU_CLR(processor, &set);
	if (CPU_COUNT(&set) > 0 && sched_setaffinity(0, sizeof(set), &set) != 0)
		fail("sched_setaffinity");
}

static void stop(pid_t thread)
{
	int status;
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
		fail("cannot trace the thread");
	const uint64_t begin_ns = now_ns();
	ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
	while (waitpid(thread, &status, __WALL | WNOHANG) == 0)
		;
	ptrace(PTRACE_DETACH, thread, NULL, NULL);
	if (n_taken < STOPS_MAX)
		taken_ns[n_taken++] = now_ns() - begin_ns;
}

/* False at the end of the input. */
static int sleep_until(uint64_t ns)
{
	const struct timespec until = { (time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS) };
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return poll(&input, 1, 0) == 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: stops kick|stop THREAD HERTZ\n");
		return 1;
	}
	const int is_kick = strcmp(argv[1], "kick") == 0;
	const pid_t thread = atoi(argv[2]);
	const uint64_t period_ns = SECOND_NS / (uint64_t)atoi(argv[3]);
	const struct sched_param param = { .sched_priority = 1 };
	sched_setscheduler(0, SCHED_RR, &param); /* where it may */
	prctl(PR_SET_TIMERSLACK, 1UL);
	leave_processor(processor_of(thread));
	printf("ok\n");
	fflush(stdout);
	for (uint64_t ns = now_ns() + period_ns; sleep_until(ns); ns += period_ns) {
		if (is_kick)
			syscall(SYS_tkill, thread, SIGUSR1);
		else
			stop(thread);
	}
	qsort(taken_ns, n_taken, sizeof(*taken_ns), compare);
	printf("%llu %llu\n", (unsigned long long)taken_ns[n_taken / 2],
	       (unsigned long long)taken_ns[n_taken * 99 / 100]);
	return 0;
}
