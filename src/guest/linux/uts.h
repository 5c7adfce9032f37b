/* SPDX-License-Identifier: MIT */
/* Which Linux it is: the banner and the uts namespace (what uname prints). */
#pragma once

#include "base/bytes.h"

/* What /proc/version says, newly allocated, or NULL: the mark of a Linux kernel's image. */
char *vms_linux_banner(struct vms_bytes image);
/* The one that begins at `offset`; NULL where none does. */
char *vms_linux_banner_at(struct vms_bytes image, size_t offset);

struct vms_uts {
	char *release, *version, *hostname; /* newly allocated; NULL where unknown */
};
/* The parts that the banner tells. */
void vms_uts_from_banner(const char *banner, struct vms_uts *ret);
/* All, from the begin of init_uts_ns; false when they contradict the banner. */
bool vms_uts_from_namespace(struct vms_bytes ns, const char *banner, struct vms_uts *ret);
void vms_uts_clear(struct vms_uts *uts);
