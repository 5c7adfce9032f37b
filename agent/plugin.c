/* SPDX-License-Identifier: MIT */
#include "plugin.h"

#include "call.h"
#include "calls.h"
#include "hold.h"
#include "look.h"
#include "server.h"
#include "vcpu.h"
#include <stdio.h>
#include <string.h>

QEMU_EXPORT int qemu_plugin_version = VMS_QEMU_API;

struct job {
	void (*function)(void *data);
	void *data;
};

static struct {
	qemu_plugin_id_t id;
	GMutex lock;
	GQueue in_vcpu;	    /* struct job */
	GQueue retranslate; /* struct job; QEMU has been asked to, unless it is empty */
	_Atomic bool has_in_vcpu;
	_Atomic bool translated; /* some code since the begin, as far as it is seen */
	bool sees_code;
} plugin = { .in_vcpu = G_QUEUE_INIT, .retranslate = G_QUEUE_INIT };

static void register_callbacks(void);

static void push(GQueue *queue, void (*function)(void *data), void *data)
{
	struct job *job = g_new(struct job, 1);
	*job = (struct job) { function, data };
	g_queue_push_tail(queue, job);
}

/* False: there is none. */
static bool run_next(GQueue *queue)
{
	g_mutex_lock(&plugin.lock);
	g_autofree struct job *job = g_queue_pop_head(queue);
	plugin.has_in_vcpu = !g_queue_is_empty(&plugin.in_vcpu);
	g_mutex_unlock(&plugin.lock);
	if (job && job->function)
		job->function(job->data);
	return job;
}

/* ---- work that needs a vCPU's thread ------------------------------------ */

static void run_jobs(void)
{
	while (plugin.has_in_vcpu && run_next(&plugin.in_vcpu))
		;
}

void plugin_run_in_vcpu(void (*function)(void *data), void *data)
{
	g_mutex_lock(&plugin.lock);
	push(&plugin.in_vcpu, function, data);
	plugin.has_in_vcpu = true;
	g_mutex_unlock(&plugin.lock);
	call_all();
}

static void reset_done QEMU_CALLBACK_OF_NOTHING;

static void reset(__attribute__((unused)) void *data)
{
	QEMU_REGISTER(qemu_plugin_reset, plugin.id, reset_done);
}

/* What is asked for while this runs may be too late for it: QEMU is asked once more. */
static void reset_done QEMU_CALLBACK_OF_NOTHING
{
	g_mutex_lock(&plugin.lock);
	GQueue jobs = plugin.retranslate;
	g_queue_init(&plugin.retranslate);
	g_mutex_unlock(&plugin.lock);
	register_callbacks();
	while (run_next(&jobs))
		;
}

void plugin_retranslate(void (*done)(void *data), void *data)
{
	if (call_needs_code() && !plugin.translated) {
		if (done)
			done(data);
		if (!plugin.translated)
			return;
		done = NULL; /* code was translated meanwhile */
	}
	g_mutex_lock(&plugin.lock);
	bool idle = g_queue_is_empty(&plugin.retranslate);
	push(&plugin.retranslate, done, data);
	g_mutex_unlock(&plugin.lock);
	if (idle)
		plugin_run_in_vcpu(reset, NULL);
}

/* ---- QEMU's callbacks --------------------------------------------------- */

static void on_vcpu_init QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_init(index);
	if (!vcpu)
		return;
	call_vcpu_init(vcpu);
	hold_vcpu_init(vcpu);
	calls_vcpu_init(vcpu);
}

static void on_vcpu_exit QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	calls_vcpu_exit(vcpu);
	hold_vcpu_exit(vcpu);
	call_vcpu_exit(vcpu);
}

static void on_vcpu_idle QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	vcpus_idle();
	if (vcpu)
		hold_vcpu_idle(vcpu);
}

static void on_vcpu_resume QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	hold_vcpu_resume(vcpu);
	run_jobs();
}

/* What a look leads to is done before the vCPU executes more. */
static void on_call(struct vcpu *vcpu)
{
	bool waited;
	do {
		waited = look_wait(vcpu);
		run_jobs();
		hold_vcpu_called(vcpu);
	} while (waited);
}

static void on_translation QEMU_CALLBACK(struct qemu_plugin_tb *tb)
{
	plugin.translated = true;
	vcpus_run();
	if (call_needs_code())
		call_translate(tb);
	if (!vcpus_mixed_up())
		calls_translate(tb);
}

static void on_quit QEMU_CALLBACK_OF_NOTHING
{
	calls_exit();
	server_stop();
}

/*
 * Where anybody sees what is translated, QEMU's code for every access to memory is slower, whatever
 * becomes of it. But who has seen it has to go on: a translation that a page fault ends leaves its
 * mark in QEMU (up to 11.1, tcg_ctx->plugin_insn), and the next one of that vCPU crashes if nobody
 * sees it.
 */
static void register_callbacks(void)
{
	QEMU_REGISTER(qemu_plugin_register_vcpu_init_cb, plugin.id, on_vcpu_init);
	QEMU_REGISTER(qemu_plugin_register_vcpu_exit_cb, plugin.id, on_vcpu_exit);
	QEMU_REGISTER(qemu_plugin_register_vcpu_idle_cb, plugin.id, on_vcpu_idle);
	QEMU_REGISTER(qemu_plugin_register_vcpu_resume_cb, plugin.id, on_vcpu_resume);
	plugin.sees_code |= call_needs_code() || calls_need_code();
	if (plugin.sees_code)
		QEMU_REGISTER(qemu_plugin_register_vcpu_tb_trans_cb, plugin.id, on_translation);
	QEMU_REGISTER(qemu_plugin_register_atexit_cb, plugin.id, on_quit);
}

/* ---- installation ------------------------------------------------------- */

struct options {
	const char *socket;
	bool no_internals;
};

static bool take_option(struct options *options, const char *text)
{
	if (g_str_has_prefix(text, "socket="))
		options->socket = text + strlen("socket=");
	else if (strcmp(text, "internals=off") == 0)
		options->no_internals = true;
	else
		return false;
	return true;
}

/* False: it was told what is wrong. */
static bool take_options(struct options *options, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!take_option(options, argv[i])) {
			fprintf(stderr,
				"vmscope agent: unknown argument '%s': there are socket=PATH and "
				"internals=off\n",
				argv[i]);
			return false;
		}
	}
	if (options->socket && *options->socket)
		return true;
	fprintf(stderr, "vmscope agent: no socket: -plugin FILE,socket=PATH\n");
	return false;
}

static const struct arch *find_arch(const qemu_info_t *info)
{
	const struct arch *const archs[] = { &arch_x86_64, &arch_aarch64 };
	for (size_t i = 0; info->system_emulation && i < G_N_ELEMENTS(archs); i++) {
		if (strcmp(archs[i]->name, info->target_name) == 0)
			return archs[i];
	}
	fprintf(stderr, "vmscope agent: %s is not supported: machines of x86_64 and aarch64 are\n",
		info->system_emulation ? info->target_name : "a program without a machine");
	return NULL;
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				    char **argv)
{
	/* vmscope run tries an object without a socket: it must hear of the processor first. */
	const struct arch *arch = find_arch(info);
	unsigned api = (unsigned)info->version.cur;
	struct options options = { 0 };
	plugin.id = id;
	if (!arch || !take_options(&options, argc, argv) ||
	    !vcpus_new(arch, (unsigned)MAX(info->system.max_vcpus, 1)) ||
	    !call_init(id, api, !options.no_internals, on_call, hold_vcpu_halts) || !calls_init() ||
	    !server_start(options.socket, api))
		return 1;
	register_callbacks();
	return 0;
}
