/* SPDX-License-Identifier: MIT */
/*
 * Records go directly to the files of their streams, and only whole records. The files with names
 * are replaced as a whole when something in them has changed.
 */
#include "base/keyed_hash.h"
#include "calls/directory-private.h"

#include "base/path.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_SIZE   16
#define OPEN_FILES    200  /* files of streams that are open at once */
#define CHUNK	      4096 /* records that are written at once */
#define IMAGES_LIMIT  (1 << 13)
#define ENTRIES_LIMIT (1 << 21) /* functions of all images that are listed to be named */
#define STACK_LIMIT   65000	/* uftrace cannot count deeper calls */
#define STACK_STEP    1024
/* Symbol files grow with every new function. Writing one takes at most 1/SYMBOLS_SHARE of time. */
#define SYMBOLS_SHARE 20

/* A record's second word: type:2 more:1 magic:3 depth:10 address:48. */
#define TYPE(word)    ((unsigned)((word)&3))
#define ADDRESS(word) ((word) >> 16)
#define FIXED	      UINT64_C(0x3c) /* mask of more and magic */
#define MAGIC	      (UINT64_C(5) << 3)
enum { ENTRY, EXIT, LOST };

struct call {
	uint64_t address, place; /* in the agent's record, and in the trace */
};

struct stream {
	uint32_t id;
	struct vms_calls_task task;
	struct vms_calls_mappings *mappings; /* NULL if not known */
	GArray *calls;			     /* open calls: struct call, innermost last */
	uint64_t size;			     /* bytes written */
	int fd;				     /* -1 if not open */
	GList *link;			     /* in vms_calls_directory.open */
};

struct vms_calls_directory {
	char *path;		/* as the caller gave it, for messages */
	struct vms_place place; /* its parent folder and its name */
	int fd;
	struct vms_calls_about about; /* strings are owned */
	GHashTable *streams;	      /* id → struct stream */
	GQueue open; /* streams with an open file, the most recently used one last */
	GPtrArray *images;
	GHashTable *image_ids;	  /* "key:name" → image */
	GHashTable *names;	  /* names of images, so that each is unique */
	GHashTable *last_numbers; /* that were appended to a name, by that name */
	struct vms_calls_places *places;
	struct vms_calls_mappings *kernel;
	vms_calls_learn learn;
	void *learn_data;
	uint64_t start_ns;  /* the lowest time of all streams and records */
	unsigned n_entries; /* entered functions of all images */
	unsigned max_stack; /* number of calls that were open at once, rounded up */
	struct vms_calls_written written;
	GError *failure; /* why a data file could not be written, or NULL */
	bool tasks_changed, info_changed, images_changed;
	uint64_t buffer[2 * CHUNK];
};

/* ---- files ------------------------------------------------------------ */

/* Sets an error from errno. Returns false. */
static bool set_file_error(const char *what, const char *folder, const char *name, GError **error)
{
	int number = errno;
	enum vms_error code = number == EACCES || number == EPERM || number == EROFS
				      ? VMS_ERROR_PERMISSION
				      : VMS_ERROR_IO;
	g_set_error(error, VMS_ERROR, code, "cannot %s %s%s%s: %s", what, folder, *name ? "/" : "",
		    name, g_strerror(number));
	return false;
}

static bool write_all(int fd, const char *data, size_t size, size_t *done)
{
	*done = 0;
	while (*done < size) {
		ssize_t n = write(fd, data + *done, size - *done);
		if (n < 0 && errno != EINTR)
			return false;
		*done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Replaces a file as a whole: a reader sees the old one or the new one. Frees the text. */
static bool replace_file(struct vms_calls_directory *directory, const char *name, GString *text,
			 GError **error)
{
	static const char temporary[] = ".new";
	size_t done;
	int fd = openat(directory->fd, temporary,
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool written = fd >= 0 && write_all(fd, text->str, text->len, &done);
	if (fd >= 0 && close(fd) < 0)
		written = false;
	written = written && renameat(directory->fd, temporary, directory->fd, name) == 0;
	if (!written) {
		set_file_error("write", directory->path, name, error);
		unlinkat(directory->fd, temporary, 0);
	}
	g_string_free(text, true);
	return written;
}

/* Opens a folder to list it. NULL if that is not possible. */
static DIR *open_list(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	if (fd >= 0 && !list)
		close(fd);
	return list;
}

/* Returns the next name in a folder, or NULL if there is none. `list` may be NULL. */
static const char *read_next_name(DIR *list)
{
	const struct dirent *entry = list ? readdir(list) : NULL;
	while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
		entry = readdir(list);
	return entry ? entry->d_name : NULL;
}

static bool is_empty(int folder)
{
	DIR *list = open_list(folder);
	bool empty = list && !read_next_name(list);
	if (list)
		closedir(list);
	return empty;
}

/* False, with an error, if others may put files or links into the folder, or it is not empty. */
static bool check_folder(const char *path, int fd, GError **error)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return set_file_error("open", path, "", error);
	if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH))) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot write a trace to %s: %s; name a new directory", path,
			    status.st_uid != geteuid() ? "it belongs to another user"
						       : "others may write to it");
		return false;
	}
	if (is_empty(fd))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_EXISTS,
		    "cannot write a trace to %s: it is not empty; name a new directory", path);
	return false;
}

static int open_folder(const char *path, const struct vms_place *place, GError **error)
{
	if (mkdirat(place->folder, place->name, 0700) < 0 && errno != EEXIST) {
		set_file_error("create", path, "", error);
		return -1;
	}
	int fd =
		openat(place->folder, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		set_file_error("open", path, "", error);
	} else if (!check_folder(path, fd, error)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- streams ---------------------------------------------------------- */

static void close_stream_file(struct vms_calls_directory *directory, struct stream *stream)
{
	if (stream->fd < 0)
		return;
	close(stream->fd);
	stream->fd = -1;
	g_queue_delete_link(&directory->open, stream->link);
	stream->link = NULL;
}

static void free_stream(void *data)
{
	struct stream *stream = data;
	vms_calls_mappings_unref(stream->mappings);
	g_array_unref(stream->calls);
	g_free(stream);
}

static struct stream *find_stream(const struct vms_calls_directory *directory, uint64_t id)
{
	return g_hash_table_lookup(directory->streams, (gpointer)(uintptr_t)id);
}

static struct stream *new_stream(struct vms_calls_directory *directory, uint32_t id)
{
	struct stream *stream = g_new0(struct stream, 1);
	stream->id = id;
	stream->fd = -1;
	stream->calls = g_array_new(false, false, sizeof(struct call));
	g_hash_table_insert(directory->streams, (gpointer)(uintptr_t)id, stream);
	directory->written.streams++;
	directory->info_changed = directory->tasks_changed = true;
	stream->task = (struct vms_calls_task) { .tid = id, .pid = id, .name = "unknown" };
	return stream;
}

/*
 * Returns the stream with an id, and makes it if it is new: if a ring was full, a stream's records
 * may come before its name. NULL if the id is not valid.
 */
static struct stream *get_stream(struct vms_calls_directory *directory, uint64_t id)
{
	struct stream *stream = find_stream(directory, id);
	return stream || id == 0 || id > INT32_MAX ? stream : new_stream(directory, (uint32_t)id);
}

/* Keeps the lowest time: uftrace needs a session that has begun before every record. */
static void note_time(struct vms_calls_directory *directory, uint64_t time_ns)
{
	if (time_ns >= directory->start_ns)
		return;
	directory->start_ns = time_ns;
	directory->tasks_changed = true;
}

void vms_calls_directory_name_stream(struct vms_calls_directory *directory, uint64_t id,
				     const struct vms_calls_thread *thread)
{
	struct stream *stream = get_stream(directory, id);
	if (!stream)
		return;
	stream->task.pid = thread->pid ? thread->pid : (uint32_t)id;
	g_strlcpy(stream->task.name, thread->name, sizeof(stream->task.name));
	note_time(directory, thread->time_ns);
	directory->tasks_changed = true;
}

void vms_calls_directory_set_space(struct vms_calls_directory *directory, uint64_t id,
				   struct vms_calls_mappings *mappings)
{
	struct stream *stream = get_stream(directory, id);
	if (!stream)
		return;
	if (mappings)
		vms_calls_mappings_ref(mappings);
	vms_calls_mappings_unref(stream->mappings);
	stream->mappings = mappings;
}

/* Opens the stream's file. Closes another one if too many are open. */
static bool open_stream_file(struct vms_calls_directory *directory, struct stream *stream,
			     GError **error)
{
	if (stream->fd >= 0) {
		g_queue_unlink(&directory->open, stream->link);
		g_queue_push_tail_link(&directory->open, stream->link);
		return true;
	}
	if (directory->open.length >= OPEN_FILES)
		close_stream_file(directory, g_queue_peek_head(&directory->open));
	char name[32];
	snprintf(name, sizeof(name), "%u.dat", stream->id);
	stream->fd = openat(directory->fd, name,
			    O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (stream->fd < 0)
		return set_file_error("open", directory->path, name, error);
	g_queue_push_tail(&directory->open, stream);
	stream->link = g_queue_peek_tail_link(&directory->open);
	return true;
}

/* Writes records. If the disk is full, removes an incomplete record at the end. */
static bool write_records(struct vms_calls_directory *directory, struct stream *stream,
			  const void *data, size_t size, GError **error)
{
	size_t done;
	if (!open_stream_file(directory, stream, error))
		return false;
	bool written = write_all(stream->fd, data, size, &done);
	int number = errno;
	done -= done % RECORD_SIZE;
	stream->size += done;
	directory->written.bytes += done;
	directory->written.records += done / RECORD_SIZE;
	if (written)
		return true;
	if (ftruncate(stream->fd, (off_t)stream->size) < 0)
		close_stream_file(directory, stream);
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_IO,
		"cannot write %s/%u.dat: %s; %" G_GUINT64_FORMAT
		" bytes of the trace were written and can be read, at least %zu more are needed",
		directory->path, stream->id, g_strerror(number), directory->written.bytes,
		size - done);
	return false;
}

/* ---- addresses -------------------------------------------------------- */

/* Finds the mapping of an address, in the guest if need be. Notes the function for its image. */
static const struct vms_calls_mapping *find_mapping(struct vms_calls_directory *directory,
						    const struct stream *stream, uint64_t va)
{
	const struct vms_calls_mapping *mapping = vms_calls_mappings_find(directory->kernel, va);
	if (!mapping && stream->mappings) {
		mapping = vms_calls_mappings_find(stream->mappings, va);
		if (!mapping && directory->learn &&
		    vms_calls_mappings_note_question(stream->mappings, va)) {
			directory->learn(stream->mappings, va, directory->learn_data);
			mapping = vms_calls_mappings_find(stream->mappings, va);
		}
		if (mapping && directory->n_entries < ENTRIES_LIMIT &&
		    vms_calls_image_note_entry(mapping->image,
					       mapping->offset + (va - mapping->start))) {
			directory->n_entries++;
			directory->images_changed = true;
		}
	}
	return mapping;
}

/* Returns the address in the trace of an address of a stream. */
static uint64_t find_place(struct vms_calls_directory *directory, const struct stream *stream,
			   uint64_t va)
{
	const struct vms_calls_mapping *mapping = find_mapping(directory, stream, va);
	if (mapping)
		return mapping->place + (va - mapping->start);
	return vms_calls_places_move_stray(directory->places, va, stream->mappings != NULL);
}

static void push_call(struct vms_calls_directory *directory, struct stream *stream,
		      const struct call *call)
{
	if (stream->calls->len == STACK_LIMIT)
		g_array_set_size(stream->calls, 0);
	g_array_append_val(stream->calls, *call);
	if (stream->calls->len > directory->max_stack) {
		directory->max_stack = MIN(directory->max_stack + STACK_STEP, STACK_LIMIT);
		directory->info_changed = true;
	}
}

/* Removes the innermost call. True if it is a call of the function at `va`. */
static bool pop_call(struct stream *stream, uint64_t va, uint64_t *place)
{
	if (stream->calls->len == 0)
		return false;
	const struct call *call =
		&g_array_index(stream->calls, struct call, stream->calls->len - 1);
	*place = call->place;
	bool same = call->address == va;
	g_array_set_size(stream->calls, stream->calls->len - 1);
	return same;
}

/* Returns the record's second word for the file. An exit gets the same address as its entry. */
static uint64_t translate_word(struct vms_calls_directory *directory, struct stream *stream,
			       uint64_t word)
{
	uint64_t va = ADDRESS(word), place = va;
	if (TYPE(word) == ENTRY) {
		place = find_place(directory, stream, va);
		push_call(directory, stream, &(struct call) { va, place });
	} else if (TYPE(word) == EXIT && !pop_call(stream, va, &place)) {
		place = find_place(directory, stream, va);
	} else if (TYPE(word) == LOST) {
		g_array_set_size(stream->calls, 0);
	}
	return (word & 0xffff & ~FIXED) | MAGIC | place << 16;
}

static bool write_image(struct vms_calls_directory *directory, struct vms_calls_image *image,
			GError **error)
{
	const gint64 begin = g_get_monotonic_time();
	g_autofree char *name = g_strdup_printf("%s.sym", image->name);
	if (!replace_file(directory, name, vms_calls_image_text(image), error))
		return false;
	image->changed = false;
	const gint64 end = g_get_monotonic_time();
	image->due_us = end + SYMBOLS_SHARE * (end - begin);
	return true;
}

static bool write_images(struct vms_calls_directory *directory, bool all, GError **error)
{
	directory->images_changed = false;
	for (guint i = 0; i < directory->images->len; i++) {
		struct vms_calls_image *image = directory->images->pdata[i];
		bool is_due = all || g_get_monotonic_time() >= image->due_us;
		if (image->changed && is_due && !write_image(directory, image, error))
			return false;
		directory->images_changed |= image->changed;
	}
	return true;
}

/*
 * Writes symbol files and map. This is done before the records that need them are written, so that
 * nothing is missing if this process is killed. If not `all`, leaves out symbol files that are not
 * due.
 */
static bool write_names(struct vms_calls_directory *directory, bool all, GError **error)
{
	if (!write_images(directory, all, error))
		return false;
	if (directory->places->changed &&
	    !replace_file(directory, "sid-0000000000000000.map",
			  vms_calls_places_text(directory->places), error))
		return false;
	directory->places->changed = false;
	return true;
}

bool vms_calls_directory_append(struct vms_calls_directory *directory, uint64_t id,
				const void *records, size_t size, GError **error)
{
	struct stream *stream = get_stream(directory, id);
	if (!stream || size % RECORD_SIZE) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot add %zu bytes to the trace's stream %" G_GUINT64_FORMAT ": %s",
			    size, id, stream ? "that is no whole record" : "there can be none");
		return false;
	}
	for (size_t done = 0; done < size && !directory->failure;) {
		size_t bytes = MIN(size - done, sizeof(directory->buffer));
		memcpy(directory->buffer, (const char *)records + done, bytes);
		note_time(directory, GUINT64_FROM_LE(directory->buffer[0]));
		for (size_t i = 1; i < bytes / 8; i += 2)
			directory->buffer[i] = GUINT64_TO_LE(translate_word(
				directory, stream, GUINT64_FROM_LE(directory->buffer[i])));
		if ((!directory->images_changed && !directory->places->changed) ||
		    write_names(directory, false, &directory->failure))
			write_records(directory, stream, directory->buffer, bytes,
				      &directory->failure);
		done += bytes;
	}
	if (directory->failure && error)
		*error = g_error_copy(directory->failure);
	return !directory->failure;
}

/* ---- names ------------------------------------------------------------ */

/* Makes a unique name for the image's symbol file. */
static char *make_unique_name(struct vms_calls_directory *directory, const char *called)
{
	g_autofree char *base = g_path_get_basename(called);
	g_autofree char *clean = vms_calls_clean_name(base);
	/* uftrace takes files with these names for parts of itself. */
	bool is_special = g_str_has_prefix(clean, "libmcount") || strcmp(clean, "python.fake") == 0;
	char *first = g_strdup_printf("%s%s", is_special ? "~" : "", clean),
	     *name = g_strdup(first);
	/* As many may have one name, each begins behind the number that was found last. */
	guint number = GPOINTER_TO_UINT(g_hash_table_lookup(directory->last_numbers, first));
	while (g_hash_table_contains(directory->names, name)) {
		g_free(name);
		number = MAX(number + 1, 2);
		name = g_strdup_printf("%s~%u", first, number);
	}
	g_hash_table_insert(directory->last_numbers, first, GUINT_TO_POINTER(number));
	return name;
}

struct vms_calls_image *vms_calls_directory_image(struct vms_calls_directory *directory,
						  uint64_t key, const char *name)
{
	g_autofree char *id = g_strdup_printf("%" G_GINT64_MODIFIER "x:%s", key, name);
	struct vms_calls_image *image = g_hash_table_lookup(directory->image_ids, id);
	if (image || directory->images->len == IMAGES_LIMIT)
		return image;
	g_autofree char *unique = make_unique_name(directory, name);
	image = vms_calls_image_new(name, unique);
	g_ptr_array_add(directory->images, image);
	g_hash_table_insert(directory->image_ids, g_steal_pointer(&id), image);
	g_hash_table_add(directory->names, image->name);
	return image;
}

struct vms_calls_mappings *vms_calls_directory_kernel(struct vms_calls_directory *directory)
{
	return directory->kernel;
}

struct vms_calls_mappings *vms_calls_mappings_new(struct vms_calls_directory *directory)
{
	return vms_calls_mappings_make(directory->places, false);
}

void vms_calls_directory_set_learn(struct vms_calls_directory *directory, vms_calls_learn learn,
				   void *data)
{
	directory->learn = learn;
	directory->learn_data = data;
}

static void free_about(struct vms_calls_about *about)
{
	g_free((char *)about->command);
	g_free((char *)about->kernel);
	g_free((char *)about->hostname);
	g_free((char *)about->distro);
}

void vms_calls_directory_describe(struct vms_calls_directory *directory,
				  const struct vms_calls_about *about)
{
	free_about(&directory->about);
	directory->about = (struct vms_calls_about) {
		.command = g_strdup(about->command),
		.kernel = g_strdup(about->kernel),
		.hostname = g_strdup(about->hostname),
		.distro = g_strdup(about->distro),
		.cpus = about->cpus,
	};
	directory->info_changed = true;
}

/* ---- updates ------------------------------------------------------------ */

static GArray *list_tasks(const struct vms_calls_directory *directory)
{
	GArray *tasks = g_array_new(false, false, sizeof(struct vms_calls_task));
	GHashTableIter iter;
	gpointer stream;
	g_hash_table_iter_init(&iter, directory->streams);
	while (g_hash_table_iter_next(&iter, NULL, &stream))
		g_array_append_val(tasks, ((struct stream *)stream)->task);
	return tasks;
}

/* Writes task.txt before `info`, so that every stream in `info` has a name. */
static bool write_tasks(struct vms_calls_directory *directory, GError **error)
{
	g_autoptr(GArray) tasks = list_tasks(directory);
	GString *text = vms_calls_tasks_text(tasks, directory->start_ns);
	if (!replace_file(directory, "task.txt", text, error) ||
	    !replace_file(directory, "info",
			  vms_calls_info_text(&directory->about, tasks, directory->max_stack),
			  error))
		return false;
	directory->tasks_changed = directory->info_changed = false;
	return true;
}

static bool update_files(struct vms_calls_directory *directory, bool all, GError **error)
{
	if (!write_names(directory, all, error))
		return false;
	return (!directory->tasks_changed && !directory->info_changed) ||
	       write_tasks(directory, error);
}

bool vms_calls_directory_update(struct vms_calls_directory *directory, GError **error)
{
	return update_files(directory, false, error);
}

struct vms_calls_written vms_calls_directory_written(const struct vms_calls_directory *directory)
{
	return directory->written;
}

/* ---- the directory ------------------------------------------------------ */

struct vms_calls_directory *vms_calls_directory_open(const char *path, GError **error)
{
	struct vms_place place;
	int fd = vms_place_find(&place, path, error) ? open_folder(path, &place, error) : -1;
	if (fd < 0) {
		vms_place_clear(&place);
		return NULL;
	}
	struct vms_calls_directory *directory = g_new0(struct vms_calls_directory, 1);
	directory->place = place;
	directory->path = g_strdup(path);
	directory->fd = fd;
	directory->streams = g_hash_table_new_full(vms_hash_direct, NULL, NULL, free_stream);
	g_queue_init(&directory->open);
	directory->images = g_ptr_array_new();
	directory->image_ids = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	directory->names = g_hash_table_new(vms_hash_text, g_str_equal);
	directory->last_numbers = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	directory->places = vms_calls_places_new();
	directory->kernel = vms_calls_mappings_make(directory->places, true);
	directory->start_ns = UINT64_MAX;
	directory->max_stack = STACK_STEP;
	return directory;
}

static void free_directory(struct vms_calls_directory *directory)
{
	while (directory->open.length > 0)
		close_stream_file(directory, g_queue_peek_head(&directory->open));
	g_hash_table_unref(directory->streams);
	vms_calls_mappings_unref(directory->kernel);
	g_hash_table_unref(directory->names);
	g_hash_table_unref(directory->last_numbers);
	g_hash_table_unref(directory->image_ids);
	for (guint i = 0; i < directory->images->len; i++)
		vms_calls_image_free(directory->images->pdata[i]);
	g_ptr_array_unref(directory->images);
	vms_calls_places_free(directory->places);
	g_clear_error(&directory->failure);
	free_about(&directory->about);
	close(directory->fd);
	vms_place_clear(&directory->place);
	g_free(directory->path);
	g_free(directory);
}

bool vms_calls_directory_close(struct vms_calls_directory *directory, GError **error)
{
	if (!directory)
		return true;
	bool updated = update_files(directory, true, error);
	free_directory(directory);
	return updated;
}

void vms_calls_directory_discard(struct vms_calls_directory *directory)
{
	if (!directory)
		return;
	DIR *list = open_list(directory->fd);
	const char *name;
	while ((name = read_next_name(list)))
		unlinkat(directory->fd, name, 0);
	if (list)
		closedir(list);
	unlinkat(directory->place.folder, directory->place.name, AT_REMOVEDIR);
	free_directory(directory);
}
