/* SPDX-License-Identifier: MIT */
#include "symbol/binary.h"
#include "symbol/binary_functions.h"
#include <vmscope/log.h>

struct vms_binary {
	gatomicrefcount refs;
	char *path;
	uint64_t size;
	bool is_elf;
	struct vms_elf_image elf;
	GMutex lock; /* guards all that follows */
	struct vms_file_source source;
	struct vms_symbol_table *functions; /* NULL until they are asked for */
	bool has_attachment;
	void *attachment; /* see vms_binary_attachment */
	void (*free_attachment)(void *attachment);
};

struct vms_binary *vms_binary_new(const char *path, const struct vms_file_source *source)
{
	g_autoptr(GError) failure = NULL;
	struct vms_binary *binary = g_new0(struct vms_binary, 1);
	g_atomic_ref_count_init(&binary->refs);
	g_mutex_init(&binary->lock);
	binary->path = g_strdup(path);
	binary->size = source->size;
	binary->source = *source;
	binary->is_elf = vms_elf_image_read(source, &binary->elf, &failure);
	if (!binary->is_elf)
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
	vms_symbol_table_unref(binary->functions);
	vms_elf_image_clear(&binary->elf);
	vms_file_source_clear(&binary->source);
	g_mutex_clear(&binary->lock);
	g_free(binary->path);
	g_free(binary);
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
	return binary->is_elf ? &binary->elf : NULL;
}

const char *vms_binary_build_id(const struct vms_binary *binary)
{
	return binary->elf.build_id[0] ? binary->elf.build_id : NULL;
}

static struct vms_symbol_table *read_functions(const struct vms_binary *binary)
{
	if (binary->is_elf)
		return vms_read_functions(&binary->source, &binary->elf, binary->path);
	struct vms_symbol_table *none = vms_symbol_table_new(binary->path);
	vms_symbol_table_finish(none, 0);
	return none;
}

struct vms_symbol_table *vms_binary_functions(struct vms_binary *binary)
{
	g_mutex_lock(&binary->lock);
	if (!binary->functions)
		binary->functions = read_functions(binary);
	g_mutex_unlock(&binary->lock);
	return binary->functions;
}

void *vms_binary_attachment(struct vms_binary *binary, void *(*make)(struct vms_binary *binary),
			    void (*free)(void *attachment))
{
	g_mutex_lock(&binary->lock);
	if (!binary->has_attachment) {
		binary->has_attachment = true;
		binary->free_attachment = free;
		binary->attachment = make(binary);
	}
	g_mutex_unlock(&binary->lock);
	return binary->attachment;
}

bool vms_binary_read(struct vms_binary *binary, uint64_t offset, void *buf, size_t size)
{
	g_mutex_lock(&binary->lock);
	const bool read = vms_file_source_read(&binary->source, offset, buf, size);
	g_mutex_unlock(&binary->lock);
	return read;
}

size_t vms_binary_read_present(struct vms_binary *binary, uint64_t offset, uint8_t *buf,
			       size_t size, uint8_t *has, uint64_t *first)
{
	g_mutex_lock(&binary->lock);
	const size_t missing =
		vms_file_source_read_present(&binary->source, offset, buf, size, has, first);
	g_mutex_unlock(&binary->lock);
	return missing;
}
