/* SPDX-License-Identifier: MIT */
/* Whether any vCPU can come to the place of a probe. */
#pragma once

#include "session.h"

/*
 * Warns if an address is not mapped, is that of a variable, or lies within an instruction of the
 * function that it is in: a probe there is never hit. It may be right all the same, as code comes
 * and is changed.
 */
void flow_place_check(struct session *session, uint64_t va);
