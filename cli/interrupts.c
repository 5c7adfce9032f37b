/* SPDX-License-Identifier: MIT */
#include "interrupts.h"
#include <glib-unix.h>

static gboolean note_signal(gpointer data)
{
	struct interrupts *interrupts = data;
	interrupts->came = TRUE;
	return G_SOURCE_CONTINUE;
}

void interrupts_catch(struct interrupts *interrupts)
{
	static const int signals[G_N_ELEMENTS(interrupts->sources)] = { SIGINT, SIGTERM, SIGHUP };
	interrupts->came = FALSE;
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		interrupts->sources[i] = g_unix_signal_add(signals[i], note_signal, interrupts);
}

bool interrupts_came(struct interrupts *interrupts)
{
	while (g_main_context_iteration(NULL, FALSE))
		;
	return interrupts->came;
}

void interrupts_release(struct interrupts *interrupts)
{
	for (size_t i = 0; i < G_N_ELEMENTS(interrupts->sources); i++)
		g_source_remove(interrupts->sources[i]);
}
