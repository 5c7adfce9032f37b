/* SPDX-License-Identifier: MIT */
#include "sampler/host/host_files.h"
#include "base/file_source.h"
#include "base/keyed_hash.h"
#include "symbol/build_id.h"
#include <string.h>

#define JOBS_LIMIT  (1u << 16) /* files that wait to be read */
#define PARTS_LIMIT 4096       /* processes that have a budget of their own */
#define ENTRY_BYTES 128	       /* that a file costs here, beside its name */

/* A file that was read is not read again: its inode and its last change tell that it is the same.
 */
struct read_file {
	struct {
		uint64_t device, inode, size;
		int64_t change_s, change_ns;
	} key;
	char build_id[2 * VMS_BUILD_ID_MAX + 1];
};

/* A file that is to be read. */
struct job {
	uint32_t number; /* 0: there are no more */
	struct vms_foreign_name name;
	char *path; /* of `name` */
};

struct vms_host_files {
	GHashTable *numbers; /* "DEVICE INODE PATH" to number; numbers begin with 1 */
	uint32_t unknown;    /* the number of all files for which there is no room; 0: not given */
	struct vms_budget *budget; /* of all of it */
	void (*found)(uint32_t number, const char *path, const struct vms_file_identity *identity,
		      void *data);
	void *data;
	GThread *thread; /* NULL: there was nothing to read yet */
	GAsyncQueue *jobs;
	int ends; /* atomic: nothing more is read */
	/* The thread alone uses the rest. */
	struct vms_foreign_files *foreign;
	GHashTable *read;  /* struct read_file */
	GHashTable *parts; /* struct vms_budget by pid */
};

static guint hash_read(gconstpointer key)
{
	const struct read_file *file = key;
	return (guint)vms_keyed_hash(&file->key, sizeof(file->key));
}

static gboolean is_same_file(gconstpointer a, gconstpointer b)
{
	const struct read_file *x = a, *y = b;
	return memcmp(&x->key, &y->key, sizeof(x->key)) == 0;
}

static void free_job(void *data)
{
	struct job *job = data;
	g_free(job->path);
	g_free(job);
}

static void unref_budget(void *data)
{
	vms_budget_unref(data);
}

struct vms_host_files *vms_host_files_new(struct vms_budget *budget,
					  void (*found)(uint32_t number, const char *path,
							const struct vms_file_identity *identity,
							void *data),
					  void *data)
{
	struct vms_host_files *files = g_new0(struct vms_host_files, 1);
	files->numbers = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	files->budget = vms_budget_new_part(budget, "the names of mapped files");
	files->found = found;
	files->data = data;
	files->jobs = g_async_queue_new_full(free_job);
	files->foreign = vms_foreign_files_new(budget);
	files->read = g_hash_table_new_full(hash_read, is_same_file, g_free, NULL);
	files->parts = g_hash_table_new_full(vms_hash_direct, NULL, NULL, unref_budget);
	return files;
}

void vms_host_files_free(struct vms_host_files *files)
{
	g_atomic_int_set(&files->ends, 1);
	vms_host_files_finish(files);
	g_async_queue_unref(files->jobs);
	g_hash_table_unref(files->numbers);
	g_hash_table_unref(files->parts);
	g_hash_table_unref(files->read);
	vms_foreign_files_unref(files->foreign);
	vms_budget_unref(files->budget);
	g_free(files);
}

/* ---- the thread ------------------------------------------------------- */

/* Returns what a process may spend: one with any number of files costs no other its names. */
static struct vms_budget *get_part(struct vms_host_files *files, pid_t pid)
{
	struct vms_budget *part = g_hash_table_lookup(files->parts, GINT_TO_POINTER(pid));
	if (part || !files->budget || g_hash_table_size(files->parts) >= PARTS_LIMIT)
		return part ?: files->budget;
	g_autofree char *source = g_strdup_printf("the files of process %d", (int)pid);
	part = vms_budget_new_part(files->budget, source);
	g_hash_table_insert(files->parts, GINT_TO_POINTER(pid), part);
	return part;
}

/* Returns what is known of an open file, and reads it if that is nothing. */
static const struct read_file *read_file(struct vms_host_files *files,
					 struct vms_foreign_file *file, struct vms_budget *budget)
{
	const struct stat *status = vms_foreign_file_status(file);
	struct read_file own;
	memset(&own, 0, sizeof(own));
	own.key.device = status->st_dev;
	own.key.inode = status->st_ino;
	own.key.size = (uint64_t)status->st_size;
	own.key.change_s = status->st_ctim.tv_sec;
	own.key.change_ns = status->st_ctim.tv_nsec;
	struct read_file *known = g_hash_table_lookup(files->read, &own);
	if (known || !vms_budget_take(budget, VMS_BUDGET_BYTES, sizeof(own)))
		return known;
	struct vms_file_source source = vms_file_source_of_foreign(file, budget);
	vms_build_id_find(&source, own.build_id);
	known = g_memdup2(&own, sizeof(own));
	g_hash_table_add(files->read, known);
	return known;
}

/* Finds out how to recognise a file, if that can be known. */
static void identify(struct vms_host_files *files, const struct job *job)
{
	struct vms_budget *budget = get_part(files, job->name.pid);
	struct vms_file_identity identity = { 0 };
	int number;
	struct vms_foreign_file *file =
		g_atomic_int_get(&files->ends)
			? NULL
			: vms_foreign_files_open(files->foreign, &job->name, budget, &number);
	const struct read_file *known = file ? read_file(files, file, budget) : NULL;
	if (known && known->build_id[0])
		identity.build_id = known->build_id;
	else if (known)
		identity.stamp = vms_file_stamp(vms_foreign_file_status(file));
	files->found(job->number, job->path, &identity, files->data);
	vms_foreign_file_close(file);
}

static void *read_files(void *data)
{
	struct vms_host_files *files = data;
	struct job *job;
	while ((job = g_async_queue_pop(files->jobs))->number) {
		identify(files, job);
		free_job(job);
	}
	free_job(job);
	return NULL;
}

void vms_host_files_finish(struct vms_host_files *files)
{
	if (!files->thread)
		return;
	g_async_queue_push(files->jobs, g_new0(struct job, 1));
	g_thread_join(g_steal_pointer(&files->thread));
}

/* ---- numbers ---------------------------------------------------------- */

static void begin_reading(struct vms_host_files *files, uint32_t number,
			  const struct vms_foreign_name *name)
{
	const struct vms_file_identity unknown = { 0 };
	if (name->path[0] != '/' || g_async_queue_length(files->jobs) > (gint)JOBS_LIMIT) {
		files->found(number, name->path, &unknown, files->data);
		return;
	}
	struct job *job = g_new(struct job, 1);
	job->number = number;
	job->name = *name;
	job->name.path = job->path = g_strdup(name->path);
	if (!files->thread)
		files->thread = g_thread_new("files", read_files, files);
	g_async_queue_push(files->jobs, job);
}

static uint32_t get_unknown(struct vms_host_files *files)
{
	static const struct vms_foreign_name name = { .path = "[file]" };
	if (!files->unknown) {
		files->unknown = g_hash_table_size(files->numbers) + 1;
		begin_reading(files, files->unknown, &name);
	}
	return files->unknown;
}

uint32_t vms_host_files_number(struct vms_host_files *files, const struct vms_foreign_name *name)
{
	g_autofree char *key = g_strdup_printf("%" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER "x %s",
					       name->device, name->inode, name->path);
	uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(files->numbers, key));
	if (number)
		return number;
	if (files->unknown ||
	    !vms_budget_take(files->budget, VMS_BUDGET_BYTES, ENTRY_BYTES + strlen(key)))
		return get_unknown(files);
	number = g_hash_table_size(files->numbers) + 1;
	g_hash_table_insert(files->numbers, g_steal_pointer(&key), GUINT_TO_POINTER(number));
	begin_reading(files, number, name);
	return number;
}
