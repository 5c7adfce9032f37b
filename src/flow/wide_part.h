/* SPDX-License-Identifier: MIT */
/* A part of a wide register, as an expression names it, and how its value is shown. */
#pragma once

#include "probe/wide_registers.h"
#include <glib.h>

enum vms_wide_view {
	VMS_VIEW_WHOLE, /* one number in hexadecimal */
	VMS_VIEW_UNSIGNED,
	VMS_VIEW_SIGNED,
	VMS_VIEW_FLOAT,
	VMS_VIEW_ADDRESS,
	VMS_VIEW_TABLE, /* a descriptor table */
};

/* `offset` and the sizes are in bytes. It is shown as numbers of `lane` bytes. */
struct vms_wide_part {
	unsigned number, offset, size, lane;
	enum vms_wide_view view;
};

/* Returns the name of its type, newly allocated. */
char *vms_wide_part_type(const struct vms_wide_part *part);
/* True if its value is one signed number. */
bool vms_wide_part_is_signed(const struct vms_wide_part *part);
/* Appends the text of a value: of `part->size` bytes. */
void vms_wide_part_format(const struct vms_wide_part *part, const uint8_t *bytes, GString *out);
/* Gets a value that is one floating-point number. False: it is not. */
bool vms_wide_part_float(const struct vms_wide_part *part, const uint8_t *bytes, double *ret);
/* Appends a little-endian number of `size` bytes in hexadecimal. */
void vms_wide_part_append_hex(const uint8_t *bytes, size_t size, GString *out);
