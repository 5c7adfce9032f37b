/* SPDX-License-Identifier: MIT */
/*
 * Flow traces: probes on the code of a guest, which collect values each time a vCPU executes it.
 *
 * A probe says what to collect. A flow is a list of places with probes, which are enabled together.
 * Every hit becomes a record. A report is a snapshot of records, and can be filtered. Probes,
 * flows, records and reports are reference-counted: a record remains valid without its flow, and
 * the records of a flow remain available when its machine has ended. Unless said otherwise, any
 * thread may call any of these functions.
 */
#pragma once

#include <vmscope/cfg.h>
#include <vmscope/unwind.h>

VMS_BEGIN_DECLS

typedef struct vms_probe vms_probe;
typedef struct vms_flow vms_flow;
typedef struct vms_flow_record vms_flow_record;
typedef struct vms_flow_report vms_flow_report;

/* ---- probes --------------------------------------------------------------------- */

enum vms_entry_kind {
	/*
	 * A register, in its own width: also xmm0 (16 bytes), ymm0, zmm0, st0 (10 bytes), gdtr and
	 * idtr (the 2 bytes of the limit, then the base), and v0 of aarch64. What the machine
	 * cannot give is UNREADABLE.
	 */
	VMS_ENTRY_REGISTER,
	VMS_ENTRY_MEMORY,     /* `size` bytes at base + index × scale + offset */
	VMS_ENTRY_EXPRESSION, /* an integer of 8 bytes: see vms_probe_set_condition */
	/* `size` bytes at an address that is an expression; if there is a `count`, so many. */
	VMS_ENTRY_BYTES,
	/* The string at such an address, or a string as "comm"; `size` bytes at most. */
	VMS_ENTRY_STRING,
	VMS_ENTRY_CALLBACK, /* a function of the caller is called; the value has no bytes */
	/*
	 * The machine stops at the hit, until somebody resumes it. Only the gdb stub supports this.
	 */
	VMS_ENTRY_HALT,
	VMS_ENTRY_TYPED, /* an expression, by its type: see vms_probe_set_condition */
	/*
	 * The call stack: vms_flow_value_stack. It has the frames of the kernel, from the innermost
	 * outwards, and those of the program, by the unwind tables of its files. The hit only
	 * copies registers and stack memory: 16 KiB of the kernel's, 32 KiB of the program's.
	 * vmscope finds the frames later.
	 */
	VMS_ENTRY_STACK,
	/*
	 * Lists (vms_flow_value_item): the strings that an array of pointers at such an address
	 * leads to, up to a null pointer, as a program's arguments;
	 */
	VMS_ENTRY_STRINGS,
	/*
	 * and the memory that an array of `count` pairs of an address and a size leads to, as a
	 * struct iovec[]. The items are, by turns, a pair and its bytes: of all bytes the first
	 * `limit` ones.
	 */
	VMS_ENTRY_PIECES,
	VMS_ENTRY_N_KINDS,
};

/* Which frames a stack has. */
enum vms_stack_frames {
	VMS_STACK_BOTH,
	VMS_STACK_KERNEL, /* those of the kernel: this costs less */
	VMS_STACK_USER,	  /* those of the program */
};

/*
 * Called in a thread of the flow for a complete record. `memory` is the memory of the vCPU, by its
 * registers, while the machine is stopped. It is NULL if the vCPU already runs again (agent). If
 * the callback returns false with an error, the value of its entry becomes VMS_FLOW_FAILED.
 */
typedef bool (*vms_flow_callback)(const struct vms_flow_record *record, struct vms_memory *memory,
				  void *data, GError **error);

struct vms_entry {
	enum vms_entry_kind kind;
	const char *name; /* of the value; by default like "rdi" or "mem(rsi+16,4)" */
	const char *reg;  /* REGISTER */
	/* MEMORY: names of registers, or NULL. `scale` is 1 to 255; 0 means 1. */
	const char *base, *index;
	unsigned scale;
	int64_t offset;
	/* MEMORY, BYTES, STRING: bytes; TYPED: the limit in bytes, or 0; lists: of each item */
	uint32_t size;
	const char *expression; /* all from EXPRESSION to STRING, TYPED, STRINGS, PIECES */
	/*
	 * BYTES: the number of bytes; `size` if NULL. At most `size` are collected. If there are
	 * more, the value is CUT. PIECES: the number of pairs.
	 */
	const char *count;
	const char *limit;     /* PIECES: how many of all bytes count; all if NULL */
	unsigned n_items;      /* lists: the limit of items or pieces, 1 to 32 */
	unsigned pointer_size; /* lists: of an address in the guest's array; 0: 8 bytes, else 4 */
	enum vms_stack_frames frames; /* STACK */
	vms_flow_callback callback;
	void *data;		   /* of the callback */
	void (*free_data)(void *); /* called when the probe is freed; may be NULL */
};

/*
 * Makes a probe without entries. Expressions use the symbols, types and tasks of `guest`. The probe
 * keeps no reference to it. `description` may be NULL.
 */
struct vms_probe *vms_probe_new(struct vms_machine *machine, struct vms_guest *guest,
				const char *description);
struct vms_probe *vms_probe_ref(struct vms_probe *probe);
void vms_probe_unref(struct vms_probe *probe);
const char *vms_probe_description(const struct vms_probe *probe);
/*
 * Sets the function of a probe without entries, which begins at `va`. Then expressions know the
 * names and types of the function's arguments and, with `is_return`, the type of its result. Types
 * of the kernel are known at any address, for casts. If this fails because there is no such
 * function, or because the guest's types do not have its arguments, the probe can be used without
 * them. Errors: NOT_FOUND, UNSUPPORTED, UNREADABLE, MALFORMED, INVALID_STATE (the probe has
 * entries, or a condition).
 */
bool vms_probe_set_function(struct vms_probe *probe, uint64_t va, bool is_return, GError **error);
/*
 * Adds an entry of kind TYPED for each argument of the probe's function, with the argument's name.
 * Arguments that are not in registers are left out. Errors: INVALID_STATE (the function is not
 * known, or the probe is for its return), and those of vms_probe_add.
 */
bool vms_probe_add_arguments(struct vms_probe *probe, GError **error);
/*
 * Adds an entry for the result of the probe's function, unless the function is known to return
 * nothing. Errors: those of vms_probe_add.
 */
bool vms_probe_add_result(struct vms_probe *probe, GError **error);
/* True if expressions of the probe know an argument of this name. */
bool vms_probe_has_argument(const struct vms_probe *probe, const char *name);
/*
 * Adds entries in their order: all, or none if it fails. Everything is copied. Errors:
 * INVALID_ARGUMENT (an unknown register or symbol, with the nearest names; an expression that
 * cannot be parsed, with the position; a size of 0; more than a hit can hold), INVALID_STATE (the
 * probe is already part of a flow).
 */
bool vms_probe_add(struct vms_probe *probe, const struct vms_entry *entries, size_t n,
		   GError **error);
/*
 * Sets a condition: hits count only if the expression is not 0. It is evaluated at the hit. If it
 * cannot be evaluated, because memory cannot be read, the hit is counted as unknown.
 *
 * Expressions are those of C over 64-bit integers: || && | ^ & == != < <= > >= << >> + - * / %, the
 * unary - ! ~, parentheses, numbers and characters. Names are registers, parts of registers (edi,
 * w3), arg0 to arg5 (integer arguments of a function at its entry), retval, cpu (number of the
 * vCPU), pid and tid (of the guest's current process and thread), duration (at the return of
 * a call: see vms_flow_add_call), and symbols (their addresses).
 * u8(A), u16(A), u32(A), u64(A) and s8 to s64 read memory at address A. str(A) == "text" and comm
 * == "text" compare strings. Numbers are unsigned, except those that s8 to s64 read and results of
 * a unary minus. With these, comparison and division are signed.
 *
 * Registers of more than 64 bits are used by their parts: xmm0.u32[1] is the second 32 bits of
 * xmm0, xmm0.s8[0] its first byte with a sign; gdtr.base and gdtr.limit are numbers, too. A value
 * of kind TYPED may also be such a register as a whole, and shown in parts: xmm0.f32 and .f64 as
 * floating-point numbers, .u8 to .u64 and .s8 to .s64, st0.f80; xmm0.f64[0] is one of them.
 *
 * Where the guest's types are known (vms_probe_set_function), there are also the names of
 * arguments, before those of registers; `current`, the task; enumerators, and errors such as
 * ENOENT; members by . and ->, elements by [], *, & and casts as C has them:
 * sk->__sk_common.skc_dport, a->list[3].name, ((struct sock *)arg0)->sk_type. Values with types are
 * read with their size and sign. Arithmetic with pointers counts bytes. char arrays and pointers to
 * constant characters can be compared with "text". htons(80) and htonl(1) are constants in network
 * byte order.
 *
 * Errors: as vms_probe_add.
 */
bool vms_probe_set_condition(struct vms_probe *probe, const char *expression, GError **error);
/* The number of entries, their names and kinds. `index` is below that number. */
size_t vms_probe_entries(const struct vms_probe *probe);
const char *vms_probe_entry_name(const struct vms_probe *probe, size_t index);
enum vms_entry_kind vms_probe_entry_kind(const struct vms_probe *probe, size_t index);
/*
 * Returns the name of the type that an entry of kind TYPED has, as C writes it; NULL if its
 * expression has none. Newly allocated.
 */
char *vms_probe_entry_type(const struct vms_probe *probe, size_t index);
/* True if the bytes of an entry's values are text, which ends at the first 0 if there is one. */
bool vms_probe_entry_is_text(const struct vms_probe *probe, size_t index);

/* ---- flows ---------------------------------------------------------------------- */

/* When to collect: one of them, or both. */
enum vms_flow_moment {
	VMS_FLOW_BEFORE = 1 << 0, /* before the instruction */
	VMS_FLOW_AFTER = 1 << 1,  /* after it */
};

struct vms_flow_options {
	size_t size;   /* sizeof(struct vms_flow_options) */
	bool one_vcpu; /* only hits of `vcpu` count */
	unsigned vcpu;
	struct vms_probe *common; /* is also collected at every hit; or NULL */
	bool without_tasks;	  /* records have no process and thread, so hits cost less */
	/*
	 * Called with every record, in order, in a thread of the flow. It must not call the flow,
	 * but may take a reference to the record. May be NULL.
	 */
	void (*each)(struct vms_flow_record *record, void *data);
	void *data;
};

struct vms_flow_progress {
	uint64_t records;  /* since vms_flow_new */
	uint64_t dropped;  /* records dropped because of the limit, not by vms_flow_clear */
	uint64_t rejected; /* hits whose condition was false */
	uint64_t unknown;  /* hits whose condition could not be evaluated */
	uint64_t lost;	   /* hits that could not be recorded */
};

/*
 * Makes an empty flow in a machine and its guest. It keeps references to both. `options` are
 * copied; they may be NULL for all vCPUs and no common probe. Errors: INVALID_ARGUMENT (there is no
 * such vCPU).
 */
struct vms_flow *vms_flow_new(struct vms_machine *machine, struct vms_guest *guest,
			      const struct vms_flow_options *options, GError **error);
struct vms_flow *vms_flow_ref(struct vms_flow *flow);
/* The last reference disables the flow. */
void vms_flow_unref(struct vms_flow *flow);
/*
 * Adds a place: `moments` of enum vms_flow_moment. Errors: INVALID_ARGUMENT (no moment, or an
 * unknown one), EXISTS (the flow has a probe there for this moment), INVALID_STATE (it is enabled).
 */
bool vms_flow_add(struct vms_flow *flow, uint64_t va, unsigned moments, struct vms_probe *probe,
		  GError **error);
/*
 * Adds a function, which begins at `va`, and follows its calls until they return. Each call is one
 * record, made at the return, with the entries of `probe` from the call, those of `returned` from
 * the return, and the time between. The conditions of both must be true. In expressions of
 * `returned`, retval is the result of the function, `duration` is the time in ns since the call,
 * and arguments (arg0 to arg5, and by their names) are those of the call. Memory is read at the
 * return. A call that never returns becomes no record. Errors: as vms_flow_add.
 */
bool vms_flow_add_call(struct vms_flow *flow, uint64_t va, struct vms_probe *probe,
		       struct vms_probe *returned, GError **error);
/*
 * Adds the blocks of a graph: `entry` before the first instruction of the function, `exit` after
 * the last instruction of blocks that leave it, `other` before the first instruction of other
 * blocks. Any may be NULL. A block that is entry and exit gets both. *n_cut becomes the number of
 * blocks that could not be decoded to their end, which have no `exit`; it may be NULL. All are
 * added, or none.
 */
bool vms_flow_add_graph(struct vms_flow *flow, const struct vms_cfg *cfg, struct vms_probe *entry,
			struct vms_probe *exit, struct vms_probe *other, size_t *n_cut,
			GError **error);
/* Returns the addresses of all places, each once, sorted: a new array of uint64_t. */
GArray *vms_flow_addresses(struct vms_flow *flow);
/*
 * Removes all places at `n` addresses. Addresses without a place are not an error. Records of the
 * places remain. Errors: INVALID_STATE (it is enabled).
 */
bool vms_flow_remove(struct vms_flow *flow, const uint64_t *vas, size_t n, GError **error);
/*
 * Arms all places, or none. After `max_hits` records (0: no limit) over all vCPUs the flow disables
 * itself. If there are more than `max_records` (0: no limit), the oldest are dropped. Errors:
 * INVALID_STATE (there is no place, or it is enabled), those of vms_machine_hold, UNSUPPORTED (the
 * machine has no way to probe, or not for such entries), UNREADABLE (there is no code at a place).
 */
bool vms_flow_enable(struct vms_flow *flow, uint64_t max_hits, uint64_t max_records,
		     GError **error);
/*
 * Removes the probes of this flow. All its records are available then. Continues after an error,
 * and returns the first one. If an error has ended the flow before, returns that error.
 */
bool vms_flow_disable(struct vms_flow *flow, GError **error);
/*
 * Waits until the flow is disabled by its limit, by vms_flow_disable or by an error, which
 * vms_flow_disable returns. Waits at most until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: no limit).
 * True if the flow is disabled.
 */
bool vms_flow_wait(struct vms_flow *flow, uint64_t until_ns);
void vms_flow_get_progress(struct vms_flow *flow, struct vms_flow_progress *ret);
/* Takes a snapshot of the records that are kept, also while it is enabled. */
struct vms_flow_report *vms_flow_get_report(struct vms_flow *flow);
/* Drops the records. */
void vms_flow_clear(struct vms_flow *flow);

/* ---- records -------------------------------------------------------------------- */

enum vms_flow_value_status {
	VMS_FLOW_KNOWN,
	/*
	 * Memory or a register could not be read. If the value is text of an entry of kind TYPED,
	 * its bytes are the pointer to the text, or there are none.
	 */
	VMS_FLOW_UNREADABLE,
	VMS_FLOW_CUT,	 /* a string that is longer than the collected bytes */
	VMS_FLOW_FAILED, /* a callback failed */
};

struct vms_flow_value {
	enum vms_flow_value_status status;
	const void *bytes; /* owned by the record; numbers are little-endian; may be unaligned */
	size_t size;
	/*
	 * For a saved value of kind TYPED or STACK, the text of vms_probe_format_value when it was
	 * saved: UTF-8 of `text_size` bytes without a terminator, owned by the record. Else NULL.
	 */
	const char *text;
	size_t text_size;
};

/*
 * Gets the stack of a value of kind STACK, which has at most VMS_STACK_DEFAULT frames. Their `sp`
 * is 0. The guest's symbolizer knows their numbers of loaded code, which are not valid in a report
 * from a file. `code` of a program's frame is its address space (vms_symbolizer_process), or
 * VMS_NO_SPACE. False if the value is not known, or not a stack.
 */
bool vms_flow_value_stack(const struct vms_flow_value *value, struct vms_stack *ret);
/* Gets an item of a value that is a list. False if the list has fewer items. */
bool vms_flow_value_item(const struct vms_flow_value *value, unsigned index,
			 struct vms_flow_value *ret);

struct vms_flow_hit {
	uint64_t sequence; /* counts the records of the flow from 1, in the order of insertion */
	uint64_t time_ns;  /* CLOCK_MONOTONIC */
	uint64_t va;
	bool is_after;
	bool is_call;	      /* the record is a call that has returned: see vms_flow_add_call */
	uint64_t duration_ns; /* of a call; `time_ns` is when it returned */
	unsigned vcpu;
	bool has_task; /* the fields below are known */
	uint32_t pid, tid;
	char comm[17];
};

struct vms_flow_record *vms_flow_record_ref(struct vms_flow_record *record);
void vms_flow_record_unref(struct vms_flow_record *record);
void vms_flow_record_hit(const struct vms_flow_record *record, struct vms_flow_hit *ret);
/* Returns the name of the place, like "vfs_read+0x8", or NULL. Only files have names of places. */
const char *vms_flow_record_where(const struct vms_flow_record *record);
/* The probe of the place; not a new reference. */
const struct vms_probe *vms_flow_record_probe(const struct vms_flow_record *record);
/* The common probe, or NULL. */
const struct vms_probe *vms_flow_record_common(const struct vms_flow_record *record);
/* The probe of a call's return, or NULL if the record is not a call. */
const struct vms_probe *vms_flow_record_returned(const struct vms_flow_record *record);
/*
 * Get a value of the place's probe, of the common one, or of the return's. False if there is no
 * such entry.
 */
bool vms_flow_record_value(const struct vms_flow_record *record, size_t index,
			   struct vms_flow_value *ret);
bool vms_flow_record_common_value(const struct vms_flow_record *record, size_t index,
				  struct vms_flow_value *ret);
bool vms_flow_record_returned_value(const struct vms_flow_record *record, size_t index,
				    struct vms_flow_value *ret);

/*
 * Appends the text of a value of an entry. Kind TYPED: as in C (vms_type_format), with text at a
 * pointer in quotes, and "(unreadable)" if the value is not known. Kind STACK: its frames, the
 * innermost first, with ";" between them, like "vfs_read+0x0;ksys_read+0x6f". For a saved value, it
 * is the saved text. `value` must be one of that entry.
 */
void vms_probe_format_value(const struct vms_probe *probe, size_t index,
			    const struct vms_flow_value *value, GString *out);

/* ---- reports -------------------------------------------------------------------- */

struct vms_flow_report *vms_flow_report_ref(struct vms_flow_report *report);
void vms_flow_report_unref(struct vms_flow_report *report);
size_t vms_flow_report_count(const struct vms_flow_report *report);
/* Returns a record, not a new reference. Errors: INVALID_ARGUMENT (`index` is out of range). */
struct vms_flow_record *vms_flow_report_record(const struct vms_flow_report *report, size_t index,
					       GError **error);
/*
 * Calls `each` for every record in order, until it returns false. Returns false then; `each` may
 * have set the error.
 */
bool vms_flow_report_each(const struct vms_flow_report *report,
			  bool (*each)(struct vms_flow_record *record, void *data, GError **error),
			  void *data, GError **error);

enum vms_flow_filter_flags {
	VMS_FLOW_BY_SEQUENCE = 1 << 0,
	VMS_FLOW_BY_TIME = 1 << 1,
	VMS_FLOW_BY_ADDRESS = 1 << 2,
	VMS_FLOW_BY_VCPU = 1 << 3,
	VMS_FLOW_BY_PID = 1 << 4,
	VMS_FLOW_BY_TID = 1 << 5,
	VMS_FLOW_BY_VALUES = 1 << 6,
	VMS_FLOW_BY_COMM = 1 << 7,
	VMS_FLOW_BY_WHERE = 1 << 8,
	VMS_FLOW_ANY = 1 << 16,	    /* one of these is enough; else all must hold */
	VMS_FLOW_REVERSE = 1 << 17, /* keep what does not match */
};

/* Both ends are included. */
struct vms_flow_range {
	uint64_t first, last;
};

/* The widest number: 64 bytes, little-endian. */
struct vms_flow_wide {
	uint8_t bytes[64];
};

/* A value to match: exactly these bytes, or a number of any width in a range. */
struct vms_flow_match {
	const void *bytes;
	size_t size;
	const char *name; /* of the value; NULL for any name */
	/*
	 * The value is a number in the range. If it has at most 8 bytes, the range is `number`, and
	 * it is in it either as unsigned or as signed; the latter only if `first` is negative.
	 */
	bool is_number;
	struct vms_flow_range number; /* signed if `first` is greater than `last` */
	/*
	 * Of registers with more than 8 bytes, the range is this one, of their full width. NULL:
	 * there is no bound.
	 */
	const struct vms_flow_wide *wide_first, *wide_last;
};

struct vms_flow_filter {
	size_t size;	/* sizeof(struct vms_flow_filter) */
	unsigned flags; /* enum vms_flow_filter_flags */
	struct vms_flow_range sequence, time_ns, va, vcpu, pid, tid;
	/* Each must be a known value of one of the record's probes, in any order. */
	const struct vms_flow_match *values;
	size_t n_values;
	/*
	 * With "*" for any text and "?" for one character. A record without a name never matches.
	 */
	const char *comm, *where;
};

/*
 * Makes a report of the records that match. Without one of the flags BY_… all match. Errors:
 * INVALID_ARGUMENT (an unknown flag, a range that ends before it begins).
 */
struct vms_flow_report *vms_flow_report_filter(const struct vms_flow_report *report,
					       const struct vms_flow_filter *filter,
					       GError **error);

/*
 * Makes a report of the records that `other` does not have. `other` must have been made of `report`
 * by filters.
 */
struct vms_flow_report *vms_flow_report_without(const struct vms_flow_report *report,
						const struct vms_flow_report *other);

/* ---- saved reports ---------------------------------------------------------------- */

/* The content of a file besides the records. */
struct vms_flow_saved {
	size_t size;		/* sizeof(struct vms_flow_saved) */
	uint64_t begin_ns;	/* when the trace began, by the clock of the records */
	uint64_t begin_real_ns; /* the same since 1970, in UTC; 0 if the file has neither */
	struct vms_flow_progress progress;
	/* Only of a report that was loaded: */
	bool is_complete;	/* false if the end of the file, and so `progress`, is missing */
	uint64_t damaged_bytes; /* that could not be read, in one place or several */
	uint64_t damaged_at;	/* offset of the first of them in the file */
	uint64_t missing;	/* records that were saved, but are lost; 0 if not complete */
};

/*
 * Saves a report into a file, which appears when it is complete. `guest` names the places. If it is
 * NULL, they keep the names that they were saved with. `saved` may be NULL. If the disk is full,
 * the file keeps the first records, and the error says how many. docs/flow-report.md describes the
 * file. Errors: IO, PERMISSION, INVALID_ARGUMENT (a probe has more than a megabyte of names).
 */
bool vms_flow_report_save(const struct vms_flow_report *report, struct vms_guest *guest,
			  const struct vms_flow_saved *saved, const char *path, GError **error);
/*
 * Loads a saved report. Of a file that is cut off or damaged, it loads all complete records, and
 * `ret`, which may be NULL, describes the damage. Errors: NOT_FOUND, IO, MALFORMED (nothing in it
 * has this format), UNSUPPORTED (a later version of the format).
 */
struct vms_flow_report *vms_flow_report_load(const char *path, struct vms_flow_saved *ret,
					     GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_probe, vms_probe_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_flow, vms_flow_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_flow_record, vms_flow_record_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_flow_report, vms_flow_report_unref)

VMS_END_DECLS
