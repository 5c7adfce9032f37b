/* SPDX-License-Identifier: MIT */
/* Makes a profile of sampled trees. */
#pragma once

#include "sample/profile_source.h"
#include <vmscope/sample.h>

/* Makes a profile. The caller frees it with vms_profile_free. */
struct vms_profile *vms_profile_new(const struct vms_profile_source *source);
/*
 * Returns the address space in which the first code of a label was seen: that is where `va` of a
 * label by address lies. VMS_NO_SPACE if the label is no code, or that of a loaded part of a
 * kernel.
 */
uint32_t vms_profile_label_space(const struct vms_profile *profile, uint32_t label);
