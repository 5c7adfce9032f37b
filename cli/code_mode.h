/* SPDX-License-Identifier: MIT */
/* How the code at an address is decoded: as the vCPU executes, or as --bits says. */
#pragma once

#include "session.h"

/* Parses the option --bits. `*bits` becomes 0 if `text` is NULL. Errors: usage. */
bool code_mode_parse(const char *text, int *bits, GError **error);
/* Refuses --bits of an architecture that has no choice. Errors: usage. */
bool code_mode_check(struct session *session, int bits, GError **error);
/* Gets how the vCPU executes now, while the machine is held. */
bool code_mode_get(struct session *session, unsigned vcpu, struct vms_code_mode *ret,
		   GError **error);
/*
 * Chooses how to decode the code at `va`: as `bits` says, or else as the vCPU executes. Code beyond
 * 4 GiB is always 64-bit code. 16-bit code outside the vCPU's segment gets the 64 KiB around it as
 * its segment.
 */
void code_mode_choose(unsigned vcpu, uint64_t va, int bits, struct vms_code_mode *mode);
