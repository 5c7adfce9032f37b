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
	uint64_t lost; /* records, as the kernel has told in the ring */
};

/* A record of the kernel, which the next one overwrites. Its size is at least that of its header.
 */
struct vms_perf_record {
	uint32_t type;
	uint16_t misc;
	uint32_t size; /* bytes of `body` */
	const uint8_t *body;
};

/* Opens the ring of a CPU. A CPU that is offline has none: that is no error. */
bool vms_perf_ring_open(struct vms_perf_ring *ring, int cpu, GError **error);
void vms_perf_ring_close(struct vms_perf_ring *ring);
/* Takes all records of now out of the ring. */
void vms_perf_ring_drain(struct vms_perf_ring *ring,
			 void (*take)(const struct vms_perf_record *record, void *data),
			 void *data);
