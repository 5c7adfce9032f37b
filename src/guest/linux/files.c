/* SPDX-License-Identifier: MIT */
#include "guest/linux/files.h"
#include "base/buffered_source.h"
#include "base/clock.h"
#include "guest/linux/file_bytes.h"
#include "symbol/symbolizer-private.h"

/* Limits of what a guest can make this keep. */
#define NOTED_LIMIT  (1u << 16)
#define OPEN_LIMIT   (1u << 13)			   /* files */
#define REFRESH_NS   (UINT64_C(100) * 1000 * 1000) /* of reading files again, at a time */
#define TABLES_LIMIT (UINT64_C(512) << 20) /* bytes of symbols and unwind tables of all files */
#define VDSO_LIMIT   (64u << 10)	   /* bytes; Linux has two pages or so */
#define SHARED_LIMIT (UINT64_C(16) << 20)  /* bytes of a file whose copies share tables */

struct noted {
	uint32_t space;
	uint64_t start; /* of the mapping */
	uint64_t token; /* vms_mapping.file of the mapping */
	const char *path;
	struct vms_cached_file file;
	bool is_vdso;	/* the kernel's code for programs, which has no file */
	bool is_opened; /* the symbolizer knows its file */
};

struct opened {
	struct vms_cached_file file;
	struct vms_binary *binary;
};

struct vms_linux_files {
	struct vms_page_cache *cache;
	struct vms_drives *drives;		 /* the guest's disks; NULL if `cache` is */
	const struct vms_symbolizer *symbolizer; /* has the debug files */
	GMutex lock;   /* guards `noted`; taken while a vCPU is held, so never for long */
	GArray *noted; /* struct noted */
	uint8_t *vdso; /* its bytes; NULL until it is first seen */
	size_t vdso_size;
	GMutex reading;	 /* guards all that follows */
	GTree *by_inode; /* struct opened; no hash table: a guest could choose inode numbers */
	struct vms_binary *vdso_binary;
	struct vms_binary_budget *budget;
	GTree *by_build_id; /* struct vms_binary, owned by an entry of `by_inode` */
};

static int compare_inodes(const void *a, const void *b, void *data)
{
	(void)data;
	const struct vms_cached_file *x = a, *y = b;
	const uint64_t left[] = { x->inode, x->number, x->device, x->size };
	const uint64_t right[] = { y->inode, y->number, y->device, y->size };
	for (size_t i = 0; i < G_N_ELEMENTS(left); i++)
		if (left[i] != right[i])
			return left[i] < right[i] ? -1 : 1;
	return 0;
}

static int compare_build_ids(const void *a, const void *b, void *data)
{
	(void)data;
	return strcmp(a, b);
}

static void free_opened(void *data)
{
	struct opened *opened = data;
	vms_binary_unref(opened->binary);
	g_free(opened);
}

struct vms_linux_files *vms_linux_files_new(struct vms_page_cache *cache,
					    const struct vms_symbolizer *symbolizer)
{
	struct vms_linux_files *files = g_new0(struct vms_linux_files, 1);
	files->cache = cache ? vms_page_cache_ref(cache) : NULL;
	files->drives = cache ? vms_drives_new(vms_page_cache_process(cache)) : NULL;
	files->symbolizer = symbolizer;
	files->budget = vms_binary_budget_new(TABLES_LIMIT);
	g_mutex_init(&files->lock);
	g_mutex_init(&files->reading);
	files->noted = g_array_new(FALSE, FALSE, sizeof(struct noted));
	files->by_inode = g_tree_new_full(compare_inodes, NULL, NULL, free_opened);
	files->by_build_id = g_tree_new_full(compare_build_ids, NULL, NULL, NULL);
	return files;
}

void vms_linux_files_free(struct vms_linux_files *files)
{
	if (!files)
		return;
	g_tree_unref(files->by_build_id);
	g_tree_unref(files->by_inode);
	g_array_unref(files->noted);
	vms_binary_unref(files->vdso_binary);
	vms_binary_budget_unref(files->budget);
	g_free(files->vdso);
	g_mutex_clear(&files->reading);
	g_mutex_clear(&files->lock);
	vms_drives_unref(files->drives);
	vms_page_cache_unref(files->cache);
	g_free(files);
}

/* ---- opening ---------------------------------------------------------- */

static struct vms_binary *open_binary(struct vms_linux_files *files, const char *path,
				      const struct vms_cached_file *file)
{
	const struct vms_file_source bytes =
		vms_guest_file_source(files->cache, files->drives, path, file);
	const struct vms_file_source source = vms_file_source_buffered(&bytes);
	struct vms_binary *binary = vms_binary_new(path, &source);
	vms_binary_set_budget(binary, files->budget);
	vms_binary_set_debug_files(binary, vms_symbolizer_debug_files(files->symbolizer));
	return binary;
}

/*
 * True if two files are the same, and the same blocks of them can be read. A build id is no proof:
 * a program can carry that of a library, and would so give its names to all processes.
 */
static bool have_same_bytes(struct vms_binary *a, struct vms_binary *b)
{
	const uint64_t size = vms_binary_size(a);
	uint8_t of_a[VMS_FILE_BLOCK], of_b[VMS_FILE_BLOCK];
	if (size != vms_binary_size(b) || size > SHARED_LIMIT)
		return false;
	for (uint64_t at = 0; at < size; at += VMS_FILE_BLOCK) {
		const size_t part = MIN(size - at, VMS_FILE_BLOCK);
		const bool has_a = vms_binary_read(a, at, of_a, part);
		if (has_a != vms_binary_read(b, at, of_b, part) ||
		    (has_a && memcmp(of_a, of_b, part) != 0))
			return false;
	}
	return true;
}

/* Returns the binary of a copy of the file, or `binary`. Takes `binary`. */
static struct vms_binary *share_binary(struct vms_linux_files *files, struct vms_binary *binary)
{
	const char *build_id = vms_binary_build_id(binary);
	struct vms_binary *same = build_id ? g_tree_lookup(files->by_build_id, build_id) : NULL;
	if (same && have_same_bytes(same, binary)) {
		vms_binary_unref(binary);
		return vms_binary_ref(same);
	}
	if (build_id && !same)
		g_tree_insert(files->by_build_id, (char *)build_id, binary);
	return binary;
}

/* Returns the binary of a file, which files->by_inode owns, or NULL. */
static struct vms_binary *find_or_open(struct vms_linux_files *files, const char *path,
				       const struct vms_cached_file *file)
{
	const struct opened *known = g_tree_lookup(files->by_inode, file);
	if (known)
		return known->binary;
	if (g_tree_nnodes(files->by_inode) >= (gint)OPEN_LIMIT)
		return NULL;
	struct opened *opened = g_new(struct opened, 1);
	opened->file = *file;
	opened->binary = share_binary(files, open_binary(files, path, file));
	g_tree_insert(files->by_inode, &opened->file, opened);
	return opened->binary;
}

struct vms_binary *vms_linux_files_open(struct vms_linux_files *files, const char *path,
					struct vms_cached_file *file)
{
	if (!files->cache || !vms_page_cache_identify(files->cache, file))
		return NULL;
	g_mutex_lock(&files->reading);
	struct vms_binary *binary = find_or_open(files, path, file);
	if (binary)
		vms_binary_ref(binary);
	g_mutex_unlock(&files->reading);
	return binary;
}

/* ---- noting and reading ----------------------------------------------- */

void vms_linux_files_note(struct vms_linux_files *files, struct vms_memory *memory, uint32_t space,
			  const struct vms_mapping *mapping, uint64_t file)
{
	struct noted noted = {
		.space = space,
		.start = mapping->start,
		.token = mapping->file,
		.path = mapping->name,
	};
	if (!files->cache || !vms_page_cache_locate(files->cache, memory, file, &noted.file))
		return;
	g_mutex_lock(&files->lock);
	if (files->noted->len < NOTED_LIMIT)
		g_array_append_val(files->noted, noted);
	g_mutex_unlock(&files->lock);
}

/*
 * Copies the vDSO from a process. Pages that it never used are not mapped, and stay zero; but the
 * first has the headers and symbols, and every program reads it. NULL for that of 32-bit programs.
 */
static uint8_t *copy_vdso(struct vms_memory *memory, uint64_t va, size_t size)
{
	uint8_t *bytes = g_malloc0(size);
	for (size_t at = 0; at < size; at += VMS_FILE_BLOCK)
		if (!vms_memory_read(memory, va + at, bytes + at, VMS_FILE_BLOCK))
			memset(bytes + at, 0, VMS_FILE_BLOCK);
	if (memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64)
		return bytes;
	g_free(bytes);
	return NULL;
}

void vms_linux_files_note_vdso(struct vms_linux_files *files, struct vms_memory *memory,
			       uint32_t space, const struct vms_mapping *mapping)
{
	const struct noted noted = { .space = space, .start = mapping->start, .is_vdso = true };
	const uint64_t size = mapping->end - mapping->start;
	if (size == 0 || size % VMS_FILE_BLOCK != 0 || size > VDSO_LIMIT)
		return;
	g_mutex_lock(&files->lock);
	const bool is_new = !files->vdso;
	g_mutex_unlock(&files->lock);
	uint8_t *bytes = is_new ? copy_vdso(memory, mapping->start, size) : NULL;
	g_mutex_lock(&files->lock);
	if (bytes && !files->vdso) {
		files->vdso = g_steal_pointer(&bytes);
		files->vdso_size = size;
	}
	/* Programs of 32 bits have another one, which is smaller or larger. */
	if (files->vdso && files->vdso_size == size && files->noted->len < NOTED_LIMIT)
		g_array_append_val(files->noted, noted);
	g_mutex_unlock(&files->lock);
	g_free(bytes);
}

/* Returns the vDSO, which was seen, as a new reference. */
static struct vms_binary *open_vdso(struct vms_linux_files *files)
{
	g_mutex_lock(&files->reading);
	if (!files->vdso_binary) {
		const struct vms_file_source source = vms_file_source_of_memory(
			g_memdup2(files->vdso, files->vdso_size), files->vdso_size);
		files->vdso_binary = vms_binary_new("[vdso]", &source);
	}
	struct vms_binary *binary = vms_binary_ref(files->vdso_binary);
	g_mutex_unlock(&files->reading);
	return binary;
}

struct refresh {
	uint64_t now_ns, end_ns;
};

static gboolean refresh_opened(void *key, void *value, void *data)
{
	(void)key;
	const struct refresh *refresh = data;
	const struct opened *opened = value;
	return vms_binary_refresh(opened->binary, refresh->now_ns) &&
	       vms_clock_now_ns() >= refresh->end_ns;
}

/* Reads the files again whose functions were not in memory, and may be now. */
static void refresh_files(struct vms_linux_files *files)
{
	const uint64_t now_ns = vms_clock_now_ns();
	struct refresh refresh = { now_ns, now_ns + REFRESH_NS };
	g_mutex_lock(&files->reading);
	g_tree_foreach(files->by_inode, refresh_opened, &refresh);
	g_mutex_unlock(&files->reading);
}

/* Opens a file that was noted. Returns a new reference, or NULL. */
static struct vms_binary *open_noted(struct vms_linux_files *files, struct noted *noted)
{
	return noted->is_vdso ? open_vdso(files)
			      : vms_linux_files_open(files, noted->path, &noted->file);
}

void vms_linux_files_open_noted(struct vms_linux_files *files, struct vms_symbolizer *symbolizer,
				uint32_t space)
{
	for (guint i = 0;; i++) {
		g_mutex_lock(&files->lock);
		const bool is_there = i < files->noted->len;
		struct noted noted = { .is_opened = true };
		if (is_there) {
			struct noted *kept = &g_array_index(files->noted, struct noted, i);
			noted = *kept;
			kept->is_opened |= kept->space == space;
		}
		g_mutex_unlock(&files->lock);
		if (!is_there)
			return;
		g_autoptr(vms_binary) binary =
			noted.is_opened || noted.space != space ? NULL : open_noted(files, &noted);
		if (binary)
			vms_symbolizer_attach_binary(symbolizer, space, noted.start, noted.token,
						     binary, NULL);
	}
}

void vms_linux_files_read(struct vms_linux_files *files, struct vms_symbolizer *symbolizer)
{
	g_mutex_lock(&files->lock);
	g_autoptr(GArray) noted = files->noted;
	files->noted = g_array_new(FALSE, FALSE, sizeof(struct noted));
	g_mutex_unlock(&files->lock);
	for (guint i = 0; i < noted->len; i++) {
		struct noted *one = &g_array_index(noted, struct noted, i);
		g_autoptr(vms_binary) binary = open_noted(files, one);
		if (binary)
			vms_symbolizer_attach_binary(symbolizer, one->space, one->start, one->token,
						     binary, vms_binary_functions(binary));
	}
	refresh_files(files);
}
