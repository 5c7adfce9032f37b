/* SPDX-License-Identifier: MIT */
/* The ring of one CPU into which the kernel writes samples, births and mappings. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct vms_perf_ring {
	int fd;	    /* of the event whose ring it is; -1: none */
	void *base; /* a page of control, then the ring */
	uint64_t size;
	uint64_t lost; /* lost records, counted by records in the ring */
};

/* A record of the kernel. The next one overwrites it. Its size is at least that of its header. */
struct vms_perf_record {
	uint32_t type;
	uint16_t misc;
	uint32_t size; /* bytes of `body` */
	const uint8_t *body;
};

/* Opens the ring of a CPU. An offline CPU has none, which is not an error. */
bool vms_perf_ring_open(struct vms_perf_ring *ring, int cpu, GError **error);
void vms_perf_ring_close(struct vms_perf_ring *ring);
/* Removes all current records from the ring, and calls `take` for each. */
void vms_perf_ring_drain(struct vms_perf_ring *ring,
			 void (*take)(const struct vms_perf_record *record, void *data),
			 void *data);
