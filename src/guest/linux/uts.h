/* SPDX-License-Identifier: MIT */
/* Tells which Linux it is, by the banner and the uts namespace (what uname prints). */
#pragma once

#include "base/bytes.h"

/*
 * Finds the banner of a Linux kernel in its image: what /proc/version shows. Newly allocated; NULL
 * if there is none, so that the image is no Linux.
 */
char *vms_linux_banner(struct vms_bytes image);
/* Returns the banner that begins at `offset`, newly allocated, or NULL. */
char *vms_linux_banner_at(struct vms_bytes image, size_t offset);

struct vms_uts {
	char *release, *version, *hostname; /* newly allocated; NULL if unknown */
};
/* Fills in what the banner tells: all but the hostname. */
void vms_uts_from_banner(const char *banner, struct vms_uts *ret);
/* Fills in everything from the begin of init_uts_ns. False if that contradicts the banner. */
bool vms_uts_from_namespace(struct vms_bytes ns, const char *banner, struct vms_uts *ret);
