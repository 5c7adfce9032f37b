/* SPDX-License-Identifier: MIT */
/*
 * What a thread of a monitor is in, by /proc/PID/task/TID/syscall (proc_pid_syscall(5)). To stop a
 * thread is harmless in some system calls alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The request number of KVM_RUN, on every architecture (linux/kvm.h). */
#define VMS_KVM_RUN UINT64_C(0xae80)

enum vms_thread_call {
	VMS_THREAD_RUNS,     /* it executes: the guest's code, the kernel's or its own */
	VMS_THREAD_IN_GUEST, /* it waits in KVM_RUN: the vCPU is halted, or not started */
	/*
	 * It waits in futex(2) without a time limit: it goes on to wait after a stop, by the same
	 * call. So waits a vCPU that is paused, or is halted and its monitor does the waiting.
	 */
	VMS_THREAD_WAITS,
	/*
	 * It is in another call. A stop would make some calls fail (EINTR). After those that have a
	 * time limit the kernel has the thread call restart_syscall(2), which a seccomp filter may
	 * answer by killing the process.
	 */
	VMS_THREAD_AWAY,
};

/*
 * Reads the content of that file. *fd is the descriptor that KVM_RUN was called with, for
 * IN_GUEST. Workers of the kernel that belong to the process show a copy of its call, without a
 * stack: they are AWAY. Takes no lock and allocates nothing.
 */
enum vms_thread_call vms_thread_call_parse(const char *text, int *fd);

/*
 * What a thread does, by the content of that file: "clock_nanosleep(2)", "system call 999", or "its
 * own code". Newly allocated.
 */
char *vms_thread_call_describe(const char *text);

/*
 * True if a thread that has stopped in this system call, with these registers of x86-64, waits in
 * futex(2) without a time limit.
 */
bool vms_thread_waits_without_limit(uint64_t number, uint64_t operation, uint64_t timeout);
