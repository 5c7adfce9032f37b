/* SPDX-License-Identifier: MIT */
/*
 * Annotations: how many samples each instruction of a function has. The samples are those of a
 * profile by address. The code comes from whoever has it: the mapped file, or the guest's memory.
 */
#pragma once

#include <vmscope/arch.h>
#include <vmscope/profile.h>
#include <vmscope/symbolizer.h>

/* Bytes of code that are shown of a function. */
#define VMS_ANNOTATION_LIMIT (1u << 20)

struct vms_annotated_instruction {
	uint64_t va;	  /* where the function was seen */
	uint64_t hits;	  /* samples that were in it */
	const char *text; /* NULL: the code is not known, only that samples were there */
	const char *source;
	unsigned line; /* of `source`, which is NULL if it is not known */
};

/* A function. All strings are its own, and NULL if they are not known. */
typedef struct vms_annotation {
	char *function, *module;
	bool is_user;
	uint64_t start; /* where it was seen */
	uint64_t size;	/* bytes; 0: not known */
	uint64_t hits;
	GArray *spots; /* hits by address; see annotation.c */
	/* The file that has it; NULL for the kernel. */
	struct vms_binary *binary;
	char *path, *build_id;
	uint64_t file_offset; /* of `start` */
	uint32_t space;
	struct vms_symbolizer *symbolizer;
	GArray *instructions; /* struct vms_annotated_instruction */
	GStringChunk *strings;
} vms_annotation;

/*
 * Finds the functions called `function` that samples are in, by a profile of
 * VMS_PROFILE_BY_ADDRESS: struct vms_annotation, most hits first. There are several if modules or
 * files have functions of one name. Errors: NOT_FOUND; the text tells the nearest names.
 */
GPtrArray *vms_annotations_find(const struct vms_profile *profile,
				struct vms_symbolizer *symbolizer, const char *function,
				GError **error);
void vms_annotation_free(struct vms_annotation *annotation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_annotation, vms_annotation_free)

/* Reads the code from the mapped file: `size` bytes. False if that does not have all of it. */
bool vms_annotation_read_file(const struct vms_annotation *annotation, uint8_t *code);
/*
 * Decodes the code, `n` bytes from the function's begin on, and gives each instruction its hits.
 * Errors: UNSUPPORTED.
 */
bool vms_annotation_decode(struct vms_annotation *annotation, const struct vms_arch *arch,
			   const struct vms_code_mode *mode, const uint8_t *code, size_t n,
			   GError **error);
/* Lists addresses with hits alone, where the code is not known. */
void vms_annotation_list_hits(struct vms_annotation *annotation);
/*
 * Adds source lines of a file on this host, if that is the mapped one by its build id. False if it
 * is not, or has no lines.
 */
bool vms_annotation_add_lines(struct vms_annotation *annotation, const char *path);
