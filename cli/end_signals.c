/* SPDX-License-Identifier: MIT */
#include "end_signals.h"
#include <glib-unix.h>
#include <signal.h>
#include <stdbool.h>

#define LAST 2 /* the next one has its default effect */

static gboolean note_signal(gpointer data)
{
	const struct end_signal *signal = data;
	struct end_signals *signals = signal->signals;
	const bool is_first = signals->n++ == 0;
	if (signals->budget && (!is_first || signal->number != SIGINT))
		vms_budget_hurry(signals->budget);
	if (signals->n == LAST)
		end_signals_release(signals);
	signals->end(signals->data);
	return G_SOURCE_CONTINUE;
}

void end_signals_watch(struct end_signals *signals)
{
	static const int numbers[END_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };
	signals->n = 0;
	for (unsigned i = 0; i < END_SIGNALS; i++) {
		struct end_signal *signal = &signals->each[i];
		signal->signals = signals;
		signal->number = numbers[i];
		signal->source = g_unix_signal_add(numbers[i], note_signal, signal);
	}
}

void end_signals_release(struct end_signals *signals)
{
	for (unsigned i = 0; i < END_SIGNALS; i++) {
		struct end_signal *signal = &signals->each[i];
		if (signal->source)
			g_source_remove(signal->source);
		signal->source = 0;
	}
}
