/* SPDX-License-Identifier: MIT */
/* Finds the machines of this host, and chooses the engine for one of them. */
#include "machine/agent/agent_engine.h"
#ifdef __x86_64__
#include "machine/kvm/kvm_engine.h"
#include "machine/kvm/obstacle.h"
#endif
#include "machine/qemu/qemu_process.h"
#include "machine/qemu/stub.h"

#include "base/process.h"
#include "base/text.h"
#include <string.h>
#include <unistd.h>
#include <vmscope/log.h>

#define STOPPED_MS 1000 /* for which a process that is stopped may go on */
#define LOOK_MS	   20

/* Opens a QEMU with an agent: by the agent, or by the gdb stub if the agent cannot hold vCPUs. */
static struct vms_machine *open_with_agent(struct vms_agent_link *link, const char *path,
					   const char *const *qmp, pid_t pid, GError **error)
{
	struct vms_machine *machine;
	g_autoptr(GError) why = NULL;
	if (vms_agent_check_holds(link, &why)) {
		machine = vms_agent_machine_open(link, qmp, error);
	} else {
		vms_log(VMS_LOG_INFO, "%s: the gdb stub holds vCPUs, not the agent", why->message);
		vms_agent_link_close(link);
		machine = vms_qemu_stub_open(qmp, pid, error);
	}
	if (machine)
		machine->info.agent =
			g_string_chunk_insert(((struct vms_qemu *)machine)->strings, path);
	return machine;
}

/*
 * Opens a process that uses KVM by its vCPUs' threads; `qmp` is NULL if no monitor of QEMU tells
 * where its memory is.
 */
static struct vms_machine *open_kvm(pid_t pid, const char *const *qmp, GError **error)
{
#ifdef __x86_64__
	return qmp ? vms_kvm_open_qemu(pid, qmp, error) : vms_kvm_open_places(pid, NULL, 0, error);
#else
	(void)qmp;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		"cannot hold the vCPUs of process %d: KVM gives their registers on x86-64 alone",
		(int)pid);
	return NULL;
#endif
}

/*
 * Opens a QEMU that has a QMP socket. Its gdb stub, which stops the whole machine, is for machines
 * whose vCPUs cannot be held one by one; of KVM the reason is logged.
 */
static struct vms_machine *open_qemu(const struct vms_host_process *process, const char *const *qmp,
				     bool is_free, GError **error)
{
	g_autoptr(GError) why = NULL;
	struct vms_machine *machine =
		process->vcpus > 0 ? open_kvm(process->pid, is_free ? qmp : NULL, &why) : NULL;
	if (why)
		vms_log(VMS_LOG_WARNING,
			"process %d is stopped as a whole whenever a vCPU has to be held, since "
			"its "
			"vCPUs cannot be held one by one: %s",
			(int)process->pid, why->message);
	return machine ? machine : vms_qemu_stub_open(qmp, process->pid, error);
}

struct vms_machine *vms_machine_open_qmp(const char *address, GError **error)
{
	const char *const qmp[] = { address, NULL };
	struct vms_host_process process;
	pid_t pid = vms_address_is_path(address) ? vms_host_process_behind(address) : 0;
	if (pid == 0 || !vms_host_process_read(pid, &process, NULL))
		return vms_qemu_stub_open(qmp, 0, error);
	struct vms_machine *machine = open_qemu(&process, qmp, true, error);
	vms_host_process_clear(&process);
	return machine;
}

/* Opens the QEMU of a process. Takes `link` over; that is NULL if there is no agent. */
static struct vms_machine *open_process(const struct vms_host_process *process,
					struct vms_agent_link *link, const char *path,
					GError **error)
{
	g_autoptr(GError) no_qmp = NULL;
	g_auto(GStrv) vacant = vms_host_process_qmp(process, true, NULL);
	g_auto(GStrv) any = vms_host_process_qmp(process, false, &no_qmp);
	const char *const *qmp = (const char *const *)(vacant ? vacant : any);
	if (qmp && link)
		return open_with_agent(link, path, qmp, process->pid, error);
	vms_agent_link_close(link);
	if (qmp)
		return open_qemu(process, qmp, vacant != NULL, error);
	if (process->vcpus > 0)
		return open_kvm(process->pid, NULL, error);
	g_propagate_error(error, g_steal_pointer(&no_qmp));
	return NULL;
}

/* A process that stands still answers nothing: that need not be found out by waiting for it. */
static bool check_runs(pid_t pid, GError **error)
{
	if (vms_process_is_frozen(pid)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
			    "process %d is frozen with its control group, as in a paused "
			    "container, and answers nothing until that goes on",
			    (int)pid);
		return false;
	}
	for (unsigned ms = 0; vms_process_is_stopped(pid); ms += LOOK_MS) {
		if (ms >= STOPPED_MS) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
				    "process %d is stopped, by a signal or a debugger, and answers "
				    "nothing: kill -CONT %d lets it go on",
				    (int)pid, (int)pid);
			return false;
		}
		g_usleep(LOOK_MS * 1000);
	}
	return true;
}

struct vms_machine *vms_machine_open_pid(pid_t pid, GError **error)
{
	struct vms_host_process process;
	g_autoptr(GError) failure = NULL;
	if (!check_runs(pid, error) || !vms_host_process_read(pid, &process, error))
		return NULL;
	g_autofree char *path = vms_host_process_agent(&process);
	struct vms_agent_link *link = path ? vms_agent_link_open(path, pid, &failure) : NULL;
	if (failure)
		vms_log(VMS_LOG_INFO, "vmscope uses the gdb stub, not the agent: %s",
			failure->message);
	struct vms_machine *machine = open_process(&process, link, path, error);
	vms_host_process_clear(&process);
	return machine;
}

struct vms_machine *vms_machine_open_stub(pid_t pid, GError **error)
{
	struct vms_host_process process;
	if (!check_runs(pid, error) || !vms_host_process_read(pid, &process, error))
		return NULL;
	g_auto(GStrv) vacant = vms_host_process_qmp(&process, true, NULL);
	g_auto(GStrv) any = vacant ? NULL : vms_host_process_qmp(&process, false, error);
	const char *const *qmp = (const char *const *)(vacant ? vacant : any);
	struct vms_machine *machine = qmp ? vms_qemu_stub_open(qmp, pid, error) : NULL;
	vms_host_process_clear(&process);
	return machine;
}

struct vms_machine *vms_machine_open_kvm(pid_t pid, const struct vms_ram_place *places, size_t n,
					 GError **error)
{
	if (!check_runs(pid, error))
		return NULL;
#ifdef __x86_64__
	if (n > 0)
		return vms_kvm_open_places(pid, places, n, error);
#else
	(void)places, (void)n;
#endif
	return open_kvm(pid, NULL, error);
}

struct vms_machine *vms_machine_open_agent(const char *path, GError **error)
{
	struct vms_host_process process;
	struct vms_agent_link *link = vms_agent_link_open(path, 0, error);
	if (!link)
		return NULL;
	if (!vms_host_process_read(link->process.pid, &process, error)) {
		vms_agent_link_close(link);
		return NULL;
	}
	struct vms_machine *machine = open_process(&process, link, path, error);
	if (!machine)
		g_prefix_error(error, "agent %s: ", path);
	vms_host_process_clear(&process);
	return machine;
}

static void clear_found(gpointer data)
{
	struct vms_found_machine *found = data;
	g_free(found->name);
	g_free(found->uuid);
	g_free(found->accelerator);
	g_free(found->qmp);
	g_free(found->agent);
	g_free(found->obstacle);
}

static char *clean_copy(const char *text)
{
	char *copy = g_strdup(text);
	if (copy)
		vms_text_clean(copy);
	return copy;
}

/* True if vCPUs can be held one by one. Else *obstacle gets the reason, unless it is NULL. */
static bool can_hold_vcpus(pid_t pid, char **obstacle)
{
#ifdef __x86_64__
	g_autoptr(GError) error = NULL;
	if (vms_kvm_check_process(pid, &error))
		return true;
	if (obstacle)
		*obstacle = clean_copy(error->message);
#else
	(void)pid, (void)obstacle;
#endif
	return false;
}

static void describe_process(const struct vms_host_process *process,
			     struct vms_found_machine *found)
{
	const struct vms_cmdline *cmdline = &process->cmdline;
	g_autoptr(GError) obstacle = NULL;
	*found = (struct vms_found_machine) { .pid = process->pid };
	g_auto(GStrv) addresses = vms_host_process_qmp(process, true, &obstacle);
	found->qmp = addresses ? g_strdup(addresses[0]) : NULL;
	found->agent = vms_host_process_agent(process);
	if (found->agent && access(found->agent, F_OK) < 0)
		g_clear_pointer(&found->agent, g_free);
	if (process->is_qemu) {
		found->name = clean_copy(cmdline->name ? cmdline->name : process->program);
		found->uuid = clean_copy(cmdline->uuid);
		found->accelerator =
			process->uses_kvm ? g_strdup("kvm") : clean_copy(cmdline->accelerator);
		found->vcpus = cmdline->vcpus;
		found->memory = cmdline->memory;
	} else {
		found->name = clean_copy(process->program);
		found->accelerator = g_strdup("kvm");
		found->vcpus = process->vcpus;
	}
	if (process->vcpus > 0 &&
	    can_hold_vcpus(process->pid, found->qmp ? NULL : &found->obstacle))
		return;
	if (!found->qmp && !found->obstacle)
		found->obstacle = clean_copy(obstacle->message);
	else if (cmdline->gdb)
		found->obstacle = g_strdup_printf("it has a gdb stub of its own (%s): use --gdb "
						  "with its address",
						  cmdline->gdb);
}

GArray *vms_machine_discover(GError **error)
{
	g_autoptr(GError) failure = NULL;
	g_autoptr(GDir) directory = g_dir_open("/proc", 0, &failure);
	g_autoptr(GArray) machines = g_array_new(FALSE, FALSE, sizeof(struct vms_found_machine));
	const char *name;
	g_array_set_clear_func(machines, clear_found);
	if (!directory) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot list processes: %s",
			    failure->message);
		return NULL;
	}
	while ((name = g_dir_read_name(directory))) {
		struct vms_host_process process;
		uint64_t pid;
		if (!g_ascii_string_to_unsigned(name, 10, 1, G_MAXINT, &pid, NULL) ||
		    !vms_host_process_read((pid_t)pid, &process, NULL))
			continue;
		if (process.is_qemu || process.uses_kvm) {
			struct vms_found_machine found;
			describe_process(&process, &found);
			g_array_append_val(machines, found);
		}
		vms_host_process_clear(&process);
	}
	return g_steal_pointer(&machines);
}
