/* SPDX-License-Identifier: MIT */
#include "symbol/binary.h"
#include "base/clock.h"
#include "symbol/binary_functions.h"
#include "symbol/functions_service.h"
#include <vmscope/log.h>

/* The pause before a binary with missing parts is read again; it doubles while nothing comes. */
#define PAUSE_NS     UINT64_C(1000000000)
#define PAUSE_MAX_NS (64 * PAUSE_NS)
/* Bytes of tables that were replaced, which stay: names of them are in use. */
#define REPLACED_LIMIT (16u << 20)
/* Bytes that are fetched before and behind what was missing: unwind tables lie together. */
#define FETCH_BEFORE (128u << 10)
#define FETCH_BEHIND (512u << 10)

struct vms_binary {
	gatomicrefcount refs;
	char *path;
	uint64_t size;
	struct vms_debug_files *debug_files; /* or NULL */
	struct vms_jail *jail;	   /* that reads the functions; NULL: they are read here */
	struct vms_budget *budget; /* a part of its own; or NULL */
	/* Only replaced under `reading`, but got without it. What was replaced stays. */
	struct vms_elf_image *elf;	    /* NULL if it is no ELF file or its begin is missing */
	struct vms_symbol_table *functions; /* NULL until they are asked for */
	GMutex reading;	 /* held while functions are read, which takes milliseconds; guards: */
	bool is_missing; /* a part of what was looked for */
	bool is_awaited; /* a server looks for its symbols */
	uint64_t next_ns, pause_ns;
	uint64_t fetch_ns, fetch_pause_ns;   /* as those, of what vms_binary_fetch brings */
	GPtrArray *old_elfs, *old_functions; /* what was replaced */
	size_t old_bytes;
	guint64 wanted; /* atomic: offset of what was missing last for vms_binary_read_now; 0:
			   nothing */
	GMutex lock;	/* held for one read, so that stacks do not wait for functions; guards: */
	struct vms_file_source source;
	struct vms_file_source copy; /* of this host; empty if there is none */
	struct vms_budget *copy_budget;
	bool has_sought_copy;
	void *attachment; /* see vms_binary_attachment */
	void (*free_attachment)(void *attachment);
};

/* ---- reading ---------------------------------------------------------- */

/* Looks for a copy of the file, once its build id is known. The caller holds the lock. */
static void seek_copy(struct vms_binary *binary)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	if (binary->has_sought_copy || !binary->debug_files || !elf || !elf->build_id[0])
		return;
	binary->has_sought_copy = true;
	binary->copy_budget = vms_budget_new_part(binary->budget, binary->path);
	vms_debug_files_find_copy(binary->debug_files, binary->path, elf->build_id, binary->size,
				  binary->copy_budget, &binary->copy);
}

/* Reads from the binary's own bytes, or else from a copy. The caller holds the lock. */
static bool read_either(void *data, uint64_t offset, void *buf, size_t size)
{
	struct vms_binary *binary = data;
	if (vms_file_source_read(&binary->source, offset, buf, size))
		return true;
	seek_copy(binary);
	return vms_file_source_read(&binary->copy, offset, buf, size);
}

/* A binary's source that notes whether parts are missing. The caller holds `reading`. */
static bool read_and_note(void *data, uint64_t offset, void *buf, size_t size)
{
	struct vms_binary *binary = data;
	const bool read = vms_binary_read(binary, offset, buf, size);
	binary->is_missing |= !read;
	return read;
}

static struct vms_file_source noting_source(struct vms_binary *binary)
{
	return (struct vms_file_source) {
		.size = binary->size,
		.read = read_and_note,
		.data = binary,
		.budget = binary->budget,
	};
}

static bool read_now(void *data, uint64_t offset, void *buf, size_t size)
{
	return vms_binary_read_now(data, offset, buf, size);
}

static struct vms_file_source now_source(struct vms_binary *binary)
{
	return (struct vms_file_source) {
		.size = binary->size,
		.read = read_now,
		.data = binary,
		.budget = binary->budget,
	};
}

static void free_elf(void *data)
{
	struct vms_elf_image *elf = data;
	if (elf)
		vms_elf_image_clear(elf);
	g_free(elf);
}

static void unref_table(void *data)
{
	vms_symbol_table_unref(data);
}

/* Reads the headers. NULL if it is no ELF file or its begin is missing. */
static struct vms_elf_image *read_elf(const struct vms_file_source *source, GError **error)
{
	struct vms_elf_image *elf = g_new(struct vms_elf_image, 1);
	if (vms_elf_image_read(source, elf, error))
		return elf;
	g_free(elf);
	return NULL;
}

/* Finds the symbols of a file that has not all of them itself. */
static bool find_separate_symbols(struct vms_binary *binary, const struct vms_file_source *source,
				  const struct vms_elf_image *elf, struct vms_separate_symbols *ret)
{
	binary->is_awaited = false;
	if (!binary->debug_files || !elf->build_id[0] || vms_has_all_functions(source, elf))
		return false;
	const enum vms_debug_answer answer = vms_debug_files_find_symbols(
		binary->debug_files, binary->path, elf->build_id, binary->budget, ret);
	binary->is_awaited = answer == VMS_DEBUG_PENDING;
	return answer == VMS_DEBUG_FOUND;
}

static struct vms_symbol_table *make_empty_table(const struct vms_binary *binary)
{
	struct vms_symbol_table *none = vms_symbol_table_new(binary->path);
	vms_symbol_table_finish(none, 0);
	return none;
}

/* Reads functions in the jail. Its death costs this file's names, and is told. */
static struct vms_symbol_table *read_in_jail(struct vms_binary *binary,
					     const struct vms_file_source *source,
					     const struct vms_separate_symbols *separate)
{
	g_autoptr(GError) failure = NULL;
	struct vms_symbol_table *functions =
		vms_functions_from_jail(binary->jail, source, separate ? &separate->source : NULL,
					binary->path, binary->budget, &failure);
	if (functions)
		return functions;
	if (vms_jail_has_died(failure))
		vms_budget_note_loss(binary->budget, binary->path, failure->message);
	return make_empty_table(binary);
}

static struct vms_symbol_table *read_with(struct vms_binary *binary,
					  const struct vms_elf_image *elf,
					  const struct vms_file_source *source,
					  const struct vms_separate_symbols *separate)
{
	return binary->jail ? read_in_jail(binary, source, separate)
			    : vms_read_functions(source, elf, separate, binary->path);
}

/* Reads functions as far as the budget allows. */
static struct vms_symbol_table *read_all_functions(struct vms_binary *binary,
						   const struct vms_elf_image *elf)
{
	const struct vms_file_source source = noting_source(binary);
	struct vms_separate_symbols separate;
	if (elf && find_separate_symbols(binary, &source, elf, &separate)) {
		struct vms_symbol_table *functions = read_with(binary, elf, &source, &separate);
		vms_separate_symbols_clear(&separate);
		binary->is_missing = false; /* of what the separate file does not have */
		return functions;
	}
	return elf ? read_with(binary, elf, &source, NULL) : make_empty_table(binary);
}

void vms_binary_set_jail(struct vms_binary *binary, struct vms_jail *jail)
{
	binary->jail = vms_jail_ref(jail);
}

static size_t count_elf_bytes(const struct vms_elf_image *elf)
{
	return sizeof(*elf) + elf->n_sections * sizeof(Elf64_Shdr) + elf->section_names_size;
}

struct vms_binary *vms_binary_new(const char *path, const struct vms_file_source *source)
{
	g_autoptr(GError) failure = NULL;
	struct vms_binary *binary = g_new0(struct vms_binary, 1);
	g_atomic_ref_count_init(&binary->refs);
	g_mutex_init(&binary->reading);
	g_mutex_init(&binary->lock);
	binary->path = g_strdup(path);
	binary->size = source->size;
	binary->source = *source;
	binary->source.budget = NULL; /* whoever reads for the tables pays */
	binary->budget = vms_budget_new_part(source->budget, path);
	binary->pause_ns = PAUSE_NS;
	binary->old_elfs = g_ptr_array_new_with_free_func(free_elf);
	binary->old_functions = g_ptr_array_new_with_free_func(unref_table);
	const struct vms_file_source now = now_source(binary);
	binary->elf = read_elf(&now, &failure);
	if (binary->elf && !vms_binary_keep_bytes(binary, count_elf_bytes(binary->elf)))
		g_clear_pointer(&binary->elf, free_elf);
	else if (!binary->elf)
		vms_log(VMS_LOG_DEBUG, "no functions of %s: %s", path, failure->message);
	return binary;
}

struct vms_binary *vms_binary_ref(struct vms_binary *binary)
{
	g_atomic_ref_count_inc(&binary->refs);
	return binary;
}

void vms_binary_unref(struct vms_binary *binary)
{
	if (!binary || !g_atomic_ref_count_dec(&binary->refs))
		return;
	if (binary->attachment)
		binary->free_attachment(binary->attachment);
	g_ptr_array_unref(binary->old_functions);
	g_ptr_array_unref(binary->old_elfs);
	vms_symbol_table_unref(binary->functions);
	free_elf(binary->elf);
	vms_file_source_clear(&binary->copy);
	vms_file_source_clear(&binary->source);
	vms_debug_files_unref(binary->debug_files);
	vms_jail_unref(binary->jail);
	vms_budget_unref(binary->copy_budget);
	vms_budget_give_back(binary->budget, VMS_BUDGET_BYTES,
			     vms_budget_spent(binary->budget, VMS_BUDGET_BYTES));
	vms_budget_unref(binary->budget);
	g_mutex_clear(&binary->reading);
	g_mutex_clear(&binary->lock);
	g_free(binary->path);
	g_free(binary);
}

void vms_binary_set_debug_files(struct vms_binary *binary, struct vms_debug_files *files)
{
	if (!files)
		return;
	binary->debug_files = vms_debug_files_ref(files);
	/* The section headers are at the end of a file, and often not in memory. */
	if (binary->elf && binary->elf->n_sections == 0) {
		const struct vms_file_source now = now_source(binary);
		struct vms_elf_image *elf = read_elf(&now, NULL);
		if (elf) {
			free_elf(binary->elf);
			binary->elf = elf;
		}
	}
}

bool vms_binary_has_room(struct vms_binary *binary)
{
	return vms_budget_has_left(binary->budget);
}

bool vms_binary_keep_bytes(struct vms_binary *binary, size_t bytes)
{
	return vms_budget_take(binary->budget, VMS_BUDGET_BYTES, bytes);
}

const char *vms_binary_path(const struct vms_binary *binary)
{
	return binary->path;
}

uint64_t vms_binary_size(const struct vms_binary *binary)
{
	return binary->size;
}

const struct vms_elf_image *vms_binary_elf(const struct vms_binary *binary)
{
	return __atomic_load_n(&binary->elf, __ATOMIC_ACQUIRE);
}

const char *vms_binary_build_id(const struct vms_binary *binary)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	return elf && elf->build_id[0] ? elf->build_id : NULL;
}

/* ---- headers ---------------------------------------------------------- */

/* True if headers tell more than those that are known: where the unwind tables are, too. */
static bool is_more(const struct vms_binary *binary, const struct vms_elf_image *elf)
{
	return !binary->elf || elf->n_sections > binary->elf->n_sections;
}

/* Puts other headers in the place of those that are known. Takes them. The caller holds `reading`.
 */
static void replace_elf(struct vms_binary *binary, struct vms_elf_image *elf)
{
	if (binary->elf) {
		binary->old_bytes += count_elf_bytes(binary->elf);
		g_ptr_array_add(binary->old_elfs, binary->elf);
	}
	__atomic_store_n(&binary->elf, elf, __ATOMIC_RELEASE);
}

/* Reads headers that were missing. The caller holds `reading`. */
static void complete_headers(struct vms_binary *binary)
{
	const struct vms_file_source source = noting_source(binary);
	if ((binary->elf && binary->elf->n_sections > 0) || !vms_binary_has_room(binary))
		return;
	struct vms_elf_image *elf = read_elf(&source, NULL);
	if (elf && is_more(binary, elf))
		replace_elf(binary, elf);
	else
		free_elf(elf);
}

void vms_binary_read_headers(struct vms_binary *binary)
{
	g_mutex_lock(&binary->reading);
	complete_headers(binary);
	g_mutex_unlock(&binary->reading);
}

/* ---- functions -------------------------------------------------------- */

struct vms_symbol_table *vms_binary_functions(struct vms_binary *binary)
{
	g_mutex_lock(&binary->reading);
	if (!binary->functions) {
		complete_headers(binary);
		__atomic_store_n(&binary->functions, read_all_functions(binary, binary->elf),
				 __ATOMIC_RELEASE);
		binary->next_ns = vms_clock_now_ns() + binary->pause_ns;
	}
	struct vms_symbol_table *functions = binary->functions;
	g_mutex_unlock(&binary->reading);
	return functions;
}

struct vms_symbol_table *vms_binary_known_functions(const struct vms_binary *binary)
{
	return __atomic_load_n(&binary->functions, __ATOMIC_ACQUIRE);
}

/* Puts what was read now in the place of what was. Takes both. The caller holds `reading`. */
static void replace_functions(struct vms_binary *binary, struct vms_elf_image *elf,
			      struct vms_symbol_table *functions)
{
	binary->old_bytes += sizeof(*elf) + vms_symbol_table_bytes(binary->functions);
	g_ptr_array_add(binary->old_functions, binary->functions);
	__atomic_store_n(&binary->functions, functions, __ATOMIC_RELEASE);
	replace_elf(binary, elf);
}

/* Reads all anew. True if that is more than was known. The caller holds `reading`. */
static bool read_again(struct vms_binary *binary)
{
	binary->is_missing = false;
	const struct vms_file_source source = noting_source(binary);
	struct vms_elf_image *elf = read_elf(&source, NULL);
	struct vms_symbol_table *functions = elf ? read_all_functions(binary, elf) : NULL;
	if (functions &&
	    (is_more(binary, elf) ||
	     vms_symbol_table_count(functions) > vms_symbol_table_count(binary->functions))) {
		replace_functions(binary, elf, functions);
		return true;
	}
	vms_symbol_table_unref(functions);
	free_elf(elf);
	return false;
}

/* True if it is time to read what was missing. The caller holds `reading`. */
static bool is_due(const struct vms_binary *binary, uint64_t now_ns)
{
	if (!binary->functions || binary->old_bytes >= REPLACED_LIMIT)
		return false;
	return (binary->is_missing && now_ns >= binary->next_ns) ||
	       (binary->is_awaited &&
		!vms_debug_files_is_pending(binary->debug_files, binary->elf->build_id));
}

bool vms_binary_is_awaited(struct vms_binary *binary)
{
	g_mutex_lock(&binary->reading);
	const bool is_awaited = binary->is_awaited;
	g_mutex_unlock(&binary->reading);
	return is_awaited;
}

bool vms_binary_refresh(struct vms_binary *binary, uint64_t now_ns)
{
	g_mutex_lock(&binary->reading);
	const bool reads = is_due(binary, now_ns) && vms_binary_has_room(binary);
	if (reads) {
		binary->pause_ns =
			read_again(binary) ? PAUSE_NS : MIN(2 * binary->pause_ns, PAUSE_MAX_NS);
		binary->next_ns = now_ns + binary->pause_ns;
	}
	g_mutex_unlock(&binary->reading);
	return reads;
}

/* ---- its bytes -------------------------------------------------------- */

void *vms_binary_attachment(struct vms_binary *binary, void *(*make)(struct vms_binary *binary),
			    void (*free)(void *attachment))
{
	g_mutex_lock(&binary->lock);
	if (!binary->attachment) {
		binary->free_attachment = free;
		binary->attachment = make(binary);
	}
	g_mutex_unlock(&binary->lock);
	return binary->attachment;
}

static bool read_locked(struct vms_binary *binary, uint64_t offset, void *buf, size_t size)
{
	g_mutex_lock(&binary->lock);
	const bool read = read_either(binary, offset, buf, size);
	g_mutex_unlock(&binary->lock);
	return read;
}

bool vms_binary_read_now(struct vms_binary *binary, uint64_t offset, void *buf, size_t size)
{
	const bool read = read_locked(binary, offset, buf, size);
	if (!read && binary->source.fetch && offset < binary->size)
		__atomic_store_n(&binary->wanted, offset + 1, __ATOMIC_RELAXED);
	return read;
}

/* The source is asked without the lock: others read meanwhile. */
static bool read_waiting(void *data, uint64_t offset, void *buf, size_t size)
{
	struct vms_binary *binary = data;
	const struct vms_file_source *source = &binary->source;
	return read_locked(binary, offset, buf, size) ||
	       (source->fetch && source->fetch(source->data, offset, size) &&
		read_locked(binary, offset, buf, size));
}

bool vms_binary_read(struct vms_binary *binary, uint64_t offset, void *buf, size_t size)
{
	if (offset > binary->size || size > binary->size - offset)
		return false;
	for (uint8_t *to = buf; size > 0;) {
		const size_t part = MIN(size, VMS_FILE_FETCH);
		if (!read_waiting(binary, offset, to, part))
			return false;
		to += part;
		offset += part;
		size -= part;
	}
	return true;
}

/* Fetches what lies around an offset. True if something came. */
static bool fetch_around(struct vms_binary *binary, uint64_t offset)
{
	const struct vms_file_source *source = &binary->source;
	const uint64_t begin = offset - MIN(offset, FETCH_BEFORE);
	const uint64_t end = MIN(binary->size, offset + FETCH_BEHIND);
	bool came = false;
	for (uint64_t at = begin; at < end; at += VMS_FILE_FETCH)
		came |= source->fetch(source->data, at, MIN(end - at, VMS_FILE_FETCH));
	return came;
}

bool vms_binary_fetch(struct vms_binary *binary)
{
	const uint64_t wanted = __atomic_exchange_n(&binary->wanted, 0, __ATOMIC_RELAXED);
	bool came = false;
	if (wanted == 0)
		return false;
	g_mutex_lock(&binary->reading);
	const uint64_t now_ns = vms_clock_now_ns();
	if (now_ns >= binary->fetch_ns) {
		came = fetch_around(binary, wanted - 1);
		binary->fetch_pause_ns =
			came ? 0 : MIN(MAX(2 * binary->fetch_pause_ns, PAUSE_NS), PAUSE_MAX_NS);
		binary->fetch_ns = now_ns + binary->fetch_pause_ns;
	}
	g_mutex_unlock(&binary->reading);
	return came;
}
