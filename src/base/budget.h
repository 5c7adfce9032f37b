/* SPDX-License-Identifier: MIT */
/*
 * Spending a budget. Each source of foreign data (a disk, a file, a process, a structure) has a
 * part of a budget, and ends alone when that part is used up.
 *
 * Everything that reads foreign bytes carries a budget: struct vms_bytes, struct vms_file_source,
 * struct vms_memory. Functions return false when it is used up; callers treat that like the end of
 * the data. NULL is the budget of data that are ours.
 *
 * Threads: only one thread at a time may step a budget. Threads that work at the same time have a
 * part each. All other functions are for any thread.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <vmscope/budget.h>

enum vms_budget_unit {
	VMS_BUDGET_STEPS,
	VMS_BUDGET_BYTES,   /* that are kept */
	VMS_BUDGET_ITEMS,   /* entries of lists */
	VMS_BUDGET_PRINTED, /* bytes of output */
	VMS_BUDGET_N_UNITS
};

#define VMS_BUDGET_STEP_NS 20

/* What a budget usually has, as vms_budget_options says. */
#define VMS_BUDGET_USUAL_NS	 (4 * UINT64_C(1000000000))
#define VMS_BUDGET_USUAL_BYTES	 (UINT64_C(256) << 20)
#define VMS_BUDGET_USUAL_ITEMS	 (UINT64_C(1) << 18)
#define VMS_BUDGET_USUAL_PRINTED (UINT64_C(64) << 20)
/* What is added for work that goes on while a machine runs, in percent of a processor. */
#define VMS_BUDGET_RUNNING_PERCENT 5
/* What is added for a recording: for each GiB of it, and for each byte. */
#define VMS_BUDGET_RECORDING_NS_PER_GIB	    (40 * UINT64_C(1000000000)) /* deep stacks need 23 s */
#define VMS_BUDGET_RECORDING_BYTES_PER_BYTE 6 /* the file, its samples, their trees */

/*
 * What work costs that is more than one step: a read of a guest's memory, which is cached or not;
 * and bytes that are hashed, compared or decompressed.
 */
#define VMS_STEPS_OF_CACHED_READ      2
#define VMS_STEPS_OF_READ	      50
#define VMS_STEPS_OF_CLEANING(n)      ((n) / 2) /* a text, see base/text.h */
#define VMS_STEPS_OF_BYTES(n)	      ((n) / 16)
#define VMS_STEPS_OF_DECOMPRESSING(n) ((n) / 6)
#define VMS_DECOMPRESS_PIECE	      (16u << 10)

struct vms_budget {
	uint64_t slice;	  /* steps up to the next look; at first, so that it stays in one place */
	uint64_t granted; /* what `slice` was at the last look */
	gatomicrefcount refs;
	struct vms_budget *whole; /* that this is a part of; NULL: it is the whole */
	struct vms_budget *root;
	char *source; /* what it is spent on; for messages */
	/* The lock of `root` guards all that follows, in the root and in its parts. */
	GMutex lock;
	uint64_t limit[VMS_BUDGET_N_UNITS], spent[VMS_BUDGET_N_UNITS];
	uint64_t begin_ns;
	double steps_per_ns;		   /* that are added while time passes */
	bool has_lost;			   /* it was used up once */
	bool is_short[VMS_BUDGET_N_UNITS]; /* the last request for that was refused */
	bool is_lent;			   /* it is a copy: whoever lent it tells what was lost */
	uint32_t used_up;		   /* units that did not suffice, a bit each */
	int is_cancelled;		   /* of the root; atomic */
	int hurries;			   /* of the root; atomic */
	bool has_hurried;		   /* of the root: its limit was lowered for that */
	char *jail;			   /* of the root: path of a program; NULL: there is none */
	GPtrArray *losses;		   /* of the root: texts; NULL while there are none */
	guint n_losses;
};

/*
 * Makes the part of a budget that `source` may spend: a quarter of what is left of each unit.
 * `source` is a noun for messages, as "the guest's disks", and is copied. NULL if `whole` is NULL.
 */
struct vms_budget *vms_budget_new_part(struct vms_budget *whole, const char *source);
/*
 * The same with all that is left, for what is served first: the kernel's own tables. It also lets
 * another thread step.
 */
struct vms_budget *vms_budget_new_first(struct vms_budget *whole, const char *source);
/* Looks whether more steps can be taken, and counts those that were. For vms_budget_step. */
bool vms_budget_look(struct vms_budget *budget, uint64_t steps);

/* Counts steps before they are taken. False: they must not be taken. */
static inline bool vms_budget_step(struct vms_budget *budget, uint64_t steps)
{
	if (!budget)
		return true;
	if (G_LIKELY(steps <= budget->slice)) {
		budget->slice -= steps;
		return true;
	}
	return vms_budget_look(budget, steps);
}

/*
 * Counts work that was measured, in ns of processor time: that of libraries which take no budget.
 * False: it was more than what was left, of which nothing is left then.
 */
bool vms_budget_step_ns(struct vms_budget *budget, uint64_t thread_ns);
/*
 * Counts `n` bytes that a library has taken in and given out to decompress something, or its time,
 * in ns of this thread, where it is much more: whoever has made the bytes chooses what they cost.
 * Long ones are decompressed in pieces of VMS_DECOMPRESS_PIECE, each of which is counted.
 */
bool vms_budget_step_decompressed(struct vms_budget *budget, uint64_t n, uint64_t thread_ns);
/* Counts bytes, items or output before they are made. False: there is no room for them. */
bool vms_budget_take(struct vms_budget *budget, enum vms_budget_unit unit, uint64_t amount);
/* Gives back bytes that are not kept any more. */
void vms_budget_give_back(struct vms_budget *budget, enum vms_budget_unit unit, uint64_t amount);

/* False if it was cancelled, nothing is left of a unit, or the last request for one was refused. */
bool vms_budget_has_left(struct vms_budget *budget);
bool vms_budget_is_cancelled(const struct vms_budget *budget);
/* True if it was cancelled, or is to end soon (vms_budget_hurry). */
bool vms_budget_hurries(const struct vms_budget *budget);
/* Returns the path of the program that serves as a jail, or NULL. The budget owns it. */
const char *vms_budget_jail(const struct vms_budget *budget);
/* Returns what was spent, parts included. */
uint64_t vms_budget_spent(struct vms_budget *budget, enum vms_budget_unit unit);
/* Returns what is left, which is not more than what is left of the whole. */
uint64_t vms_budget_left(struct vms_budget *budget, enum vms_budget_unit unit);
/*
 * Notes that data of a source were left out for another reason, so that the result says so: "it
 * was ended by signal 11". Copies both.
 */
void vms_budget_note_loss(struct vms_budget *budget, const char *source, const char *reason);
/* The same with one text. */
void vms_budget_add_loss(struct vms_budget *budget, const char *loss);
/* Returns the loss of that number, a copy, or NULL if there are less. */
char *vms_budget_get_loss(struct vms_budget *budget, guint number);
/*
 * Makes so much be left of a whole budget, whatever was spent before. It is lent from then on: that
 * it is used up is no loss of its own, but what vms_budget_used_up tells (a bit for each unit).
 */
void vms_budget_refill(struct vms_budget *budget, const uint64_t left[VMS_BUDGET_N_UNITS],
		       double steps_per_ns);
uint32_t vms_budget_used_up(struct vms_budget *budget);
/* Notes that units of this budget did not suffice where it was lent to. */
void vms_budget_note_used_up(struct vms_budget *budget, uint32_t used_up);
/* Sets VMS_ERROR_BUDGET, or CANCELLED, with what was being done: "cannot read the tasks". */
void vms_budget_set_error(struct vms_budget *budget, const char *action, GError **error);
/* Returns the processor time of this thread so far, in ns. */
uint64_t vms_budget_thread_ns(void);
