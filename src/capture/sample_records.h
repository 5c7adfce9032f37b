/* SPDX-License-Identifier: MIT */
/*
 * How a session's samples, and what names need, are written as records of the Fuchsia Trace Format.
 * A sample is a large blob with metadata: time, process, thread, and as payload the addresses of
 * its stack, leaf first. All else is an instant event of the category "vmscope", so that viewers
 * show it, or an attachment.
 */
#pragma once

#include "capture/fxt.h"
#include <glib.h>
#include <vmscope/sample_record.h>

#define VMS_RECORDS_CATEGORY "vmscope"
/* Attachments. The payload is text: a number of a file, then a line "ADDRESS SIZE NAME" each. */
#define VMS_RECORDS_SYMBOLS "symbols"
/* The same of the kernel, with "[MODULE]" behind the name where it is one's, without the number. */
#define VMS_RECORDS_KERNEL "kernel symbols"
/* An attachment of code: the number of a file, an offset in it, 64 bits each, and the bytes there.
 */
#define VMS_RECORDS_CODE "code"

/*
 * Appends what begins a file, and what may come again in it: magic number, ticks and the strings
 * that samples refer to. A reader of a damaged file goes on at such a place.
 */
void vms_records_put_start(GByteArray *out);
void vms_records_put_sample(GByteArray *out, const struct vms_sample_record *sample);
/* Decodes a sample, all but its space. False if the record is no sample. */
bool vms_records_get_sample(const struct vms_fxt_record *record, struct vms_sample_record *ret);
/* True if the record is a sample. */
bool vms_records_is_sample(const struct vms_fxt_record *record);

/* Makes an event of a process, to which arguments are added. */
struct vms_fxt_record vms_records_event(const char *name, uint64_t time_ns, uint32_t pid);
void vms_records_add_number(struct vms_fxt_record *event, const char *name, uint64_t value);
/* Adds a text, unless it is NULL. The event refers to it. */
void vms_records_add_text(struct vms_fxt_record *event, const char *name, const char *text);

/* True if the record is an event of ours with that name. */
bool vms_records_is_event(const struct vms_fxt_record *record, const char *name);
/* Returns a number, or 0 if there is none. */
uint64_t vms_records_number(const struct vms_fxt_record *event, const char *name);
/* Returns a text, newly allocated, fit for a terminal; NULL if there is none. */
char *vms_records_text(const struct vms_fxt_record *event, const char *name);
