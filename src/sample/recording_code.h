/* SPDX-License-Identifier: MIT */
/*
 * The code in a recording: the functions that were executing in samples. So their instructions can
 * be shown without the files.
 */
#pragma once

#include "base/bytes.h"
#include "symbol/binary.h"
#include <glib.h>

/* The limit of bytes of code in a recording. */
#define VMS_RECORDED_CODE_LIMIT (UINT64_C(16) << 20)

/*
 * Appends `size` bytes at `offset` of a file, as attachments for the end of a recording. `*left` is
 * the number of bytes that may still be added, and is counted down. Code beyond it is left out.
 */
void vms_recorded_code_put(GByteArray *out, uint64_t file, struct vms_binary *binary,
			   uint64_t offset, uint64_t size, uint64_t *left);

/* The recorded pieces of a file. */
typedef struct vms_recorded_code vms_recorded_code;

struct vms_recorded_code *vms_recorded_code_new(void);
void vms_recorded_code_free(struct vms_recorded_code *code);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_recorded_code, vms_recorded_code_free)
/* Adds a piece. The bytes are copied. */
void vms_recorded_code_add(struct vms_recorded_code *code, uint64_t offset, struct vms_bytes bytes);
/*
 * Makes a binary with these pieces. Takes the code. `budget`, which must outlive it, pays for what
 * is read of it; NULL: it is ours.
 */
struct vms_binary *vms_recorded_code_make_binary(struct vms_recorded_code *code, const char *path,
						 struct vms_budget *budget);

/*
 * Splits the payload of an attachment into the number of a file, an offset and the code. False if
 * it is invalid.
 */
bool vms_recorded_code_parse(struct vms_bytes payload, uint64_t *file, uint64_t *offset,
			     struct vms_bytes *code);
