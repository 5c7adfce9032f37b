/* SPDX-License-Identifier: MIT */
#include "dump/backlog.h"
#include <sys/mman.h>
#include <vmscope/error.h>

/* Slots are made in blocks. A block is one mapping, in huge pages if the host has them. */
#define BLOCK_SLOTS 8
#define BLOCK_SIZE  ((size_t)BLOCK_SLOTS * (VMS_DUMP_UNIT_MAX + 2 * VMS_DUMP_PAGE))

struct entry {
	uint64_t number;
	struct vms_dump_slot *slot; /* NULL: zeros */
};

struct block {
	uint8_t *memory;
	struct vms_dump_slot slots[BLOCK_SLOTS];
};

struct vms_dump_backlog {
	GMutex lock; /* guards all below; never held for long */
	GCond room, work;
	GPtrArray *blocks; /* struct block, owned */
	guint max_blocks;
	GPtrArray *free; /* struct vms_dump_slot, the most recently used one last */
	GArray *entries; /* struct entry, all of the dump: 16 bytes for each MiB of a guest */
	guint next;	 /* index of the next entry to take */
	bool ended, cancelled;
};

static void free_block(void *data)
{
	struct block *block = data;
	munmap(block->memory, BLOCK_SIZE);
	g_free(block);
}

void vms_dump_backlog_free(struct vms_dump_backlog *backlog)
{
	if (!backlog)
		return;
	g_array_unref(backlog->entries);
	g_ptr_array_unref(backlog->free);
	g_ptr_array_unref(backlog->blocks);
	g_cond_clear(&backlog->work);
	g_cond_clear(&backlog->room);
	g_mutex_clear(&backlog->lock);
	g_free(backlog);
}

/* ---- room ------------------------------------------------------------- */

/* Adds a block of slots. False if there is no memory for it. The lock is held. */
static bool add_block(struct vms_dump_backlog *backlog)
{
	void *memory = mmap(NULL, BLOCK_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	madvise(memory, BLOCK_SIZE, MADV_HUGEPAGE);
	struct block *block = g_new0(struct block, 1);
	block->memory = memory;
	uint8_t *edges = block->memory + (size_t)BLOCK_SLOTS * VMS_DUMP_UNIT_MAX;
	for (size_t i = 0; i < BLOCK_SLOTS; i++) {
		struct vms_dump_slot *slot = &block->slots[i];
		slot->data = block->memory + i * VMS_DUMP_UNIT_MAX;
		slot->edge[0] = edges + 2 * i * VMS_DUMP_PAGE;
		slot->edge[1] = slot->edge[0] + VMS_DUMP_PAGE;
		g_ptr_array_add(backlog->free, slot);
	}
	g_ptr_array_add(backlog->blocks, block);
	return true;
}

struct vms_dump_backlog *vms_dump_backlog_new(uint64_t limit, unsigned workers, GError **error)
{
	g_autoptr(vms_dump_backlog) backlog = g_new0(struct vms_dump_backlog, 1);
	guint least = workers / BLOCK_SLOTS + 1;
	g_mutex_init(&backlog->lock);
	g_cond_init(&backlog->room);
	g_cond_init(&backlog->work);
	backlog->blocks = g_ptr_array_new_with_free_func(free_block);
	backlog->free = g_ptr_array_new();
	backlog->entries = g_array_new(FALSE, FALSE, sizeof(struct entry));
	backlog->max_blocks = (guint)CLAMP(limit / BLOCK_SIZE, least, G_MAXUINT);
	while (backlog->blocks->len < least) {
		if (add_block(backlog))
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot copy memory: there are no %zu MiB for it here",
			    least * BLOCK_SIZE >> 20);
		return NULL;
	}
	return g_steal_pointer(&backlog);
}

struct vms_dump_slot *vms_dump_backlog_get(struct vms_dump_backlog *backlog)
{
	struct vms_dump_slot *slot = NULL;
	g_mutex_lock(&backlog->lock);
	while (!backlog->cancelled && backlog->free->len == 0) {
		if (backlog->blocks->len == backlog->max_blocks)
			g_cond_wait(&backlog->room, &backlog->lock);
		else if (!add_block(backlog))
			backlog->max_blocks = backlog->blocks->len;
	}
	if (!backlog->cancelled)
		slot = g_ptr_array_steal_index(backlog->free, backlog->free->len - 1);
	g_mutex_unlock(&backlog->lock);
	return slot;
}

void vms_dump_backlog_put(struct vms_dump_backlog *backlog, struct vms_dump_slot *slot)
{
	g_mutex_lock(&backlog->lock);
	bool ended = backlog->ended;
	g_ptr_array_add(backlog->free, slot);
	g_cond_signal(&backlog->room);
	g_mutex_unlock(&backlog->lock);
	if (ended)
		madvise(slot->data, VMS_DUMP_UNIT_MAX, MADV_DONTNEED);
}

/* ---- the queue -------------------------------------------------------- */

void vms_dump_backlog_add(struct vms_dump_backlog *backlog, uint64_t number,
			  struct vms_dump_slot *slot)
{
	struct entry entry = { number, slot };
	g_mutex_lock(&backlog->lock);
	g_array_append_val(backlog->entries, entry);
	g_cond_signal(&backlog->work);
	g_mutex_unlock(&backlog->lock);
}

enum vms_dump_backlog_taken vms_dump_backlog_take(struct vms_dump_backlog *backlog,
						  uint64_t until_ns, uint64_t *number,
						  struct vms_dump_slot **slot)
{
	enum vms_dump_backlog_taken taken = VMS_DUMP_BACKLOG_NOTHING;
	bool in_time = true;
	g_mutex_lock(&backlog->lock);
	while (backlog->next == backlog->entries->len && !backlog->ended && !backlog->cancelled &&
	       in_time)
		in_time = g_cond_wait_until(&backlog->work, &backlog->lock,
					    (gint64)(until_ns / 1000));
	if (backlog->cancelled || (backlog->ended && backlog->next == backlog->entries->len)) {
		taken = VMS_DUMP_BACKLOG_ENDED;
	} else if (backlog->next < backlog->entries->len) {
		const struct entry *entry =
			&g_array_index(backlog->entries, struct entry, backlog->next++);
		*number = entry->number;
		*slot = entry->slot;
		taken = VMS_DUMP_BACKLOG_UNIT;
	}
	g_mutex_unlock(&backlog->lock);
	return taken;
}

void vms_dump_backlog_end(struct vms_dump_backlog *backlog)
{
	g_mutex_lock(&backlog->lock);
	backlog->ended = true;
	g_cond_broadcast(&backlog->work);
	g_mutex_unlock(&backlog->lock);
}

void vms_dump_backlog_cancel(struct vms_dump_backlog *backlog)
{
	g_mutex_lock(&backlog->lock);
	backlog->cancelled = true;
	g_cond_broadcast(&backlog->work);
	g_cond_broadcast(&backlog->room);
	g_mutex_unlock(&backlog->lock);
}
