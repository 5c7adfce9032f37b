/* SPDX-License-Identifier: MIT */
/* Makes a profile of sampled trees. */
#pragma once

#include "sample/profile_source.h"
#include <vmscope/sample.h>

/* Makes a profile. The caller frees it with vms_profile_free. */
struct vms_profile *vms_profile_new(const struct vms_profile_source *source);
