/* SPDX-License-Identifier: MIT */
/*
 * Reads qcow2 images of QEMU, while QEMU writes to them: read-only, and without the locks that QEMU
 * sets. An own reader, not qemu-nbd: no other process needs to be started, watched and ended, and
 * nothing but a file descriptor is open.
 *
 * What QEMU has not yet written of its tables reads as it was before, or as zeros.
 */
#pragma once

#include "base/file_source.h"
#include <vmscope/error.h>

/* True if a file begins as an image. */
bool vms_qcow2_is_image(const struct vms_file_source *file);
/*
 * Returns the name of the file that an image is based on, newly allocated. NULL if there is none,
 * or it cannot be read: then the image cannot be opened without that file.
 */
char *vms_qcow2_backing(const struct vms_file_source *file);
/*
 * Makes a source of the disk in an image. Takes `file` and `backing`, which has a `read` of NULL if
 * there is none, also if it fails. Errors: MALFORMED, UNSUPPORTED (encrypted, data elsewhere,
 * subclusters, based on a file that is not given). It is read on the budget of `file`, which should
 * be that of `backing`, too.
 */
bool vms_qcow2_open(const struct vms_file_source *file, const struct vms_file_source *backing,
		    struct vms_file_source *ret, GError **error);
