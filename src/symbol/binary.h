/* SPDX-License-Identifier: MIT */
/*
 * A binary: a program or library, of which some bytes can be read. All processes that map the file
 * share one. What is found in it (its functions) is read when it is first asked for, and kept; what
 * was missing then can be read later. It can be used after the hold in which it was found, and by
 * any thread.
 */
#pragma once

#include "base/jail.h"
#include "symbol/debug_files.h"
#include <vmscope/symbol.h>

typedef struct vms_binary vms_binary;

/*
 * Makes a binary. `path` is for messages, and copied. Takes the source. A part of the source's
 * budget pays for all that is read and kept. When that is used up, the binary has what was read
 * until then. Headers that must be waited for are read later.
 */
struct vms_binary *vms_binary_new(const char *path, const struct vms_file_source *source);
struct vms_binary *vms_binary_ref(struct vms_binary *binary);
void vms_binary_unref(struct vms_binary *binary);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_binary, vms_binary_unref)

/*
 * What the binary's own bytes lack comes from files of this host. References `files`, which may be
 * NULL. Call it before the binary is used.
 */
void vms_binary_set_debug_files(struct vms_binary *binary, struct vms_debug_files *files);

/*
 * Has its functions read in a jail, which is referenced; NULL: they are read in place. Call it
 * before the binary is used.
 */
void vms_binary_set_jail(struct vms_binary *binary, struct vms_jail *jail);

/* True if the budget has something left. */
bool vms_binary_has_room(struct vms_binary *binary);
/* Takes bytes that others keep with the binary. False if there is no room for them. */
bool vms_binary_keep_bytes(struct vms_binary *binary, size_t bytes);

const char *vms_binary_path(const struct vms_binary *binary);
/* Returns the size of the file in bytes. */
uint64_t vms_binary_size(const struct vms_binary *binary);
/* Returns its headers, or NULL if it is no ELF file or its begin is missing. It owns them. */
const struct vms_elf_image *vms_binary_elf(const struct vms_binary *binary);
/* Returns its build id in hexadecimal digits, or NULL if it is not known. */
const char *vms_binary_build_id(const struct vms_binary *binary);

/* Reads headers that were missing when it was made, and waits for them. */
void vms_binary_read_headers(struct vms_binary *binary);

/*
 * Returns its functions by their offsets in the file. They are read by the first call, which takes
 * milliseconds. The table may be empty. The binary owns it, even when it has read a better one.
 */
struct vms_symbol_table *vms_binary_functions(struct vms_binary *binary);
/* Returns the functions that were read last, or NULL if they never were. It never waits. */
struct vms_symbol_table *vms_binary_known_functions(const struct vms_binary *binary);
/*
 * Reads the functions again if parts were missing when they were read, as of a program that has
 * just begun; but not within a second, and ever more rarely while no more functions come. Reads
 * them at once if a server has answered. True if it has read, which takes milliseconds.
 */
bool vms_binary_refresh(struct vms_binary *binary, uint64_t now_ns);
/* True if servers were asked for its symbols and have not answered when it was read last. */
bool vms_binary_is_awaited(struct vms_binary *binary);

/*
 * Returns what another part of the library keeps with the binary. While there is nothing,
 * each call has `make` make it, which must not read the binary. It is freed by `free` with the
 * binary. There is one for each binary, so all callers pass the same functions. NULL if `make`
 * returned that: what it needs may come with a refresh.
 */
void *vms_binary_attachment(struct vms_binary *binary, void *(*make)(struct vms_binary *binary),
			    void (*free)(void *attachment));

/* As vms_file_source_read, but what is missing is fetched: it may wait for a disk. */
bool vms_binary_read(struct vms_binary *binary, uint64_t offset, void *buf, size_t size);
/* Reads without waiting for a disk. What is missing is noted for vms_binary_fetch. */
bool vms_binary_read_now(struct vms_binary *binary, uint64_t offset, void *buf, size_t size);
/*
 * Fetches what vms_binary_read_now has not found, and what lies around it. Waits for it. True if
 * something came; ever more rarely tried while nothing does.
 */
bool vms_binary_fetch(struct vms_binary *binary);
