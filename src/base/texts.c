/* SPDX-License-Identifier: MIT */
#include "base/texts.h"
#include "base/keyed_hash.h"

#define CHUNK_BYTES 4096

struct vms_texts {
	GStringChunk *bytes;
	GHashTable *known; /* texts in `bytes` */
};

struct vms_texts *vms_texts_new(void)
{
	struct vms_texts *texts = g_new(struct vms_texts, 1);
	texts->bytes = g_string_chunk_new(CHUNK_BYTES);
	texts->known = g_hash_table_new(vms_hash_text, g_str_equal);
	return texts;
}

void vms_texts_free(struct vms_texts *texts)
{
	if (!texts)
		return;
	g_hash_table_unref(texts->known);
	g_string_chunk_free(texts->bytes);
	g_free(texts);
}

const char *vms_texts_find(const struct vms_texts *texts, const char *text)
{
	return g_hash_table_lookup(texts->known, text);
}

const char *vms_texts_keep(struct vms_texts *texts, const char *text)
{
	if (!text)
		return NULL;
	char *kept = g_hash_table_lookup(texts->known, text);
	if (!kept) {
		kept = g_string_chunk_insert(texts->bytes, text);
		g_hash_table_add(texts->known, kept);
	}
	return kept;
}
