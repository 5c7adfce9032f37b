/* SPDX-License-Identifier: MIT */
/*
 * A small process beside this one, which outlives it for as long as it has something to put right.
 *
 * It is a child process in a session of its own, and its exit sends no signal. So it does not
 * disturb a program that waits for its own children, and signals to the program's terminal or
 * process group do not reach it. If it is allowed to, it also leaves the tool's control group. One
 * that is stopped goes on when the tool ends.
 *
 * It is forked from a program that may have threads. So its code takes no lock and allocates
 * nothing: it uses system calls and memory that was there before.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct vms_side_work {
	/* Should not begin like the program's: `pkill` is not to end both. */
	const char *name;
	void (*live)(void *data); /* the process ends when it returns; all signals are blocked */
	void *data;
	const int *keep; /* descriptors to keep open; others are closed. Negative ones do not count.
			  */
	size_t n_keep;
	bool stays_in_group; /* it does not leave the tool's control group: it may die with it */
};

/*
 * Starts the process. Returns when signals that are meant for this one do not reach it any more.
 * Returns its pid, or a number of errno(3) negated.
 */
pid_t vms_side_process_start(const struct vms_side_work *work);
/* Reaps it if it has ended. */
bool vms_side_process_is_alive(pid_t pid);
/* Waits for its end, `timeout_ms` at most. False if it lives on. */
bool vms_side_process_reap(pid_t pid, int timeout_ms);

/*
 * True if a process is stopped, by a signal or a debugger (proc_pid_stat(5)), or has ended. So is
 * one that was killed while one of its threads waits for a disk: it does not end before that thread
 * does, and does nothing any more. `stat_path` is "/proc/PID/stat". Takes no lock.
 */
bool vms_process_stands_still(const char *stat_path);
