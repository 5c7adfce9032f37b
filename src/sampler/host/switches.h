/* SPDX-License-Identifier: MIT */
/* What tells of switches between threads of this host: the tracepoint, and what is only scheduler.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct vms_switches {
	uint64_t tracepoint;   /* its number */
	unsigned state_offset; /* of the state in its raw data */
	unsigned state_size;
	struct {
		uint64_t begin, end; /* both 0 if the kernel does not tell */
	} sleep_code[2];
};

/*
 * Reads the description of sched:sched_switch. Errors: PERMISSION, UNSUPPORTED; they say which
 * rights it takes.
 */
bool vms_switches_read(struct vms_switches *ret, GError **error);
/* The same of the text of a tracepoint's file "format". False if it is of another form. */
bool vms_switches_parse(const char *format, struct vms_switches *ret);
/* Returns the letter of the state in a sample's raw data as ps shows it; 0 for a thread that ends.
 */
char vms_switches_state(const struct vms_switches *switches, const void *raw, size_t size);
/* True if the kernel's code at `pc` only puts threads to sleep. */
bool vms_switches_is_sleep_code(const struct vms_switches *switches, uint64_t pc);
