/* SPDX-License-Identifier: MIT */
#include "btf-types.h"

struct sample btf_sample;
