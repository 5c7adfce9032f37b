/* SPDX-License-Identifier: MIT */
/*
 * Encodes the records of a sampler session in the Fuchsia Trace Format. A sample is a large blob
 * with metadata: time, process and thread. Its payload is the addresses of its stack, leaf first.
 * Other records are attachments, or instant events of the category "vmscope", which viewers show.
 */
#pragma once

#include "capture/fxt.h"
#include <glib.h>
#include <vmscope/sample_record.h>

#define VMS_RECORDS_CATEGORY "vmscope"
/*
 * An attachment of symbols. The payload is text: the number of a file, then lines "ADDRESS SIZE
 * NAME".
 */
#define VMS_RECORDS_SYMBOLS "symbols"
/* The same for the kernel: without the number; "[MODULE]" follows the name of a module's symbol. */
#define VMS_RECORDS_KERNEL "kernel symbols"
/*
 * An attachment of code: the number of a file and an offset in it, of 64 bits each, then the bytes.
 */
#define VMS_RECORDS_CODE "code"

/*
 * Whose threads records are of: the number of their provider in the file. A file may have records
 * of both systems. A number of a process, a thread or a file only means something in its system.
 */
enum vms_records_system { VMS_RECORDS_HOST = 1, VMS_RECORDS_GUEST = 2 };

/*
 * Appends the start of a file: magic number, the system of the records that follow, ticks and the
 * strings of samples. It may be repeated in the file, so that a reader continues there after
 * damage.
 */
void vms_records_put_start(GByteArray *out, enum vms_records_system of);
void vms_records_put_sample(GByteArray *out, const struct vms_sample_record *sample);
/* Decodes a sample without its space. False if the record is not a sample. */
bool vms_records_get_sample(const struct vms_fxt_record *record, struct vms_sample_record *ret);
/* True if the record is a sample. */
bool vms_records_is_sample(const struct vms_fxt_record *record);
/*
 * True if the record begins a part of the file whose records are of the system `*ret`. Providers
 * that are not known count as a host.
 */
bool vms_records_begins_system(const struct vms_fxt_record *record, enum vms_records_system *ret);

/* Appends the name of a thread, as viewers of the format expect it. */
void vms_records_put_thread(GByteArray *out, uint32_t pid, uint32_t tid, const char *name);
/*
 * Decodes the name of a thread, of which at most 255 bytes count. It is safe for a terminal, and
 * newly allocated. NULL if the record is not the name of a thread.
 */
char *vms_records_get_thread(const struct vms_fxt_record *record, uint32_t *tid);

/* Makes an event of a process without arguments. */
struct vms_fxt_record vms_records_event(const char *name, uint64_t time_ns, uint32_t pid);
void vms_records_add_number(struct vms_fxt_record *event, const char *name, uint64_t value);
/* Adds a text unless it is NULL. The text must outlive the event. */
void vms_records_add_text(struct vms_fxt_record *event, const char *name, const char *text);

/* True if the record is an event of ours with that name. */
bool vms_records_is_event(const struct vms_fxt_record *record, const char *name);
/* Returns a number, or 0 if there is none. */
uint64_t vms_records_number(const struct vms_fxt_record *event, const char *name);
/* Returns a text, as it is in the file, or NULL if there is none. */
const struct vms_fxt_string *vms_records_string(const struct vms_fxt_record *event,
						const char *name);
