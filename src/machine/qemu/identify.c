/* SPDX-License-Identifier: MIT */
/* Asks QEMU what its machine is. */
#include "machine/host/connection.h"
#include "machine/host/proc_path.h"
#include "machine/host/thread_ids.h"
#include "machine/qemu/hmp.h"
#include "machine/qemu/qemu.h"
#include "machine/qemu/qemu_process.h"

#include "base/text.h"
#include <string.h>
#include <unistd.h>
#include <vmscope/log.h>

/* A copy of `text` that lives as long as the machine, fit for a terminal. */
static const char *keep_text(struct vms_qemu *qemu, const char *text)
{
	g_autofree char *copy = g_strdup(text);
	vms_text_clean(copy);
	return g_string_chunk_insert(qemu->strings, copy);
}

/* Sets the error for a process that does not serve the QMP socket. Returns false. */
static bool set_process_error(const struct vms_stream *stream, pid_t pid, GError **error)
{
	g_autofree char *files = vms_host_process_path(pid, "fd");
	if (access(files, R_OK | X_OK) == 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "%s: it is not process %d that answers there, although its command "
			    "line says so; use --qmp with the socket of the right QEMU",
			    stream->peer, (int)pid);
	else
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_PERMISSION,
			"%s: cannot tell whether it is process %d that answers there: this user "
			"may not see its open files; run as the user that runs it, or as root",
			stream->peer, (int)pid);
	return false;
}

/*
 * Finds the process whose memory QMP tells about. If the caller named a process, that must be the
 * one that answers: its command line proves nothing, because another user may have written that.
 */
static bool find_process(struct vms_qemu *qemu, GError **error)
{
	struct vms_machine_info *info = &qemu->machine.info;
	const struct vms_stream *stream = &qemu->qmp.stream;
	if (!info->pid) {
		vms_host_process_of_connection(stream->fd, &qemu->process);
		info->pid = qemu->process.pid;
		return true;
	}
	if (!vms_host_identity_open(&qemu->process, info->pid, error))
		return false;
	if (vms_host_identity_serves(&qemu->process, stream->fd))
		return true;
	return set_process_error(stream, info->pid, error);
}

/* What QEMU is asked for at once. */
enum question { ACCELERATION, NAME, TYPE, TARGET, VCPUS, QUESTIONS };

static void drop_answers(struct vms_qmp_command *answers)
{
	for (unsigned i = 0; i < QUESTIONS; i++)
		json_object_put(answers[i].answer);
}

/* False: what has to be answered was not. */
static bool ask(struct vms_qemu *qemu, struct vms_qmp_command *questions, GError **error)
{
	g_autoptr(GError) failure = NULL;
	struct json_object *type = json_object_new_object();
	json_object_object_add(type, "path", json_object_new_string("/machine"));
	json_object_object_add(type, "property", json_object_new_string("type"));
	questions[ACCELERATION] = (struct vms_qmp_command) { .name = "query-kvm" };
	questions[NAME] = (struct vms_qmp_command) { .name = "query-name" };
	questions[TYPE] = (struct vms_qmp_command) { .name = "qom-get", .arguments = type };
	questions[TARGET] = (struct vms_qmp_command) { .name = "query-target" };
	questions[VCPUS] = (struct vms_qmp_command) { .name = "query-cpus-fast" };
	vms_qmp_execute_all(&qemu->qmp, questions, QUESTIONS, &failure);
	if (questions[TARGET].answer && questions[VCPUS].answer)
		return true;
	g_propagate_error(error, g_steal_pointer(&failure));
	drop_answers(questions);
	return false;
}

/* The machine type, or NULL: "pc-i440fx-10.0-machine" without "-machine". */
static char *machine_type(struct json_object *type)
{
	if (!json_object_is_type(type, json_type_string))
		return NULL;
	const char *name = json_object_get_string(type);
	size_t size = strlen(name);
	return g_strndup(name, g_str_has_suffix(name, "-machine") ? size - 8 : size);
}

static void identify_machine(struct vms_qemu *qemu, const struct vms_qmp_command *answers)
{
	struct vms_machine_info *info = &qemu->machine.info;
	bool kvm = false;
	vms_json_bool(answers[ACCELERATION].answer, "enabled", &kvm);
	g_autofree char *type = machine_type(answers[TYPE].answer);
	g_autofree char *description =
		g_strdup_printf("QEMU %s, %s%s%s", qemu->qmp.version, kvm ? "KVM" : "TCG",
				type ? ", " : "", type ? type : "");
	const char *name = vms_json_string(answers[NAME].answer, "name");
	info->engine = "qemu";
	info->accelerator = kvm ? "kvm" : "tcg";
	info->name = keep_text(qemu, name ? name : "qemu");
	info->description = keep_text(qemu, description);
}

static bool identify_arch(struct vms_qemu *qemu, struct json_object *target, GError **error)
{
	const char *name = vms_json_string(target, "arch");
	qemu->machine.arch = name ? vms_arch_by_name(name) : NULL;
	if (!qemu->machine.arch)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s: the architecture of this machine is not supported",
			    qemu->qmp.stream.peer);
	return qemu->machine.arch;
}

struct vcpu {
	uint64_t index;	 /* QEMU's */
	uint64_t thread; /* as QEMU calls it; 0: unknown */
};

static int compare_vcpus(const void *a, const void *b)
{
	const struct vcpu *x = a, *y = b;
	return (x->index > y->index) - (x->index < y->index);
}

/* Lists the vCPUs of an answer to query-cpus-fast. */
static GArray *list_vcpus(struct vms_qemu *qemu, struct json_object *cpus, GError **error)
{
	bool is_list = json_object_is_type(cpus, json_type_array);
	size_t n = is_list ? MIN(json_object_array_length(cpus), VMS_QEMU_VCPUS_MAX) : 0;
	g_autoptr(GArray) vcpus = g_array_new(FALSE, FALSE, sizeof(struct vcpu));
	for (size_t i = 0; i < n; i++) {
		struct json_object *cpu = json_object_array_get_idx(cpus, i);
		struct vcpu vcpu = { 0 };
		if (!vms_json_uint(cpu, "cpu-index", G_MAXINT, &vcpu.index))
			continue;
		vms_json_uint(cpu, "thread-id", G_MAXINT, &vcpu.thread);
		g_array_append_val(vcpus, vcpu);
	}
	if (vcpus->len == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "%s: query-cpus-fast does not list the vCPUs", qemu->qmp.stream.peer);
		return NULL;
	}
	g_array_sort(vcpus, compare_vcpus);
	return g_steal_pointer(&vcpus);
}

static bool identify_vcpus(struct vms_qemu *qemu, struct json_object *cpus, GError **error)
{
	struct vms_machine *machine = &qemu->machine;
	g_autoptr(GArray) vcpus = list_vcpus(qemu, cpus, error);
	if (!vcpus)
		return false;
	machine->n_vcpus = vcpus->len;
	machine->vcpu_threads = g_new0(pid_t, vcpus->len);
	qemu->cpu_index = g_new0(unsigned, vcpus->len);
	qemu->n_cpu_indices = vcpus->len;
	for (guint i = 0; i < vcpus->len; i++) {
		const struct vcpu *vcpu = &g_array_index(vcpus, struct vcpu, i);
		machine->vcpu_threads[i] =
			vcpu->thread ? vms_host_find_thread(machine->info.pid, vcpu->thread) : 0;
		qemu->cpu_index[i] = (unsigned)vcpu->index;
	}
	return true;
}

bool vms_qemu_identify(struct vms_qemu *qemu, GError **error)
{
	struct vms_qmp_command answers[QUESTIONS];
	if (!find_process(qemu, error))
		return false;
	if (!ask(qemu, answers, error))
		return false;
	identify_machine(qemu, answers);
	bool done = identify_arch(qemu, answers[TARGET].answer, error) &&
		    identify_vcpus(qemu, answers[VCPUS].answer, error);
	drop_answers(answers);
	return done;
}

bool vms_qemu_check_vcpus(struct vms_machine *machine, GError **error)
{
	struct vms_qemu *qemu = (struct vms_qemu *)machine;
	vms_autojson *cpus = vms_qmp_execute(&qemu->qmp, "query-cpus-fast", NULL, -1, error);
	g_autoptr(GArray) now = cpus ? list_vcpus(qemu, cpus, error) : NULL;
	if (!now)
		return false;
	bool same = now->len == qemu->n_cpu_indices;
	for (guint i = 0; same && i < now->len; i++)
		same = g_array_index(now, struct vcpu, i).index == qemu->cpu_index[i];
	if (!same)
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "%s has other vCPUs than when it was attached, %u instead of %u: some "
			    "were plugged or unplugged since; attach anew",
			    machine->info.name, now->len, qemu->n_cpu_indices);
	return same;
}
