/* SPDX-License-Identifier: MIT */
/*
 * A Linux guest of a few pages of memory whose words are the fuzzer's, so close to each other that
 * wild pointers often meet. Input: options (2 bytes), then words: 2 bytes that say which one, 1
 * that says what it is, 2 of its value. The options say which symbols and types the guest's kernel
 * has.
 */
#pragma once

#include "../unit/fake_linux.h"

#define WORDS_RAM  UINT64_C(0xffff888000000000)
#define WORDS_SIZE 0x4000

/* A guest's kernel has it when it has been given these options, and none of those. */
struct words_condition {
	unsigned with, without;
};

struct words_symbol {
	const char *name;
	uint64_t va;
	struct words_condition when;
};

struct words_structure {
	const char *type;
	struct words_condition when;
	struct encoder_member members[20]; /* the last one nameless */
};

struct words_kernel {
	const struct vms_arch *arch;
	const struct words_symbol *symbols;	  /* the last one nameless */
	const struct words_structure *structures; /* the same */
	const char *enumerators[4];		  /* of the values 0, 1, 2 */
};

/* The options at the begin of an input; 0 where it has none. */
unsigned words_options(const uint8_t *data, size_t size);
/* Its machine has one vCPU without registers, for which addresses are physical ones. */
struct vms_linux *words_linux_new(const struct words_kernel *kernel, const uint8_t *data,
				  size_t size);
/* A name that goes to terminals: fails if there is anything in it that should not. */
void words_check_name(const char *name);
/* Fails if the guest's memory was read more often than any kernel's should be. */
void words_linux_free(struct vms_linux *guest);
