/* SPDX-License-Identifier: MIT */
/*
 * What runs in a machine: the operating system, its symbols and its tasks. All of it is found from
 * the machine's registers and memory. Nothing that is read from a guest is trusted: every count,
 * offset, list and string has a limit.
 */
#pragma once

#include <vmscope/debug_files.h>
#include <vmscope/memory.h>
#include <vmscope/symbolizer.h>
#include <vmscope/types.h>

VMS_BEGIN_DECLS

typedef struct vms_guest vms_guest;

enum vms_guest_kind {
	VMS_GUEST_NONE, /* no operating system was recognised */
	VMS_GUEST_LINUX,
};

/*
 * Finds out what runs in a machine. A guest that is not understood is not an error: its kind is
 * NONE, and vms_guest_why says what was missing. If only a part is not understood (no BTF, no ORC),
 * the rest can be used.
 *
 * Holds the machine while it reads the registers and finds the kernel's image by them. The guest
 * runs while the rest is read. A machine that must not be held now is observed instead
 * (vms_machine_observe). If that is not possible either, the kernel is searched for in memory. If a
 * part of the kernel cannot be read, it tries again, three times in all. Errors: only those of the
 * machine, and the refusal to hold it if the search in memory fails, too.
 */
struct vms_guest *vms_guest_detect(struct vms_machine *machine, GError **error);
/*
 * True if the machine was reset since vms_guest_detect. Then all that is known of the guest is
 * void. For any thread.
 */
bool vms_guest_is_stale(const struct vms_guest *guest);
/*
 * Finds out what runs in the same machine now. Returns a new guest, with the same symbol files
 * added. A file that cannot be used any more is left out, with a warning. Errors: those of
 * vms_guest_detect.
 */
struct vms_guest *vms_guest_detect_anew(const struct vms_guest *guest, GError **error);
struct vms_guest *vms_guest_ref(struct vms_guest *guest);
void vms_guest_unref(struct vms_guest *guest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_guest, vms_guest_unref)

enum vms_guest_kind vms_guest_kind(const struct vms_guest *guest);
struct vms_machine *vms_guest_machine(const struct vms_guest *guest);

/* The guest owns the strings. Members are NULL or 0 if unknown. */
struct vms_guest_info {
	const char *name;    /* "Linux" */
	const char *release; /* "6.1.0-56-cloud-amd64" */
	const char *version; /* "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-14)" */
	const char *banner;  /* the text of /proc/version */
	const char *hostname;
	const char *unwinder;  /* "ORC" or "frame pointers" */
	const char *found_by;  /* how the kernel was found */
	uint64_t text;	       /* address of _text */
	uint64_t kaslr_offset; /* distance from the address that the kernel was linked for */
	bool types;	       /* there is BTF: tasks, modules and memory areas can be read */
};
const struct vms_guest_info *vms_guest_info(const struct vms_guest *guest);
/* Returns why the kind is NONE, or which part of the guest is not understood, or NULL. */
const char *vms_guest_why(const struct vms_guest *guest);
/*
 * Returns all lines of a Linux guest's VMCOREINFO, which tools for core files need. NULL if the
 * kernel has none. The guest owns the text.
 */
const char *vms_guest_vmcoreinfo(const struct vms_guest *guest);

/* ---- symbols ---------------------------------------------------------- */

/*
 * Adds a symbol file, and sets its bias. If `address` is not NULL, the bias is `*address` minus the
 * file's base. For a Linux kernel's vmlinux it is the KASLR offset. Otherwise it is 0. Takes
 * ownership of `file`.
 */
bool vms_guest_add_symbols(struct vms_guest *guest, struct vms_symbol_file *file,
			   const uint64_t *address, GError **error);

/*
 * Sets the files of this host that complete what is found of the guest's programs and libraries.
 * Call it before anything of a process is named. References `files`. Guests of
 * vms_guest_detect_anew have them, too.
 */
void vms_guest_set_debug_files(struct vms_guest *guest, struct vms_debug_files *files);

/*
 * Returns the symbolizer of the guest's addresses. It knows the kernel, the processes by their
 * index, and the symbol files that were added. The guest owns it. With a reference to it, addresses
 * can be named after the guest has gone. vms_guest_detect_anew makes another one.
 */
struct vms_symbolizer *vms_guest_symbolizer(const struct vms_guest *guest);
/*
 * Names an address of the guest. An address in the kernel's half is named by what the kernel has
 * loaded now, others by the mappings of `process`, which may be NULL. Uses only what was read
 * before, and never reads guest memory. False if nothing is known of the address.
 */
bool vms_guest_locate(struct vms_guest *guest, const struct vms_process *process, uint64_t va,
		      struct vms_location *ret);
/*
 * Calls `each` for all symbols called `name` in all tables, or for all symbols if `name` is NULL.
 * Returns their number.
 */
size_t vms_guest_lookup(struct vms_guest *guest, const char *name,
			void (*each)(const struct vms_symbol *symbol, const char *module,
				     void *data),
			void *data);
/*
 * Returns what to append to a message that there is no symbol `name`: " (did you mean …?)" with the
 * nearest names, or "". Newly allocated.
 */
char *vms_guest_nearest(struct vms_guest *guest, const char *name);
/*
 * Returns the addresses of the symbols called `name` for a message, each once, the first eight of
 * them: "0x1000, 0x2000 (ext4) and 3 more". *n becomes the number of all. Newly allocated.
 */
char *vms_guest_addresses(struct vms_guest *guest, const char *name, size_t *n);

/* ---- types ------------------------------------------------------------ */

/*
 * Returns the types of the code at `va`: those of the kernel, or of a module with those of the
 * kernel. They are read when they are asked for first. The caller has to unref them. Errors:
 * UNSUPPORTED (the guest has no type information, or none for this code), UNREADABLE, MALFORMED.
 * For any thread.
 */
struct vms_types *vms_guest_types(struct vms_guest *guest, uint64_t va, GError **error);

/* ---- modules ---------------------------------------------------------- */

struct vms_module {
	char *name;
	uint64_t text;	    /* address of its code */
	uint64_t text_size; /* bytes */
	uint64_t init_text; /* of code that is freed after its init function; 0 once it is freed */
	uint64_t init_text_size;	  /* bytes */
	uint64_t size;			  /* bytes of all its parts */
	struct vms_symbol_table *symbols; /* may be empty, never NULL */
};
/*
 * Reads the list of loaded modules again, and the BPF programs. Call it if an address has no name,
 * for example. Errors: UNSUPPORTED, UNREADABLE, MALFORMED, and those of the machine.
 */
bool vms_guest_refresh_modules(struct vms_guest *guest, GError **error);
/*
 * Returns the loaded modules as they were read last, `*n` of them, or NULL if they could not be
 * read so far. The guest owns them until the next refresh.
 */
const struct vms_module *const *vms_guest_modules(const struct vms_guest *guest, size_t *n);

/* ---- tasks ------------------------------------------------------------ */

struct vms_task {
	uint64_t va;		  /* address of its struct task_struct */
	uint64_t mm;		  /* address of its struct mm_struct; 0 for a kernel thread */
	uint32_t tid;		  /* thread id */
	uint32_t pid;		  /* process id */
	uint32_t ppid;		  /* parent's process id */
	char state;		  /* as ps shows it: R S D T t X Z P I */
	char comm[VMS_COMM_SIZE]; /* the thread's name */
	char process_comm[VMS_COMM_SIZE]; /* its process's name */
	bool is_idle;			  /* it is the idle task of a CPU */
};

/*
 * Gets the task that a held vCPU runs. Its `ppid` is 0, because reading it would prolong the hold.
 * `memory` uses the page tables of that vCPU's `regs`. False if the task cannot be found (no types,
 * the guest is booting, or its memory is damaged).
 */
bool vms_guest_current(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_regs *regs, struct vms_task *ret);
/*
 * Returns every thread of the guest, a new array of struct vms_task, sorted by pid and tid. Hold
 * the machine for a consistent picture. Lists of a guest that has crashed may be damaged: then it
 * returns the threads that can be read, and `*loss` says what is missing. If `loss` is NULL, that
 * is an error. Errors: UNSUPPORTED (no types), MALFORMED (a list that does not end), UNREADABLE.
 */
GArray *vms_guest_tasks(struct vms_guest *guest, GError **loss, GError **error);
/* Further facts about a task. Members are NULL or UINT64_MAX if they are not known. */
struct vms_task_facts {
	uint64_t cpu_ns;       /* processor time of the thread */
	uint64_t ended_cpu_ns; /* that of threads of its process that have ended */
	char *command;	       /* the process's arguments in one line, 4096 bytes at most */
	char *cgroup;	       /* path of its control group, as in /proc/PID/cgroup */
	/* The container, virtual machine or service of that group; NULL for the root. */
	char *container;
};
/*
 * Reads further facts about a task of vms_guest_tasks. Hold the machine from that call on for a
 * consistent picture. False if the guest's system has no such facts. The caller clears `ret`. For
 * any thread.
 */
bool vms_guest_task_facts(struct vms_guest *guest, const struct vms_task *task,
			  struct vms_task_facts *ret);
/* Frees the strings, not the struct. */
void vms_task_facts_clear(struct vms_task_facts *facts);

/*
 * Gets registers from which the stack of a task that does not run can be walked. Errors:
 * INVALID_STATE if it runs on a vCPU.
 */
bool vms_guest_task_regs(struct vms_guest *guest, const struct vms_task *task, struct vms_regs *ret,
			 GError **error);

/*
 * Returns the process of a task, so that its addresses can be named later. There is one for every
 * (pid, name, mm) that was asked for. The guest's symbolizer owns it. A kernel thread has a process
 * without mappings. NULL if no operating system was recognised.
 */
const struct vms_process *vms_guest_process(struct vms_guest *guest, const struct vms_task *task);
/*
 * Finds, in the memory of a held guest, which file backs the user address `va` of `process`, so
 * that the guest's symbolizer can name it later. It is quick if that is known already. Does nothing
 * if `process` is NULL or no operating system was recognised.
 */
void vms_guest_note_address(struct vms_guest *guest, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va);

/*
 * Opens the files behind the addresses that vms_guest_note_address has noted since the last call,
 * so that the guest's symbolizer knows their functions. It reads the guest's page cache, which
 * takes milliseconds: call it while nothing is held. A process may end before the call; its files
 * usually stay in the page cache. For any thread.
 */
void vms_guest_read_files(struct vms_guest *guest);

/* ---- timers ----------------------------------------------------------- */

/* A high-resolution timer that is active. */
struct vms_timer {
	unsigned cpu;	     /* number of the CPU in the guest */
	const char *clock;   /* "monotonic", "realtime", "boottime", "tai" or "unknown"; static */
	uint64_t expires_ns; /* when it expires, on that clock */
	uint64_t function;   /* address of the function that it calls */
};
/*
 * Returns every active high-resolution timer of the guest, a new array of struct vms_timer. It is
 * sorted by CPU and clock, then the earliest first. Hold the machine for a consistent picture.
 * Errors: UNSUPPORTED, UNREADABLE, MALFORMED. For any thread.
 */
GArray *vms_guest_timers(struct vms_guest *guest, GError **error);

/* The clock source that a guest's kernel counts time by, or a device that wakes its CPUs. */
struct vms_clock {
	int cpu;       /* CPU of a clock event device; VMS_ALL_VCPUS for the clock source */
	char name[32]; /* "tsc", "lapic-deadline" … */
	unsigned rating;
	uint64_t next_event_ns; /* of a clock event device, on the monotonic clock */
};
/*
 * Returns the guest's clock source and each CPU's clock event device, a new array of struct
 * vms_clock. Errors: UNSUPPORTED. For any thread.
 */
GArray *vms_guest_clocks(struct vms_guest *guest, GError **error);

/* ---- log -------------------------------------------------------------- */

/*
 * Calls `each` for every record of the kernel log, oldest first. `time_ns` counts from boot,
 * `level` is 0 to 7, and `text` has no newline at its end. Errors: UNSUPPORTED, MALFORMED (some
 * records are damaged; `each` was called for the others), UNREADABLE.
 */
bool vms_guest_dmesg(struct vms_guest *guest,
		     void (*each)(uint64_t time_ns, unsigned level, const char *text, void *data),
		     void *data, GError **error);

VMS_END_DECLS
