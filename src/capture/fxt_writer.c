/* SPDX-License-Identifier: MIT */
/*
 * A record is encoded in one way: its header's fields, its words, and at the end the size in the
 * header. Each put_ function appends a part.
 */
#include "capture/fxt_writer.h"
#include <string.h>

#define INLINE_STRING 0x8000u

static void put_word(GByteArray *out, uint64_t word)
{
	word = GUINT64_TO_LE(word);
	g_byte_array_append(out, (const guint8 *)&word, sizeof(word));
}

/* Appends bytes, and zeros up to the next word. */
static void put_bytes(GByteArray *out, const void *bytes, size_t size)
{
	static const guint8 zeros[8];
	if (size)
		g_byte_array_append(out, bytes, (guint)size);
	g_byte_array_append(out, zeros, (guint)(vms_fxt_words(size) * 8 - size));
}

static uint64_t string_reference(const struct vms_fxt_string *string)
{
	return string->index ? string->index : string->length ? INLINE_STRING | string->length : 0;
}

static void put_string(GByteArray *out, const struct vms_fxt_string *string)
{
	if (!string->index)
		put_bytes(out, string->text, string->length);
}

static void put_thread(GByteArray *out, const struct vms_fxt_thread *thread)
{
	if (thread->index)
		return;
	put_word(out, thread->pid);
	put_word(out, thread->tid);
}

static bool fits_string(const struct vms_fxt_string *string)
{
	return string->index <= VMS_FXT_STRING_MAX && string->length <= VMS_FXT_STRING_MAX;
}

/* ---- arguments ------------------------------------------------------------------- */

static bool fits_argument(const struct vms_fxt_argument *argument)
{
	if (!fits_string(&argument->name))
		return false;
	switch (argument->type) {
	case VMS_FXT_I32: return argument->i >= INT32_MIN && argument->i <= INT32_MAX;
	case VMS_FXT_U32: return argument->u <= UINT32_MAX;
	case VMS_FXT_BOOL: return argument->u <= 1;
	case VMS_FXT_TEXT: return fits_string(&argument->text);
	case VMS_FXT_BYTES: return argument->u <= VMS_FXT_WORDS_MAX * 8;
	case VMS_FXT_NULL:
	case VMS_FXT_I64:
	case VMS_FXT_U64:
	case VMS_FXT_DOUBLE:
	case VMS_FXT_POINTER:
	case VMS_FXT_KOID: return true;
	case VMS_FXT_N_ARGUMENT_TYPES: break;
	}
	return false;
}

/* Returns what bits 32 to 63 of an argument's header have. */
static uint64_t argument_field(const struct vms_fxt_argument *argument)
{
	switch (argument->type) {
	case VMS_FXT_I32: return (uint32_t)argument->i;
	case VMS_FXT_U32:
	case VMS_FXT_BOOL:
	case VMS_FXT_BYTES: return argument->u;
	case VMS_FXT_TEXT: return string_reference(&argument->text);
	case VMS_FXT_NULL:
	case VMS_FXT_I64:
	case VMS_FXT_U64:
	case VMS_FXT_DOUBLE:
	case VMS_FXT_POINTER:
	case VMS_FXT_KOID:
	case VMS_FXT_N_ARGUMENT_TYPES: break;
	}
	return 0;
}

static void put_argument_value(GByteArray *out, const struct vms_fxt_argument *argument)
{
	uint64_t bits;
	switch (argument->type) {
	case VMS_FXT_I64:
	case VMS_FXT_U64:
	case VMS_FXT_POINTER:
	case VMS_FXT_KOID: put_word(out, argument->u); break;
	case VMS_FXT_DOUBLE:
		memcpy(&bits, &argument->d, sizeof(bits));
		put_word(out, bits);
		break;
	case VMS_FXT_TEXT: put_string(out, &argument->text); break;
	case VMS_FXT_BYTES: put_bytes(out, argument->bytes, argument->u); break;
	case VMS_FXT_NULL:
	case VMS_FXT_I32:
	case VMS_FXT_U32:
	case VMS_FXT_BOOL:
	case VMS_FXT_N_ARGUMENT_TYPES: break;
	}
}

static void set_header(GByteArray *out, guint begin, uint64_t header)
{
	header = GUINT64_TO_LE(header);
	memcpy(out->data + begin, &header, sizeof(header));
}

static bool put_arguments(GByteArray *out, const struct vms_fxt_record *record)
{
	for (unsigned i = 0; i < record->n_arguments; i++) {
		const struct vms_fxt_argument *argument = &record->arguments[i];
		const guint begin = out->len;
		if (!fits_argument(argument))
			return false;
		put_word(out, 0);
		put_string(out, &argument->name);
		put_argument_value(out, argument);
		const uint64_t words = (out->len - begin) / 8;
		if (words > VMS_FXT_WORDS_MAX)
			return false;
		set_header(out, begin,
			   (uint64_t)argument->type | words << 4 |
				   string_reference(&argument->name) << 16 |
				   argument_field(argument) << 32);
	}
	return true;
}

/* ---- records --------------------------------------------------------------------- */

/* The functions below append the words behind the header, and return the header's fields. */

static uint64_t put_metadata(GByteArray *out, const struct vms_fxt_record *record)
{
	const uint64_t kind = (uint64_t)record->kind << 16;
	const uint64_t provider = kind | (uint64_t)record->number << 20;
	switch ((enum vms_fxt_metadata)record->kind) {
	case VMS_FXT_PROVIDER_INFO:
		put_bytes(out, record->name.text, record->name.length);
		return provider | (uint64_t)record->name.length << 52;
	case VMS_FXT_PROVIDER_SECTION: return provider;
	case VMS_FXT_PROVIDER_EVENT: return provider | (uint64_t)record->detail << 52;
	case VMS_FXT_TRACE_INFO: return VMS_FXT_MAGIC;
	}
	return kind;
}

static bool event_has_value(uint8_t kind)
{
	return kind != VMS_FXT_INSTANT && kind != VMS_FXT_DURATION_BEGIN &&
	       kind != VMS_FXT_DURATION_END;
}

static uint64_t put_event(GByteArray *out, const struct vms_fxt_record *record, bool *fits)
{
	put_word(out, record->time);
	put_thread(out, &record->thread);
	put_string(out, &record->category);
	put_string(out, &record->name);
	*fits = put_arguments(out, record);
	if (event_has_value(record->kind))
		put_word(out, record->value);
	return (uint64_t)record->kind << 16 | (uint64_t)record->n_arguments << 20 |
	       (uint64_t)record->thread.index << 24 | string_reference(&record->category) << 32 |
	       string_reference(&record->name) << 48;
}

static uint64_t put_blob(GByteArray *out, const struct vms_fxt_record *record)
{
	put_string(out, &record->name);
	put_bytes(out, record->payload, record->payload_size);
	return string_reference(&record->name) << 16 | record->payload_size << 32 |
	       (uint64_t)record->kind << 48;
}

static uint64_t put_userspace_object(GByteArray *out, const struct vms_fxt_record *record,
				     bool *fits)
{
	put_word(out, record->value);
	if (!record->thread.index)
		put_word(out, record->thread.pid);
	put_string(out, &record->name);
	*fits = put_arguments(out, record);
	return (uint64_t)record->thread.index << 16 | string_reference(&record->name) << 24 |
	       (uint64_t)record->n_arguments << 40;
}

static uint64_t put_kernel_object(GByteArray *out, const struct vms_fxt_record *record, bool *fits)
{
	put_word(out, record->value);
	put_string(out, &record->name);
	*fits = put_arguments(out, record);
	return (uint64_t)record->kind << 16 | string_reference(&record->name) << 24 |
	       (uint64_t)record->n_arguments << 40;
}

static uint64_t put_scheduling(GByteArray *out, const struct vms_fxt_record *record, bool *fits)
{
	const bool is_switch = record->kind == VMS_FXT_CONTEXT_SWITCH;
	put_word(out, record->time);
	if (is_switch)
		put_word(out, record->outgoing_tid);
	put_word(out, record->value);
	*fits = put_arguments(out, record);
	return (uint64_t)record->n_arguments << 16 | (uint64_t)record->number << 20 |
	       (is_switch ? (uint64_t)record->detail << 36 : 0) | (uint64_t)record->kind << 60;
}

static uint64_t put_large_blob(GByteArray *out, const struct vms_fxt_record *record, bool *fits)
{
	const bool has_metadata = record->kind == VMS_FXT_BLOB_WITH_METADATA;
	put_word(out, string_reference(&record->category) | string_reference(&record->name) << 16 |
			      (has_metadata ? (uint64_t)record->n_arguments << 32 |
						      (uint64_t)record->thread.index << 36
					    : 0));
	put_string(out, &record->category);
	put_string(out, &record->name);
	if (has_metadata) {
		put_word(out, record->time);
		put_thread(out, &record->thread);
		*fits = put_arguments(out, record);
	}
	put_word(out, record->payload_size);
	put_bytes(out, record->payload, record->payload_size);
	return (uint64_t)record->kind << 40;
}

static uint64_t put_fields(GByteArray *out, const struct vms_fxt_record *record, bool *fits)
{
	switch (record->type) {
	case VMS_FXT_METADATA: return put_metadata(out, record);
	case VMS_FXT_INITIALIZATION: put_word(out, record->value); return 0;
	case VMS_FXT_STRING:
		put_bytes(out, record->name.text, record->name.length);
		return (uint64_t)record->number << 16 | (uint64_t)record->name.length << 32;
	case VMS_FXT_THREAD:
		put_word(out, record->thread.pid);
		put_word(out, record->thread.tid);
		return (uint64_t)record->number << 16;
	case VMS_FXT_EVENT: return put_event(out, record, fits);
	case VMS_FXT_BLOB: return put_blob(out, record);
	case VMS_FXT_USERSPACE_OBJECT: return put_userspace_object(out, record, fits);
	case VMS_FXT_KERNEL_OBJECT: return put_kernel_object(out, record, fits);
	case VMS_FXT_SCHEDULING: return put_scheduling(out, record, fits);
	case VMS_FXT_LOG:
		put_word(out, record->time);
		put_thread(out, &record->thread);
		put_bytes(out, record->name.text, record->name.length);
		return (uint64_t)record->name.length << 16 | (uint64_t)record->thread.index << 32;
	case VMS_FXT_LARGE_BLOB: return put_large_blob(out, record, fits);
	}
	*fits = false;
	return 0;
}

static bool fits_kind(const struct vms_fxt_record *record)
{
	switch (record->type) {
	case VMS_FXT_METADATA:
		return record->kind >= VMS_FXT_PROVIDER_INFO &&
		       record->kind <= VMS_FXT_TRACE_INFO && record->detail <= 0xf &&
		       (record->kind != VMS_FXT_PROVIDER_INFO || record->name.length <= 0xff);
	case VMS_FXT_STRING: return record->number > 0 && record->number <= VMS_FXT_STRING_MAX;
	case VMS_FXT_THREAD: return record->number > 0 && record->number <= VMS_FXT_THREAD_MAX;
	case VMS_FXT_EVENT: return record->kind < VMS_FXT_N_EVENTS;
	case VMS_FXT_BLOB: return record->payload_size <= VMS_FXT_STRING_MAX;
	case VMS_FXT_SCHEDULING:
		return record->number <= 0xffff && record->detail <= 0xf &&
		       (record->kind == VMS_FXT_CONTEXT_SWITCH || record->kind == VMS_FXT_WAKEUP);
	case VMS_FXT_LARGE_BLOB:
		return record->kind <= VMS_FXT_BLOB_ATTACHMENT &&
		       record->payload_size <= VMS_FXT_BLOB_MAX;
	case VMS_FXT_INITIALIZATION:
	case VMS_FXT_USERSPACE_OBJECT:
	case VMS_FXT_KERNEL_OBJECT:
	case VMS_FXT_LOG: return true;
	}
	return false;
}

bool vms_fxt_write(GByteArray *out, const struct vms_fxt_record *record)
{
	const guint begin = out->len;
	bool fits = fits_kind(record) && record->n_arguments <= VMS_FXT_ARGUMENTS_MAX &&
		    fits_string(&record->category) && fits_string(&record->name);
	if (!fits)
		return false;
	put_word(out, 0);
	uint64_t header = put_fields(out, record, &fits) | (uint64_t)record->type;
	const uint64_t words = (out->len - begin) / 8;
	if (record->type != VMS_FXT_LARGE_BLOB && words > VMS_FXT_WORDS_MAX)
		fits = false;
	if (!fits) {
		g_byte_array_set_size(out, begin);
		return false;
	}
	set_header(out, begin, header | words << 4);
	return true;
}

struct vms_fxt_string vms_fxt_inline(const char *text)
{
	return (struct vms_fxt_string) { .text = text,
					 .length =
						 (uint16_t)MIN(strlen(text), VMS_FXT_STRING_MAX) };
}
