/* SPDX-License-Identifier: MIT */
/* The privilege of the code that a vCPU runs, as a rank: 0 is user code, 3 the most privileged. */
#pragma once

#define N_RANKS 4

/* The meaning of the ranks in the guest's processor. */
struct privilege_levels {
	unsigned kernel;	       /* the rank of an operating system's kernel */
	unsigned char number[N_RANKS]; /* ring or exception level of each rank */
};
