/* SPDX-License-Identifier: MIT */
/* The vCPUs of a KVM process, as /proc shows them. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How many vCPUs a process may have. */
#define VMS_KVM_VCPUS_MAX 4096
/* Descriptors of one vCPU; Firecracker has two. */
#define VMS_KVM_FDS_MAX 4

struct vms_kvm_vcpu {
	unsigned number;  /* as its monitor has numbered it; there may be gaps */
	uint64_t run_hva; /* of struct kvm_run in the process; 0: not mapped */
	int fds[VMS_KVM_FDS_MAX];
	unsigned n_fds;
	pid_t thread; /* 0: not known */
};

/*
 * Lists the vCPUs of a process, sorted by number. A vCPU that was unplugged may still be among
 * them. Errors: PERMISSION (this user may not see its open files), NOT_FOUND (it has none),
 * UNSUPPORTED (it runs several machines, too many vCPUs).
 */
GArray *vms_kvm_list_vcpus(pid_t pid, GError **error);

/* Threads of the process, as pid_t. */
GArray *vms_kvm_list_threads(pid_t pid);
/*
 * True if a thread is likely to be that of a vCPU: by its name, or since it has executed a guest's
 * code (proc_pid_stat(5), guest_time). *number is what its name says, or -1.
 */
bool vms_kvm_is_vcpu_thread(pid_t pid, pid_t thread, int *number);
/* The number in a name as monitors give to threads of vCPUs: "CPU 3/KVM", "fc_vcpu 3". -1: none. */
int vms_kvm_parse_thread_name(const char *name);
/* Notes the threads that wait in KVM_RUN, by their system call. */
void vms_kvm_find_waiting_threads(pid_t pid, GArray *vcpus);
/* The vCPU with this descriptor, or NULL. */
struct vms_kvm_vcpu *vms_kvm_find_by_fd(GArray *vcpus, int fd);
