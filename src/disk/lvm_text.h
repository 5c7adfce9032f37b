/* SPDX-License-Identifier: MIT */
/*
 * The text in which LVM describes a volume group (lvmconfig(8), lvm2's libdm/libdm-config.c): named
 * sections in each other, and named values. It comes from a disk that a guest has written.
 */
#pragma once

#include "base/bytes.h"

/* A section, or a value. */
struct vms_lvm_node {
	char *name;
	GPtrArray *values;   /* strings, as they are written without quotes; NULL for a section */
	GPtrArray *children; /* struct vms_lvm_node, as they are written; NULL for a value */
	GPtrArray *by_name;  /* the same, by their names; not owned; NULL: there are few */
};

struct vms_lvm_text {
	struct vms_lvm_node *root; /* a section without a name */
	struct vms_budget *budget; /* of the text; pays for all nodes while they are kept */
	uint64_t bytes;		   /* that were taken of it */
};

/* Parses a text on its budget, which must outlive the result. NULL if the text is malformed. */
struct vms_lvm_text *vms_lvm_text_parse(struct vms_bytes bytes);
void vms_lvm_text_free(struct vms_lvm_text *text);

/*
 * Each finds a child by its name: the first one of that name. NULL or false if there is none, or
 * one of another kind.
 */
const struct vms_lvm_node *vms_lvm_node_section(const struct vms_lvm_node *node, const char *name);
const char *vms_lvm_node_string(const struct vms_lvm_node *node, const char *name);
bool vms_lvm_node_number(const struct vms_lvm_node *node, const char *name, uint64_t *ret);
/* Returns a value of the list, or NULL if it is shorter. */
const char *vms_lvm_node_item(const struct vms_lvm_node *node, const char *name, unsigned i);
