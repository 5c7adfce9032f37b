/* SPDX-License-Identifier: MIT */
/*
 * Writes a data directory of uftrace while the trace runs. It can be read at any moment, also after
 * its writer was killed. docs/uftrace-directory.md describes the files and how uftrace reads them.
 *
 *	directory = vms_calls_directory_open(path, &error);
 *	image = vms_calls_directory_image(directory, 0, "vmlinux");
 *	vms_calls_image_set_symbols(image, table, text);
 *	vms_calls_mappings_add(vms_calls_directory_kernel(directory), text, text_end, 0, image);
 *
 *	a STREAM block:    vms_calls_directory_name_stream(directory, id, &thread);
 *	a SPACE block:     vms_calls_directory_set_space(directory, id, mappings);
 *	a RECORDS block:   vms_calls_directory_append(directory, id, records, size, &error);
 *	every 100 ms:      vms_calls_directory_update(directory, &error);
 *	at the end:        vms_calls_directory_close(directory, &error);
 *
 * An *image* is something with symbols: the kernel, a module, a file that processes map. *Mappings*
 * tell which image is at which addresses. The kernel has mappings, and so has each user address
 * space.
 *
 * Every image has one place in the trace, usually where it was first mapped. The addresses of its
 * functions are moved there in all records. This is necessary because uftrace cannot handle
 * addresses whose meaning changes with each switch of processes: for every record it searches the
 * list of a task's sessions, and the mappings of a session. Addresses that no mapping has stay as
 * they are.
 *
 * Only one thread may use a directory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vmscope/symbol.h>

typedef struct vms_calls_directory vms_calls_directory;
typedef struct vms_calls_mappings vms_calls_mappings;
struct vms_calls_image;

/*
 * Creates the directory (mode 0700). Or takes an empty one, if this user owns it and nobody else
 * may write to it. Links of other users are not followed (base/path.h). Errors: EXISTS (it is not
 * empty), IO, PERMISSION.
 */
struct vms_calls_directory *vms_calls_directory_open(const char *path, GError **error);

/* Facts that `uftrace info` shows. Members that are not known are NULL. */
struct vms_calls_about {
	const char *command;  /* the command that made the trace */
	const char *kernel;   /* "Linux 6.1.0-…" */
	const char *hostname; /* the guest's */
	const char *distro;
	unsigned cpus; /* 0 if not known */
};
/* Sets the facts for `uftrace info`. Copies them. */
void vms_calls_directory_describe(struct vms_calls_directory *directory,
				  const struct vms_calls_about *about);

/* ---- names ---------------------------------------------------------------- */

/*
 * Returns the image with this key and name, and makes it if it is new. `name` is a path in the
 * guest or the name of a module. `key` tells files with the same name apart (the address of an
 * inode), and is else 0. The directory owns the image. NULL if there are too many images.
 */
struct vms_calls_image *vms_calls_directory_image(struct vms_calls_directory *directory,
						  uint64_t key, const char *name);
/*
 * Gives an image symbols, in place of those that it had. `base` is the address in the table of the
 * image's offset 0. For a mapped file, offsets are those in the file: vms_symbol_file_offsets makes
 * such a table, with base 0. A function of a mapped file without a symbol gets the name
 * "name+0x123". The image takes a reference to the table.
 */
void vms_calls_image_set_symbols(struct vms_calls_image *image, struct vms_symbol_table *table,
				 uint64_t base);

/* Returns the kernel's mappings, which every stream has. The directory owns them. */
struct vms_calls_mappings *vms_calls_directory_kernel(struct vms_calls_directory *directory);
/* Makes mappings for a user address space. Release them before the directory is closed. */
struct vms_calls_mappings *vms_calls_mappings_new(struct vms_calls_directory *directory);
struct vms_calls_mappings *vms_calls_mappings_ref(struct vms_calls_mappings *mappings);
void vms_calls_mappings_unref(struct vms_calls_mappings *mappings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_calls_mappings, vms_calls_mappings_unref)
/*
 * Maps the image from `offset` on at [start, end), in place of older mappings there. Only code need
 * be mapped. This takes little time if the mapping is known already. False if there is no room in
 * the trace: then these addresses get no names.
 */
bool vms_calls_mappings_add(struct vms_calls_mappings *mappings, uint64_t start, uint64_t end,
			    uint64_t offset, struct vms_calls_image *image);
/* Removes all mappings, for example before all are added again. */
void vms_calls_mappings_clear(struct vms_calls_mappings *mappings);

/*
 * Looks up an address in the guest and adds its mapping. vms_calls_directory_append calls this for
 * an address that is neither in the kernel's mappings nor in those of the stream's process. It is
 * called only once for addresses that are near each other.
 */
typedef void (*vms_calls_learn)(struct vms_calls_mappings *mappings, uint64_t va, void *data);
void vms_calls_directory_set_learn(struct vms_calls_directory *directory, vms_calls_learn learn,
				   void *data);

/* ---- streams -------------------------------------------------------------- */

/* The name of a stream. */
struct vms_calls_thread {
	uint64_t time_ns; /* when it begins */
	uint32_t pid;	  /* streams with the same pid are threads of a process; 0: it is the id */
	const char *name; /* uftrace shows 15 bytes of it */
};
/*
 * Names a stream that begins, or gives it a new name. Copies the name. A stream whose records come
 * before its name is called "unknown". `id` is from 1 to INT32_MAX; others are ignored.
 */
void vms_calls_directory_name_stream(struct vms_calls_directory *directory, uint64_t id,
				     const struct vms_calls_thread *thread);
/* From its next record on the stream's user addresses are in `mappings`; NULL if not known. */
void vms_calls_directory_set_space(struct vms_calls_directory *directory, uint64_t id,
				   struct vms_calls_mappings *mappings);
/*
 * Adds `size` bytes of records to a stream, 16 bytes each. They are in the file when this returns.
 * Errors: INVALID_ARGUMENT (no valid id, half a record); IO (for example the disk is full). After
 * IO, the whole records that were written are kept, and every later call fails with the same error.
 */
bool vms_calls_directory_append(struct vms_calls_directory *directory, uint64_t id,
				const void *records, size_t size, GError **error);

/* Writes the files of names again that have changed. Errors: IO. */
bool vms_calls_directory_update(struct vms_calls_directory *directory, GError **error);

struct vms_calls_written {
	uint64_t records, bytes; /* of data files */
	unsigned streams;
};
struct vms_calls_written vms_calls_directory_written(const struct vms_calls_directory *directory);

/* Removes the directory with all its files, and frees it. NULL is allowed. */
void vms_calls_directory_discard(struct vms_calls_directory *directory);
/* Updates and frees a directory. Errors: IO; files that were written stay. NULL is allowed. */
bool vms_calls_directory_close(struct vms_calls_directory *directory, GError **error);
