/* SPDX-License-Identifier: MIT */
/* Writes names of functions as attachments of a recording. */
#pragma once

#include "sample/tree.h"

/* An attachment with lines of names. It is written when it is full, and the next one begins. */
struct vms_name_attachment {
	GByteArray *out;
	const char *name;
	char *begin; /* the first line of each text */
	GString *text;
	struct vms_tree *written; /* keys: addresses of the symbols in it */
};

/*
 * `name` is VMS_RECORDS_SYMBOLS or VMS_RECORDS_KERNEL. Each text starts with `begin`, which it
 * takes.
 */
void vms_name_attachment_init(struct vms_name_attachment *attachment, GByteArray *out,
			      const char *name, char *begin);
/* Adds a function, once for each address. */
void vms_name_attachment_add(struct vms_name_attachment *attachment, uint64_t address,
			     uint64_t size, const char *function);
/* Writes the remaining names, and frees the members. */
void vms_name_attachment_end(struct vms_name_attachment *attachment);
