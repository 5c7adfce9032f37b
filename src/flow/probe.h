/* SPDX-License-Identifier: MIT */
/* What the other files of flow/ need of a probe. */
#pragma once

#include <vmscope/flow.h>

/* From now on no entries can be added. */
void vms_probe_freeze(struct vms_probe *probe);
/* Append operations to an array of struct vms_op: that end the program if the condition fails. */
void vms_probe_add_condition(const struct vms_probe *probe, GArray *ops);
/* The same that collect the values, one for every entry that has bytes, in their order. */
void vms_probe_add_values(const struct vms_probe *probe, GArray *ops);
/* Makes a probe that only says what records that were saved have. */
struct vms_probe *vms_probe_new_saved(const char *description);
/* What a file says of an entry. */
struct vms_saved_entry {
	uint32_t kind;
	const char *name;
	const char *type; /* of kind TYPED: as C writes it; NULL: it has none */
	bool has_pointer; /* its value is text, and after it comes the pointer that leads to it */
	bool is_text;
};
/* Adds an entry to it. False: there is no such kind, or there are too many callbacks. */
bool vms_probe_add_saved(struct vms_probe *probe, const struct vms_saved_entry *entry);
/* True if the machine has to stop after a hit. */
bool vms_probe_halts(const struct vms_probe *probe);
bool vms_probe_has_callbacks(const struct vms_probe *probe);

/* Where the value of an entry is. */
enum vms_value_place {
	VMS_VALUE_COLLECTED, /* it is the one of this number that was collected */
	VMS_VALUE_CALLED,    /* it is what the callback of this number has returned */
	VMS_VALUE_NONE,	     /* the entry has no value, but does something */
};
enum vms_value_place vms_probe_value_place(const struct vms_probe *probe, size_t index,
					   unsigned *number);
/* True if the value after that of an entry, which is text, is the pointer that leads to it. */
bool vms_probe_has_pointer(const struct vms_probe *probe, size_t index);
/* True if each value of an entry that is saved comes with its text: it has a type, or is a stack.
 */
bool vms_probe_has_text(const struct vms_probe *probe, size_t index);
/* True if its values are numbers that have a sign. */
bool vms_probe_is_signed(const struct vms_probe *probe, size_t index);
/*
 * Appends the numbers of the first raw values of stacks (flow/stack.h) to an array of unsigned.
 * `first` is the number of the probe's first value. Returns that of the first one after them.
 */
unsigned vms_probe_find_stacks(const struct vms_probe *probe, unsigned first, GArray *stacks);
/* How many values are collected, when stacks have been walked. */
unsigned vms_probe_collected(const struct vms_probe *probe);
/* Calls all callbacks. Bit n of the result: the n-th has failed, and *why says why the first did.
 */
uint32_t vms_probe_call(const struct vms_probe *probe, const struct vms_flow_record *record,
			struct vms_memory *memory, GError **why);
