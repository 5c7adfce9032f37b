/* SPDX-License-Identifier: MIT */
/*
 * Hands out hits in the order of their numbers, which come from the rings of several vCPUs. A hit
 * is held back until those before it have come, or it is known that they do not.
 */
#pragma once

#include "machine/agent/protocol.h"
#include <glib.h>
#include <stdbool.h>

struct vms_hit_order {
	GArray *held;	   /* struct held */
	GByteArray *bytes; /* their values */
	uint64_t next;	   /* number of the hit to hand out next */
	uint64_t lost;	   /* numbers that did not come */
};

void vms_hit_order_init(struct vms_hit_order *order);
void vms_hit_order_clear(struct vms_hit_order *order);
/* Holds a hit. `values` is copied: hit->size bytes. */
void vms_hit_order_add(struct vms_hit_order *order, const struct vms_agent_hit *hit,
		       const uint8_t *values);
/*
 * Hands out what can be. All hits up to the number `settled` were added, if they are to come. A
 * number that comes twice is handed out once. Returns how many were handed out.
 */
size_t vms_hit_order_run(struct vms_hit_order *order, uint64_t settled,
			 void (*each)(const struct vms_agent_hit *hit, const uint8_t *values,
				      void *data),
			 void *data);
/* Returns the lowest number that is held; 0: none. */
uint64_t vms_hit_order_first(const struct vms_hit_order *order);
