/* SPDX-License-Identifier: MIT */
/*
 * Linked into every target, in front of its LLVMFuzzerTestOneInput (ld's --wrap): an input that
 * takes more processor time than any input may is a crash, which libFuzzer keeps and shows where it
 * was. Unlike libFuzzer's own -timeout it counts no time in which the process waits or the machine
 * is busy with something else.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* With the sanitizers, which make all of it some 5 times slower. */
#define CPU_LIMIT_SECONDS 4

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_limit(__attribute__((unused)) int number)
{
	static const char message[] = "the input has taken more processor time than it may\n";
	(void)!write(STDERR_FILENO, message, sizeof(message) - 1);
	abort();
}

static timer_t make_timer(void)
{
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU };
	signal(SIGXCPU, on_limit);
	if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0)
		return timer;
	perror("cannot limit the processor time of an input");
	exit(1);
}

static void set_timer(timer_t timer, time_t seconds)
{
	const struct itimerspec time = { .it_value.tv_sec = seconds };
	timer_settime(timer, 0, &time, NULL);
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static timer_t timer;
	static int is_made;
	if (!is_made)
		timer = make_timer();
	is_made = 1;
	set_timer(timer, CPU_LIMIT_SECONDS);
	int result = __real_LLVMFuzzerTestOneInput(data, size);
	set_timer(timer, 0);
	return result;
}
