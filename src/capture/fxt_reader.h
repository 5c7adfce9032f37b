/* SPDX-License-Identifier: MIT */
/*
 * Decodes a file of the Fuchsia Trace Format, record by record. The file may be damaged: what
 * cannot be right is told with its offset, and reading goes on where that is safe.
 *
 * After a damaged record the next one is read if a whole record without a fault begins where the
 * damaged one ends. Else all is left out up to the next magic number, which our writer puts into
 * files again and again (vms_fxt_put_restart).
 */
#pragma once

#include "base/bytes.h"
#include "capture/fxt.h"

struct vms_fxt_reader;

/* Begins to read. `bytes` must stay while the reader and the records that it gave are used. */
struct vms_fxt_reader *vms_fxt_reader_new(struct vms_bytes bytes);
void vms_fxt_reader_free(struct vms_fxt_reader *reader);

enum vms_fxt_step {
	VMS_FXT_RECORD,
	VMS_FXT_DAMAGED,   /* bytes were left out */
	VMS_FXT_TRUNCATED, /* the file ends in the middle of a record; nothing follows */
	VMS_FXT_END,
};

/* What was left out of a file, and why. */
struct vms_fxt_damage {
	uint64_t offset, size; /* bytes */
	const char *reason;    /* static, like "its arguments are longer than the record" */
};

/*
 * Gets the next record, or else says what was left out. Times are as the file has them, in ticks.
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
