/* SPDX-License-Identifier: MIT */
/* Names of functions, as attachments of a recording. */
#pragma once

#include "sample/tree.h"

/* An attachment that grows, and is written when it is full. */
struct vms_name_attachment {
	GByteArray *out;
	const char *name;
	char *begin; /* of its text */
	GString *text;
	struct vms_tree *written; /* addresses of symbols, as keys */
};

/* `name` is VMS_RECORDS_SYMBOLS or VMS_RECORDS_KERNEL. Takes `begin`, with which each text begins.
 */
void vms_name_attachment_init(struct vms_name_attachment *attachment, GByteArray *out,
			      const char *name, char *begin);
/* Adds a function, once for each address. */
void vms_name_attachment_add(struct vms_name_attachment *attachment, uint64_t address,
			     uint64_t size, const char *function);
/* Writes what is left, and frees what it has. */
void vms_name_attachment_end(struct vms_name_attachment *attachment);
