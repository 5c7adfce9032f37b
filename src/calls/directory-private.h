/* SPDX-License-Identifier: MIT */
/* What the files of a data directory's writer know of each other. */
#pragma once

#include "calls/directory.h"

/* As uftrace has it: bits that a record has for an address. */
#define VMS_CALLS_ADDRESS_MASK ((UINT64_C(1) << 48) - 1)

/* ---- images (image.c) ------------------------------------------------------ */

struct vms_calls_image {
	char *folder; /* in the guest, for the map; clean */
	char *name;   /* of the symbol file, without ".sym"; clean, and no other image has it */
	struct vms_symbol_table *table;
	uint64_t base;	     /* of the table's addresses */
	GHashTable *entries; /* offsets at which functions were entered; of mapped files */
	bool changed;	     /* since the symbol file was written */
	gint64 due_us;	     /* when it may be written again, after what that took */
};

/* `path`: what the guest calls it. */
struct vms_calls_image *vms_calls_image_new(const char *path, const char *name);
void vms_calls_image_free(struct vms_calls_image *image);
/* A function at `offset` was entered that is to have a name, symbol or not. Is it a new one? */
bool vms_calls_image_note_entry(struct vms_calls_image *image, uint64_t offset);
/* The symbol file's text; newly allocated. */
GString *vms_calls_image_text(const struct vms_calls_image *image);
/* A part of a path as uftrace can read it: no white space, no slash; at most 200 bytes. */
char *vms_calls_clean_name(const char *name);

/* ---- places (places.c) ------------------------------------------------------ */

struct vms_calls_mapping {
	uint64_t start, end; /* addresses as in records */
	uint64_t place;	     /* address in the trace of `start` */
	uint64_t offset;     /* in the image, of `start` */
	struct vms_calls_image *image;
};

/* Addresses of the trace that are an image's. */
struct vms_calls_place {
	uint64_t start, end; /* `start` is the image's offset 0 */
	struct vms_calls_image *image;
	unsigned number; /* of the image's places */
};

struct vms_calls_places {
	GArray *list;	     /* struct vms_calls_place, in the order of making */
	GHashTable *strays;  /* pieces in which records of nobody knows what were written */
	unsigned n_mappings; /* of all processes and the kernel */
	uint64_t next;	     /* where to look for room for an image that cannot stay */
	bool changed;	     /* since the map was written */
};

struct vms_calls_mappings {
	unsigned refs;
	struct vms_calls_places *places;
	GArray *list; /* struct vms_calls_mapping, sorted by start */
	bool is_kernel;
	GHashTable *asked; /* pieces of memory that nobody could tell */
};

struct vms_calls_places *vms_calls_places_new(void);
void vms_calls_places_free(struct vms_calls_places *places);
/* The session's map for uftrace; newly allocated. */
GString *vms_calls_places_text(const struct vms_calls_places *places);
/* An address that no mapping has, for a record: not one that is an image's. */
uint64_t vms_calls_places_stray(struct vms_calls_places *places, uint64_t va, bool of_process);

struct vms_calls_mappings *vms_calls_mappings_make(struct vms_calls_places *places, bool is_kernel);
const struct vms_calls_mapping *vms_calls_mappings_find(const struct vms_calls_mappings *mappings,
							uint64_t va);
/* Has nobody been asked yet what lies around this address? True once. */
bool vms_calls_mappings_ask(struct vms_calls_mappings *mappings, uint64_t va);

/* ---- tasks and facts (tasks.c) ----------------------------------------------- */

struct vms_calls_task {
	uint32_t tid, pid;
	char name[64];
};

/* task.txt of these tasks; sorts them. Newly allocated. */
GString *vms_calls_tasks_text(GArray *tasks, uint64_t start_ns);
/* The file `info`; newly allocated. `tasks` as above. */
GString *vms_calls_info_text(const struct vms_calls_about *about, const GArray *tasks,
			     unsigned max_stack);
