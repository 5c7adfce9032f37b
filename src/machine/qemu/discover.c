/* SPDX-License-Identifier: MIT */
/* Machines of this host by their processes. */
#include "machine/qemu/host_process.h"
#include "machine/qemu/stub.h"

#include "base/text.h"
#include <string.h>
#include <vmscope/machine.h>

struct vms_machine *vms_machine_open_pid(pid_t pid, GError **error)
{
	struct vms_host_process process;
	if (!vms_host_process_read(pid, &process, error))
		return NULL;
	g_auto(GStrv) addresses = vms_host_process_qmp(&process, false, error);
	vms_host_process_clear(&process);
	return addresses ? vms_qemu_stub_open((const char *const *)addresses, pid, error) : NULL;
}

static void free_found(gpointer data)
{
	struct vms_found_machine *found = data;
	g_free(found->name);
	g_free(found->accelerator);
	g_free(found->qmp);
	g_free(found->obstacle);
	g_free(found);
}

static char *clean_copy(const char *text)
{
	char *copy = g_strdup(text);
	if (copy)
		vms_text_clean(copy);
	return copy;
}

static struct vms_found_machine *describe(const struct vms_host_process *process)
{
	const struct vms_cmdline *cmdline = &process->cmdline;
	struct vms_found_machine *found = g_new0(struct vms_found_machine, 1);
	g_autoptr(GError) obstacle = NULL;
	found->pid = process->pid;
	g_auto(GStrv) addresses = vms_host_process_qmp(process, true, &obstacle);
	found->qmp = addresses ? g_strdup(addresses[0]) : NULL;
	if (process->is_qemu) {
		found->name = clean_copy(cmdline->name ? cmdline->name : process->program);
		found->accelerator =
			process->uses_kvm ? g_strdup("kvm") : clean_copy(cmdline->accelerator);
		found->vcpus = cmdline->vcpus;
		found->memory = cmdline->memory;
	} else {
		found->name = clean_copy(process->program);
		found->accelerator = g_strdup("kvm");
		found->vcpus = process->vcpus;
	}
	if (!found->qmp)
		found->obstacle = clean_copy(obstacle->message);
	else if (cmdline->gdb)
		found->obstacle = g_strdup_printf("it has a gdb stub of its own (%s): use --gdb "
						  "with its address",
						  cmdline->gdb);
	return found;
}

GPtrArray *vms_machine_discover(GError **error)
{
	g_autoptr(GError) failure = NULL;
	g_autoptr(GDir) directory = g_dir_open("/proc", 0, &failure);
	g_autoptr(GPtrArray) machines = g_ptr_array_new_with_free_func(free_found);
	const char *name;
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
		if (process.is_qemu || process.uses_kvm)
			g_ptr_array_add(machines, describe(&process));
		vms_host_process_clear(&process);
	}
	return g_steal_pointer(&machines);
}
