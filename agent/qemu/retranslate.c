/* SPDX-License-Identifier: MIT */
#include "agent/qemu/retranslate.h"

#include "agent/qemu/kick.h"
#include <stdatomic.h>

struct job {
	void (*function)(void *data);
	void *data;
};

static struct {
	qemu_plugin_id_t id;
	void (*register_callbacks)(void);
	GMutex lock;
	GQueue jobs; /* struct job; if not empty, a reset was requested from QEMU */
	_Atomic bool wants_reset;
	_Atomic bool has_code; /* the callback of translation has seen code */
} state = { .jobs = G_QUEUE_INIT };

void retranslate_init(qemu_plugin_id_t id, void (*register_callbacks)(void))
{
	state.id = id;
	state.register_callbacks = register_callbacks;
}

void retranslate_note_code(void)
{
	state.has_code = true;
}

/* A job that is added while the others run may be too late for this reset, so it needs a new one.
 */
static void on_reset QEMU_CALLBACK_OF_NOTHING
{
	struct job *job;
	g_mutex_lock(&state.lock);
	GQueue jobs = state.jobs;
	g_queue_init(&state.jobs);
	g_mutex_unlock(&state.lock);
	state.register_callbacks();
	while ((job = g_queue_pop_head(&jobs))) {
		if (job->function)
			job->function(job->data);
		g_free(job);
	}
}

void retranslate_in_vcpu(void)
{
	if (state.wants_reset && atomic_exchange(&state.wants_reset, false))
		QEMU_REGISTER(qemu_plugin_reset, state.id, on_reset);
}

void retranslate_code(void (*done)(void *data), void *data)
{
	if (kick_needs_code() && !state.has_code) {
		if (done)
			done(data);
		if (!state.has_code)
			return;
		done = NULL; /* code was translated during the call */
	}
	struct job *job = g_new(struct job, 1);
	*job = (struct job) { done, data };
	g_mutex_lock(&state.lock);
	bool is_first = g_queue_is_empty(&state.jobs);
	g_queue_push_tail(&state.jobs, job);
	if (is_first)
		state.wants_reset = true;
	g_mutex_unlock(&state.lock);
	if (is_first)
		kick_all_vcpus();
}
