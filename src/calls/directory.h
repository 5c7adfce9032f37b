/* SPDX-License-Identifier: MIT */
/*
 * A data directory of uftrace, written while the trace runs and readable at any moment, also after
 * its writer was killed. docs/uftrace-directory.md says what uftrace makes of which file.
 *
 *	directory = vms_calls_directory_open(path, &error);
 *	image = vms_calls_directory_image(directory, 0, "vmlinux");
 *	vms_calls_image_set_symbols(image, table, text);
 *	vms_calls_mappings_add(vms_calls_directory_kernel(directory), text, text_end, 0, image);
 *
 *	a STREAM block:    vms_calls_directory_stream(directory, id, &thread);
 *	a SPACE block:     vms_calls_directory_switch(directory, id, mappings);
 *	a RECORDS block:   vms_calls_directory_append(directory, id, records, size, &error);
 *	every 100 ms:      vms_calls_directory_update(directory, &error);
 *	at the end:        vms_calls_directory_close(directory, &error);
 *
 * An *image* is what has symbols: the kernel, a module, a file that processes map. *Mappings* say
 * which image lies where: the kernel's, and those of each user address space.
 *
 * Every image has one place in the trace: where it was mapped first, as a rule. Records of its
 * functions are moved there. For uftrace cannot be told addresses that mean something else with
 *each switch of processes: it goes through the list of a task's sessions for every record, and
 *through a session's mappings. Addresses that no mapping has stay as they are.
 *
 * All of a directory belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vmscope/symbol.h>

typedef struct vms_calls_directory vms_calls_directory;
typedef struct vms_calls_mappings vms_calls_mappings;
struct vms_calls_image;

/*
 * Creates the directory (mode 0700), or takes an empty one that nobody but this user owns and may
 * write to. Links of other users are not followed (base/path.h). Errors: EXISTS (it is not empty),
 * IO, PERMISSION.
 */
struct vms_calls_directory *vms_calls_directory_open(const char *path, GError **error);

/* What `uftrace info` shows; copied. NULL: not known. */
struct vms_calls_about {
	const char *command;  /* that made the trace */
	const char *kernel;   /* "Linux 6.1.0-…" */
	const char *hostname; /* the guest's */
	const char *distro;
	unsigned cpus;
};
void vms_calls_directory_describe(struct vms_calls_directory *directory,
				  const struct vms_calls_about *about);

/* ---- names ---------------------------------------------------------------- */

/*
 * The image with this key and name, made when it is new. `name`: a path in the guest, a module's
 * name. `key` tells files of one name apart (an inode's address), 0 where there are none. Owned by
 * the directory. NULL when there are too many.
 */
struct vms_calls_image *vms_calls_directory_image(struct vms_calls_directory *directory,
						  uint64_t key, const char *name);
/*
 * The symbols of an image, in place of what it had: `base` is the address, in the table, of the
 * image's offset 0. Offsets of mapped files are those in the file: vms_symbol_file_offsets gives
 * such a table, with base 0. Functions of theirs without a symbol are called "name+0x123".
 * References the table.
 */
void vms_calls_image_set_symbols(struct vms_calls_image *image, struct vms_symbol_table *table,
				 uint64_t base);
/* Has it been given symbols? */
bool vms_calls_image_has_symbols(const struct vms_calls_image *image);

/* The kernel's mappings: they hold in every stream. Owned by the directory. */
struct vms_calls_mappings *vms_calls_directory_kernel(struct vms_calls_directory *directory);
/* Those of a user address space, none yet; freed before the directory is closed. */
struct vms_calls_mappings *vms_calls_mappings_new(struct vms_calls_directory *directory);
struct vms_calls_mappings *vms_calls_mappings_ref(struct vms_calls_mappings *mappings);
void vms_calls_mappings_unref(struct vms_calls_mappings *mappings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls_mappings, vms_calls_mappings_unref)
/*
 * [start, end) is the image from `offset` on, instead of what any of these addresses were before.
 * Only code matters. Cheap when it is known already. False where there is no room in the trace:
 * these addresses have no names then.
 */
bool vms_calls_mappings_add(struct vms_calls_mappings *mappings, uint64_t start, uint64_t end,
			    uint64_t offset, struct vms_calls_image *image);
/* Forgets all, e.g. before all are told anew. */
void vms_calls_mappings_clear(struct vms_calls_mappings *mappings);

/*
 * Called from vms_calls_directory_append for an address that is neither the kernel's nor in a
 * mapping of the stream's process, so that it can be looked up in the guest and added. Not called
 * again for addresses near one that could not be told.
 */
typedef void (*vms_calls_learn)(struct vms_calls_mappings *mappings, uint64_t va, void *data);
void vms_calls_directory_set_learn(struct vms_calls_directory *directory, vms_calls_learn learn,
				   void *data);

/* ---- streams -------------------------------------------------------------- */

struct vms_calls_thread {
	uint64_t time_ns; /* when it begins */
	uint32_t pid;	  /* streams with one pid are shown as threads of a process; else the id */
	const char *name; /* copied; uftrace shows 15 bytes of it */
};
/*
 * A stream begins, or is called otherwise now; "unknown" if its records come first. Ids are from 1
 * to INT32_MAX.
 */
void vms_calls_directory_stream(struct vms_calls_directory *directory, uint64_t id,
				const struct vms_calls_thread *thread);
/* From its next record on the stream's user addresses are in `mappings` (NULL: nobody knows). */
void vms_calls_directory_switch(struct vms_calls_directory *directory, uint64_t id,
				struct vms_calls_mappings *mappings);
/*
 * Adds records, `size` bytes of 16 each, to a stream; they are in the file when this returns.
 * Errors: IO (the disk is full …): whole records up to there are kept, and every later call fails
 * with the same error; INVALID_ARGUMENT (no valid id, half a record).
 */
bool vms_calls_directory_append(struct vms_calls_directory *directory, uint64_t id,
				const void *records, size_t size, GError **error);

/* Brings files of names up to date with all that has changed. Errors: IO. */
bool vms_calls_directory_update(struct vms_calls_directory *directory, GError **error);

struct vms_calls_written {
	uint64_t records, bytes; /* of data files */
	unsigned streams;
};
struct vms_calls_written vms_calls_directory_written(const struct vms_calls_directory *directory);

/* Frees, and removes the directory with what was written to it: there was no trace. */
void vms_calls_directory_discard(struct vms_calls_directory *directory);
/* Updates and frees. Errors: IO: what was written stays. NULL is nothing. */
bool vms_calls_directory_close(struct vms_calls_directory *directory, GError **error);
