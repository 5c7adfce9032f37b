/* SPDX-License-Identifier: MIT */
#include "machine/kvm/vcpus.h"

#include "base/proc_text.h"
#include "machine/host/proc_path.h"
#include "machine/kvm/thread_call.h"
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/error.h>

#define VM_FILE	  "anon_inode:kvm-vm"
#define VCPU_FILE "anon_inode:kvm-vcpu:"

static struct vms_kvm_vcpu *vcpu_at(GArray *vcpus, guint i)
{
	return &g_array_index(vcpus, struct vms_kvm_vcpu, i);
}

struct vms_kvm_vcpu *vms_kvm_find_by_fd(GArray *vcpus, int fd)
{
	for (guint i = 0; i < vcpus->len; i++) {
		struct vms_kvm_vcpu *vcpu = vcpu_at(vcpus, i);
		for (unsigned j = 0; j < vcpu->n_fds; j++)
			if (vcpu->fds[j] == fd)
				return vcpu;
	}
	return NULL;
}

static struct vms_kvm_vcpu *find_by_number(GArray *vcpus, unsigned number)
{
	for (guint i = 0; i < vcpus->len; i++)
		if (vcpu_at(vcpus, i)->number == number)
			return vcpu_at(vcpus, i);
	return NULL;
}

/* The number of the vCPU whose file has this name. False if it is another file. */
static bool parse_file(const char *name, unsigned *number)
{
	guint64 value;
	if (!name || !g_str_has_prefix(name, VCPU_FILE) ||
	    !g_ascii_string_to_unsigned(name + strlen(VCPU_FILE), 10, 0, G_MAXINT, &value, NULL))
		return false;
	*number = (unsigned)value;
	return true;
}

static void add_descriptor(GArray *vcpus, unsigned number, int fd)
{
	struct vms_kvm_vcpu *vcpu = find_by_number(vcpus, number);
	if (!vcpu) {
		struct vms_kvm_vcpu added = { .number = number };
		g_array_append_val(vcpus, added);
		vcpu = vcpu_at(vcpus, vcpus->len - 1);
	}
	if (vcpu->n_fds < VMS_KVM_FDS_MAX)
		vcpu->fds[vcpu->n_fds++] = fd;
}

/*
 * True if both are known to be of different open files: kcmp(2). A monitor may have a descriptor
 * of its machine twice.
 */
static bool are_different_files(pid_t pid, int a, int b)
{
	return syscall(SYS_kcmp, pid, pid, KCMP_FILE, a, b) > 0;
}

/*
 * Lists the vCPUs that the process has open. *one is false if they may be of several machines.
 * False if this user may not see the open files.
 */
static bool list_descriptors(pid_t pid, GArray *vcpus, bool *one)
{
	int machine = -1;
	*one = true;
	g_autofree char *path = vms_host_process_path(pid, "fd");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *fd;
	while (directory && (fd = g_dir_read_name(directory)) && vcpus->len <= VMS_KVM_VCPUS_MAX) {
		g_autofree char *link = g_build_filename(path, fd, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);
		unsigned number;
		if (parse_file(target, &number))
			add_descriptor(vcpus, number, atoi(fd));
		if (g_strcmp0(target, VM_FILE) != 0)
			continue;
		*one &= machine < 0 || !are_different_files(pid, machine, atoi(fd));
		machine = atoi(fd);
	}
	return directory;
}

/* Adds where struct kvm_run is mapped. False if there are two vCPUs of one number. */
static bool list_run_pages(pid_t pid, GArray *vcpus)
{
	g_autofree char *path = vms_host_process_path(pid, "maps");
	FILE *maps = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	bool unique = true;
	while (maps && getline(&line, &size, maps) > 0) {
		struct vms_proc_mapping mapping;
		unsigned number;
		line[strcspn(line, "\n")] = 0;
		if (!vms_proc_parse_mapping(line, &mapping) || mapping.file_offset != 0 ||
		    !parse_file(mapping.name, &number))
			continue;
		struct vms_kvm_vcpu *vcpu = find_by_number(vcpus, number);
		if (!vcpu)
			continue;
		unique &= vcpu->run_hva == 0;
		vcpu->run_hva = mapping.start;
	}
	free(line);
	if (maps)
		fclose(maps);
	return unique;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct vms_kvm_vcpu *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

GArray *vms_kvm_list_vcpus(pid_t pid, GError **error)
{
	g_autoptr(GArray) vcpus = g_array_new(FALSE, FALSE, sizeof(struct vms_kvm_vcpu));
	bool one;
	if (!list_descriptors(pid, vcpus, &one)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot see the open files of process %d: run as the user that runs "
			    "it, or as root",
			    (int)pid);
		return NULL;
	}
	if (vcpus->len == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "process %d has no vCPU of KVM open", (int)pid);
		return NULL;
	}
	if (vcpus->len > VMS_KVM_VCPUS_MAX) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "process %d has too many vCPUs", (int)pid);
		return NULL;
	}
	if (!list_run_pages(pid, vcpus) || !one) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "process %d runs several machines: nothing tells whose vCPUs its "
			    "vCPUs are",
			    (int)pid);
		return NULL;
	}
	g_array_sort(vcpus, compare_numbers);
	return g_steal_pointer(&vcpus);
}

GArray *vms_kvm_list_threads(pid_t pid)
{
	g_autofree char *path = vms_host_process_path(pid, "task");
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	GArray *threads = g_array_new(FALSE, FALSE, sizeof(pid_t));
	const char *name;
	while (directory && (name = g_dir_read_name(directory))) {
		pid_t thread = (pid_t)atoi(name);
		if (thread > 0)
			g_array_append_val(threads, thread);
	}
	return threads;
}

/* The text of a file of a thread, newly allocated; NULL if it cannot be read. */
static char *read_of_thread(pid_t pid, pid_t thread, const char *name)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/task/%d/%s", (int)pid, (int)thread, name);
	char *text = NULL;
	return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

int vms_kvm_parse_thread_name(const char *name)
{
	static const char *const before[] = { "CPU ", "fc_vcpu ", "crosvm_vcpu", "kvm-vcpu-",
					      "vcpu" };
	for (size_t i = 0; i < G_N_ELEMENTS(before); i++) {
		if (!g_str_has_prefix(name, before[i]))
			continue;
		const char *digits = name + strlen(before[i]);
		digits += strspn(digits, " ");
		if (g_ascii_isdigit(*digits))
			return (int)MIN(g_ascii_strtoull(digits, NULL, 10), G_MAXINT);
	}
	return -1;
}

/* How long it has executed a guest's code, in clock ticks. */
static uint64_t guest_time(const char *stat)
{
	const char *field = vms_proc_find_field(stat, 43);
	return field ? g_ascii_strtoull(field, NULL, 10) : 0;
}

bool vms_kvm_is_vcpu_thread(pid_t pid, pid_t thread, int *number)
{
	g_autofree char *name = read_of_thread(pid, thread, "comm");
	g_autofree char *stat = read_of_thread(pid, thread, "stat");
	*number = name ? vms_kvm_parse_thread_name(name) : -1;
	return *number >= 0 || (stat && guest_time(stat) > 0);
}

void vms_kvm_find_waiting_threads(pid_t pid, GArray *vcpus)
{
	g_autoptr(GArray) threads = vms_kvm_list_threads(pid);
	for (guint i = 0; i < threads->len; i++) {
		pid_t thread = g_array_index(threads, pid_t, i);
		g_autofree char *call = read_of_thread(pid, thread, "syscall");
		int fd = -1;
		if (!call || vms_thread_call_parse(call, &fd) != VMS_THREAD_IN_GUEST)
			continue;
		struct vms_kvm_vcpu *vcpu = vms_kvm_find_by_fd(vcpus, fd);
		if (vcpu)
			vcpu->thread = thread;
	}
}
