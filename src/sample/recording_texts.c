/* SPDX-License-Identifier: MIT */
/*
 * The texts of a recording. Many records may refer to one string of the file, which is kept once:
 * 144 KB of records can refer to 136 MB.
 */
#include "base/text.h"
#include "sample/recording-private.h"

/* What a text costs beside its bytes: its entries in two tables. */
#define ENTRY_BYTES 64

static const char *keep_text(struct vms_recording *recording, const struct vms_fxt_string *string)
{
	struct vms_budget *budget = recording->for_texts;
	if (!vms_budget_step(budget, 4 + string->length / 2) ||
	    !vms_budget_take(budget, VMS_BUDGET_BYTES, string->length + ENTRY_BYTES))
		return NULL;
	g_autofree char *text = g_strndup(string->text, string->length);
	vms_text_clean(text);
	return vms_symbolizer_intern(recording->symbolizer, text);
}

const char *vms_recorded_text(struct vms_recording *recording, const struct vms_fxt_record *record,
			      const char *name)
{
	const struct vms_fxt_string *string = vms_records_string(record, name);
	if (!string)
		return NULL;
	/* A string that is in the record itself is cleaned as often as it is in the file. */
	if (!string->index || !string->length)
		return keep_text(recording, string);
	const char *known = g_hash_table_lookup(recording->texts, string->text);
	if (known)
		return known;
	known = keep_text(recording, string);
	if (known)
		g_hash_table_insert(recording->texts, (gpointer)string->text, (gpointer)known);
	return known;
}
