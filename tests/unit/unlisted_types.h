/* SPDX-License-Identifier: MIT */
/* BTF with the types, small ones, that tell variables which a kernel's symbols leave out. */
#pragma once

#include "btf_encoder.h"

/* In little-endian words of 8 bytes, but for what is said. */
enum hidden_offset {
	/* struct module: list, and within another structure its own address */
	MODULE_LIST = 0x10,
	MODULE_SELF = 0x48,
	/* struct clocksource */
	SOURCE_MASK = 0,
	SOURCE_MULT = 8,   /* 4 bytes */
	SOURCE_SHIFT = 12, /* 4 bytes */
	SOURCE_NAME = 16,
	SOURCE_LIST = 24,
	SOURCE_RATING = 40, /* 4 bytes */
	/* struct tk_read_base */
	READ_CLOCK = 0,
	READ_MASK = 8,
	READ_MULT = 16,	 /* 4 bytes */
	READ_SHIFT = 20, /* 4 bytes */
	/* struct timekeeper */
	KEEPER_MONO = 0,
	KEEPER_RAW = 24,
	KEEPER_CYCLES = 48,
	KEEPER_SHIFTED_NS = 56,
	/* the section of per-CPU variables */
	PERCPU_CPU_NUMBER = 8,
	PERCPU_KSTAT = 0x40,
	PERCPU_HRTIMER_BASES = 0x80,
	PERCPU_TICK_CPU_DEVICE = 0x100,
};

GByteArray *unlisted_types(void);
