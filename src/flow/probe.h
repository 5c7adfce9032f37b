/* SPDX-License-Identifier: MIT */
/* Functions of probes for the other files of flow/. */
#pragma once

#include <vmscope/flow.h>

/* Forbids changes of the probe from now on. */
void vms_probe_freeze(struct vms_probe *probe);
/* Appends operations that end the program if the condition fails, to an array of struct vms_op. */
void vms_probe_add_condition(const struct vms_probe *probe, GArray *ops);
/* Appends operations that collect the values of the entries, in the order of the entries. */
void vms_probe_add_values(const struct vms_probe *probe, GArray *ops);
/* Makes a probe that only describes the values of saved records. */
struct vms_probe *vms_probe_new_saved(const char *description);
/* An entry as it is saved. */
struct vms_saved_entry {
	uint32_t kind;
	const char *name;
	const char *type; /* of kind TYPED: the type in C, or NULL */
	bool has_pointer; /* its value is text, and the next value is the pointer to it */
	bool is_text;
};
/* Adds an entry to such a probe. False if its kind is unknown, or if it is one too many. */
bool vms_probe_add_saved(struct vms_probe *probe, const struct vms_saved_entry *entry);
/* True if the machine has to stop after a hit. */
bool vms_probe_halts(const struct vms_probe *probe);
bool vms_probe_has_callbacks(const struct vms_probe *probe);

/* Where the value of an entry is. */
enum vms_value_place {
	VMS_VALUE_COLLECTED, /* the collected value of this number */
	VMS_VALUE_CALLED,    /* the result of the callback of this number */
	VMS_VALUE_NONE,	     /* the entry has no value, as it only stops the machine */
};
enum vms_value_place vms_probe_value_place(const struct vms_probe *probe, size_t index,
					   unsigned *number);
/* True if the value of an entry is text, and the next value is the pointer to it. */
bool vms_probe_has_pointer(const struct vms_probe *probe, size_t index);
/* True if values of an entry are saved with their text: the entry has a type, or is a stack. */
bool vms_probe_has_text(const struct vms_probe *probe, size_t index);
/* True if the values of an entry are signed numbers. */
bool vms_probe_is_signed(const struct vms_probe *probe, size_t index);
/* Gets a known value that is one floating-point number. False: it is not. */
bool vms_probe_get_float(const struct vms_probe *probe, size_t index,
			 const struct vms_flow_value *value, double *ret);
/*
 * Appends the numbers of the first raw values of stacks (flow/stack.h) to an array of unsigned.
 * `first` is the number of the probe's first value. Returns the number after its last value.
 */
unsigned vms_probe_find_stacks(const struct vms_probe *probe, unsigned first, GArray *stacks);
/* Returns how many values are collected, where a walked stack is one value. */
unsigned vms_probe_collected(const struct vms_probe *probe);
/*
 * Calls all callbacks. Bit n of the result means that the n-th has failed. `*why` is the first
 * error.
 */
uint32_t vms_probe_call(const struct vms_probe *probe, const struct vms_flow_record *record,
			struct vms_memory *memory, GError **why);
