/* SPDX-License-Identifier: MIT */
/*
 * The protocol between the agent inside QEMU and its clients: requests and replies over a
 * SOCK_SEQPACKET unix socket, and memory that both map.
 *
 * The agent makes all shared memory: a memfd that can neither shrink nor grow, so that no client
 * can make QEMU fault. The agent reads the tables of a client with pread. Numbers are in the host's
 * byte order, because both ends are on one host. Neither end trusts what the other writes.
 *
 * Older and newer versions work together. Each end lists its abilities (`features`) in its HELLO,
 * and the other end uses only these. An end ignores bits and kinds of blocks that it does not know.
 * The numbers of kinds and bits are never reused, and the meaning of a bit never changes. Messages
 * may become longer. The version changes only if the HELLO itself changes.
 *
 * A hold: the client writes a new number, with VMS_AGENT_PIN, into `wanted` of the vCPU's slot and
 * sends HOLD. The agent kicks the vCPU (agent/qemu/kick.h). The vCPU writes its registers, then the
 * number into `held`, and waits until no client wants it. The client releases it by writing 0 into
 * `wanted`. Both words are futexes. For a halted vCPU the agent grants the hold itself, with the
 * registers at the halt. If the vCPU must continue during the hold, the agent kicks it. When a
 * client ends or is stopped, the agent writes the 0 and increments `broken`.
 *
 * A brief hold: the same without VMS_AGENT_PIN. The vCPU waits for some tens of microseconds, then
 * writes the 0 itself. A client that needs more time pins the vCPU: it adds the flag to `wanted` by
 * compare and swap. If that succeeds, the vCPU stays held.
 *
 * Prefetch: the client lists addresses in `prefetch_hva` before it requests a hold. The vCPU copies
 * that memory when it stops, because a read by another process would take longer than the rest of
 * the hold. The copy has the memory at the moment of the hold, also after a brief hold has ended.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define VMS_AGENT_MAGIC		0x316d6776 /* "vgm1" */
#define VMS_AGENT_VERSION	5	   /* of this protocol */
#define VMS_AGENT_MAX_CLIENTS	4
#define VMS_AGENT_MAX_VCPUS	1024
#define VMS_AGENT_MAX_REGS	128
#define VMS_AGENT_REG_NAME	24
#define VMS_AGENT_MAX_MESSAGE	4096 /* bytes of a request or reply */
#define VMS_AGENT_MAX_FUNCTIONS (1 << 22)
#define VMS_AGENT_MAX_STACK	1024		    /* frames of a stack in a client's table */
#define VMS_AGENT_PIN		(UINT32_C(1) << 31) /* in `wanted`: the hold does not end by itself */
#define VMS_AGENT_MAX_PREFETCH	128		    /* blocks of memory that a hold can prefetch */
#define VMS_AGENT_PREFETCH_SIZE 256		    /* bytes of each */

/* The abilities of an end. */
enum vms_agent_feature {
	VMS_AGENT_CAN_HOLD = 1 << 0,	    /* HOLD, with all of struct vms_agent_shared */
	VMS_AGENT_CAN_TRACE_CALLS = 1 << 1, /* CALLS_* */
	VMS_AGENT_CAN_TRACK_TASKS = 1 << 2, /* TASKS */
	VMS_AGENT_CAN_LOOK = 1 << 3,  /* the agent asks for looks; the client looks and answers */
	VMS_AGENT_CAN_PROBE = 1 << 4, /* PROBES_* */
	VMS_AGENT_CAN_COVER = 1 << 5, /* COVERAGE_* */
	VMS_AGENT_CAN_TALLY = 1 << 6, /* struct vms_agent_probes.tallies */
	VMS_AGENT_CAN_FOLLOW_CALLS = 1 << 7,   /* VMS_AGENT_PLACE_CALL, VMS_AGENT_PLACE_RETURN */
	VMS_AGENT_CAN_KEEP_ARGUMENTS = 1 << 8, /* VMS_OP_ARGUMENT in programs of returns */
	VMS_AGENT_CAN_COPY_STACKS = 1 << 9, /* VMS_OP_COLLECT_READABLE, 28 KiB of a hit's values */
	VMS_AGENT_CAN_COUNT_INSTRUCTIONS = 1 << 10, /* PERIOD_* */
	VMS_AGENT_CAN_READ_WIDE = 1 << 11,	    /* VMS_OP_COLLECT_WIDE, VMS_OP_WIDE */
	VMS_AGENT_CAN_COPY_USER_STACKS = 1 << 12,   /* 60 KiB of a hit's values */
};
/* The features of an agent that is so old that its HELLO has none. */
#define VMS_AGENT_FIRST_FEATURES VMS_AGENT_CAN_HOLD
/* The features of this version. */
#define VMS_AGENT_FEATURES                                                                         \
	(VMS_AGENT_CAN_HOLD | VMS_AGENT_CAN_TRACE_CALLS | VMS_AGENT_CAN_TRACK_TASKS |              \
	 VMS_AGENT_CAN_LOOK | VMS_AGENT_CAN_PROBE | VMS_AGENT_CAN_COVER | VMS_AGENT_CAN_TALLY |    \
	 VMS_AGENT_CAN_FOLLOW_CALLS | VMS_AGENT_CAN_KEEP_ARGUMENTS | VMS_AGENT_CAN_COPY_STACKS |   \
	 VMS_AGENT_CAN_COUNT_INSTRUCTIONS | VMS_AGENT_CAN_READ_WIDE |                              \
	 VMS_AGENT_CAN_COPY_USER_STACKS)

enum vms_agent_kind {
	/*
	 * struct vms_agent_greeting → struct vms_agent_hello, with the memfd of vms_agent_shared.
	 * The message of an older version ends before `features`.
	 */
	VMS_AGENT_HELLO = 1,
	VMS_AGENT_HOLD,		   /* struct vms_agent_hold; no reply */
	VMS_AGENT_CALLS_FUNCTIONS, /* struct vms_agent_table, with a file of vms_agent_function */
	VMS_AGENT_CALLS_STACKS,	   /* struct vms_agent_table, with a file of vms_agent_stack */
	/*
	 * struct vms_agent_calls → OK, with a memfd and a socket. From the client that already
	 * traces: OK alone; the trace gets new tables and options.
	 */
	VMS_AGENT_CALLS_START,
	VMS_AGENT_CALLS_STOP, /* → OK once the last record has been written */
	VMS_AGENT_OK,	      /* struct vms_agent_message alone */
	VMS_AGENT_ERROR,      /* struct vms_agent_failure */
	VMS_AGENT_TASKS,      /* struct vms_agent_tasks → OK */
	/*
	 * struct vms_agent_probes, with a file of places and programs → OK, with a memfd and a
	 * socket, and with the memfd of the tallies if there are any.
	 */
	VMS_AGENT_PROBES_START,
	/* struct vms_agent_probes_stop → OK once the last hit has been written */
	VMS_AGENT_PROBES_STOP,
	/*
	 * struct vms_agent_coverage → OK, with a memfd of struct vms_agent_covered and a socket.
	 * From the client that already has a coverage: OK alone; only `look` changes.
	 */
	VMS_AGENT_COVERAGE_START,
	VMS_AGENT_COVERAGE_STOP, /* → OK; the client keeps the memory */
	VMS_AGENT_PERIOD_START, /* struct vms_agent_period → OK, with a memfd of vms_agent_turns */
	VMS_AGENT_PERIOD_STOP,	/* → OK; the memory stays the client's */
};

/* The begin of every message. Each message is one packet. */
struct vms_agent_message {
	uint32_t magic;
	uint32_t kind;
};

struct vms_agent_failure {
	struct vms_agent_message message;
	uint32_t code; /* enum vms_error */
	char text[512];
};

struct vms_agent_greeting {
	struct vms_agent_message message;
	uint64_t features; /* enum vms_agent_feature, of the client */
};

struct vms_agent_hello {
	struct vms_agent_message message;
	uint32_t version;
	uint32_t api;	    /* version of QEMU's plugin interface */
	uint32_t pid;	    /* of QEMU */
	uint32_t max_vcpus; /* elements of vms_agent_shared.vcpu */
	uint32_t n_regs;    /* elements of vms_agent_vcpu.regs that are used */
	/*
	 * 1: QEMU runs all vCPUs in one thread. Several vCPUs can then be neither held nor traced,
	 * because QEMU mixes them up.
	 */
	uint32_t one_thread;
	uint64_t shared_size;
	char arch[16];	   /* as QEMU calls it: "x86_64", "aarch64" */
	uint64_t features; /* enum vms_agent_feature, of the agent */
};

struct vms_agent_hold {
	struct vms_agent_message message;
	uint32_t vcpu;
};

/* ---- shared memory of one client ---------------------------------------- */

enum vms_agent_vcpu_state {
	VMS_AGENT_ABSENT, /* not created yet, or unplugged */
	VMS_AGENT_RUNNING,
	VMS_AGENT_HALTED, /* waits for an interrupt, or the machine is paused */
};

struct vms_agent_vcpu {
	/* Number of the hold that the client requests, optionally with VMS_AGENT_PIN. 0: none. */
	_Alignas(64) _Atomic uint32_t wanted;
	_Atomic uint32_t held;			    /* number of the hold that was granted last */
	_Atomic uint32_t state;			    /* enum vms_agent_vcpu_state */
	_Atomic uint32_t broken;		    /* how many holds the agent has ended */
	uint32_t thread;			    /* id of the host thread that runs it */
	uint32_t has_regs[VMS_AGENT_MAX_REGS / 32]; /* bit n: regs[n] could be read */
	uint64_t regs[VMS_AGENT_MAX_REGS];
	/* Guest memory to copy with a hold. The client sets number and addresses. */
	uint32_t n_prefetch;
	uint8_t is_prefetched[VMS_AGENT_MAX_PREFETCH]; /* 1: the block was copied in this hold */
	uint64_t prefetch_hva[VMS_AGENT_MAX_PREFETCH]; /* addresses in the QEMU process */
	uint8_t prefetched[VMS_AGENT_MAX_PREFETCH][VMS_AGENT_PREFETCH_SIZE];
};

struct vms_agent_shared {
	char reg_names[VMS_AGENT_MAX_REGS][VMS_AGENT_REG_NAME]; /* as in QEMU's gdb descriptions */
	struct vms_agent_vcpu vcpu[];				/* by QEMU's index */
};

/* ---- tasks ------------------------------------------------------------------ */

/*
 * The layout of tasks in the guest's kernel. It takes effect with the next START of this client.
 * All 0: the client knows no tasks.
 */
struct vms_agent_tasks {
	struct vms_agent_message message;
	uint32_t tid, pid, mm, name; /* offsets in struct task_struct: pid, tgid, mm, comm */
	/* Addresses of functions of the kernel, or 0: */
	uint64_t switch_function;    /* (prev, next) switches tasks */
	uint64_t space_end_function; /* (mm) ends an address space */
};

/* ---- instructions --------------------------------------------------------------- */

/*
 * Each vCPU stops before every instruction whose number is a multiple of `instructions`, and waits
 * until the client has had its turn. The first instruction after the START is number 1. One that
 * begins again after an exception counts again. At its turn a client may hold the vCPU, which looks
 * as if it were halted. Then it sets `done` to `due`.
 */
struct vms_agent_period {
	struct vms_agent_message message;
	uint64_t instructions; /* VMS_AGENT_MIN_PERIOD or more */
};

#define VMS_AGENT_MIN_PERIOD 1000

struct vms_agent_turn {
	_Alignas(64) _Atomic uint32_t due; /* number of the last turn; a futex */
	_Alignas(64) _Atomic uint32_t done;
	/* Turns that the vCPU did not wait for, because a turn before was not done for so long. */
	_Atomic uint64_t missed;
};

struct vms_agent_turns {
	struct vms_agent_turn vcpu[1]; /* by QEMU's index, as many as vms_agent_hello says */
};

/* ---- rings ---------------------------------------------------------------------- */

/*
 * The memory of a service that records: struct vms_agent_rings, then a ring of `ring_size` bytes
 * per vCPU. The ring of a vCPU begins at `rings_offset + vcpu * ring_size`. The agent writes at
 * `head`, the client reads at `tail`. Both count bytes and never decrease. The agent sends a byte
 * over a socket when an eighth of a ring has been filled. The service defines the content.
 */
struct vms_agent_ring {
	_Alignas(64) _Atomic uint64_t head;
	/* Its low half is a futex: an agent with a full ring waits for room. */
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t lost; /* records or hits that were lost for lack of room */
	_Atomic uint32_t answered; /* number of the last block that the client answered; a futex */
	/*
	 * Number of the last block whose answer the agent stopped waiting for. What that block
	 * described may be gone.
	 */
	_Atomic uint32_t given_up;
	/* For probes: programs that ended early. */
	_Atomic uint64_t rejected, unknown;
	/*
	 * For probes: the vCPU is about to number a hit with this number or a higher one, and then
	 * to write or lose the hit. 0: it is not.
	 */
	_Atomic uint64_t taking;
};

struct vms_agent_rings {
	uint64_t rings_offset;
	uint64_t ring_size;
	uint32_t n_rings;
	/* 1: the service has ended by itself; announced over the socket. */
	_Atomic uint32_t stopped;
	/*
	 * A vCPU asks for a look by incrementing `looks`, and announces it over the socket. It
	 * waits for some seconds at most until the client has looked at the guest. The client
	 * writes into `looking` what `looks` is when it begins to look. It answers with START if
	 * something is new, and by writing that number into `looked`. START itself writes it, too.
	 */
	_Atomic uint32_t looks, looked;
	/* For probes: the last number of a hit. It may be above `max_hits`. */
	_Atomic uint64_t hits;
	/*
	 * For probes: 1: the client sleeps until the next hit. The agent sets it to 0 and wakes the
	 * client over the socket.
	 */
	_Atomic uint32_t sleeps;
	_Atomic uint32_t looking; /* see `looks` */
	struct vms_agent_ring ring[];
};

/*
 * A ring is a sequence of blocks. A block is a header and its payload; the sizes of both are
 * multiples of VMS_AGENT_UNIT. Data that reaches the end of the ring continues at its begin. An
 * APPENDED block is open and has size 0 until the agent writes its size and then another block. A
 * client that reads `head` first and the size after it knows where the block ends. `tail` is a
 * multiple of the unit and may be inside a block. No block is longer than an eighth of the ring.
 * The agent does not overwrite the eighth before `tail`, so the header of the block with `tail` in
 * it stays readable.
 */
#define VMS_AGENT_UNIT	   16
#define VMS_AGENT_APPENDED 1 /* kind of a block that grows; other kinds are the service's */

struct vms_agent_block {
	uint32_t kind;
	_Atomic uint32_t size; /* bytes of the payload */
	uint64_t stream;       /* id of the stream that it belongs to; 0: none */
	uint64_t sequence;     /* APPENDED: counts blocks of this stream over all rings, from 0 */
	/* The client writes this into vms_agent_ring.answered as its answer. 0: no answer. */
	uint64_t number;
};

/* ---- call traces ---------------------------------------------------------- */

enum vms_agent_function_flags {
	/* Only jumps to the real callee, like a retpoline thunk. */
	VMS_AGENT_FUNCTION_TRANSPARENT = 1 << 0,
	/* Interrupts, exceptions or system calls enter here. */
	VMS_AGENT_FUNCTION_ENTRY = 1 << 1,
	/* A jump here is a return: return thunks. */
	VMS_AGENT_FUNCTION_RETURN = 1 << 2,
	VMS_AGENT_FUNCTION_ONLY = 1 << 3,  /* filter: record only this and what it calls */
	VMS_AGENT_FUNCTION_NOT = 1 << 4,   /* filter: record neither this nor what it calls */
	VMS_AGENT_FUNCTION_START = 1 << 5, /* a call of this starts the recording */
	VMS_AGENT_FUNCTION_STOP = 1 << 6,  /* a call of this ends the recording */
	VMS_AGENT_FUNCTION_LOOK = 1 << 7,  /* a call of this requires a look of the client */
};

/* A function, by the address of its first instruction. The file is sorted by address. */
struct vms_agent_function {
	uint64_t va;
	uint64_t flags;
};

struct vms_agent_table {
	struct vms_agent_message message;
	uint32_t reserved;
	uint64_t size; /* bytes of the file */
};

/* The calls of a task that are open when the trace starts. `n` frames follow, outermost first. */
struct vms_agent_stack {
	uint64_t task; /* address of its task_struct; 0: not known, the code runs on `vcpu` */
	uint32_t vcpu; /* the vCPU that runs it; UINT32_MAX: none */
	uint32_t n;
};
struct vms_agent_frame {
	uint64_t slot; /* see agent/calls/call_tracker.h */
	uint64_t function;
	uint64_t is_user;
};

enum vms_agent_by { VMS_AGENT_BY_VCPU, VMS_AGENT_BY_LEVEL, VMS_AGENT_BY_TASK };
enum vms_agent_clock {
	VMS_AGENT_CLOCK_HOST,	      /* ns of CLOCK_MONOTONIC */
	VMS_AGENT_CLOCK_INSTRUCTIONS, /* the number of instructions that the vCPU has executed */
};

struct vms_agent_calls {
	struct vms_agent_message message;
	uint32_t by;		 /* enum vms_agent_by */
	uint32_t clock;		 /* enum vms_agent_clock */
	uint32_t ring_size;	 /* bytes per vCPU, a power of two from 64 KiB to 64 MiB */
	uint32_t max_depth;	 /* deeper calls are not recorded; 0: no limit */
	uint32_t kernel, user;	 /* 1: this privilege level is recorded */
	uint32_t n_pids;	 /* only processes of `pids` are recorded; 0: all */
	uint32_t wait_for_start; /* 1: nothing is recorded until a START function is called */
	uint64_t threshold;	 /* ns; shorter calls are not recorded */
	uint32_t pids[64];	 /* process ids in the guest */
};

enum vms_calls_block_kind {
	VMS_CALLS_RECORDS = VMS_AGENT_APPENDED, /* uftrace's records; the stream is its file */
	VMS_CALLS_STREAM, /* struct vms_calls_stream: a stream begins, or has a new name */
	/* struct vms_calls_space: from here on, user addresses of `stream` are in this one. */
	VMS_CALLS_SPACE,
	/* struct vms_calls_space: this address space ends when the client has answered. */
	VMS_CALLS_PROCESS,
};

struct vms_calls_stream {
	uint64_t time_ns;
	uint32_t vcpu, level; /* BY_VCPU, BY_LEVEL */
	uint32_t tid, pid;    /* BY_TASK */
	char name[32];	      /* "cpu0", "cpu0 kernel", or the task's comm */
};

struct vms_calls_space {
	uint64_t time_ns;
	uint64_t mm;   /* address of its mm_struct */
	uint64_t task; /* address of the task_struct of one task that uses it */
	uint32_t pid, reserved;
	char name[16];
};

/* ---- probes --------------------------------------------------------------- */

/*
 * A set of probes is armed by one START and belongs to its client, which may have several. Whenever
 * a vCPU executes the instruction at a place, it runs the place's program (probe/program.h). A hit
 * is a program that runs to its end. It gets the next number of its set, and is written as a block
 * into the vCPU's ring. If there is no room for too long, the hit gets a number too, but is lost.
 * `taking` and `hits` show which numbers are still missing.
 */
#define VMS_AGENT_MAX_PROBES 8	       /* sets, of all clients */
#define VMS_AGENT_MAX_PLACES (1 << 16) /* of a set */
#define VMS_AGENT_MAX_OPS    (1 << 20) /* of all programs of a set */
#define VMS_AGENT_ALL_VCPUS  (~UINT32_C(0))

struct vms_agent_probes {
	struct vms_agent_message message;
	uint32_t id;	    /* chosen by the client; unique among its sets */
	uint32_t vcpu;	    /* only hits of this vCPU count, or VMS_AGENT_ALL_VCPUS */
	uint64_t max_hits;  /* the set ends by itself after so many hits; 0: no limit */
	uint32_t ring_size; /* bytes per vCPU, a power of two from 64 KiB to 64 MiB */
	uint32_t n_places;  /* struct vms_agent_place in the file */
	/*
	 * struct vms_op in the file, behind the places: the operations of the first place, then of
	 * the second, and so on. Registers are numbered as in `reg_names`. A register from `n_regs`
	 * on, and below VMS_AGENT_MAX_REGS, cannot be read.
	 */
	uint32_t n_ops;
	/*
	 * 1: the file ends with a struct vms_tally_shape (probe/tally.h), and hits are added up in
	 * tallies of this shape. Such hits have no numbers and are not in the rings. Only hits of a
	 * vCPU without memory for its tally get a number, and are lost. The tallies are in a memory
	 * of their own, by vCPU.
	 */
	uint32_t tallies;
};

enum vms_agent_place_flags {
	VMS_AGENT_PLACE_AFTER = 1 << 0, /* run the program after the instruction, not before */
	/*
	 * The place is the begin of a function. If the program runs to its end, the call is open.
	 * When the call returns, the program of the place's RETURN is run. If that runs to its end
	 * too, it is a hit of this place: with the values of both programs, one behind the other,
	 * and with the vCPU and time of the return. A call that cannot be kept for lack of room
	 * gets a number at once, and is lost.
	 */
	VMS_AGENT_PLACE_CALL = 1 << 1,
	/*
	 * The program for the returns of a CALL: of the first one that has none yet. This is not a
	 * place in the code, and `va` is ignored.
	 */
	VMS_AGENT_PLACE_RETURN = 1 << 2,
};

struct vms_agent_place {
	uint64_t va; /* of an instruction */
	uint32_t flags;
	uint32_t n_ops; /* of its program */
};

struct vms_agent_probes_stop {
	struct vms_agent_message message;
	uint32_t id;
	uint32_t reserved;
};

#define VMS_AGENT_HIT 2 /* kind of a block: struct vms_agent_hit, and its values behind it */

struct vms_agent_hit {
	uint64_t number;  /* from 1, over all vCPUs */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t place;	  /* index */
	uint32_t vcpu;
	uint32_t size; /* bytes of the values that the program has collected */
	uint32_t reserved;
};

/* ---- coverage -------------------------------------------------------------- */

/*
 * Coverage shows which code at the kernel's privilege ran. Each block that QEMU translates gets a
 * number and a description. Translated code sets marks when it runs. The marks exist only in the
 * shared memory, so they are kept even if QEMU is killed.
 *
 * A vCPU has two marks of 8 bytes for each block, with all bits 1 if set. The begin mark is set
 * before the block's first instruction, the end mark before its last one. If only the begin mark is
 * set, the block was left in its middle each time, by a fault or an access to a device. In a block
 * of one instruction the end mark is set when the instruction has accessed memory. If it is the
 * only mark, the instruction is in the middle of another block: that block was left there, and QEMU
 * executed the instruction alone. The marks of four blocks of one vCPU share a line of the host's
 * cache; those of different vCPUs never do.
 */
#define VMS_AGENT_MAX_BLOCKS	  (1 << 22)
#define VMS_AGENT_MAX_MARKS	  (UINT64_C(1) << 33) /* bytes */
#define VMS_AGENT_BLOCKS_PER_LINE 4
#define VMS_AGENT_MARKS_LINE	  64

struct vms_agent_coverage {
	struct vms_agent_message message;
	uint32_t max_blocks; /* a multiple of VMS_AGENT_BLOCKS_PER_LINE */
	uint32_t reserved;
	/*
	 * Addresses of instructions, or 0. Code that ran before `from` is reached does not count.
	 */
	uint64_t from, to;
	/* Address of a function whose call requires a look of the client; 0: none. */
	uint64_t look;
};

enum vms_agent_coverage_state {
	VMS_AGENT_COVERAGE_WAITS, /* for `from` */
	VMS_AGENT_COVERAGE_RUNS,
	VMS_AGENT_COVERAGE_ENDED, /* `to` was reached: `ran` is valid, and not the marks */
};

enum vms_agent_ran {
	VMS_AGENT_RAN_BEGIN = 1 << 0, /* the block's first instruction began */
	VMS_AGENT_RAN_END = 1 << 1,   /* its last instruction began; see above for a single one */
};

struct vms_agent_block_covered {
	uint64_t va;
	uint32_t size; /* bytes */
	uint16_t n_insns;
	uint8_t first_size;  /* bytes of its first instruction */
	_Atomic uint8_t ran; /* enum vms_agent_ran; valid when ENDED */
	uint32_t epoch;	     /* when the block was first translated */
	uint32_t reserved;
};

struct vms_agent_covered {
	uint64_t blocks_offset; /* of struct vms_agent_block_covered */
	uint64_t marks_offset;
	uint32_t max_blocks, n_vcpus;
	_Atomic uint32_t n_blocks; /* number of valid descriptions */
	_Atomic uint32_t state;	   /* enum vms_agent_coverage_state */
	_Atomic uint64_t lost;	   /* blocks that were translated without a number */
	/*
	 * The client increments it when an address may have other code than before. A block that is
	 * translated after that gets a new number, even at the address of an earlier block.
	 */
	_Atomic uint32_t epoch;
	_Atomic uint32_t has_programs; /* 1: code with less privilege was translated */
	/*
	 * A vCPU asks for a look by incrementing `looks`, and announces it over the socket. It
	 * waits for some seconds at most until the client has written that number into `looked`.
	 */
	_Atomic uint32_t looks, looked;
};

/* Returns the offset of a mark from `marks_offset`. `end`: 0: the begin mark, 1: the end mark. */
static inline uint64_t vms_agent_mark_offset(uint32_t block, uint32_t vcpu, uint32_t n_vcpus,
					     unsigned end)
{
	return ((uint64_t)(block / VMS_AGENT_BLOCKS_PER_LINE) * n_vcpus + vcpu) *
		       VMS_AGENT_MARKS_LINE +
	       block % VMS_AGENT_BLOCKS_PER_LINE * 16 + end * UINT64_C(8);
}

/* Returns which parts of a block have run, by its marks (enum vms_agent_ran). */
static inline unsigned vms_agent_marks_ran(const void *marks, uint32_t block, uint32_t n_vcpus)
{
	unsigned ran = 0;
	for (uint32_t vcpu = 0; vcpu < n_vcpus; vcpu++) {
		const _Atomic uint64_t *mark =
			(const void *)((const unsigned char *)marks +
				       vms_agent_mark_offset(block, vcpu, n_vcpus, 0));
		if (atomic_load_explicit(&mark[0], memory_order_relaxed))
			ran |= VMS_AGENT_RAN_BEGIN;
		if (atomic_load_explicit(&mark[1], memory_order_relaxed))
			ran |= VMS_AGENT_RAN_END;
	}
	return ran;
}
