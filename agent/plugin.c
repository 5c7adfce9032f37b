/* SPDX-License-Identifier: MIT */
/*
 * The plugin's entry point: installs the plugin and passes QEMU's callbacks on to the services.
 */
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include "agent/qemu/wide.h"
#include "agent/server.h"
#include "agent/services.h"
#include <stdio.h>
#include <string.h>

QEMU_EXPORT int qemu_plugin_version = VMS_QEMU_API;

static struct {
	qemu_plugin_id_t id;
	bool sees_code; /* the callback of translation was registered before */
} plugin;

/* ---- QEMU's callbacks --------------------------------------------------- */

static void on_vcpu_init QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_init(index);
	if (!vcpu)
		return;
	wide_find(vcpu);
	services_vcpu_begins(vcpu);
}

static void on_vcpu_exit QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	services_vcpu_ends(vcpu);
	vcpu_exit(vcpu);
}

static void on_vcpu_idle QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	vcpus_idle();
	if (vcpu)
		services_vcpu_halts(vcpu, 0);
}

static void on_vcpu_resume QEMU_CALLBACK(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return;
	services_vcpu_resumes(vcpu);
	retranslate_in_vcpu();
}

/* What a client requests after its look takes effect before the vCPU executes more. */
static void on_kick(struct vcpu *vcpu)
{
	do
		retranslate_in_vcpu();
	while (services_vcpu_kicked(vcpu));
}

static void on_translation QEMU_CALLBACK(struct qemu_plugin_tb *tb)
{
	retranslate_note_code();
	vcpus_run();
	if (kick_needs_code())
		kick_translate(tb);
	if (!vcpus_mixed_up())
		services_translate(tb);
}

static void on_quit QEMU_CALLBACK_OF_NOTHING
{
	services_quit();
	server_stop();
}

/*
 * While a plugin has a callback of translation, QEMU's code for every memory access is slower,
 * whatever the plugin does. So the agent registers this callback only when code must be
 * instrumented. It then keeps it for ever: if a page fault ends a translation, QEMU up to 11.1
 * keeps a pointer (tcg_ctx->plugin_insn), and the next translation of that vCPU crashes if no
 * plugin has the callback.
 */
static void register_callbacks(void)
{
	QEMU_REGISTER(qemu_plugin_register_vcpu_init_cb, plugin.id, on_vcpu_init);
	QEMU_REGISTER(qemu_plugin_register_vcpu_exit_cb, plugin.id, on_vcpu_exit);
	QEMU_REGISTER(qemu_plugin_register_vcpu_idle_cb, plugin.id, on_vcpu_idle);
	QEMU_REGISTER(qemu_plugin_register_vcpu_resume_cb, plugin.id, on_vcpu_resume);
	plugin.sees_code |= kick_needs_code() || services_need_code();
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

/* False with a message on stderr. */
static bool take_options(struct options *options, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!take_option(options, argv[i])) {
			fprintf(stderr,
				"vmscope agent: unknown argument '%s': the arguments are "
				"socket=PATH "
				"and internals=off\n",
				argv[i]);
			return false;
		}
	}
	if (options->socket && *options->socket)
		return true;
	fprintf(stderr, "vmscope agent: the argument socket=PATH is missing: use -plugin "
			"FILE,socket=PATH\n");
	return false;
}

static const struct arch *find_arch(const qemu_info_t *info)
{
	const struct arch *const archs[] = { &arch_x86_64, &arch_aarch64 };
	for (size_t i = 0; info->system_emulation && i < G_N_ELEMENTS(archs); i++) {
		if (strcmp(archs[i]->name, info->target_name) == 0)
			return archs[i];
	}
	/* src/machine/launch/agent_object.c recognises this message. */
	fprintf(stderr, "vmscope agent: %s is not supported: machines of x86_64 and aarch64 are\n",
		info->system_emulation ? info->target_name : "a program without a machine");
	return NULL;
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				    char **argv)
{
	/* vmscope run tests the agent without a socket, so the processor must be checked first. */
	const struct arch *arch = find_arch(info);
	unsigned api = (unsigned)info->version.cur;
	struct options options = { 0 };
	plugin.id = id;
	retranslate_init(id, register_callbacks);
	if (!arch || !take_options(&options, argc, argv) ||
	    !vcpus_new(arch, (unsigned)MAX(info->system.max_vcpus, 1)) ||
	    !kick_init(id, api, !options.no_internals, on_kick, services_vcpu_halts) ||
	    !services_init() || !server_start(options.socket, api))
		return 1;
	register_callbacks();
	return 0;
}
