/* SPDX-License-Identifier: MIT */
/* Types whose BTF the compiler writes, for the test of BTF. */
#pragma once

#include <stdint.h>

enum sample_kind { SAMPLE_ONE = 1, SAMPLE_MANY = 77 };

typedef struct {
	uint8_t x;
	struct {
		uint16_t y;
	} deep;
} sample_inner;

typedef const volatile struct sample_aliased {
	uint32_t x, y;
} sample_alias;

struct sample {
	uint8_t byte;
	struct sample *pointer;
	uint16_t matrix[3][5];
	unsigned bits_a : 3, bits_b : 5;
	union {
		uint32_t nameless_a;
		struct {
			uint64_t before;
			union {
				uint8_t nameless_deep;
			};
		};
	};
	sample_inner named;
	sample_alias alias;
	enum sample_kind kind;
	void (*callback)(int);
	uint8_t tail[];
};

extern struct sample btf_sample;
