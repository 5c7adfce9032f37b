/* SPDX-License-Identifier: MIT */
/*
 * What the agent inside QEMU and its clients say to each other: requests and replies over a
 * SOCK_SEQPACKET unix socket, and memory that both map.
 *
 * All memory is made by the agent (a memfd that can neither shrink nor grow), so that no client can
 * make QEMU fault; tables that a client gives are read with pread. Numbers are in the host's byte
 * order: both ends are on one host. Neither end believes what the other writes.
 *
 * Holding a vCPU: the client writes a new number, with VMS_AGENT_STAY, into its slot's `wanted` and
 * sends HOLD. The agent calls the vCPU (agent/call.h), which writes its registers, then the number
 * into `held`, and waits until no client wants it. It may bring memory along that the client told
 * in `part` before: to read that from another process takes longer than all else. A vCPU that is
 * halted is held by the agent on its behalf, with the registers that it halted with; where it is to
 * go on meanwhile, it is called. The client lets go by writing 0 into `wanted`. Both words are
 * futexes. When a client goes, or is stopped, the agent writes that 0 and counts `broken`.
 *
 * Without VMS_AGENT_STAY it is a glance: the vCPU waits for some tens of microseconds, then writes
 * that 0 itself. What it has brought remains true of the moment at which it came. A client that
 * finds that it wants more adds the flag, by compare and swap: if that succeeds, the vCPU is held.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define VMS_AGENT_MAGIC		0x316d6776 /* "vgm1" */
#define VMS_AGENT_VERSION	4	   /* of this protocol */
#define VMS_AGENT_MAX_CLIENTS	4
#define VMS_AGENT_MAX_VCPUS	1024
#define VMS_AGENT_MAX_REGS	128
#define VMS_AGENT_REG_NAME	24
#define VMS_AGENT_MAX_MESSAGE	4096 /* bytes of a request or reply */
#define VMS_AGENT_MAX_FUNCTIONS (1 << 22)
#define VMS_AGENT_MAX_STACK	1024		    /* frames of a stack that a client tells */
#define VMS_AGENT_STAY		(UINT32_C(1) << 31) /* with the number of a hold */
#define VMS_AGENT_MAX_PARTS	64		    /* of memory that a vCPU brings along */
#define VMS_AGENT_PART		256		    /* bytes of each */

enum vms_agent_kind {
	VMS_AGENT_HELLO = 1, /* → struct vms_agent_hello, with the memfd of vms_agent_shared */
	VMS_AGENT_HOLD,	     /* struct vms_agent_hold; no reply */
	VMS_AGENT_CALLS_FUNCTIONS, /* struct vms_agent_table, with a file of vms_agent_function */
	VMS_AGENT_CALLS_STACKS,	   /* struct vms_agent_table, with a file of vms_agent_stack */
	VMS_AGENT_CALLS_START,	   /* struct vms_agent_calls → OK, with memfd and a socket; by the
				      client that traces already: other tables and options */
	VMS_AGENT_CALLS_STOP,	   /* → OK once the last record has been written */
	VMS_AGENT_OK,		   /* struct vms_agent_message alone */
	VMS_AGENT_ERROR,	   /* struct vms_agent_failure */
};

/* How every message begins; it is as long as the packet. */
struct vms_agent_message {
	uint32_t magic;
	uint32_t kind;
};

struct vms_agent_failure {
	struct vms_agent_message message;
	uint32_t code; /* enum vms_error */
	char text[512];
};

struct vms_agent_hello {
	struct vms_agent_message message;
	uint32_t version;
	uint32_t api;	     /* of QEMU's plugin interface */
	uint32_t pid;	     /* of QEMU */
	uint32_t max_vcpus;  /* elements of vms_agent_shared.vcpu */
	uint32_t n_regs;     /* registers that a vCPU gives */
	uint32_t one_thread; /* 1: QEMU runs all vCPUs in one thread; several cannot be held, nor
				traced: it mixes them up */
	uint64_t shared_size;
	char arch[16]; /* as QEMU calls it: "x86_64", "aarch64" */
};

struct vms_agent_hold {
	struct vms_agent_message message;
	uint32_t vcpu;
};

/* ---- shared memory of one client ---------------------------------------- */

enum vms_agent_vcpu_state {
	VMS_AGENT_ABSENT, /* never was there, or was unplugged */
	VMS_AGENT_RUNNING,
	VMS_AGENT_HALTED, /* idle, or the machine is paused */
};

struct vms_agent_vcpu {
	/* Number of the hold that the client wants, perhaps with VMS_AGENT_STAY, or 0. */
	_Alignas(64) _Atomic uint32_t wanted;
	_Atomic uint32_t held;			    /* number of the hold that was granted last */
	_Atomic uint32_t state;			    /* enum vms_agent_vcpu_state */
	_Atomic uint32_t broken;		    /* holds that the agent has ended */
	uint32_t thread;			    /* the host thread that runs it */
	uint32_t has_regs[VMS_AGENT_MAX_REGS / 32]; /* bit n: regs[n] could be read */
	uint64_t regs[VMS_AGENT_MAX_REGS];
	/* What the client is likely to read of the guest's memory, by its address in QEMU. */
	uint32_t n_parts;
	uint8_t brought[VMS_AGENT_MAX_PARTS]; /* 1: `content` is that of the hold */
	uint64_t part[VMS_AGENT_MAX_PARTS];
	uint8_t content[VMS_AGENT_MAX_PARTS][VMS_AGENT_PART];
};

struct vms_agent_shared {
	char reg_names[VMS_AGENT_MAX_REGS][VMS_AGENT_REG_NAME]; /* as in QEMU's gdb descriptions */
	struct vms_agent_vcpu vcpu[];				/* by QEMU's index */
};

/* ---- call traces ---------------------------------------------------------- */

enum vms_agent_function_flags {
	VMS_AGENT_FUNCTION_TRANSPARENT = 1 << 0, /* jumps on to the real callee: retpoline thunks */
	VMS_AGENT_FUNCTION_ENTRY = 1 << 1,	 /* the processor itself comes here: vectors, system
						    calls */
	VMS_AGENT_FUNCTION_RETURN = 1 << 2,  /* a return in a function's clothes: return thunks */
	VMS_AGENT_FUNCTION_SWITCH = 1 << 3,  /* switches tasks: __switch_to(prev, next) */
	VMS_AGENT_FUNCTION_EXIT_MM = 1 << 4, /* ends an address space: exit_mmap(mm) */
	VMS_AGENT_FUNCTION_ONLY = 1 << 5,    /* filter: trace what this calls, and only that */
	VMS_AGENT_FUNCTION_NOT = 1 << 6,     /* filter: neither this nor what it calls */
	VMS_AGENT_FUNCTION_START = 1 << 7,   /* tracing begins when this is called */
	VMS_AGENT_FUNCTION_STOP = 1 << 8,    /* tracing ends when this is called */
	VMS_AGENT_FUNCTION_LOOK = 1 << 9,    /* a look is asked for when this is called */
};

/* The first instruction of a function, sorted by address in the file. */
struct vms_agent_function {
	uint64_t va;
	uint64_t flags;
};

struct vms_agent_table {
	struct vms_agent_message message;
	uint32_t reserved;
	uint64_t size; /* bytes of the file */
};

/* The open calls of a task when tracing starts, outermost first; `n` frames follow. */
struct vms_agent_stack {
	uint64_t task; /* address of its task_struct; 0: what vCPU `vcpu` runs, without tasks */
	uint32_t vcpu; /* that runs it, or UINT32_MAX */
	uint32_t n;
};
struct vms_agent_frame {
	uint64_t slot; /* see agent/flow.h */
	uint64_t function;
	uint64_t is_user;
};

enum vms_agent_by { VMS_AGENT_BY_VCPU, VMS_AGENT_BY_LEVEL, VMS_AGENT_BY_TASK };
enum vms_agent_clock {
	VMS_AGENT_CLOCK_HOST,	      /* ns of CLOCK_MONOTONIC */
	VMS_AGENT_CLOCK_INSTRUCTIONS, /* that the vCPU has executed */
};

struct vms_agent_calls {
	struct vms_agent_message message;
	uint32_t by;		 /* enum vms_agent_by */
	uint32_t clock;		 /* enum vms_agent_clock */
	uint32_t ring_size;	 /* bytes per vCPU, a power of two from 64 KiB to 64 MiB */
	uint32_t max_depth;	 /* deeper calls are not recorded; 0: no limit */
	uint32_t kernel, user;	 /* which levels are recorded: 0 or 1 */
	uint32_t n_pids;	 /* only these processes, 0: all; by the guest's own numbers */
	uint32_t wait_for_start; /* 1: nothing is recorded until a START function is called */
	uint64_t threshold;	 /* ns: calls shorter than this are not recorded */
	/* Offsets in the guest's struct task_struct, by which tasks are told; 0: no tasks known. */
	uint32_t task_pid, task_tgid, task_mm, task_comm;
	uint32_t pids[64];
};

/*
 * The memory of a trace: this, then a ring of `ring_size` bytes per vCPU, each at
 * `rings_offset + vcpu * ring_size`. The agent writes at `head`, the client reads at `tail`; both
 * count bytes and never go back. The socket brings a byte when an eighth of a ring has filled.
 */
struct vms_calls_ring {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(
		64) _Atomic uint64_t tail; /* a futex on its low half: a full ring waits for room */
	_Alignas(64) _Atomic uint64_t lost; /* records that found no room for too long */
	_Atomic uint32_t answered; /* number of the last block that was answered; a futex */
	/* That of the last one whose answer was not waited for: what it told of may be gone. */
	_Atomic uint32_t given_up;
};

struct vms_calls_shared {
	uint64_t rings_offset;
	uint64_t ring_size;
	uint32_t n_rings;
	_Atomic uint32_t stopped; /* 1: a STOP function was called; the socket brought a byte */
	/*
	 * A vCPU that counts `looks` up waits, for some seconds at most, until the client has
	 * looked at the guest and START has told the agent what is new, or `looked` is the same:
	 * the client writes that where there is nothing new. The socket brought a byte.
	 */
	_Atomic uint32_t looks, looked;
	struct vms_calls_ring ring[];
};

/*
 * A ring is a row of blocks, each a header and what follows, all multiples of 16 bytes; what
 * reaches the ring's end goes on at its begin. A RECORDS block is open, its size 0, until the agent
 * writes its size and then another block: who reads `head` first and the size after it knows how
 * far the records go. `tail` may stand inside a block: no block is longer than an eighth of the
 * ring, and what lies that far before `tail` is not overwritten, so that a header stays readable.
 * `tail` is a multiple of 16.
 */
enum vms_calls_block_kind {
	VMS_CALLS_RECORDS = 1, /* uftrace's records of `stream` */
	VMS_CALLS_STREAM,  /* struct vms_calls_stream: a stream begins, or has another name now */
	VMS_CALLS_SPACE,   /* struct vms_calls_space: what user addresses of `stream` mean from here
			      on */
	VMS_CALLS_PROCESS, /* struct vms_calls_space: this address space goes when it is answered */
};

struct vms_calls_block {
	uint32_t kind;
	_Atomic uint32_t size; /* bytes of what follows */
	uint64_t stream;       /* id, as in uftrace's file name; PROCESS is of none */
	uint64_t sequence; /* RECORDS: counts the blocks of this stream, over all rings, from 0 */
	uint64_t number;   /* PROCESS, and SPACE where it is not 0: to be answered in
			      vms_calls_ring.answered */
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
	uint64_t task; /* address of a task_struct that has it */
	uint32_t pid, reserved;
	char name[16];
};
