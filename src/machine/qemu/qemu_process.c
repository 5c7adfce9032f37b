/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qemu_process.h"
#include "base/keyed_hash.h"
#include "base/proc_text.h"
#include "base/process.h"
#include "machine/host/connection.h"
#include "machine/host/proc_path.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

/* How many bytes of a command line to read: more than any QEMU has. */
#define CMDLINE_MAX (1U << 20)

static char *proc_link(pid_t pid, const char *name)
{
	g_autofree char *path = vms_host_process_path(pid, name);
	return g_file_read_link(path, NULL);
}

/* The arguments, or NULL with errno set. The list of a kernel thread or a zombie is empty. */
static char **read_arguments(pid_t pid)
{
	g_autofree char *path = vms_host_process_path(pid, "cmdline");
	FILE *file = fopen(path, "re");
	if (!file)
		return NULL;
	g_autofree char *text = g_malloc(CMDLINE_MAX + 1);
	size_t size = fread(text, 1, CMDLINE_MAX, file);
	fclose(file);
	text[size] = 0;
	GPtrArray *args = g_ptr_array_new();
	for (size_t at = 0; at < size; at += strlen(text + at) + 1)
		g_ptr_array_add(args, g_strdup(text + at));
	g_ptr_array_add(args, NULL);
	return (char **)g_ptr_array_free(args, FALSE);
}

bool vms_host_process_is_qemu(const char *name)
{
	/* Nix runs QEMU by a wrapper, and calls the program itself .qemu-system-x86_64-wrapped. */
	return g_str_has_prefix(name + (name[0] == '.'), "qemu-system-") ||
	       strcmp(name, "qemu-kvm") == 0;
}

/* The name of a QEMU that was started through its dynamic loader: the first such argument. */
static char *find_loaded_qemu(char **args)
{
	for (; args && *args; args++) {
		g_autofree char *name = g_path_get_basename(*args);
		if (vms_host_process_is_qemu(name))
			return g_steal_pointer(&name);
	}
	return NULL;
}

/* The kernel's name of the process: a thread of the kernel has no other. */
static char *read_comm(pid_t pid)
{
	g_autofree char *path = vms_host_process_path(pid, "comm");
	char *comm = NULL;
	return g_file_get_contents(path, &comm, NULL, NULL) ? g_strchomp(comm) : g_strdup("?");
}

/* The executable's name. If this user may not see that, the name in the first argument. */
static char *program_name(pid_t pid, char **args)
{
	static const char deleted[] = " (deleted)";
	g_autofree char *exe = proc_link(pid, "exe");
	const char *path = exe ? exe : args && args[0] ? args[0] : NULL;
	if (!path)
		return read_comm(pid);
	g_autofree char *name = g_path_get_basename(path);
	char *loaded = g_str_has_prefix(name, "ld-linux") ? find_loaded_qemu(args) : NULL;
	if (loaded)
		return loaded;
	if (g_str_has_suffix(name, deleted))
		name[strlen(name) - strlen(deleted)] = 0;
	return g_steal_pointer(&name);
}

/*
 * Looks for KVM among the open files, if this user may see them. Some monitors have two descriptors
 * of each vCPU.
 */
static void find_kvm(struct vms_host_process *process)
{
	g_autoptr(GHashTable) vcpus =
		g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	g_autofree char *path = vms_host_process_path(process->pid, "fd");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *fd;
	while (directory && (fd = g_dir_read_name(directory))) {
		g_autofree char *link_path = g_build_filename(path, fd, NULL);
		g_autofree char *target = g_file_read_link(link_path, NULL);
		if (!target)
			continue;
		process->uses_kvm |= g_str_has_prefix(target, "anon_inode:kvm-vm");
		if (g_str_has_prefix(target, "anon_inode:kvm-vcpu"))
			g_hash_table_add(vcpus, g_steal_pointer(&target));
	}
	process->vcpus = g_hash_table_size(vcpus);
}

bool vms_host_process_read(pid_t pid, struct vms_host_process *ret, GError **error)
{
	uint64_t started;
	g_auto(GStrv) args = read_arguments(pid);
	/* What has ended and is not reaped has neither arguments nor a program. */
	if (args && vms_process_start_time(pid, &started) == VMS_PROCESS_GONE) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "process %d has ended; who started it has not noticed yet", (int)pid);
		return false;
	}
	if (!args) {
		bool gone = errno == ENOENT || errno == ESRCH;
		g_set_error(error, VMS_ERROR, gone ? VMS_ERROR_NOT_FOUND : VMS_ERROR_PERMISSION,
			    "cannot look at process %d: %s", (int)pid,
			    gone ? "there is no such process" : g_strerror(errno));
		return false;
	}
	*ret = (struct vms_host_process) { .pid = pid, .program = program_name(pid, args) };
	ret->is_qemu = vms_host_process_is_qemu(ret->program);
	find_kvm(ret);
	vms_cmdline_parse(args, &ret->cmdline);
	return true;
}

void vms_host_process_clear(struct vms_host_process *process)
{
	g_free(process->program);
	vms_cmdline_clear(&process->cmdline);
}

/*
 * Searches the process's list of unix sockets. Returns the path of the one with that inode, or
 * NULL. Sets *connected if a client is connected to one with that path, unless `path` is NULL.
 */
static char *find_unix_socket(pid_t pid, uint64_t inode, const char *path, bool *connected)
{
	g_autofree char *list = vms_host_process_path(pid, "net/unix");
	FILE *file = fopen(list, "re");
	char line[512], *found = NULL;
	struct vms_proc_unix entry;
	while (file && fgets(line, sizeof(line), file)) {
		if (!vms_proc_parse_unix(line, &entry))
			continue;
		if (entry.inode == inode && !found)
			found = g_strdup(entry.path);
		if (path && strcmp(entry.path, path) == 0)
			*connected |= entry.is_connected;
	}
	if (file)
		fclose(file);
	return found;
}

/* The path of the unix socket that the process has open as `fd`, or NULL. */
static char *path_of_fd(pid_t pid, int fd)
{
	g_autofree char *name = g_strdup_printf("fd/%d", fd);
	g_autofree char *target = proc_link(pid, name);
	bool connected = false;
	if (!target || !g_str_has_prefix(target, "socket:["))
		return NULL;
	uint64_t inode = g_ascii_strtoull(target + strlen("socket:["), NULL, 10);
	return find_unix_socket(pid, inode, NULL, &connected);
}

/* True if the process is a QEMU. */
static bool runs_qemu(pid_t pid)
{
	g_auto(GStrv) args = read_arguments(pid);
	g_autofree char *program = program_name(pid, args);
	return vms_host_process_is_qemu(program);
}

bool vms_host_process_of_connection(int fd, struct vms_host_identity *ret)
{
	if (vms_host_identity_open_peer(ret, fd) && runs_qemu(ret->pid) &&
	    vms_host_identity_serves(ret, fd))
		return true;
	vms_host_identity_close(ret);
	uint64_t inode = vms_host_connection_inode(fd);
	/* Whichever process called listen(2) for it. */
	pid_t server = inode ? vms_host_find_process_with_socket(inode, runs_qemu) : 0;
	if (server && vms_host_identity_open(ret, server, NULL) && runs_qemu(ret->pid) &&
	    vms_host_identity_serves(ret, fd))
		return true;
	vms_host_identity_close(ret);
	return false;
}

pid_t vms_host_process_behind(const char *path)
{
	FILE *file = fopen("/proc/self/net/unix", "re");
	char line[512];
	struct vms_proc_unix entry;
	pid_t found = 0;
	while (file && found == 0 && fgets(line, sizeof(line), file)) {
		if (vms_proc_parse_unix(line, &entry) && !entry.is_connected &&
		    strcmp(entry.path, path) == 0)
			found = vms_host_find_process_with_socket(entry.inode, runs_qemu);
	}
	if (file)
		fclose(file);
	return found;
}

/* The path by which this process reaches a path of another: by its directory and its mounts. */
static char *path_from_here(pid_t pid, const char *path, GError **error)
{
	g_autofree char *cwd = proc_link(pid, "cwd");
	if (!g_path_is_absolute(path) && !cwd) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot find the socket %s of process %d: this user may not see its "
			    "directory; run as the user that runs it, or as root",
			    path, (int)pid);
		return NULL;
	}
	g_autofree char *absolute =
		g_path_is_absolute(path) ? g_strdup(path) : g_build_filename(cwd, path, NULL);
	g_autofree char *theirs = proc_link(pid, "ns/mnt");
	g_autofree char *ours = g_file_read_link("/proc/self/ns/mnt", NULL);
	if (!theirs || g_strcmp0(theirs, ours) == 0)
		return g_steal_pointer(&absolute);
	g_autofree char *root = vms_host_process_path(pid, "root");
	return g_build_filename(root, absolute, NULL);
}

/* Fails if this user may not connect to the socket. */
static bool check_access(pid_t pid, const char *path, GError **error)
{
	struct stat status;
	if (stat(path, &status) < 0 || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0) {
		bool denied = errno == EACCES;
		g_set_error(error, VMS_ERROR, denied ? VMS_ERROR_PERMISSION : VMS_ERROR_NOT_FOUND,
			    "cannot reach the QMP socket %s of process %d: %s%s", path, (int)pid,
			    g_strerror(errno),
			    denied ? "; run as the user that owns it, or as root" : "");
		return false;
	}
	return true;
}

static bool is_free(pid_t pid, const char *path_of_process)
{
	bool connected = false;
	g_free(find_unix_socket(pid, 0, path_of_process, &connected));
	return !connected;
}

/* The address of one socket, as this process sees it. *vacant is false if a client is connected. */
static char *find_address(pid_t pid, const struct vms_cmdline_qmp *qmp, bool *vacant,
			  GError **error)
{
	*vacant = true;
	if (qmp->tcp)
		return g_strdup(qmp->tcp);
	g_autofree char *path = qmp->fd >= 0 ? path_of_fd(pid, qmp->fd) : g_strdup(qmp->path);
	if (!path) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "cannot find the path of the QMP socket that process %d was given as "
			    "descriptor %d",
			    (int)pid, qmp->fd);
		return NULL;
	}
	g_autofree char *here = path_from_here(pid, path, error);
	if (!here || !check_access(pid, here, error))
		return NULL;
	*vacant = is_free(pid, path);
	return g_steal_pointer(&here);
}

/*
 * Finds the addresses of free sockets, then those of others; the first error if there is none. The
 * last socket of the command line comes first, because the program that started QEMU usually
 * manages it by the first one.
 */
static GPtrArray *find_addresses(const struct vms_host_process *process, guint *n_free,
				 GError **error)
{
	g_autoptr(GPtrArray) addresses = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GError) first = NULL;
	*n_free = 0;
	for (guint i = process->cmdline.qmp->len; i > 0; i--) {
		bool vacant;
		char *address = find_address(
			process->pid,
			&g_array_index(process->cmdline.qmp, struct vms_cmdline_qmp, i - 1),
			&vacant, first ? NULL : &first);
		if (address)
			g_ptr_array_insert(addresses, vacant ? (gint)(*n_free)++ : -1, address);
	}
	if (addresses->len > 0)
		return g_steal_pointer(&addresses);
	g_propagate_error(error, g_steal_pointer(&first));
	return NULL;
}

char **vms_host_process_qmp(const struct vms_host_process *process, bool must_be_free,
			    GError **error)
{
	guint n_free;
	if (!process->is_qemu) {
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"process %d (%s) is no virtual machine: it is not QEMU, and uses no KVM",
			(int)process->pid, process->program);
		return NULL;
	}
	if (process->cmdline.qmp->len == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "process %d (%s) has no QMP socket, which tells where its memory is; "
			    "start it by \"vmscope run\", or with "
			    "-qmp unix:PATH,server=on,wait=off",
			    (int)process->pid, process->program);
		return NULL;
	}
	g_autoptr(GPtrArray) addresses = find_addresses(process, &n_free, error);
	if (!addresses)
		return NULL;
	if (must_be_free && n_free == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "another client is using the QMP socket %s of process %d, which serves "
			    "one at a time; libvirt uses those of its own guests; start QEMU "
			    "with a second -qmp",
			    (const char *)addresses->pdata[0], (int)process->pid);
		return NULL;
	}
	g_ptr_array_add(addresses, NULL);
	return (char **)g_ptr_array_free(g_steal_pointer(&addresses), FALSE);
}

char *vms_host_process_agent(const struct vms_host_process *process)
{
	const char *path = process->cmdline.agent;
	return process->is_qemu && path ? path_from_here(process->pid, path, NULL) : NULL;
}
