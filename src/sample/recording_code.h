/* SPDX-License-Identifier: MIT */
/*
 * The code that a recording takes along: the functions that samples have found executing. So its
 * instructions can be shown when the files have gone.
 */
#pragma once

#include "base/bytes.h"
#include "symbol/binary.h"
#include <glib.h>

/* Bytes of code in a recording. */
#define VMS_RECORDED_CODE_LIMIT (UINT64_C(16) << 20)

/*
 * Appends `size` bytes at `offset` of a file, as attachments that belong to the end of a recording.
 * `*left` is how many bytes there may still be; code that does not fit in is left out.
 */
void vms_recorded_code_put(GByteArray *out, uint64_t file, struct vms_binary *binary,
			   uint64_t offset, uint64_t size, uint64_t *left);

/* Pieces of a file as they were recorded. */
typedef struct vms_recorded_code vms_recorded_code;

struct vms_recorded_code *vms_recorded_code_new(void);
void vms_recorded_code_free(struct vms_recorded_code *code);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_recorded_code, vms_recorded_code_free)
/* Adds a piece. The bytes are copied. */
void vms_recorded_code_add(struct vms_recorded_code *code, uint64_t offset, struct vms_bytes bytes);
/* Makes a binary of which these pieces can be read. Takes the code. */
struct vms_binary *vms_recorded_code_make_binary(struct vms_recorded_code *code, const char *path);

/* Takes the payload of an attachment apart: which file, where in it, the code. False if it is none.
 */
bool vms_recorded_code_parse(struct vms_bytes payload, uint64_t *file, uint64_t *offset,
			     struct vms_bytes *code);
