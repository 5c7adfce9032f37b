/* SPDX-License-Identifier: MIT */
/*
 * Saved reports: records of a flow in a file, with all that is needed to show and to filter them
 * without the guest. docs/flow-report.md describes the file.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/flow.h>

#define VMS_SAVED_MAGIC	     "VMSFLOW\n"
#define VMS_SAVED_VERSION    1u
#define VMS_SAVED_HEADER     16u	/* bytes: the magic, the version, their check */
#define VMS_SAVED_PIECE_HEAD 12u	/* bytes of a piece before its body */
#define VMS_SAVED_BODY_MAX   (1u << 20) /* bytes of a body */
#define VMS_SAVED_NOTHING    UINT32_MAX /* stands for a text or a probe that is NULL */
#define VMS_SAVED_AFTER	     (1u << 0)	/* flags of a place */
#define VMS_SAVED_HAS_TASK   (1u << 1)
#define VMS_SAVED_POINTER    (1u << 0) /* flags of an entry of kind TYPED */
#define VMS_SAVED_TEXT	     (1u << 1)

/* The kind of a piece. Readers skip kinds that they do not know. */
enum vms_saved_kind {
	VMS_SAVED_BEGIN_PIECE = 1, /* the first: when the trace began */
	VMS_SAVED_PROBE_PIECE,
	VMS_SAVED_PLACE_PIECE,
	VMS_SAVED_RECORD_PIECE,
	VMS_SAVED_END_PIECE, /* the last: the number of records, and the progress of the flow */
	VMS_SAVED_N_KINDS,
};

/* The check of a piece: CRC-32 of its kind, its size and its body, which are consecutive. */
uint32_t vms_saved_check(const void *bytes, size_t size);

/* Writes a report record by record. Not for several threads. */
typedef struct vms_flow_writer vms_flow_writer;

/*
 * Begins a file, which gets its name when it is complete. `guest` names the places, and `*process`
 * those in programs, when their first record is added. Both must outlive the writer. `process` may
 * be NULL. If `guest` is NULL, places keep the names that they have. Errors: IO, PERMISSION.
 */
struct vms_flow_writer *vms_flow_writer_open(const char *path, struct vms_guest *guest,
					     const struct vms_process *const *process,
					     uint64_t begin_ns, uint64_t begin_real_ns,
					     GError **error);
/*
 * Adds a record. Errors: IO (the disk is full, …), INVALID_ARGUMENT (a probe has more text than a
 * file can hold). Nothing can be added after an error.
 */
bool vms_flow_writer_add(struct vms_flow_writer *writer, const struct vms_flow_record *record,
			 GError **error);
/*
 * Ends the file. After an error of vms_flow_writer_add, the file has only the records before it,
 * and no end; without records, no file is made. Returns false if a record or the end is missing.
 * Then the error says how many records the file has. Errors: as above.
 */
bool vms_flow_writer_end(struct vms_flow_writer *writer, const struct vms_flow_progress *progress,
			 GError **error);
/* Frees the writer, and the file unless it was ended. NULL is allowed. */
void vms_flow_writer_free(struct vms_flow_writer *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_flow_writer, vms_flow_writer_free)

/* As vms_flow_report_load, of bytes. `name` is the file's name for errors. */
struct vms_flow_report *vms_flow_saved_parse(struct vms_bytes bytes, const char *name,
					     struct vms_flow_saved *saved, GError **error);
