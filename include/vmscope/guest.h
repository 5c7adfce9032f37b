/* SPDX-License-Identifier: MIT */
/*
 * What runs in a machine: the operating system, its symbols, its tasks. Found from the
 * machine's registers and memory alone. Nothing read from a guest is believed: every count,
 * offset, list and string is bounded.
 */
#pragma once

#include <vmscope/memory.h>
#include <vmscope/symbolizer.h>

VMS_BEGIN_DECLS

typedef struct vms_guest vms_guest;

enum vms_guest_kind {
	VMS_GUEST_NONE, /* no operating system was recognised */
	VMS_GUEST_LINUX,
};

/*
 * Finds out what runs in a machine. Never fails for a guest that is not understood: the kind is
 * NONE then, and vms_guest_why says what was missing. Errors: those of the machine only.
 * Holds the machine for as long as it takes to read the registers and to find the kernel's image by
 * them. One that must not be held now is observed instead (vms_machine_observe), and where it
 * cannot be, the kernel is searched for in memory; only when that fails, too, the refusal is the
 * error. The guest runs while the rest is read. A kernel of which a part cannot be read is looked
 * at again, three times in all. Guests that are not understood in part (no BTF, no ORC) are usable
 * for the rest.
 */
struct vms_guest *vms_guest_detect(struct vms_machine *machine, GError **error);
/*
 * Was the machine reset since it was looked for (vms_guest_detect)? What is known of the guest is
 * void then. For any thread.
 */
bool vms_guest_is_stale(const struct vms_guest *guest);
/*
 * Finds out what runs in the same machine now: a guest of its own, to which the same symbol files
 * are added. One that cannot be used any more is left out, with a warning. Errors: those of
 * vms_guest_detect.
 */
struct vms_guest *vms_guest_detect_anew(const struct vms_guest *guest, GError **error);
struct vms_guest *vms_guest_ref(struct vms_guest *guest);
void vms_guest_unref(struct vms_guest *guest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_guest, vms_guest_unref)

enum vms_guest_kind vms_guest_kind(const struct vms_guest *guest);
struct vms_machine *vms_guest_machine(const struct vms_guest *guest);

/* Strings are owned by the guest; NULL or 0 where unknown. */
struct vms_guest_info {
	const char *name;    /* "Linux" */
	const char *release; /* "6.1.0-56-cloud-amd64" */
	const char *version; /* "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-14)" */
	const char *banner;  /* what /proc/version says */
	const char *hostname;
	const char *unwinder;  /* "ORC" or "frame pointers" */
	const char *found_by;  /* how the kernel was found */
	uint64_t text;	       /* address of _text */
	uint64_t kaslr_offset; /* from the address that the kernel was linked for */
	bool types;	       /* BTF is there: tasks, modules and memory areas can be read */
};
const struct vms_guest_info *vms_guest_info(const struct vms_guest *guest);
/* Why the kind is NONE, or which part of the guest could not be understood; or NULL. */
const char *vms_guest_why(const struct vms_guest *guest);
/*
 * VMCOREINFO of a Linux guest, all its lines: what tools need to know of a kernel in a core file.
 * NULL where the kernel has none. Owned by the guest.
 */
const char *vms_guest_vmcoreinfo(const struct vms_guest *guest);

/* ---- symbols ---------------------------------------------------------- */

/*
 * Adds a symbol file. The bias is `address` - the file's base when an address was given; for a
 * Linux kernel's vmlinux what KASLR moved it by; else 0. Takes ownership of `file`.
 */
bool vms_guest_add_symbols(struct vms_guest *guest, struct vms_symbol_file *file,
			   const uint64_t *address, GError **error);

/*
 * What the guest's addresses are called: what is known of its kernel and of its processes, by their
 * index, and the symbol files that were added. Owned by the guest; whoever references it can name
 * when the guest is gone. Another one where the guest is looked for again.
 */
struct vms_symbolizer *vms_guest_symbolizer(const struct vms_guest *guest);
/*
 * Names an address of the guest as it is now: in the kernel's half by what the kernel has loaded
 * now, else of `process`, which may be NULL. Looks up what was read before, never in guest memory.
 * False when nothing at all is known of the address.
 */
bool vms_guest_locate(struct vms_guest *guest, const struct vms_process *process, uint64_t va,
		      struct vms_location *ret);
/* All symbols called `name`, in all tables (NULL: all symbols): calls `each`; their number. */
size_t vms_guest_lookup(struct vms_guest *guest, const char *name,
			void (*each)(const struct vms_symbol *symbol, const char *module,
				     void *data),
			void *data);

/* ---- modules ---------------------------------------------------------- */

struct vms_module {
	char *name;
	uint64_t text; /* address and bytes of its code */
	uint64_t text_size;
	uint64_t init_text; /* of what is freed when its init function has returned; 0: it was */
	uint64_t init_text_size;
	uint64_t size;			  /* bytes of all its parts */
	struct vms_symbol_table *symbols; /* may be empty, never NULL */
};
/*
 * Reads the list of loaded modules anew (after detection, or when an address is unknown), and what
 * else has been loaded into the kernel: BPF programs.
 */
bool vms_guest_refresh_modules(struct vms_guest *guest, GError **error);
/*
 * The loaded modules as they were read last, `*n` of them; NULL if they could not be read so far.
 * Owned by the guest until the next refresh.
 */
const struct vms_module *const *vms_guest_modules(const struct vms_guest *guest, size_t *n);

/* ---- tasks ------------------------------------------------------------ */

struct vms_task {
	uint64_t va;			  /* of its struct task_struct */
	uint64_t mm;			  /* of its struct mm_struct; 0 for a kernel thread */
	uint32_t tid;			  /* thread id */
	uint32_t pid;			  /* process id */
	uint32_t ppid;			  /* parent's process id */
	char state;			  /* as ps shows it: R S D T t X Z P I */
	char comm[VMS_COMM_SIZE];	  /* the thread's name */
	char process_comm[VMS_COMM_SIZE]; /* its process's name */
	bool is_idle;			  /* the idle task of a CPU */
};

/*
 * The task that a held vCPU runs, but for its parent's id, which is 0: the vCPU stands still for
 * every page that is read. `memory` looks through the page tables of that vCPU's `regs`.
 * False when it cannot be told (no types, the guest is booting, the memory is damaged).
 */
bool vms_guest_current(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_regs *regs, struct vms_task *ret);
/*
 * Every thread of the guest: an array of struct vms_task, by pid and tid. Hold the machine for a
 * consistent picture. Errors: UNSUPPORTED (no types), MALFORMED (a list that does not end),
 * UNREADABLE. Lists of a guest that has crashed may be damaged: `*loss` then says what is missing,
 * and the threads that can be read are returned; without `loss` that is an error.
 */
GArray *vms_guest_tasks(struct vms_guest *guest, GError **loss, GError **error);
/*
 * Registers with which the stack of a task that does not run can be walked. Errors: INVALID_STATE
 * when it runs on a vCPU.
 */
bool vms_guest_task_regs(struct vms_guest *guest, const struct vms_task *task, struct vms_regs *ret,
			 GError **error);

/*
 * The process of a task, whose addresses are to be named later: one for every (pid, name, mm) that
 * was asked for, owned by the guest's symbolizer. Kernel threads have a process without mappings.
 * NULL where no operating system was recognised.
 */
const struct vms_process *vms_guest_process(struct vms_guest *guest, const struct vms_task *task);
/*
 * Learns, from the memory of a held guest, which file backs the user address `va` of `process`,
 * so that the guest's symbolizer can tell later. Cheap when known already. Does nothing where
 * `process` is NULL or no operating system was recognised.
 */
void vms_guest_note_address(struct vms_guest *guest, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va);

/* ---- timers ----------------------------------------------------------- */

/* A high-resolution timer that waits to expire. */
struct vms_timer {
	unsigned cpu;	     /* as the guest counts them */
	const char *clock;   /* "monotonic", "realtime", "boottime", "tai" or "unknown"; static */
	uint64_t expires_ns; /* on that clock */
	uint64_t function;   /* address of what it calls */
};
/*
 * Every active high-resolution timer of the guest: an array of struct vms_timer, by CPU and
 * clock, the earliest first. Hold the machine for a consistent picture. Errors: UNSUPPORTED,
 * UNREADABLE, MALFORMED. For any thread.
 */
GArray *vms_guest_timers(struct vms_guest *guest, GError **error);

/* What a guest's kernel counts time by, and what wakes its CPUs. */
struct vms_clock {
	int cpu;       /* of a clock event device; VMS_ALL_VCPUS: the clock source */
	char name[32]; /* "tsc", "lapic-deadline" … */
	unsigned rating;
	uint64_t next_event_ns; /* on the monotonic clock; of a clock event device */
};
/*
 * The guest's clock source and each CPU's clock event device: an array of struct vms_clock. Errors:
 * UNSUPPORTED. For any thread.
 */
GArray *vms_guest_clocks(struct vms_guest *guest, GError **error);

/* ---- log -------------------------------------------------------------- */

/*
 * The kernel log: calls `each` for every record, oldest first: time in ns since boot, level
 * 0–7, text without newline at the end. Errors: UNSUPPORTED, MALFORMED (some records are damaged;
 * the others were given), UNREADABLE.
 */
bool vms_guest_dmesg(struct vms_guest *guest,
		     void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		     void *data, GError **error);

VMS_END_DECLS
