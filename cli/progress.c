/* SPDX-License-Identifier: MIT */
#include "progress.h"
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_WIDTH 76
#define PERIOD_US  100000

struct progress {
	char *(*describe)(void *data);
	void *data;
	GThread *thread;
	GMutex lock;
	GCond end;
	bool ended;
};

/* Waits until the next line is due. False if the progress has ended. */
static bool wait_period(struct progress *progress)
{
	gint64 until = g_get_monotonic_time() + PERIOD_US;
	g_mutex_lock(&progress->lock);
	while (!progress->ended && g_cond_wait_until(&progress->end, &progress->lock, until))
		;
	bool ended = progress->ended;
	g_mutex_unlock(&progress->lock);
	return !ended;
}

/* False while the terminal is stopped (Ctrl-S) or full. Nobody would see the line then. */
static bool can_write_to_terminal(void)
{
	struct pollfd terminal = { .fd = STDERR_FILENO, .events = POLLOUT };
	return poll(&terminal, 1, 0) == 1 && terminal.revents == POLLOUT;
}

static gpointer show_lines(gpointer data)
{
	struct progress *progress = data;
	bool shown = false;
	while (wait_period(progress)) {
		g_autofree char *line = progress->describe(progress->data);
		if (!line || !can_write_to_terminal())
			continue;
		fprintf(stderr, "\r%-*s", LINE_WIDTH, line);
		shown = true;
	}
	if (shown && can_write_to_terminal())
		fprintf(stderr, "\r%*s\r", LINE_WIDTH, "");
	return NULL;
}

struct progress *progress_start(char *(*describe)(void *data), void *data)
{
	struct progress *progress = g_new0(struct progress, 1);
	progress->describe = describe;
	progress->data = data;
	g_mutex_init(&progress->lock);
	g_cond_init(&progress->end);
	progress->thread = g_thread_new("progress", show_lines, progress);
	return progress;
}

void progress_end(struct progress *progress)
{
	if (!progress)
		return;
	g_mutex_lock(&progress->lock);
	progress->ended = true;
	g_cond_signal(&progress->end);
	g_mutex_unlock(&progress->lock);
	g_thread_join(progress->thread);
	g_mutex_clear(&progress->lock);
	g_cond_clear(&progress->end);
	g_free(progress);
}
