/* SPDX-License-Identifier: MIT */
/* Where the ticking guest keeps what is read from outside: memory that no image is loaded into. */
#pragma once

#define TRAMPOLINE   0x8000 /* real-mode code: where vCPUs start, and where the guest wakes up */
#define TICKER	     0x9000
#define TICKER_VCPUS 2

#ifndef __ASSEMBLER__
#include <stdint.h>

struct ticker {
	uint64_t ticks[TICKER_VCPUS]; /* interrupts of each vCPU's timer since the guest booted */
	uint64_t wakes;		      /* how often it woke up from S3 */
};
#endif
