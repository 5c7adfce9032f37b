/* SPDX-License-Identifier: MIT */
#include "machine/kvm/obstacle.h"

#include "base/text.h"
#include "machine/host/proc_path.h"
#include "machine/kvm/vcpus.h"
#include <asm/kvm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vmscope/error.h>

#define STORED_SETS (KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS)

/*
 * Asks this host's KVM whether it can store registers. A bit that it does not know would make every
 * KVM_RUN of the machine fail.
 */
static bool check_host(GError **error)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot ask what this host's KVM can do: /dev/kvm: %s; run as a user "
			    "of the group kvm, or as root",
			    g_strerror(errno));
		return false;
	}
	int sets = ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_SYNC_REGS);
	close(kvm);
	if (sets >= 0 && (sets & STORED_SETS) == STORED_SETS)
		return true;
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "this host's KVM does not store registers where they can be read "
			    "(KVM_CAP_SYNC_REGS)");
	return false;
}

/* The value of a line of a thread's status, as a number; 0: none. */
static pid_t read_tracer(pid_t pid, pid_t thread)
{
	static const char key[] = "\nTracerPid:";
	g_autofree char *path = g_strdup_printf("/proc/%d/task/%d/status", (int)pid, (int)thread);
	g_autofree char *text = NULL;
	if (!g_file_get_contents(path, &text, NULL, NULL))
		return 0;
	const char *line = strstr(text, key);
	return line ? (pid_t)atoi(line + strlen(key)) : 0;
}

static bool set_tracer_error(pid_t pid, pid_t tracer, GError **error)
{
	g_autofree char *path = vms_host_process_path(tracer, "comm");
	g_autofree char *name = NULL;
	if (g_file_get_contents(path, &name, NULL, NULL))
		vms_text_clean(g_strchomp(name));
	g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
		    "process %d is traced by process %d (%s), and can have one tracer: end that "
		    "first",
		    (int)pid, (int)tracer, name ? name : "?");
	return false;
}

/* What Yama says (Documentation/admin-guide/LSM/Yama.rst); 0 where there is none. */
static int yama_scope(void)
{
	g_autofree char *text = NULL;
	return g_file_get_contents("/proc/sys/kernel/yama/ptrace_scope", &text, NULL, NULL)
		       ? atoi(text)
		       : 0;
}

static bool set_rights_error(pid_t pid, GError **error)
{
	const int scope = yama_scope();
	g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
		    "process %d may not be traced by this user%s", (int)pid,
		    scope == 3 ? ": kernel.yama.ptrace_scope is 3, which forbids it to everybody "
				 "until the next boot"
		    : scope > 0 && geteuid() != 0
			    ? ": kernel.yama.ptrace_scope leaves that to root; run as root"
			    : "; run as the user that runs it, or as root");
	return false;
}

/* To open this file takes the same rights as to trace the process (ptrace(2)). */
static bool check_rights(pid_t pid, GError **error)
{
	g_autofree char *path = vms_host_process_path(pid, "mem");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return set_rights_error(pid, error);
	close(fd);
	return true;
}

bool vms_kvm_set_trace_error(pid_t pid, pid_t thread, GError **error)
{
	pid_t tracer = read_tracer(pid, thread);
	if (tracer)
		return set_tracer_error(pid, tracer, error);
	if (check_rights(pid, error))
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "another program traced process %d until just now: try again",
			    (int)pid);
	return false;
}

bool vms_kvm_check_tracer(pid_t pid, pid_t thread, GError **error)
{
	pid_t tracer = read_tracer(pid, thread);
	g_autofree char *path = vms_host_process_path(tracer, "comm");
	g_autofree char *name = NULL;
	return !tracer ||
	       (g_file_get_contents(path, &name, NULL, NULL) &&
		strcmp(name, "vms-holder\n") == 0) ||
	       set_tracer_error(pid, tracer, error);
}

static bool check_tracers(pid_t pid, GError **error)
{
	g_autoptr(GArray) threads = vms_kvm_list_threads(pid);
	for (guint i = 0; i < threads->len; i++)
		if (!vms_kvm_check_tracer(pid, g_array_index(threads, pid_t, i), error))
			return false;
	return true;
}

/*
 * Refuses machines whose memory is encrypted, or that keep their registers from the host: SEV has
 * /dev/sev open, SEV-SNP and TDX have guest_memfd. Their KVM allows no bit of kvm_valid_regs.
 */
static bool check_not_confidential(pid_t pid, GError **error)
{
	g_autofree char *path = vms_host_process_path(pid, "fd");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *fd;
	while (directory && (fd = g_dir_read_name(directory))) {
		g_autofree char *link = g_build_filename(path, fd, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);
		if (!target || (strcmp(target, "/dev/sev") != 0 && !strstr(target, "kvm-gmem") &&
				!strstr(target, "guest_memfd")))
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "process %d runs a confidential machine: neither its memory nor its "
			    "registers can be read",
			    (int)pid);
		return false;
	}
	return true;
}

bool vms_kvm_check_process(pid_t pid, GError **error)
{
	return check_rights(pid, error) && check_tracers(pid, error) && check_host(error) &&
	       check_not_confidential(pid, error);
}
