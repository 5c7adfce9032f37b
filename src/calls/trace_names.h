/* SPDX-License-Identifier: MIT */
/*
 * What the addresses in a trace's directory are called, by its map and its symbol files. See
 * docs/uftrace-directory.md.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/error.h>

typedef struct vms_trace_names vms_trace_names;

struct vms_trace_names *vms_trace_names_new(void);
void vms_trace_names_free(struct vms_trace_names *names);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_trace_names, vms_trace_names_free)

/* Adds the images of a map. `text` is changed. Lines that are no mapping are skipped. */
void vms_trace_names_add_map(struct vms_trace_names *names, char *text);
/* Returns the names of the images' files in the directory, without ".sym": char *. */
GPtrArray *vms_trace_names_images(const struct vms_trace_names *names);
/* Adds the symbols of an image, by its file's name. `text` is changed. */
void vms_trace_names_add_symbols(struct vms_trace_names *names, const char *image, char *text);
/*
 * Finds the name of an address, and of its image. Returns the name, newly allocated, fit for a
 * terminal; an address without one is called by its number. `*image` may be NULL; the names own it.
 */
char *vms_trace_names_find(const struct vms_trace_names *names, uint64_t address,
			   const char **image);
