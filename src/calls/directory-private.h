/* SPDX-License-Identifier: MIT */
/* Declarations for the files that write a data directory together. */
#pragma once

#include "calls/directory.h"

/* The bits of an address that fit into a record of uftrace. */
#define VMS_CALLS_ADDRESS_MASK ((UINT64_C(1) << 48) - 1)

/* ---- images (directory_symbols.c) ------------------------------------------------------ */

struct vms_calls_image {
	char *folder; /* in the guest, cleaned; for the map */
	char *name;   /* of the symbol file, cleaned, without ".sym"; unique */
	struct vms_symbol_table *table;
	uint64_t base;	     /* the table's address of the image's offset 0 */
	GHashTable *entries; /* offsets at which functions of a mapped file were entered */
	bool changed;	     /* has changed since the symbol file was written */
	gint64 due_us;	     /* when the symbol file may be written again */
};

/* Makes an image. `path` is its path in the guest; `name` is that of its symbol file. */
struct vms_calls_image *vms_calls_image_new(const char *path, const char *name);
void vms_calls_image_free(struct vms_calls_image *image);
/* Notes that the function at `offset` was entered and needs a name. True if it is a new one. */
bool vms_calls_image_note_entry(struct vms_calls_image *image, uint64_t offset);
/* Makes the symbol file's text. */
GString *vms_calls_image_text(const struct vms_calls_image *image);
/* Returns a part of a path without white space and slashes for uftrace, at most 200 bytes. */
char *vms_calls_clean_name(const char *name);

/* ---- places (directory_map.c) ------------------------------------------------------ */

struct vms_calls_mapping {
	uint64_t start, end; /* addresses as in records */
	uint64_t place;	     /* the address of `start` in the trace */
	uint64_t offset;     /* the offset of `start` in the image */
	struct vms_calls_image *image;
};

/* The addresses of an image in the trace. */
struct vms_calls_place {
	uint64_t start, end; /* `start` is the image's offset 0 */
	struct vms_calls_image *image;
	unsigned number; /* index among the image's places */
};

struct vms_calls_places {
	GArray *list;	     /* struct vms_calls_place, oldest first */
	GArray *sorted;	     /* the same by address: none overlaps another */
	GHashTable *strays;  /* pieces of memory with recorded addresses that no mapping has */
	unsigned n_mappings; /* of all processes and the kernel */
	uint64_t next;	     /* where to search for room for an image */
	bool changed;	     /* has changed since the map was written */
};

struct vms_calls_mappings {
	unsigned refs;
	struct vms_calls_places *places;
	GArray *list; /* struct vms_calls_mapping, sorted by start */
	bool is_kernel;
	GHashTable *asked; /* pieces of memory whose mappings were looked up */
};

struct vms_calls_places *vms_calls_places_new(void);
void vms_calls_places_free(struct vms_calls_places *places);
/* Makes the text of the session's map for uftrace. */
GString *vms_calls_places_text(const struct vms_calls_places *places);
/*
 * Returns the address to record for an address without a mapping. It is in no image's place.
 * `of_process`: the process is known, so that the mapping may still become known.
 */
uint64_t vms_calls_places_move_stray(struct vms_calls_places *places, uint64_t va, bool of_process);

/* Makes mappings with one reference. `places` must outlive them. */
struct vms_calls_mappings *vms_calls_mappings_make(struct vms_calls_places *places, bool is_kernel);
/* Returns the mapping that contains `va`, or NULL. */
const struct vms_calls_mapping *vms_calls_mappings_find(const struct vms_calls_mappings *mappings,
							uint64_t va);
/* Notes that the mapping of `va` is looked up. False if one near `va` was looked up before. */
bool vms_calls_mappings_note_question(struct vms_calls_mappings *mappings, uint64_t va);

/* ---- tasks and facts (directory_tasks.c) ----------------------------------------------- */

struct vms_calls_task {
	uint32_t tid, pid;
	char name[64];
};

/* Makes the text of task.txt for these tasks, which it sorts. */
GString *vms_calls_tasks_text(GArray *tasks, uint64_t start_ns);
/* Makes the content of the file `info`. */
GString *vms_calls_info_text(const struct vms_calls_about *about, const GArray *tasks,
			     unsigned max_stack);
