/* SPDX-License-Identifier: MIT */
/* What expression.c and typed_values.c share: an expression that is being compiled. */
#pragma once

#include "flow/expression.h"
#include "probe/program_writer.h"

struct compiler {
	const struct vms_expression_scope *scope;
	const char *text;
	const char *at; /* the next character */
	GArray *ops;
	unsigned nesting;
	GError **error;
};

/* Where a value is. */
enum where {
	ON_STACK,  /* the number on the stack */
	IN_MEMORY, /* in memory; the stack has its address less `bit_offset` */
	IN_PART,   /* a part of the number on the stack, which is a structure in a register */
};

/* What is known of the value of an expression. */
struct meaning {
	bool is_signed;
	bool is_string; /* its value is the address of a string */
	unsigned chunk; /* is_string: how many of its bytes can be read at once */
	unsigned limit; /* is_string: size of its array, or 0 if not known */
	guint begin;	/* index of its first operation */

	bool is_wide; /* it is a part of a wide register, and is not on the stack */
	struct vms_wide_part wide;

	bool has_type;
	bool is_result; /* it is the return value of the function */
	struct vms_type type;
	unsigned stars; /* has_type: levels of pointers before `type` is reached */
	enum where where;
	uint64_t bit_offset; /* IN_MEMORY, IN_PART */
	unsigned bits;	     /* of a bit field, else 0 */
};

/* ---- expression.c ---- */

/* Sets the error, with a position in the text. Returns false. */
bool vms_expression_fail(const struct compiler *compiler, const char *at, const char *what);
/* Takes a sign if it comes next. Does not take the beginning of a longer sign. */
bool vms_expression_take(struct compiler *compiler, const char *sign);
/* The same. Sets an error if the sign does not come next. */
bool vms_expression_expect(struct compiler *compiler, const char *sign);
void vms_expression_skip_blanks(struct compiler *compiler);
/* Compile an expression, or an operand with the signs before it. */
bool vms_expression_any(struct compiler *compiler, struct meaning *ret);
bool vms_expression_operand(struct compiler *compiler, struct meaning *ret);

/* Converts the value to a number on the stack. An array becomes its address. */
bool vms_expression_number(struct compiler *compiler, struct meaning *meaning, const char *at);

/* ---- typed_values.c ---- */

/* True if the function has an argument of this name, or if the name is "arg0" and so on. */
bool vms_typed_is_argument(const struct compiler *compiler, const char *name);
bool vms_typed_argument(struct compiler *compiler, const char *name, const char *at,
			struct meaning *ret);
/* Give a type to the value on the stack: the result of the function, or the current task. */
void vms_typed_result(struct compiler *compiler, struct meaning *ret);
void vms_typed_task(struct compiler *compiler, struct meaning *ret);
/* Takes all "->NAME", ".NAME" and "[INDEX]" that come next. */
bool vms_typed_postfix(struct compiler *compiler, struct meaning *meaning);
/* Takes "(TYPE)" and the operand that follows, if it comes next. */
bool vms_typed_cast(struct compiler *compiler, struct meaning *ret, bool *is_cast);
/* Compile "*" and "&" before an operand that was compiled. */
bool vms_typed_dereference(struct compiler *compiler, struct meaning *meaning, const char *at);
bool vms_typed_address(struct compiler *compiler, struct meaning *meaning, const char *at);
/* The same for values other than parts of wide registers. */
bool vms_typed_number(struct compiler *compiler, struct meaning *meaning, const char *at);
/* Converts text with a type to a string, for a comparison. Does not change other values. */
bool vms_typed_string(struct compiler *compiler, struct meaning *meaning, const char *at);
/* Gets the value of a name in the kernel's source: of an enumeration, or of an error. */
bool vms_typed_constant(const struct compiler *compiler, const char *name, uint64_t *ret);
/* Collects a value. */
bool vms_typed_collect(struct compiler *compiler, struct meaning *meaning, uint32_t size,
		       struct vms_expression_value *ret);

/* ---- wide_value.c ---- */

/*
 * NAME of a wide register is all of it; NAME.VIEW shows it in parts, and NAME.VIEW[N] is one of
 * them. VIEW is u8 to u64, s8 to s64, f32 and f64; f80 of x87; base and limit of descriptor tables.
 * If `name` means a wide register, takes "[N]" too, and sets `*is_wide`. False: an error.
 */
bool vms_wide_value_take(struct compiler *compiler, const char *name, const char *at,
			 struct vms_wide_part *ret, bool *is_wide);
/* Leaves a part that is one number on the stack. */
bool vms_wide_value_push(struct compiler *compiler, const struct vms_wide_part *part,
			 const char *at, bool *is_signed);
/* Collects a part. */
void vms_wide_value_collect(const struct vms_wide_part *part, GArray *ops);
