/* SPDX-License-Identifier: MIT */
/* Records of hits, and the places that they come from. */
#pragma once

#include "flow/aggregation.h"
#include "flow/stack.h"
#include "machine/probes.h"

/* A place of a flow. A counted reference: records outlive the flow. */
struct vms_flow_place {
	gatomicrefcount refs;
	uint64_t va;
	bool is_after;
	bool has_task;		     /* its program collects the task first */
	const struct vms_arch *arch; /* NULL: of a place that was saved */
	struct vms_probe *probe;
	struct vms_probe *common; /* or NULL */
	GArray *ops;		  /* struct vms_op */
	guint n_conditions;	  /* of `ops`: those before what collects */
	struct vms_program program;
	struct vms_probe *returned;	   /* of a function whose calls are followed; or NULL */
	GArray *return_ops;		   /* struct vms_op; or NULL */
	struct vms_program return_program; /* collects the duration first */
	char *name;			   /* where it is, if that was saved; else NULL */
	GArray *stacks; /* unsigned: where raw values of stacks begin (stack.h); or NULL */
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
/* Checks a place that is complete: error INVALID_ARGUMENT if it asks at a call how long that took.
 */
bool vms_flow_place_check(const struct vms_flow_place *place, GError **error);
/* What a file says of a place. */
struct vms_flow_saved_place {
	uint64_t va;
	bool is_after, has_task;
	struct vms_probe *probe;
	struct vms_probe *common;   /* or NULL */
	struct vms_probe *returned; /* or NULL */
	const char *name;	    /* or NULL */
};
/* Makes a place without a program, for records that were saved. Takes new references. */
struct vms_flow_place *vms_flow_place_new_saved(const struct vms_flow_saved_place *saved);
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

/* All that a record is besides its place. */
struct vms_flow_raw {
	uint64_t sequence, time_ns;
	uint32_t vcpu;
	/* Bit n: the n-th callback has failed. */
	uint32_t failed, common_failed, returned_failed;
	/*
	 * As the program has collected them. After those of a record that is made again come the
	 * texts that were saved for entries with types.
	 */
	const uint8_t *values;
	size_t size; /* bytes of them */
};
/*
 * Gets it, without texts, as long as the record lives. Returns the place; not a new reference.
 */
struct vms_flow_place *vms_flow_record_raw(const struct vms_flow_record *record,
					   struct vms_flow_raw *ret);
/* Makes a record again. NULL: the values are not those of the place. */
struct vms_flow_record *vms_flow_record_from_raw(struct vms_flow_place *place,
						 const struct vms_flow_raw *raw);
