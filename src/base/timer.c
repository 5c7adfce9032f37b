/* SPDX-License-Identifier: MIT */
#include "base/timer.h"

#include "base/priority.h"
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vmscope/error.h>

struct vms_timer {
	void (*expired)(void *data);
	void *data;
	int timer, end; /* timerfd, eventfd */
	GThread *thread;
};

static gpointer run_timer(gpointer data)
{
	struct vms_timer *timer = data;
	struct pollfd polls[] = { { .fd = timer->timer, .events = POLLIN },
				  { .fd = timer->end, .events = POLLIN } };
	vms_thread_set_real_time(gettid());
	for (;;) {
		uint64_t times;
		if (poll(polls, G_N_ELEMENTS(polls), -1) < 0)
			continue;
		if (polls[1].revents)
			return NULL;
		/* The read fails if the timer was set again meanwhile. */
		if (read(timer->timer, &times, sizeof(times)) == sizeof(times))
			timer->expired(timer->data);
	}
}

struct vms_timer *vms_timer_new(const char *name, void (*expired)(void *data), void *data,
				GError **error)
{
	struct vms_timer *timer = g_new0(struct vms_timer, 1);
	timer->expired = expired;
	timer->data = data;
	timer->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	timer->end = eventfd(0, EFD_CLOEXEC);
	if (timer->timer < 0 || timer->end < 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot create a timer: %s",
			    g_strerror(errno));
	else
		timer->thread = g_thread_try_new(name, run_timer, timer, error);
	if (!timer->thread)
		g_clear_pointer(&timer, vms_timer_free);
	return timer;
}

void vms_timer_free(struct vms_timer *timer)
{
	if (!timer)
		return;
	if (timer->thread) {
		eventfd_write(timer->end, 1);
		g_thread_join(timer->thread);
	}
	if (timer->timer >= 0)
		close(timer->timer);
	if (timer->end >= 0)
		close(timer->end);
	g_free(timer);
}

void vms_timer_set(struct vms_timer *timer, uint64_t ns)
{
	if (!timer)
		return;
	struct itimerspec spec = { .it_value = { (time_t)(ns / 1000000000),
						 (long)(ns % 1000000000) } };
	timerfd_settime(timer->timer, 0, &spec, NULL);
}
