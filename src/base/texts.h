/* SPDX-License-Identifier: MIT */
/*
 * Texts of which each is kept once, so that equal ones are one pointer. As GStringChunk's constant
 * texts, but somebody else may choose the texts: the hash is keyed.
 */
#pragma once

#include <glib.h>

struct vms_texts;

struct vms_texts *vms_texts_new(void);
void vms_texts_free(struct vms_texts *texts);
/* Returns the copy of a text, which lives as long as `texts`. NULL if `text` is NULL. */
const char *vms_texts_keep(struct vms_texts *texts, const char *text);
/* Returns the copy if there is one, else NULL. */
const char *vms_texts_find(const struct vms_texts *texts, const char *text);
