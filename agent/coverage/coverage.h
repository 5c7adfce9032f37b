/* SPDX-License-Identifier: MIT */
/* Coverage: which code of the kernel's privilege ran. */
#pragma once

#include "agent/service.h"

extern const struct service coverage_service;
