/* SPDX-License-Identifier: MIT */
/*
 * A cursor that stays inside a record decodes it. The sizes of its parts must exactly add up to the
 * size of the record, so each wrong size is detected.
 */
#include "capture/fxt_reader.h"

#define TICKS_PER_SECOND UINT64_C(1000000000)
#define INLINE_STRING	 0x8000u
#define STEPS_OF_RECORD	 2 /* and one for each word that is read */

/* A provider's tables. Their number is limited, because a file may have many sections. */
struct provider {
	uint32_t id;
	GArray *strings; /* struct vms_fxt_string by index; `index` is 0 if it is unknown */
	struct vms_fxt_thread threads[VMS_FXT_THREAD_MAX + 1];
};
#define PROVIDERS_MAX 64

struct vms_fxt_reader {
	struct vms_bytes bytes;
	uint64_t offset; /* of the last record */
	uint64_t next;	 /* of the one after it */
	uint64_t ticks_per_second;
	GPtrArray *providers;
	struct provider *provider; /* of the current section */
};

static void free_provider(void *data)
{
	struct provider *provider = data;
	g_array_unref(provider->strings);
	g_free(provider);
}

static struct provider *find_provider(struct vms_fxt_reader *reader, uint32_t id)
{
	for (guint i = 0; i < reader->providers->len; i++) {
		struct provider *provider = reader->providers->pdata[i];
		if (provider->id == id)
			return provider;
	}
	if (reader->providers->len == PROVIDERS_MAX)
		return NULL;
	struct provider *provider = g_new0(struct provider, 1);
	provider->id = id;
	provider->strings = g_array_new(FALSE, TRUE, sizeof(struct vms_fxt_string));
	g_ptr_array_add(reader->providers, provider);
	return provider;
}

/* Gives back what the tables of strings took. */
static void give_back_tables(struct vms_fxt_reader *reader)
{
	for (guint i = 0; i < reader->providers->len; i++) {
		const struct provider *provider = reader->providers->pdata[i];
		vms_budget_give_back(reader->bytes.budget, VMS_BUDGET_BYTES,
				     provider->strings->len * sizeof(struct vms_fxt_string));
	}
}

struct vms_fxt_reader *vms_fxt_reader_new(struct vms_bytes bytes)
{
	struct vms_fxt_reader *reader = g_new0(struct vms_fxt_reader, 1);
	reader->bytes = bytes;
	reader->ticks_per_second = TICKS_PER_SECOND;
	reader->providers = g_ptr_array_new_with_free_func(free_provider);
	reader->provider = find_provider(reader, 0);
	return reader;
}

void vms_fxt_reader_free(struct vms_fxt_reader *reader)
{
	if (!reader)
		return;
	give_back_tables(reader);
	g_ptr_array_unref(reader->providers);
	g_free(reader);
}

uint64_t vms_fxt_reader_offset(const struct vms_fxt_reader *reader)
{
	return reader->offset;
}

uint64_t vms_fxt_reader_ns(const struct vms_fxt_reader *reader, uint64_t ticks)
{
	if (reader->ticks_per_second == TICKS_PER_SECOND)
		return ticks;
	return (uint64_t)((unsigned __int128)ticks * TICKS_PER_SECOND / reader->ticks_per_second);
}

bool vms_fxt_is_file(struct vms_bytes bytes)
{
	uint64_t word;
	return vms_bytes_u64(bytes, 0, &word) && word == VMS_FXT_MAGIC;
}

/* ---- the cursor ------------------------------------------------------------------ */

struct cursor {
	const struct provider *provider;
	struct vms_bytes bytes; /* of the record */
	uint64_t offset;	/* of the next word */
	const char *fault;	/* the first one, or NULL */
};

static void set_fault(struct cursor *cursor, const char *fault)
{
	if (!cursor->fault)
		cursor->fault = fault;
}

static uint64_t get_word(struct cursor *cursor)
{
	uint64_t word = 0;
	if (!vms_bytes_u64(cursor->bytes, cursor->offset, &word))
		set_fault(cursor, "it is shorter than what it has");
	cursor->offset += sizeof(word);
	return word;
}

static uint64_t get_bits(uint64_t word, unsigned first, unsigned count)
{
	return word >> first & ((UINT64_C(1) << count) - 1);
}

/* Gets `size` bytes and skips their padding to whole words, which must be zeros. */
static const void *get_bytes(struct cursor *cursor, uint64_t size)
{
	static const uint8_t zeros[8];
	struct vms_bytes bytes;
	const uint64_t padded = vms_fxt_words(size) * 8; /* wraps around for the largest sizes */
	if (padded < size || !vms_bytes_slice(cursor->bytes, cursor->offset, padded, &bytes)) {
		set_fault(cursor, "it is shorter than what it has");
		return NULL;
	}
	cursor->offset += padded;
	if (memcmp(bytes.data + size, zeros, padded - size) != 0)
		set_fault(cursor, "its padding is not zero");
	return bytes.data;
}

static struct vms_fxt_string get_string(struct cursor *cursor, uint64_t reference)
{
	struct vms_fxt_string string = { .text = "" };
	if (reference & INLINE_STRING) {
		string.length = (uint16_t)(reference & VMS_FXT_STRING_MAX);
		string.text = get_bytes(cursor, string.length);
	} else if (reference) {
		const GArray *strings = cursor->provider->strings;
		if (reference < strings->len)
			string = g_array_index(strings, struct vms_fxt_string, reference);
		if (!string.index)
			set_fault(cursor, "it refers to a string that is not in the file");
	}
	return string;
}

static struct vms_fxt_thread get_thread(struct cursor *cursor, uint64_t reference)
{
	struct vms_fxt_thread thread = { 0 };
	if (reference == 0) {
		thread.pid = get_word(cursor);
		thread.tid = get_word(cursor);
		return thread;
	}
	thread = cursor->provider->threads[reference];
	if (!thread.index)
		set_fault(cursor, "it refers to a thread that is not in the file");
	return thread;
}

/* ---- arguments ------------------------------------------------------------------- */

static void get_value(struct cursor *cursor, uint64_t field, struct vms_fxt_argument *ret)
{
	uint64_t word;
	switch (ret->type) {
	case VMS_FXT_NULL: return;
	case VMS_FXT_I32: ret->i = (int32_t)field; return;
	case VMS_FXT_U32: ret->u = field; return;
	case VMS_FXT_BOOL: ret->u = field & 1; return;
	case VMS_FXT_I64:
	case VMS_FXT_U64:
	case VMS_FXT_POINTER:
	case VMS_FXT_KOID: ret->u = get_word(cursor); return;
	case VMS_FXT_DOUBLE:
		word = get_word(cursor);
		memcpy(&ret->d, &word, sizeof(word));
		return;
	case VMS_FXT_TEXT: ret->text = get_string(cursor, field & 0xffff); return;
	case VMS_FXT_BYTES:
		ret->u = field;
		ret->bytes = get_bytes(cursor, field);
		return;
	case VMS_FXT_N_ARGUMENT_TYPES: break;
	}
	set_fault(cursor, "it has an argument of a type that is not known");
}

static void get_arguments(struct cursor *cursor, uint64_t n, struct vms_fxt_record *ret)
{
	for (uint64_t i = 0; i < n && !cursor->fault; i++) {
		struct vms_fxt_argument *argument = &ret->arguments[i];
		const uint64_t begin = cursor->offset;
		const uint64_t header = get_word(cursor);
		argument->type = (enum vms_fxt_argument_type)get_bits(header, 0, 4);
		argument->name = get_string(cursor, get_bits(header, 16, 16));
		get_value(cursor, header >> 32, argument);
		if (cursor->offset - begin != get_bits(header, 4, 12) * 8)
			set_fault(cursor, "an argument is not as long as it says");
	}
	ret->n_arguments = (unsigned)n;
}

/* ---- records --------------------------------------------------------------------- */

static void get_metadata(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	ret->kind = (uint8_t)get_bits(header, 16, 4);
	ret->number = (uint32_t)get_bits(header, 20, 32);
	switch ((enum vms_fxt_metadata)ret->kind) {
	case VMS_FXT_PROVIDER_INFO:
		ret->name.length = (uint16_t)get_bits(header, 52, 8);
		ret->name.text = get_bytes(cursor, ret->name.length);
		return;
	case VMS_FXT_PROVIDER_SECTION: return;
	case VMS_FXT_PROVIDER_EVENT: ret->detail = (uint8_t)get_bits(header, 52, 4); return;
	case VMS_FXT_TRACE_INFO:
		if (header != VMS_FXT_MAGIC)
			set_fault(cursor, "its magic number is wrong");
		ret->number = 0;
		return;
	}
	set_fault(cursor, "it is metadata of a kind that is not known");
}

static bool event_has_value(uint8_t kind)
{
	return kind != VMS_FXT_INSTANT && kind != VMS_FXT_DURATION_BEGIN &&
	       kind != VMS_FXT_DURATION_END;
}

static void get_event(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	ret->kind = (uint8_t)get_bits(header, 16, 4);
	if (ret->kind >= VMS_FXT_N_EVENTS)
		set_fault(cursor, "it is an event of a kind that is not known");
	ret->time = get_word(cursor);
	ret->thread = get_thread(cursor, get_bits(header, 24, 8));
	ret->category = get_string(cursor, get_bits(header, 32, 16));
	ret->name = get_string(cursor, get_bits(header, 48, 16));
	get_arguments(cursor, get_bits(header, 20, 4), ret);
	if (event_has_value(ret->kind))
		ret->value = get_word(cursor);
}

static void get_userspace_object(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	const uint64_t reference = get_bits(header, 16, 8);
	ret->value = get_word(cursor);
	if (reference)
		ret->thread = get_thread(cursor, reference);
	else
		ret->thread.pid = get_word(cursor);
	ret->name = get_string(cursor, get_bits(header, 24, 16));
	get_arguments(cursor, get_bits(header, 40, 4), ret);
}

static void get_scheduling(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	ret->kind = (uint8_t)(header >> 60);
	ret->number = (uint32_t)get_bits(header, 20, 16);
	ret->time = get_word(cursor);
	if (ret->kind == VMS_FXT_CONTEXT_SWITCH) {
		ret->detail = (uint8_t)get_bits(header, 36, 4);
		ret->outgoing_tid = get_word(cursor);
	} else if (ret->kind != VMS_FXT_WAKEUP) {
		set_fault(cursor, "it is a scheduling record of a kind that is not known");
	}
	ret->value = get_word(cursor);
	get_arguments(cursor, get_bits(header, 16, 4), ret);
}

static void get_large_blob(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	ret->kind = (uint8_t)get_bits(header, 40, 4);
	if (get_bits(header, 36, 4) != 0)
		set_fault(cursor, "it is a large record of a type that is not known");
	else if (ret->kind > VMS_FXT_BLOB_ATTACHMENT)
		set_fault(cursor, "it is a blob of a format that is not known");
	const uint64_t fields = get_word(cursor);
	ret->category = get_string(cursor, get_bits(fields, 0, 16));
	ret->name = get_string(cursor, get_bits(fields, 16, 16));
	if (ret->kind == VMS_FXT_BLOB_WITH_METADATA) {
		ret->time = get_word(cursor);
		ret->thread = get_thread(cursor, get_bits(fields, 36, 8));
		get_arguments(cursor, get_bits(fields, 32, 4), ret);
	}
	ret->payload_size = get_word(cursor);
	ret->payload = get_bytes(cursor, ret->payload_size);
}

static void get_table_entry(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	if (ret->type == VMS_FXT_STRING) {
		ret->number = (uint32_t)get_bits(header, 16, 15);
		ret->name.length = (uint16_t)get_bits(header, 32, 15);
		ret->name.text = get_bytes(cursor, ret->name.length);
	} else {
		ret->number = (uint32_t)get_bits(header, 16, 8);
		ret->thread.pid = get_word(cursor);
		ret->thread.tid = get_word(cursor);
	}
	if (ret->number == 0)
		set_fault(cursor, "it has the index 0");
}

static void get_fields(struct cursor *cursor, uint64_t header, struct vms_fxt_record *ret)
{
	switch (ret->type) {
	case VMS_FXT_METADATA: get_metadata(cursor, header, ret); return;
	case VMS_FXT_INITIALIZATION:
		ret->value = get_word(cursor);
		if (ret->value == 0)
			set_fault(cursor, "it has no ticks per second");
		return;
	case VMS_FXT_STRING:
	case VMS_FXT_THREAD: get_table_entry(cursor, header, ret); return;
	case VMS_FXT_EVENT: get_event(cursor, header, ret); return;
	case VMS_FXT_BLOB:
		ret->kind = (uint8_t)get_bits(header, 48, 8);
		ret->name = get_string(cursor, get_bits(header, 16, 16));
		ret->payload_size = get_bits(header, 32, 15);
		ret->payload = get_bytes(cursor, ret->payload_size);
		return;
	case VMS_FXT_USERSPACE_OBJECT: get_userspace_object(cursor, header, ret); return;
	case VMS_FXT_KERNEL_OBJECT:
		ret->kind = (uint8_t)get_bits(header, 16, 8);
		ret->value = get_word(cursor);
		ret->name = get_string(cursor, get_bits(header, 24, 16));
		get_arguments(cursor, get_bits(header, 40, 4), ret);
		return;
	case VMS_FXT_SCHEDULING: get_scheduling(cursor, header, ret); return;
	case VMS_FXT_LOG:
		ret->time = get_word(cursor);
		ret->thread = get_thread(cursor, get_bits(header, 32, 8));
		ret->name.length = (uint16_t)get_bits(header, 16, 15);
		ret->name.text = get_bytes(cursor, ret->name.length);
		return;
	case VMS_FXT_LARGE_BLOB: get_large_blob(cursor, header, ret); return;
	}
	set_fault(cursor, "it is of a type that is not known");
}

/* Returns the size of a record in bytes, by its header. 0 if the header is invalid. */
static uint64_t get_record_size(uint64_t header)
{
	const bool is_large = get_bits(header, 0, 4) == VMS_FXT_LARGE_BLOB;
	return get_bits(header, 4, is_large ? 32 : 12) * 8;
}

/*
 * Decodes the record at `offset`. Returns its fault, or NULL. `*size` is 0 if it has no valid size,
 * or if it is longer than the file.
 */
static const char *decode_record(struct vms_fxt_reader *reader, uint64_t offset,
				 struct vms_fxt_record *ret, uint64_t *size)
{
	struct cursor cursor = { .provider = reader->provider, .offset = 8 };
	uint64_t header;
	*size = 0;
	if (!vms_bytes_u64(reader->bytes, offset, &header))
		return "the file ends in a word";
	if (get_record_size(header) == 0)
		return "it has no size";
	if (!vms_bytes_slice(reader->bytes, offset, get_record_size(header), &cursor.bytes))
		return "it is longer than the file";
	*size = get_record_size(header);
	/* Members that a record does not have are 0. */
	memset(ret, 0, offsetof(struct vms_fxt_record, arguments));
	ret->payload = NULL;
	ret->payload_size = 0;
	ret->type = (enum vms_fxt_type)get_bits(header, 0, 4);
	get_fields(&cursor, header, ret);
	if (cursor.offset != *size)
		set_fault(&cursor, "it is longer than what it has");
	return cursor.fault;
}

static void set_string(struct vms_fxt_reader *reader, uint32_t index, struct vms_fxt_string string)
{
	struct provider *provider = reader->provider;
	if (provider->strings->len <= index) {
		const uint64_t added = index + 1 - provider->strings->len;
		if (!vms_budget_take(reader->bytes.budget, VMS_BUDGET_BYTES,
				     added * sizeof(struct vms_fxt_string)))
			return;
		g_array_set_size(provider->strings, index + 1);
	}
	string.index = (uint16_t)index;
	g_array_index(provider->strings, struct vms_fxt_string, index) = string;
}

/* Updates the tables to which later records refer. */
static void update_tables(struct vms_fxt_reader *reader, const struct vms_fxt_record *record)
{
	struct provider *provider;
	switch (record->type) {
	case VMS_FXT_METADATA:
		if (record->kind != VMS_FXT_PROVIDER_INFO &&
		    record->kind != VMS_FXT_PROVIDER_SECTION)
			return;
		provider = find_provider(reader, record->number);
		if (provider)
			reader->provider = provider;
		return;
	case VMS_FXT_INITIALIZATION: reader->ticks_per_second = record->value; return;
	case VMS_FXT_STRING: set_string(reader, record->number, record->name); return;
	case VMS_FXT_THREAD:
		reader->provider->threads[record->number] =
			(struct vms_fxt_thread) { (uint8_t)record->number, record->thread.pid,
						  record->thread.tid };
		return;
	case VMS_FXT_EVENT:
	case VMS_FXT_BLOB:
	case VMS_FXT_USERSPACE_OBJECT:
	case VMS_FXT_KERNEL_OBJECT:
	case VMS_FXT_SCHEDULING:
	case VMS_FXT_LOG:
	case VMS_FXT_LARGE_BLOB: return;
	}
}

/* True if a valid record begins at `offset`, or the file ends there. */
static bool can_continue_at(struct vms_fxt_reader *reader, uint64_t offset)
{
	struct vms_fxt_record record;
	uint64_t size;
	return offset == reader->bytes.size || !decode_record(reader, offset, &record, &size);
}

/* Finds the next magic number. Returns its offset, or the file's size. */
static uint64_t find_magic(const struct vms_fxt_reader *reader, uint64_t offset)
{
	uint64_t word;
	while (vms_bytes_u64(reader->bytes, offset, &word)) {
		if (word == VMS_FXT_MAGIC)
			return offset;
		offset += sizeof(word);
	}
	return reader->bytes.size;
}

/* Skips the damage that begins with a faulty record. */
static enum vms_fxt_step skip_damage(struct vms_fxt_reader *reader, uint64_t record_bytes,
				     const char *fault, struct vms_fxt_damage *damage)
{
	const uint64_t begin = reader->next;
	/* The size of the faulty record is only trusted if a valid record follows it. */
	if (record_bytes && can_continue_at(reader, begin + record_bytes))
		reader->next = begin + record_bytes;
	else
		reader->next = find_magic(reader, begin + 8);
	*damage = (struct vms_fxt_damage) { begin, reader->next - begin, fault };
	const bool is_cut = !record_bytes && reader->next == reader->bytes.size;
	uint64_t header = 0;
	if (is_cut && (!vms_bytes_u64(reader->bytes, begin, &header) || get_record_size(header)))
		return VMS_FXT_TRUNCATED;
	return VMS_FXT_DAMAGED;
}

enum vms_fxt_step vms_fxt_reader_next(struct vms_fxt_reader *reader, struct vms_fxt_record *ret,
				      struct vms_fxt_damage *damage)
{
	struct vms_budget *budget = reader->bytes.budget;
	uint64_t size;
	if (reader->next >= reader->bytes.size || !vms_budget_step(budget, STEPS_OF_RECORD))
		return VMS_FXT_END;
	reader->offset = reader->next;
	const char *fault = decode_record(reader, reader->next, ret, &size);
	if (fault) {
		const enum vms_fxt_step step = skip_damage(reader, size, fault, damage);
		/* Without a budget, all that follows looks damaged. */
		return vms_budget_step(budget, STEPS_OF_RECORD) ? step : VMS_FXT_END;
	}
	reader->next += size;
	update_tables(reader, ret);
	return VMS_FXT_RECORD;
}
