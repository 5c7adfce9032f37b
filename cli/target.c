/* SPDX-License-Identifier: MIT */
/* Opens the machine that the target options name. */
#include "launch.h"
#include "memory_option.h"
#include "session.h"
#include "values.h"
#include <string.h>

/* How long to wait for servers with symbols when everything else is done. */
#define SERVERS_WAIT_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/* Lists the machines that can be looked at, like "12 (name), 13 (name)". Newly allocated. */
static char *list_machines(const GArray *machines)
{
	GString *names = g_string_new(NULL);
	for (size_t i = 0; i < machines->len; i++) {
		const struct vms_found_machine *found =
			&g_array_index(machines, struct vms_found_machine, i);
		if (!found->obstacle)
			g_string_append_printf(names, "%s%d (%s)", names->len ? ", " : "",
					       (int)found->pid, found->name);
	}
	return g_string_free(names, FALSE);
}

/* Sets the error for machines of which none can be looked at. */
static void set_no_usable(const GArray *machines, GError **error)
{
	const struct vms_found_machine *first =
		&g_array_index(machines, struct vms_found_machine, 0);
	if (machines->len == 1)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no virtual machine here can be looked at: %d (%s): %s",
			    (int)first->pid, first->name, first->obstacle);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "none of the %u virtual machines here can be looked at: \"vmscope "
			    "list\" shows the reason for each; that for %d (%s): %s",
			    machines->len, (int)first->pid, first->name, first->obstacle);
}

/* Opens the only machine of this host that can be looked at. */
static struct vms_machine *open_only_machine(const char *option, GError **error)
{
	g_autoptr(GArray) machines = vms_machine_discover(error);
	if (!machines)
		return NULL;
	const struct vms_found_machine *only = NULL;
	unsigned n = 0;
	for (size_t i = 0; i < machines->len; i++) {
		const struct vms_found_machine *found =
			&g_array_index(machines, struct vms_found_machine, i);
		if (!found->obstacle) {
			only = found;
			n++;
		}
	}
	if (n == 1)
		return vms_machine_open_pid(only->pid, error);
	g_autofree char *names = list_machines(machines);
	if (machines->len == 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no virtual machine runs here: start one with \"vmscope run -- "
			    "qemu-system-x86_64 …\", "
			    "or name one with --pid, --qmp, --agent or --gdb, or a core file with "
			    "--core");
	else if (n == 0)
		set_no_usable(machines, error);
	else
		usage_error(error, "there are %u machines: choose one with %s: %s", n, option,
			    names);
	return NULL;
}

static struct vms_machine *open_pid(const char *option, const char *text, char **memory,
				    GError **error)
{
	unsigned pid;
	if (!value_unsigned(option, text, 1, G_MAXINT, &pid, error))
		return NULL;
	if (!memory)
		return vms_machine_open_pid((pid_t)pid, error);
	g_autoptr(GArray) places = memory_option_parse(memory, error);
	return places ? vms_machine_open_kvm((pid_t)pid,
					     &g_array_index(places, struct vms_ram_place, 0),
					     places->len, error)
		      : NULL;
}

static bool is_called(const struct vms_found_machine *found, const char *name)
{
	return strcmp(found->name, name) == 0 ||
	       (found->uuid && g_ascii_strcasecmp(found->uuid, name) == 0);
}

/*
 * Opens the machine that its owner calls so. libvirt gives QEMU a domain's name and its UUID (-name
 * guest=NAME -uuid UUID).
 */
static struct vms_machine *open_domain(const char *name, GError **error)
{
	g_autoptr(GArray) machines = vms_machine_discover(error);
	g_autoptr(GString) pids = g_string_new(NULL);
	const struct vms_found_machine *only = NULL;
	unsigned n = 0;
	for (size_t i = 0; machines && i < machines->len; i++) {
		const struct vms_found_machine *found =
			&g_array_index(machines, struct vms_found_machine, i);
		if (!is_called(found, name))
			continue;
		g_string_append_printf(pids, "%s%d", n++ ? ", " : "", (int)found->pid);
		only = found;
	}
	if (n == 1)
		return vms_machine_open_pid(only->pid, error);
	if (n > 1)
		usage_error(error,
			    "--domain %s: there are %u of that name: choose one with --pid: %s",
			    name, n, pids->str);
	else if (machines)
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			"--domain %s: no machine of that name runs here: \"vmscope list\" shows "
			"the names",
			name);
	return NULL;
}

/* Starts the command and opens its machine. session_finish ends that QEMU. */
static struct vms_machine *open_launched(struct session *session, GError **error)
{
	bool needs_agent = session->command->options & SESSION_AGENT;
	session->launched = launch_prepare(
		session->launch, needs_agent ? VMS_LAUNCH_NEED_AGENT : VMS_LAUNCH_MAY_HAVE_AGENT,
		false, error);
	return session->launched && vms_launch_start(session->launched, error)
		       ? vms_launch_open(session->launched, error)
		       : NULL;
}

static int count_targets(const struct session *session)
{
	return (session->pid != NULL) + (session->domain != NULL) + (session->qmp != NULL) +
	       (session->agent != NULL) + (session->gdb != NULL) + (session->core != NULL) +
	       (session->launch != NULL);
}

bool session_names_target(const struct session *session)
{
	return count_targets(session) > 0;
}

bool session_names_guest(const struct session *session)
{
	return count_targets(session) > (session->launch != NULL);
}

/*
 * Opens a machine again by QEMU's gdb stub, if its engine has no probes, as that of KVM. Takes
 * `machine` over: the stub needs the same monitor.
 */
static struct vms_machine *open_for_probes(struct vms_machine *machine, GError **error)
{
	const pid_t pid = vms_machine_info(machine)->pid;
	if (vms_machine_has_probes(machine) || pid == 0)
		return machine;
	vms_machine_unref(machine);
	struct vms_machine *stub = vms_machine_open_stub(pid, error);
	if (!stub)
		g_prefix_error(error, "probes need QEMU's gdb stub: ");
	return stub;
}

bool session_open(struct session *session, GError **error)
{
	const bool may = session->command->options & SESSION_MAY_TARGET;
	const char *option = may ? "--guest" : "--pid";
	if (count_targets(session) > 1)
		usage_error(error,
			    "more than one target: give one of %s, --domain, --qmp, --agent, "
			    "--gdb, %s-- COMMAND",
			    option, may ? "" : "--core, ");
	else if (session->memory && !session->pid)
		usage_error(error, "--memory says where the memory of a process is: give its %s",
			    option);
	else if (session->pid && !(may && strcmp(session->pid, "auto") == 0))
		session->machine = open_pid(option, session->pid, session->memory, error);
	else if (session->domain)
		session->machine = open_domain(session->domain, error);
	else if (session->qmp)
		session->machine = vms_machine_open_qmp(session->qmp, error);
	else if (session->agent)
		session->machine = vms_machine_open_agent(session->agent, error);
	else if (session->gdb)
		session->machine = vms_machine_open_gdb(session->gdb, error);
	else if (session->core)
		session->machine = vms_machine_open_core(session->core, error);
	else if (session->launch)
		session->machine = open_launched(session, error);
	else
		session->machine = open_only_machine(option, error);
	if (session->machine && (session->command->options & SESSION_PROBES))
		session->machine = open_for_probes(session->machine, error);
	if (session->machine)
		vms_machine_set_budget(session->machine, session->budget);
	if (session->machine)
		vms_machine_allow_stop(session->machine, session->allow_stop);
	return session->machine;
}

/* Adds the symbols of FILE or FILE@ADDR. A file that has the whole text as its name comes first. */
static bool add_symbols(struct session *session, const char *option, GError **error)
{
	g_autofree char *path = g_strdup(option);
	char *at = strrchr(path, '@');
	uint64_t address = 0;
	bool has_address = at && !g_file_test(path, G_FILE_TEST_EXISTS);
	if (has_address) {
		*at = '\0';
		if (!value_in_c(at + 1, &address)) {
			usage_error(error, "--symbols %s: \"%s\" is no address", option, at + 1);
			return false;
		}
	}
	struct vms_symbol_file *file = vms_symbol_file_open(path, error);
	return file &&
	       vms_guest_add_symbols(session->guest, file, has_address ? &address : NULL, error);
}

void session_read_names(struct session *session, struct vms_guest *guest)
{
	vms_guest_read_files(guest);
	if (!session->debug_files)
		return;
	vms_debug_files_wait(session->debug_files, SERVERS_WAIT_NS);
	vms_guest_read_files(guest);
}

bool session_detect(struct session *session, GError **error)
{
	session->guest = vms_guest_detect(session->machine, error);
	if (!session->guest)
		return false;
	if (session->debug_files)
		vms_guest_set_debug_files(session->guest, session->debug_files);
	for (char **option = session->symbols; option && *option; option++) {
		if (!add_symbols(session, *option, error))
			return false;
	}
	return true;
}

bool session_open_guest(struct session *session, GError **error)
{
	return session_open(session, error) && session_detect(session, error);
}
