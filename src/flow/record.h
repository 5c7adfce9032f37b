/* SPDX-License-Identifier: MIT */
/* Records of hits, and the places that they come from. */
#pragma once

#include "flow/aggregation.h"
#include "machine/probes.h"

/* A place of a flow. A counted reference: records outlive the flow. */
struct vms_flow_place {
	gatomicrefcount refs;
	uint64_t va;
	bool is_after;
	bool has_task; /* its program collects the task first */
	struct vms_probe *probe;
	struct vms_probe *common; /* or NULL */
	GArray *ops;		  /* struct vms_op */
	guint n_conditions;	  /* of `ops`: those before what collects */
	struct vms_program program;
	struct vms_probe *returned;	   /* of a function whose calls are followed; or NULL */
	GArray *return_ops;		   /* struct vms_op; or NULL */
	struct vms_program return_program; /* collects the duration first */
};

/*
 * Makes a place with its program. Takes new references to the probes. `guest` NULL: records do not
 * tell tasks. `aggregation`: hits are added up; or NULL. Errors: INVALID_ARGUMENT (more than a hit
 * can hold; entries of a probe whose hits are added up).
 */
struct vms_flow_place *vms_flow_place_new(const struct vms_arch *arch, struct vms_guest *guest,
					  uint64_t va, bool is_after, struct vms_probe *probe,
					  struct vms_probe *common,
					  const struct vms_aggregation *aggregation,
					  GError **error);
/*
 * Makes the place one whose calls are followed, before anybody else has it. Takes a new reference.
 * `aggregation`: that of vms_flow_place_new; all that is added up is read at the return. Errors: as
 * above.
 */
bool vms_flow_place_follow(struct vms_flow_place *place, const struct vms_arch *arch,
			   struct vms_probe *returned, const struct vms_aggregation *aggregation,
			   GError **error);
struct vms_flow_place *vms_flow_place_ref(struct vms_flow_place *place);
void vms_flow_place_unref(struct vms_flow_place *place);

/* Finds a value by its number among all that a program has collected. False: there is none. */
bool vms_flow_find_value(const uint8_t *values, size_t size, unsigned number,
			 struct vms_value_head *head, const uint8_t **bytes);
/* The same as users get it. */
bool vms_flow_get_value(const uint8_t *values, size_t size, unsigned number,
			struct vms_flow_value *ret);

/* Makes a record of a hit. NULL: what came does not fit the program of the place. */
struct vms_flow_record *vms_flow_record_new(struct vms_flow_place *place, const struct vms_hit *hit,
					    uint64_t sequence);
/* Calls the callbacks of the record's probes, and notes which have failed. */
void vms_flow_record_call(struct vms_flow_record *record, struct vms_memory *memory);
