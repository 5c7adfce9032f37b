/* SPDX-License-Identifier: MIT */
#include "sampler/host/host_files.h"
#include "symbol/build_id.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct vms_host_files {
	GHashTable *numbers; /* "DEVICE INODE PATH" to number; numbers begin with 1 */
	void (*found)(uint32_t number, const char *path, const char *build_id, void *data);
	void *data;
};

struct vms_host_files *vms_host_files_new(void (*found)(uint32_t number, const char *path,
							const char *build_id, void *data),
					  void *data)
{
	struct vms_host_files *files = g_new0(struct vms_host_files, 1);
	files->numbers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	files->found = found;
	files->data = data;
	return files;
}

void vms_host_files_free(struct vms_host_files *files)
{
	g_hash_table_unref(files->numbers);
	g_free(files);
}

/* Reads the build id of a file. Newly allocated, or NULL. The process may have another root. */
static char *read_build_id(pid_t pid, const char *path, dev_t device, ino_t inode)
{
	g_autofree char *below = g_strdup_printf("/proc/%d/root%s", (int)pid, path);
	const char *const paths[] = { below, path };
	char *id = NULL;
	for (size_t i = 0; path[0] == '/' && i < G_N_ELEMENTS(paths) && !id; i++) {
		struct stat status;
		const int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_dev == device &&
		    status.st_ino == inode)
			id = vms_build_id_read(fd);
		close(fd);
	}
	return id;
}

uint32_t vms_host_files_number(struct vms_host_files *files, pid_t pid, const char *path,
			       dev_t device, ino_t inode)
{
	char *key = g_strdup_printf("%" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER "x %s",
				    (guint64)device, (guint64)inode, path);
	uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(files->numbers, key));
	if (number) {
		g_free(key);
		return number;
	}
	number = g_hash_table_size(files->numbers) + 1;
	g_hash_table_insert(files->numbers, key, GUINT_TO_POINTER(number));
	g_autofree char *build_id = read_build_id(pid, path, device, inode);
	files->found(number, path, build_id, files->data);
	return number;
}
