/* SPDX-License-Identifier: MIT */
/* What the guest of the tests' own KVM monitor (tests/tools/kvm_monitor.c) does, by vCPU. */
#pragma once

#define VCPUS_MAX 8

enum vcpus_mode {
	VCPUS_CALLS,  /* bare.c's call tree: three quarters in major > work, the rest in helper >
			 work */
	VCPUS_COUNTS, /* counts in memory and in R12, and nothing else */
	VCPUS_SPINS,  /* known registers, in one instruction */
	VCPUS_HALTS,  /* known registers, halted for good */
	VCPUS_EXITS,  /* writes to a port all the time: it is in its monitor as much as in its code
		       */
	VCPUS_SLEEPS, /* the same, and its monitor sleeps at each */
	VCPUS_MODES
};

#define VCPUS_EXIT_PORT	 0x80
#define VCPUS_SLEEP_PORT 0x81
