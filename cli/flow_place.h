/* SPDX-License-Identifier: MIT */
/* Checks whether a probe at an address can be hit. */
#pragma once

#include "session.h"

/*
 * Warns if an address is not mapped, belongs to a variable, or lies inside an instruction: a probe
 * there is never hit. This is not an error, because code may be loaded or changed later.
 */
void flow_place_check(struct session *session, uint64_t va);
