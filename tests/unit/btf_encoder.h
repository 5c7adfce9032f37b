/* SPDX-License-Identifier: MIT */
/* Writes BTF (Documentation/bpf/btf.rst), for tests that need types of their own choice. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Kinds of types. */
enum {
	INT = 1,
	PTR,
	ARRAY,
	STRUCT,
	UNION,
	ENUM,
	TYPEDEF = 8,
	CONST = 10,
	VAR = 14,
	DATASEC,
	ENUM64 = 19
};

struct encoder {
	GByteArray *types;
	GString *strings;
	uint32_t n_types;
};

struct encoder encoder_new(void);
/* One 32-bit word after another, as the format lays them out. */
void put(struct encoder *encoder, uint32_t value);
uint32_t name_offset(struct encoder *encoder, const char *name);
/* The head of a type; its number. */
uint32_t put_type(struct encoder *encoder, const char *name, unsigned kind, unsigned vlen,
		  bool kflag, uint32_t size);
void put_member(struct encoder *encoder, const char *name, uint32_t type, uint32_t offset);
/* A variable of `type`; its number. It lies where a section (DATASEC) says. */
uint32_t put_variable(struct encoder *encoder, const char *name, uint32_t type);
void put_place(struct encoder *encoder, uint32_t variable, uint32_t offset, uint32_t size);
/* The blob; consumes the encoder. */
GByteArray *finish(struct encoder *encoder);

/*
 * A structure whose members are integers of 1, 2, 4 or 8 bytes, arrays of bytes, or structures with
 * members of their own.
 */
struct encoder_member {
	const char *name;
	uint32_t offset, size;		 /* bytes */
	const struct encoder_member *in; /* of a structure: its members, the last one nameless */
};
uint32_t put_structure(struct encoder *encoder, const char *name, uint32_t size, unsigned n,
		       const struct encoder_member *members);
