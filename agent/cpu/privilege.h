/* SPDX-License-Identifier: MIT */
/* Privilege of what a vCPU runs, as a rank: 0 is user code, 3 the most privileged code. */
#pragma once

#define N_RANKS 4

/* What the ranks mean in the guest's processor. */
struct privilege_levels {
	unsigned kernel;	       /* the rank of an operating system's kernel */
	unsigned char number[N_RANKS]; /* ring or exception level of each rank */
};
