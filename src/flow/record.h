/* SPDX-License-Identifier: MIT */
/* Records of hits, and the places that they come from. */
#pragma once

#include "flow/aggregation.h"
#include "flow/stack.h"
#include "machine/probes.h"

/* A place of a flow. It is reference-counted, because records outlive the flow. */
struct vms_flow_place {
	gatomicrefcount refs;
	uint64_t va;
	bool is_after;
	bool has_task;		     /* its program collects the task first */
	const struct vms_arch *arch; /* NULL for a place that was saved */
	struct vms_probe *probe;
	struct vms_probe *common; /* or NULL */
	GArray *ops;		  /* struct vms_op */
	guint n_conditions; /* operations of `ops` that check the conditions; they are first */
	struct vms_program program;
	struct vms_probe *returned;	   /* for the return if calls are followed; or NULL */
	GArray *return_ops;		   /* struct vms_op; or NULL */
	struct vms_program return_program; /* collects the duration first */
	char *name;			   /* its name, if that was saved; else NULL */
	GArray *stacks; /* unsigned: numbers of the first raw values of stacks (stack.h); or NULL */
};

/*
 * Makes a place with its program. Takes new references to the probes. If `guest` is NULL, records
 * have no tasks. If `aggregation` is not NULL, hits are aggregated. Errors: INVALID_ARGUMENT (the
 * values do not fit into one hit; a probe has entries although its hits are aggregated).
 */
struct vms_flow_place *vms_flow_place_new(const struct vms_arch *arch, struct vms_guest *guest,
					  uint64_t va, bool is_after, struct vms_probe *probe,
					  struct vms_probe *common,
					  const struct vms_aggregation *aggregation,
					  GError **error);
/*
 * Makes the place follow calls. Only before the place is used. Takes a new reference.
 * `aggregation` is that of vms_flow_place_new; its values are collected at the return. Errors: as
 * above.
 */
bool vms_flow_place_follow(struct vms_flow_place *place, const struct vms_arch *arch,
			   struct vms_probe *returned, const struct vms_aggregation *aggregation,
			   GError **error);
/* Checks a complete place. Errors: INVALID_ARGUMENT (a call uses its own duration). */
bool vms_flow_place_check(const struct vms_flow_place *place, GError **error);
/* A place as it is saved. */
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

/* Finds a value by its number among those that a program has collected. False if it is missing. */
bool vms_flow_find_value(const uint8_t *values, size_t size, unsigned number,
			 struct vms_value_head *head, const uint8_t **bytes);
/* The same, in the form of the interface. */
bool vms_flow_get_value(const uint8_t *values, size_t size, unsigned number,
			struct vms_flow_value *ret);

/* Makes a record of a hit. NULL if its values do not match the program of the place. */
struct vms_flow_record *vms_flow_record_new(struct vms_flow_place *place, const struct vms_hit *hit,
					    uint64_t sequence);
/* Calls the callbacks of the record's probes, and notes which have failed. */
void vms_flow_record_call(struct vms_flow_record *record, struct vms_memory *memory);

/* The content of a record, without its place. */
struct vms_flow_raw {
	uint64_t sequence, time_ns;
	uint32_t vcpu;
	/* Bit n means that the n-th callback has failed. */
	uint32_t failed, common_failed, returned_failed;
	/*
	 * The collected values. In a record from a file, the texts that were saved for entries with
	 * types come after them.
	 */
	const uint8_t *values;
	size_t size; /* bytes of them */
};
/*
 * Gets the content of a record without texts, valid as long as the record lives. Returns the place,
 * not a new reference.
 */
struct vms_flow_place *vms_flow_record_raw(const struct vms_flow_record *record,
					   struct vms_flow_raw *ret);
/* Makes a record of its content. NULL if the values do not match the place. */
struct vms_flow_record *vms_flow_record_from_raw(struct vms_flow_place *place,
						 const struct vms_flow_raw *raw);
