/* SPDX-License-Identifier: MIT */
/*
 * Decodes a file of the Fuchsia Trace Format, record by record. The file may be damaged: damage is
 * reported with its offset, and reading continues where that is safe.
 *
 * If a valid record begins at the end of a damaged one, reading continues there. Otherwise it
 * continues at the next magic number, which our writer repeats in its files (vms_fxt_put_restart).
 *
 * The budget of the bytes pays. When it is used up, the file ends there.
 */
#pragma once

#include "base/bytes.h"
#include "capture/fxt.h"

struct vms_fxt_reader;

/* Begins to read. `bytes` must outlive the reader and the records that it returns. */
struct vms_fxt_reader *vms_fxt_reader_new(struct vms_bytes bytes);
void vms_fxt_reader_free(struct vms_fxt_reader *reader);

enum vms_fxt_step {
	VMS_FXT_RECORD,
	VMS_FXT_DAMAGED,   /* bytes were skipped */
	VMS_FXT_TRUNCATED, /* the file ends in the middle of a record; nothing follows */
	VMS_FXT_END,
};

/* A part of a file that was skipped. */
struct vms_fxt_damage {
	uint64_t offset, size; /* bytes */
	const char *reason;    /* static, like "its arguments are longer than the record" */
};

/*
 * Gets the next record, or the next damage. Times are those of the file, in ticks.
 * Strings and payloads point into the file. A record of the file's strings, threads or ticks is
 * given like any other, and is known from then on.
 */
enum vms_fxt_step vms_fxt_reader_next(struct vms_fxt_reader *reader, struct vms_fxt_record *ret,
				      struct vms_fxt_damage *damage);
/* Where the record begins that was read last, in bytes from the file's begin. */
uint64_t vms_fxt_reader_offset(const struct vms_fxt_reader *reader);
/* Converts ticks of the file into ns. */
uint64_t vms_fxt_reader_ns(const struct vms_fxt_reader *reader, uint64_t ticks);
/* True if the file begins with the magic number. */
bool vms_fxt_is_file(struct vms_bytes bytes);
