/* SPDX-License-Identifier: MIT */
/*
 * Memory is handed out to readers in units by a counter. A unit goes to the writers in the slot of
 * the backlog that it was read into; a unit of zeros needs none.
 */
#include "dump/copy.h"
#include "dump/backlog.h"
#include "dump/units.h"
#include <string.h>

/* Ranges of unreadable memory that are kept before they are joined; the rest is only counted. */
#define UNREADABLE_MAX (1U << 20)
#define NOWHERE	       UINT64_MAX

struct worker {
	struct vms_dump_copy *copy;
	unsigned index;
	GThread *thread;
};

struct reader {
	struct vms_dump_copy *copy;
	struct vms_dump_slot *slot; /* it reads into this one */
	uint64_t unreadable;	    /* bytes of its unit */
};

struct vms_dump_copy {
	const struct vms_dump_state *state;
	struct vms_machine *source; /* of the state */
	struct vms_dump_sink *sink;
	struct vms_dump_backlog *backlog;
	struct vms_dump_units units;
	/* Atomic. readable: an address that was. */
	uint64_t next_unit, read, zeros, written, readable;
	gint stop; /* atomic */
	struct worker *workers[VMS_DUMP_COPY_WRITTEN + 1];
	unsigned n_workers; /* of each kind */

	GMutex lock;
	GCond ended;				     /* a worker has */
	unsigned running[VMS_DUMP_COPY_WRITTEN + 1]; /* readers, writers */
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

/* ---- reading ---------------------------------------------------------- */

static bool is_zero(const uint8_t *data, size_t size)
{
	/* Equal to itself shifted by 16 bytes that are zeros. */
	static const uint8_t zeros[16];
	size_t head = MIN(size, sizeof(zeros));
	return memcmp(data, zeros, head) == 0 && memcmp(data, data + head, size - head) == 0;
}

static void add_unreadable(struct reader *reader, uint64_t pa, uint64_t size)
{
	struct vms_dump_copy *copy = reader->copy;
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
	reader->unreadable += size;
}

/* The end of the page that `pa` lies in, but not beyond `end`. */
static uint64_t page_end(uint64_t pa, uint64_t end)
{
	return MIN((pa / VMS_DUMP_PAGE + 1) * VMS_DUMP_PAGE, end);
}

/* What of [pa, end) can be read; the rest becomes zeros. */
static void read_pages(struct reader *reader, uint64_t pa, uint64_t end)
{
	for (uint64_t next; pa < end; pa = next) {
		uint8_t *to = reader->slot->data + (pa - reader->slot->unit.pa);
		next = page_end(pa, end);
		if (!vms_machine_read_phys(reader->copy->source, pa, to, next - pa)) {
			memset(to, 0, next - pa);
			add_unreadable(reader, pa, next - pa);
		}
	}
}

static void read_part(struct reader *reader, uint64_t pa, uint64_t end)
{
	struct vms_dump_copy *copy = reader->copy;
	struct vms_dump_unit *unit = &reader->slot->unit;
	uint8_t *data = reader->slot->data;
	if (vms_machine_read_phys(copy->source, pa, data + (pa - unit->pa), end - pa))
		__atomic_store_n(&copy->readable, pa, __ATOMIC_RELAXED);
	else
		read_pages(reader, pa, end);
	uint64_t first_page = unit->pa / VMS_DUMP_PAGE;
	for (uint64_t next; pa < end; pa = next) {
		next = page_end(pa, end);
		if (is_zero(data + (pa - unit->pa), next - pa))
			continue;
		unit->zero[pa / VMS_DUMP_PAGE - first_page] = false;
		unit->data = data;
	}
}

/* Reads whole pages, and no more than what may hold something. */
static void read_memory(struct reader *reader)
{
	const struct vms_dump_unit *unit = &reader->slot->unit;
	uint64_t pa = unit->pa, end = unit->pa + unit->size, begin, stop;
	reader->unreadable = 0;
	while (vms_machine_next_data(reader->copy->source, pa, end, &begin, &stop)) {
		begin = MAX(begin / VMS_DUMP_PAGE * VMS_DUMP_PAGE, pa);
		pa = page_end(MAX(stop, begin + 1) - 1, end);
		read_part(reader, begin, pa);
	}
}

/*
 * All of a page of which the unit has a part, and ranges behind the unit's have others; NULL where
 * a range before has the first part.
 */
static const uint8_t *read_edge(struct reader *reader, uint64_t page_pa, uint8_t *to)
{
	const struct vms_dump_copy *copy = reader->copy;
	const struct vms_dump_unit *unit = &reader->slot->unit;
	const GArray *memory = copy->state->memory;
	uint64_t begin = MAX(page_pa, unit->pa);
	uint64_t end = MIN(page_pa + VMS_DUMP_PAGE, unit->pa + unit->size);
	guint own = vms_dump_state_find(copy->state, unit->pa);
	if (vms_dump_state_find(copy->state, page_pa) != own)
		return NULL;
	memset(to, 0, VMS_DUMP_PAGE);
	if (!unit->zero[page_pa / VMS_DUMP_PAGE - unit->pa / VMS_DUMP_PAGE])
		memcpy(to + (begin - page_pa), reader->slot->data + (begin - unit->pa),
		       end - begin);
	for (guint i = own + 1; i < memory->len; i++) {
		const struct vms_range *other = &g_array_index(memory, struct vms_range, i);
		if (other->pa >= page_pa + VMS_DUMP_PAGE)
			break;
		uint64_t size = MIN(other->size, page_pa + VMS_DUMP_PAGE - other->pa);
		uint8_t *part = to + (other->pa - page_pa);
		if (!vms_machine_read_phys(copy->source, other->pa, part, size))
			memset(part, 0, size);
	}
	return to;
}

static void read_edges(struct reader *reader)
{
	struct vms_dump_slot *slot = reader->slot;
	struct vms_dump_unit *unit = &slot->unit;
	uint64_t end = unit->pa + unit->size, first = unit->pa / VMS_DUMP_PAGE * VMS_DUMP_PAGE,
		 last = (end - 1) / VMS_DUMP_PAGE * VMS_DUMP_PAGE;
	if (first < unit->pa || first + VMS_DUMP_PAGE > end)
		unit->edge[0] = read_edge(reader, first, slot->edge[0]);
	if (last > first && last + VMS_DUMP_PAGE > end)
		unit->edge[1] = read_edge(reader, last, slot->edge[1]);
}

/*
 * Has the machine gone? A process that is killed loses its memory some time before its sockets;
 * then what was readable is not any more.
 */
static bool has_gone(struct vms_dump_copy *copy)
{
	uint64_t pa = load(&copy->readable);
	uint8_t byte;
	return vms_machine_ended(copy->source) == VMS_MACHINE_GONE ||
	       (pa != NOWHERE && !vms_machine_read_phys(copy->source, pa, &byte, 1));
}

/* ---- readers ---------------------------------------------------------- */

static void count(struct vms_dump_copy *copy, const struct vms_dump_unit *unit)
{
	uint64_t zeros = 0, end = unit->pa + unit->size, next;
	for (uint64_t pa = unit->pa; pa < end; pa = next) {
		next = page_end(pa, end);
		if (unit->zero[pa / VMS_DUMP_PAGE - unit->pa / VMS_DUMP_PAGE])
			zeros += next - pa;
	}
	add(&copy->zeros, zeros);
	add(&copy->read, unit->size);
}

/* Reads the unit that the slot is for, and has it written. */
static bool read_unit(struct reader *reader, uint64_t number, GError **error)
{
	struct vms_dump_copy *copy = reader->copy;
	struct vms_dump_unit *unit = &reader->slot->unit;
	read_memory(reader);
	if (copy->sink->whole_pages)
		read_edges(reader);
	if (reader->unreadable && has_gone(copy)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "cannot dump %s: it has gone while its memory was copied",
			    vms_machine_info(copy->source)->name);
		return false;
	}
	count(copy, unit);
	bool empty = !unit->data && !unit->edge[0] && !unit->edge[1];
	vms_dump_backlog_add(copy->backlog, number, empty ? NULL : g_steal_pointer(&reader->slot));
	return true;
}

static bool is_stopped(struct vms_dump_copy *copy)
{
	return g_atomic_int_get(&copy->stop);
}

static bool read_units(struct vms_dump_copy *copy, unsigned index G_GNUC_UNUSED, GError **error)
{
	struct reader reader = { .copy = copy };
	uint64_t n = vms_dump_units_count(&copy->units), number = 0;
	bool good = true;
	while (good && !is_stopped(copy) && (number = add(&copy->next_unit, 1)) < n) {
		if (!reader.slot)
			reader.slot = vms_dump_backlog_get(copy->backlog);
		if (!reader.slot)
			break;
		vms_dump_units_get(&copy->units, number, &reader.slot->unit);
		good = read_unit(&reader, number, error);
	}
	if (reader.slot)
		vms_dump_backlog_put(copy->backlog, reader.slot);
	return good;
}

/* ---- writers ---------------------------------------------------------- */

static bool write_units(struct vms_dump_copy *copy, unsigned index, GError **error)
{
	struct vms_dump_unit zeros;
	struct vms_dump_slot *slot;
	uint64_t number;
	bool good = true;
	while (good && vms_dump_backlog_take(copy->backlog, &number, &slot)) {
		const struct vms_dump_unit *unit = slot ? &slot->unit : &zeros;
		if (!slot)
			vms_dump_units_get(&copy->units, number, &zeros);
		good = copy->sink->write(copy->sink, index, unit, error);
		if (good)
			add(&copy->written, unit->size);
		if (slot)
			vms_dump_backlog_put(copy->backlog, slot);
	}
	return good;
}

/* ---- threads ---------------------------------------------------------- */

/* The last reader has the writers end when they have written all. */
static void end_worker(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage, GError *error)
{
	if (error)
		vms_dump_copy_cancel(copy);
	g_mutex_lock(&copy->lock);
	if (error && !copy->error)
		copy->error = g_steal_pointer(&error);
	bool last = --copy->running[stage] == 0;
	if (last && stage == VMS_DUMP_COPY_READ) {
		g_clear_pointer(&copy->source, vms_machine_unref);
		vms_dump_backlog_end(copy->backlog);
	}
	g_cond_broadcast(&copy->ended);
	g_mutex_unlock(&copy->lock);
	g_clear_error(&error);
}

static void *read_in_thread(void *data)
{
	struct worker *worker = data;
	GError *error = NULL;
	read_units(worker->copy, worker->index, &error);
	end_worker(worker->copy, VMS_DUMP_COPY_READ, error);
	return NULL;
}

static void *write_in_thread(void *data)
{
	struct worker *worker = data;
	GError *error = NULL;
	write_units(worker->copy, worker->index, &error);
	end_worker(worker->copy, VMS_DUMP_COPY_WRITTEN, error);
	return NULL;
}

/* With fewer threads than there might be it only takes longer. False if there is none. */
static bool start_workers(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage,
			  GThreadFunc work, GError **error)
{
	g_autoptr(GError) failure = NULL;
	copy->workers[stage] = g_new0(struct worker, copy->n_workers);
	for (unsigned i = 0; i < copy->n_workers && !failure; i++) {
		struct worker *worker = &copy->workers[stage][i];
		worker->copy = copy;
		worker->index = i;
		worker->thread = g_thread_try_new("vms-dump", work, worker, &failure);
		copy->running[stage] += worker->thread != NULL;
	}
	if (copy->running[stage] > 0)
		return true;
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

struct vms_dump_copy *vms_dump_copy_start(const struct vms_dump_state *state,
					  struct vms_dump_sink *sink, unsigned workers,
					  uint64_t backlog, GError **error)
{
	g_autoptr(vms_dump_backlog) slots = vms_dump_backlog_new(backlog, workers, error);
	if (!slots)
		return NULL;
	g_autoptr(vms_dump_copy) copy = g_new0(struct vms_dump_copy, 1);
	copy->state = state;
	copy->source = vms_machine_ref(state->source);
	copy->sink = sink;
	copy->backlog = g_steal_pointer(&slots);
	copy->n_workers = workers;
	copy->readable = NOWHERE;
	copy->unreadable = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	g_mutex_init(&copy->lock);
	g_cond_init(&copy->ended);
	vms_dump_units_init(&copy->units, state);
	/* No thread ends before all have begun. */
	g_mutex_lock(&copy->lock);
	bool started = start_workers(copy, VMS_DUMP_COPY_WRITTEN, write_in_thread, error) &&
		       start_workers(copy, VMS_DUMP_COPY_READ, read_in_thread, error);
	g_mutex_unlock(&copy->lock);
	return started ? g_steal_pointer(&copy) : NULL;
}

bool vms_dump_copy_wait(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage,
			uint64_t until_ns)
{
	bool in_time = true;
	g_mutex_lock(&copy->lock);
	while (copy->running[stage] > 0 && !copy->error && in_time)
		in_time = g_cond_wait_until(&copy->ended, &copy->lock, (gint64)(until_ns / 1000));
	bool ended = copy->running[stage] == 0 || copy->error;
	g_mutex_unlock(&copy->lock);
	return ended;
}

const GError *vms_dump_copy_error(struct vms_dump_copy *copy)
{
	g_mutex_lock(&copy->lock);
	const GError *error = copy->error;
	g_mutex_unlock(&copy->lock);
	return error;
}

void vms_dump_copy_cancel(struct vms_dump_copy *copy)
{
	g_atomic_int_set(&copy->stop, 1);
	vms_dump_backlog_cancel(copy->backlog);
}

void vms_dump_copy_join(struct vms_dump_copy *copy)
{
	for (unsigned stage = 0; stage < G_N_ELEMENTS(copy->workers); stage++) {
		for (unsigned i = 0; copy->workers[stage] && i < copy->n_workers; i++) {
			if (copy->workers[stage][i].thread)
				g_thread_join(g_steal_pointer(&copy->workers[stage][i].thread));
		}
	}
}

void vms_dump_copy_free(struct vms_dump_copy *copy)
{
	if (!copy)
		return;
	vms_dump_copy_cancel(copy);
	vms_dump_copy_join(copy);
	g_clear_pointer(&copy->source, vms_machine_unref);
	for (unsigned stage = 0; stage < G_N_ELEMENTS(copy->workers); stage++)
		g_free(copy->workers[stage]);
	vms_dump_units_clear(&copy->units);
	vms_dump_backlog_free(copy->backlog);
	g_array_unref(copy->unreadable);
	g_clear_error(&copy->error);
	g_cond_clear(&copy->ended);
	g_mutex_clear(&copy->lock);
	g_free(copy);
}

uint64_t vms_dump_copy_read(const struct vms_dump_copy *copy)
{
	return load(&copy->read);
}

uint64_t vms_dump_copy_zeros(const struct vms_dump_copy *copy)
{
	return load(&copy->zeros);
}

uint64_t vms_dump_copy_written(const struct vms_dump_copy *copy)
{
	return load(&copy->written);
}

GArray *vms_dump_copy_unreadable(struct vms_dump_copy *copy, uint64_t *not_listed)
{
	*not_listed = copy->not_listed;
	return copy->unreadable;
}
