/* SPDX-License-Identifier: MIT */
/*
 * Records of the Fuchsia Trace Format (FXT) as plain values, which the writer encodes and the
 * reader decodes. A file is a sequence of records. Each is a whole number of 64-bit little-endian
 * words. Its header has its type and its size.
 *
 * https://fuchsia.dev/fuchsia-src/reference/tracing/trace-format
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first word of every file: a metadata record with the magic number. */
#define VMS_FXT_MAGIC UINT64_C(0x0016547846040010)

#define VMS_FXT_STRING_MAX    0x7fff /* bytes of a string, and the largest index of one */
#define VMS_FXT_THREAD_MAX    0xff   /* the largest index of a thread */
#define VMS_FXT_ARGUMENTS_MAX 15
#define VMS_FXT_WORDS_MAX     0xfff	 /* of a record that is not large */
#define VMS_FXT_BLOB_MAX      (32 << 10) /* bytes; some readers fail after larger ones */

/* Types of records, bits 0 to 3 of the header. */
enum vms_fxt_type {
	VMS_FXT_METADATA = 0,
	VMS_FXT_INITIALIZATION = 1,
	VMS_FXT_STRING = 2,
	VMS_FXT_THREAD = 3,
	VMS_FXT_EVENT = 4,
	VMS_FXT_BLOB = 5,
	VMS_FXT_USERSPACE_OBJECT = 6,
	VMS_FXT_KERNEL_OBJECT = 7,
	VMS_FXT_SCHEDULING = 8,
	VMS_FXT_LOG = 9,
	VMS_FXT_LARGE_BLOB = 15,
};

enum vms_fxt_metadata {
	VMS_FXT_PROVIDER_INFO = 1,
	VMS_FXT_PROVIDER_SECTION = 2,
	VMS_FXT_PROVIDER_EVENT = 3,
	VMS_FXT_TRACE_INFO = 4,
};

enum vms_fxt_event {
	VMS_FXT_INSTANT = 0,
	VMS_FXT_COUNTER = 1,
	VMS_FXT_DURATION_BEGIN = 2,
	VMS_FXT_DURATION_END = 3,
	VMS_FXT_DURATION_COMPLETE = 4,
	VMS_FXT_ASYNC_BEGIN = 5,
	VMS_FXT_ASYNC_INSTANT = 6,
	VMS_FXT_ASYNC_END = 7,
	VMS_FXT_FLOW_BEGIN = 8,
	VMS_FXT_FLOW_STEP = 9,
	VMS_FXT_FLOW_END = 10,
	VMS_FXT_N_EVENTS
};

enum vms_fxt_scheduling { VMS_FXT_CONTEXT_SWITCH = 1, VMS_FXT_WAKEUP = 2 };

enum vms_fxt_large_blob { VMS_FXT_BLOB_WITH_METADATA = 0, VMS_FXT_BLOB_ATTACHMENT = 1 };

enum vms_fxt_kernel_object { VMS_FXT_PROCESS_OBJECT = 1, VMS_FXT_THREAD_OBJECT = 2 };

enum vms_fxt_argument_type {
	VMS_FXT_NULL = 0,
	VMS_FXT_I32 = 1,
	VMS_FXT_U32 = 2,
	VMS_FXT_I64 = 3,
	VMS_FXT_U64 = 4,
	VMS_FXT_DOUBLE = 5,
	VMS_FXT_TEXT = 6,
	VMS_FXT_POINTER = 7,
	VMS_FXT_KOID = 8,
	VMS_FXT_BOOL = 9,
	VMS_FXT_BYTES = 10,
	VMS_FXT_N_ARGUMENT_TYPES
};

/*
 * A string of a record. With an index, it is in the table of strings; without, it is in the record.
 * A reader sets the text in both cases. The text may lack a 0 at the end, and may contain 0.
 */
struct vms_fxt_string {
	uint16_t index; /* 1 to VMS_FXT_STRING_MAX, or 0 */
	uint16_t length;
	const char *text;
};

/*
 * A thread. With an index, it is in the table of threads. Koids are Fuchsia's numbers of objects.
 */
struct vms_fxt_thread {
	uint8_t index; /* 1 to VMS_FXT_THREAD_MAX, or 0 */
	uint64_t pid, tid;
};

struct vms_fxt_argument {
	enum vms_fxt_argument_type type;
	struct vms_fxt_string name;
	union {
		int64_t i;		    /* I32, I64 */
		uint64_t u;		    /* U32, U64, POINTER, KOID, BOOL; size of BYTES */
		double d;		    /* DOUBLE */
		struct vms_fxt_string text; /* TEXT */
	};
	const void *bytes; /* BYTES */
};

/* A record. Its type decides which members are set; all others are 0. */
struct vms_fxt_record {
	enum vms_fxt_type type;
	/*
	 * METADATA, EVENT, SCHEDULING, LARGE_BLOB: which of them, an enum above. KERNEL_OBJECT: the
	 * type of the object. BLOB: the type of the blob.
	 */
	uint8_t kind;
	/* PROVIDER_EVENT: the event. CONTEXT_SWITCH: the outgoing thread's state. */
	uint8_t detail;
	/* PROVIDER_*: the provider. STRING and THREAD: the index. SCHEDULING: the CPU. */
	uint32_t number;
	/* INITIALIZATION: ticks per second. */
	/* EVENT: the id of a counter, an async or a flow event; the end of a complete duration. */
	/* *_OBJECT: pointer or koid. CONTEXT_SWITCH: the incoming thread. WAKEUP: the thread. */
	uint64_t value;
	uint64_t time;	       /* EVENT, SCHEDULING, LOG, BLOB_WITH_METADATA, in ticks */
	uint64_t outgoing_tid; /* CONTEXT_SWITCH */
	struct vms_fxt_thread thread;
	struct vms_fxt_string category;
	/* The name. PROVIDER_INFO: the provider's. STRING: the string. LOG: the text. */
	struct vms_fxt_string name;
	unsigned n_arguments;
	struct vms_fxt_argument arguments[VMS_FXT_ARGUMENTS_MAX];
	const void *payload; /* BLOB, LARGE_BLOB */
	uint64_t payload_size;
};

/* Returns the number of words for `size` bytes. */
static inline uint64_t vms_fxt_words(uint64_t size)
{
	return size / 8 + (size % 8 != 0);
}
