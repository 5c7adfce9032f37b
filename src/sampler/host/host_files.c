/* SPDX-License-Identifier: MIT */
#include "sampler/host/host_files.h"
#include "base/keyed_hash.h"
#include "symbol/build_id.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct vms_host_files {
	GHashTable *numbers; /* "DEVICE INODE PATH" to number; numbers begin with 1 */
	void (*found)(uint32_t number, const char *path, const struct vms_file_identity *identity,
		      void *data);
	void *data;
};

struct vms_host_files *vms_host_files_new(void (*found)(uint32_t number, const char *path,
							const struct vms_file_identity *identity,
							void *data),
					  void *data)
{
	struct vms_host_files *files = g_new0(struct vms_host_files, 1);
	files->numbers = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	files->found = found;
	files->data = data;
	return files;
}

void vms_host_files_free(struct vms_host_files *files)
{
	g_hash_table_unref(files->numbers);
	g_free(files);
}

/* Reads the identity of a file. The process may have another root. The caller frees the build id.
 */
static struct vms_file_identity read_identity(pid_t pid, const char *path, dev_t device,
					      ino_t inode)
{
	g_autofree char *below = g_strdup_printf("/proc/%d/root%s", (int)pid, path);
	const char *const paths[] = { below, path };
	struct vms_file_identity identity = { 0 };
	for (size_t i = 0; path[0] == '/' && i < G_N_ELEMENTS(paths) && !identity.build_id; i++) {
		struct stat status;
		const int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_dev == device &&
		    status.st_ino == inode) {
			identity.build_id = vms_build_id_read(fd);
			identity.stamp = identity.build_id ? 0 : vms_file_stamp(fd);
		}
		close(fd);
	}
	return identity;
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
	const struct vms_file_identity identity = read_identity(pid, path, device, inode);
	files->found(number, path, &identity, files->data);
	g_free(identity.build_id);
	return number;
}
