/* SPDX-License-Identifier: MIT */
/*
 * Memory is handed out in units by a counter. Each worker has one buffer, so that how much memory
 * this takes does not depend on the guest's.
 */
#include "dump/copy.h"
#include <stdlib.h>
#include <string.h>

/* Ranges of unreadable memory that are kept before they are joined; the rest is only counted. */
#define UNREADABLE_MAX (1U << 20)
#define NOWHERE	       UINT64_MAX

struct worker {
	struct vms_dump_copy *copy;
	unsigned index;
	GThread *thread;
	uint8_t *buffer; /* VMS_DUMP_UNIT_MAX bytes */
	struct vms_dump_unit unit;
	uint64_t unreadable; /* bytes of the unit */
};

struct vms_dump_copy {
	const struct vms_dump_state *state;
	struct vms_dump_sink *sink;
	uint64_t *first_unit; /* of each range, and the number of all at the end */
	uint64_t next_unit, done, zeros, readable; /* atomic; readable: an address that was */
	gint stop;				   /* atomic */
	struct worker *workers;
	unsigned n_workers;

	GMutex lock;
	GCond ended; /* a worker has */
	unsigned running;
	GError *error;
	GArray *unreadable;  /* struct vms_range */
	uint64_t not_listed; /* bytes that are missing in `unreadable` */
};

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static uint64_t add(uint64_t *counter, uint64_t n)
{
	return __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static const struct vms_range *memory_at(const struct vms_dump_copy *copy, guint i)
{
	return &g_array_index(copy->state->memory, struct vms_range, i);
}

/* ---- units ------------------------------------------------------------ */

static void count_units(struct vms_dump_copy *copy)
{
	guint n = copy->state->memory->len;
	copy->first_unit = g_new(uint64_t, n + 1);
	copy->first_unit[0] = 0;
	for (guint i = 0; i < n; i++) {
		const struct vms_range *range = memory_at(copy, i);
		uint64_t last = (range->pa + range->size - 1) / VMS_DUMP_UNIT_MAX;
		copy->first_unit[i + 1] =
			copy->first_unit[i] + last - range->pa / VMS_DUMP_UNIT_MAX + 1;
	}
}

/* The unit with a number, all of it zeros still; false beyond the last. */
static bool get_unit(const struct vms_dump_copy *copy, uint64_t number, struct vms_dump_unit *ret)
{
	guint low = 0, high = copy->state->memory->len;
	if (number >= copy->first_unit[high])
		return false;
	while (high - low > 1) {
		guint middle = low + (high - low) / 2;
		if (copy->first_unit[middle] <= number)
			low = middle;
		else
			high = middle;
	}
	const struct vms_range *range = memory_at(copy, low);
	uint64_t slot = range->pa / VMS_DUMP_UNIT_MAX + (number - copy->first_unit[low]);
	uint64_t end = MIN((slot + 1) * VMS_DUMP_UNIT_MAX, range->pa + range->size);
	ret->pa = MAX(slot * VMS_DUMP_UNIT_MAX, range->pa);
	ret->size = end - ret->pa;
	memset(ret->zero, true, sizeof(ret->zero));
	return true;
}

/* ---- reading ---------------------------------------------------------- */

static bool is_zero(const uint8_t *data, size_t size)
{
	/* Equal to itself shifted by 16 bytes that are zeros. */
	static const uint8_t zeros[16];
	size_t head = MIN(size, sizeof(zeros));
	return memcmp(data, zeros, head) == 0 && memcmp(data, data + head, size - head) == 0;
}

static void add_unreadable(struct worker *worker, uint64_t pa, uint64_t size)
{
	struct vms_dump_copy *copy = worker->copy;
	GArray *list = copy->unreadable;
	g_mutex_lock(&copy->lock);
	struct vms_range *last =
		list->len ? &g_array_index(list, struct vms_range, list->len - 1) : NULL;
	if (last && last->pa + last->size == pa) {
		last->size += size;
	} else if (list->len < UNREADABLE_MAX) {
		struct vms_range range = { pa, size, VMS_RANGE_RAM, NULL };
		g_array_append_val(list, range);
	} else {
		copy->not_listed += size;
	}
	g_mutex_unlock(&copy->lock);
	worker->unreadable += size;
}

/* The end of the page that `pa` lies in, but not beyond `end`. */
static uint64_t page_end(uint64_t pa, uint64_t end)
{
	return MIN((pa / VMS_DUMP_PAGE + 1) * VMS_DUMP_PAGE, end);
}

/* What of [pa, end) can be read; the rest becomes zeros. */
static void read_pages(struct worker *worker, uint64_t pa, uint64_t end)
{
	for (uint64_t next; pa < end; pa = next) {
		uint8_t *to = worker->buffer + (pa - worker->unit.pa);
		next = page_end(pa, end);
		if (!vms_machine_read_phys(worker->copy->state->source, pa, to, next - pa)) {
			memset(to, 0, next - pa);
			add_unreadable(worker, pa, next - pa);
		}
	}
}

static void read_part(struct worker *worker, uint64_t pa, uint64_t end)
{
	struct vms_dump_copy *copy = worker->copy;
	struct vms_dump_unit *unit = &worker->unit;
	if (vms_machine_read_phys(copy->state->source, pa, worker->buffer + (pa - unit->pa),
				  end - pa))
		__atomic_store_n(&copy->readable, pa, __ATOMIC_RELAXED);
	else
		read_pages(worker, pa, end);
	uint64_t first_page = unit->pa / VMS_DUMP_PAGE;
	for (uint64_t next; pa < end; pa = next) {
		next = page_end(pa, end);
		unit->zero[pa / VMS_DUMP_PAGE - first_page] =
			is_zero(worker->buffer + (pa - unit->pa), next - pa);
	}
}

/* Reads whole pages, and no more than what may hold something. */
static void read_unit(struct worker *worker)
{
	const struct vms_dump_unit *unit = &worker->unit;
	uint64_t pa = unit->pa, end = unit->pa + unit->size, begin, stop;
	worker->unreadable = 0;
	while (vms_machine_next_data(worker->copy->state->source, pa, end, &begin, &stop)) {
		begin = MAX(begin / VMS_DUMP_PAGE * VMS_DUMP_PAGE, pa);
		pa = page_end(MAX(stop, begin + 1) - 1, end);
		read_part(worker, begin, pa);
	}
}

/*
 * Has the machine gone? A process that is killed loses its memory some time before its sockets;
 * then what was readable is not any more.
 */
static bool has_gone(struct vms_dump_copy *copy)
{
	uint64_t pa = load(&copy->readable);
	uint8_t byte;
	return vms_machine_ended(copy->state->source) == VMS_MACHINE_GONE ||
	       (pa != NOWHERE && !vms_machine_read_phys(copy->state->source, pa, &byte, 1));
}

/* ---- workers ---------------------------------------------------------- */

static void count(struct vms_dump_copy *copy, const struct vms_dump_unit *unit)
{
	uint64_t zeros = 0, end = unit->pa + unit->size, next;
	for (uint64_t pa = unit->pa; pa < end; pa = next) {
		next = page_end(pa, end);
		if (unit->zero[pa / VMS_DUMP_PAGE - unit->pa / VMS_DUMP_PAGE])
			zeros += next - pa;
	}
	add(&copy->zeros, zeros);
	add(&copy->done, unit->size);
}

static bool copy_unit(struct worker *worker, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	read_unit(worker);
	if (worker->unreadable && has_gone(copy)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "cannot dump %s: it has gone while its memory was copied",
			    vms_machine_info(copy->state->machine)->name);
		return false;
	}
	if (!copy->sink->write(copy->sink, worker->index, &worker->unit, error))
		return false;
	count(copy, &worker->unit);
	return true;
}

static void *work(void *data)
{
	struct worker *worker = data;
	struct vms_dump_copy *copy = worker->copy;
	g_autoptr(GError) error = NULL;

	while (!g_atomic_int_get(&copy->stop) &&
	       get_unit(copy, add(&copy->next_unit, 1), &worker->unit)) {
		if (!copy_unit(worker, &error))
			g_atomic_int_set(&copy->stop, 1);
	}
	g_mutex_lock(&copy->lock);
	if (error && !copy->error)
		copy->error = g_steal_pointer(&error);
	copy->running--;
	g_cond_signal(&copy->ended);
	g_mutex_unlock(&copy->lock);
	return NULL;
}

static void start_worker(struct vms_dump_copy *copy, unsigned index)
{
	struct worker *worker = &copy->workers[index];
	worker->copy = copy;
	worker->index = index;
	worker->unit.data = worker->buffer = g_malloc(VMS_DUMP_UNIT_MAX);
	worker->thread = g_thread_try_new("vms-dump", work, worker, &copy->error);
	copy->running += worker->thread != NULL;
	copy->n_workers++;
}

struct vms_dump_copy *vms_dump_copy_start(const struct vms_dump_state *state,
					  struct vms_dump_sink *sink, unsigned workers)
{
	struct vms_dump_copy *copy = g_new0(struct vms_dump_copy, 1);
	copy->state = state;
	copy->sink = sink;
	copy->readable = NOWHERE;
	copy->unreadable = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	copy->workers = g_new0(struct worker, workers);
	g_mutex_init(&copy->lock);
	g_cond_init(&copy->ended);
	count_units(copy);
	g_mutex_lock(&copy->lock);
	for (unsigned i = 0; i < workers && !copy->error; i++)
		start_worker(copy, i);
	/* With fewer threads than there might be it only takes longer. */
	if (copy->running > 0)
		g_clear_error(&copy->error);
	g_mutex_unlock(&copy->lock);
	return copy;
}

bool vms_dump_copy_wait(struct vms_dump_copy *copy, uint64_t until_ns)
{
	bool in_time = true;
	g_mutex_lock(&copy->lock);
	while (copy->running > 0 && !copy->error && in_time)
		in_time = g_cond_wait_until(&copy->ended, &copy->lock, (gint64)(until_ns / 1000));
	bool ended = copy->running == 0 || copy->error;
	g_mutex_unlock(&copy->lock);
	return ended;
}

void vms_dump_copy_cancel(struct vms_dump_copy *copy)
{
	g_atomic_int_set(&copy->stop, 1);
}

bool vms_dump_copy_join(struct vms_dump_copy *copy, GError **error)
{
	for (unsigned i = 0; i < copy->n_workers; i++) {
		if (copy->workers[i].thread)
			g_thread_join(g_steal_pointer(&copy->workers[i].thread));
	}
	bool copied = !copy->error;
	if (!copied)
		g_propagate_error(error, g_steal_pointer(&copy->error));
	return copied;
}

void vms_dump_copy_free(struct vms_dump_copy *copy)
{
	if (!copy)
		return;
	vms_dump_copy_cancel(copy);
	vms_dump_copy_join(copy, NULL);
	for (unsigned i = 0; i < copy->n_workers; i++)
		g_free(copy->workers[i].buffer);
	g_free(copy->workers);
	g_free(copy->first_unit);
	g_array_unref(copy->unreadable);
	g_cond_clear(&copy->ended);
	g_mutex_clear(&copy->lock);
	g_free(copy);
}

uint64_t vms_dump_copy_done(const struct vms_dump_copy *copy)
{
	return load(&copy->done);
}

uint64_t vms_dump_copy_zeros(const struct vms_dump_copy *copy)
{
	return load(&copy->zeros);
}

GArray *vms_dump_copy_unreadable(struct vms_dump_copy *copy, uint64_t *not_listed)
{
	*not_listed = copy->not_listed;
	return copy->unreadable;
}
