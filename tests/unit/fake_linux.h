/* SPDX-License-Identifier: MIT */
/* A Linux guest made of the symbols and types that a test gives it, in a fake machine's memory. */
#pragma once

#include "btf_encoder.h"
#include "fake_machine.h"
#include "guest/linux/detect.h"

struct fake_symbol {
	const char *name;
	uint64_t va;
};

/*
 * `symbols` end with a NULL name. Takes `btf`, which may be NULL. No part of the guest is loaded
 * yet. The machine is the caller's.
 */
struct vms_linux *fake_linux_new(struct vms_machine *machine, const struct fake_symbol *symbols,
				 GByteArray *btf);
