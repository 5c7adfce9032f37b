/* SPDX-License-Identifier: MIT */
/*
 * Annotations: the number of samples of each instruction of a function. The samples are those of a
 * profile by address. The code is that of the mapped file, or of the guest's memory.
 */
#pragma once

#include "base/texts.h"
#include <vmscope/arch.h>
#include <vmscope/budget.h>
#include <vmscope/profile.h>
#include <vmscope/symbolizer.h>

/* The limit of bytes of a function's code. */
#define VMS_ANNOTATION_LIMIT (1u << 20)

struct vms_annotated_instruction {
	uint64_t va;	  /* where the function was seen */
	uint64_t hits;	  /* samples that were in it */
	const char *text; /* NULL: there were samples, but the code is not known */
	const char *source;
	unsigned line; /* of `source`, which is NULL if it is not known */
};

/* A function. It owns all strings. They are NULL if they are not known. */
typedef struct vms_annotation {
	char *function, *module;
	bool is_user;
	uint64_t start; /* where it was seen */
	uint64_t size;	/* bytes; 0: not known */
	uint64_t hits;
	GArray *spots; /* hits by address; see annotation.c */
	/* The file that contains it; NULL for the kernel. */
	struct vms_binary *binary;
	char *path, *build_id;
	uint64_t file_offset; /* of `start` */
	uint32_t space;
	struct vms_symbolizer *symbolizer;
	GArray *instructions; /* struct vms_annotated_instruction */
	struct vms_texts *strings;
} vms_annotation;

/*
 * Finds the functions with the name `function` and with samples, in a profile of
 * VMS_PROFILE_BY_ADDRESS: struct vms_annotation, most hits first. There are several if modules or
 * files have functions of the same name. Errors: NOT_FOUND; the message has the nearest names.
 */
GPtrArray *vms_annotations_find(const struct vms_profile *profile,
				struct vms_symbolizer *symbolizer, const char *function,
				GError **error);
void vms_annotation_free(struct vms_annotation *annotation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_annotation, vms_annotation_free)

/* Reads the code, `size` bytes, from the mapped file. False if the file lacks a part of it. */
bool vms_annotation_read_file(const struct vms_annotation *annotation, uint8_t *code);
/*
 * Decodes `n` bytes of code from the function's begin, and counts the hits of each instruction.
 * Errors: UNSUPPORTED.
 */
bool vms_annotation_decode(struct vms_annotation *annotation, const struct vms_arch *arch,
			   const struct vms_code_mode *mode, const uint8_t *code, size_t n,
			   GError **error);
/* Lists only the addresses with hits, because the code is not known. */
void vms_annotation_list_hits(struct vms_annotation *annotation);
/*
 * Adds source lines of an open file of this host, which it takes, if its build id is that of the
 * mapped file. False if it is not, or if the file has no lines. `path` is for messages. `budget`
 * pays for a file that the user has not named; NULL: the user has.
 */
bool vms_annotation_add_lines(struct vms_annotation *annotation, int fd, const char *path,
			      struct vms_budget *budget);
