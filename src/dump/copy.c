/* SPDX-License-Identifier: MIT */
/*
 * A counter hands out memory in units. As long as the disk keeps up, a thread reads a unit and
 * writes it: this is the fastest way and needs the least memory. When a write takes too long, the
 * disk counts as behind. From then on units go to the backlog, in the slot that they were read into
 * (a unit of zeros needs no slot). Other threads write them, and another thread takes the place of
 * the one that waits in that write.
 *
 * So the threads are pairs: one reads, the other writes the backlog. While there is no backlog, the
 * other one watches whether the first one waits for the disk.
 */
#include "dump/copy.h"
#include "base/clock.h"
#include "base/priority.h"
#include "dump/backlog.h"
#include "dump/memory_units.h"
#include <string.h>

/* Limit of the list of unreadable memory. Ranges beyond it are only counted. */
#define UNREADABLE_MAX (1U << 20)
#define NOWHERE	       UINT64_MAX

/* How long a write may take before the disk counts as behind. */
#define PATIENCE_NS (UINT64_C(50) * 1000 * 1000)

struct worker {
	struct vms_dump_copy *copy;
	unsigned index;
	GThread *thread;
	struct worker *other;	    /* the other worker of the pair */
	struct vms_dump_slot *slot; /* what it reads into, or NULL */
	uint64_t unreadable;	    /* bytes of its unit that could not be read */
	bool writes;		    /* writes the backlog; if false, reads. Guarded by the lock */
	uint64_t write_ns; /* atomic: when it began to write the unit that it has read; or 0 */
};

struct vms_dump_copy {
	const struct vms_dump_state *state;
	struct vms_machine *source; /* of the state */
	struct vms_dump_sink *sink;
	struct vms_dump_backlog *backlog;
	struct vms_dump_units units;
	uint64_t n_units;
	uint64_t next_unit, read, zeros, written; /* atomic; the last three in bytes */
	uint64_t readable;			  /* atomic: an address that could be read */
	gint behind;				  /* atomic: the disk is behind */
	gint stop;				  /* atomic: the copy was cancelled */
	struct worker *workers;
	unsigned n_workers;

	GMutex lock;
	GCond ended;	       /* a worker has ended, or all is read */
	unsigned running;      /* workers that have not ended */
	unsigned reading;      /* workers that read a unit right now */
	uint64_t units_read;   /* including those that are written */
	uint64_t units_passed; /* units that were written or added to the backlog by readers */
	GError *error;
	GArray *unreadable;  /* struct vms_range */
	uint64_t not_listed; /* bytes that are missing in `unreadable` */
};

static uint64_t load_counter(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static uint64_t add_to_counter(uint64_t *counter, uint64_t n)
{
	return __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* ---- reading ---------------------------------------------------------- */

static bool is_zero(const uint8_t *data, size_t size)
{
	/* If 16 bytes are zeros and the rest equals the bytes 16 before it, all are zeros. */
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

/* Returns the end of the page that contains `pa`, or `end` if that is lower. */
static uint64_t find_page_end(uint64_t pa, uint64_t end)
{
	return MIN((pa / VMS_DUMP_PAGE + 1) * VMS_DUMP_PAGE, end);
}

/* Reads [pa, end) page by page. Pages that cannot be read become zeros. */
static void read_pages(struct worker *worker, uint64_t pa, uint64_t end)
{
	for (uint64_t next; pa < end; pa = next) {
		uint8_t *to = worker->slot->data + (pa - worker->slot->unit.pa);
		next = find_page_end(pa, end);
		if (!vms_machine_read_phys(worker->copy->source, pa, to, next - pa)) {
			memset(to, 0, next - pa);
			add_unreadable(worker, pa, next - pa);
		}
	}
}

/* Reads [pa, end), a part of the worker's unit, and finds its zero pages. */
static void read_part(struct worker *worker, uint64_t pa, uint64_t end)
{
	struct vms_dump_copy *copy = worker->copy;
	struct vms_dump_unit *unit = &worker->slot->unit;
	uint8_t *data = worker->slot->data;
	if (vms_machine_read_phys(copy->source, pa, data + (pa - unit->pa), end - pa))
		__atomic_store_n(&copy->readable, pa, __ATOMIC_RELAXED);
	else
		read_pages(worker, pa, end);
	uint64_t first_page = unit->pa / VMS_DUMP_PAGE;
	for (uint64_t next; pa < end; pa = next) {
		next = find_page_end(pa, end);
		if (is_zero(data + (pa - unit->pa), next - pa))
			continue;
		unit->zero[pa / VMS_DUMP_PAGE - first_page] = false;
		unit->data = data;
	}
}

/* Reads the memory of the worker's unit, in whole pages. Skips memory that is known to be zeros. */
static void read_memory(struct worker *worker)
{
	const struct vms_dump_unit *unit = &worker->slot->unit;
	uint64_t pa = unit->pa, end = unit->pa + unit->size, begin, stop;
	worker->unreadable = 0;
	while (vms_machine_next_data(worker->copy->source, pa, end, &begin, &stop)) {
		begin = MAX(begin / VMS_DUMP_PAGE * VMS_DUMP_PAGE, pa);
		pa = find_page_end(MAX(stop, begin + 1) - 1, end);
		read_part(worker, begin, pa);
	}
}

/*
 * Fills `to` with all of the page at `page_pa`, of which the unit and the ranges behind it have
 * parts. Returns `to`; or NULL if a range before the unit's has a part of the page.
 */
static const uint8_t *read_edge(struct worker *worker, uint64_t page_pa, uint8_t *to)
{
	const struct vms_dump_copy *copy = worker->copy;
	const struct vms_dump_unit *unit = &worker->slot->unit;
	const GArray *memory = copy->state->memory;
	uint64_t begin = MAX(page_pa, unit->pa);
	uint64_t end = MIN(page_pa + VMS_DUMP_PAGE, unit->pa + unit->size);
	guint own = vms_dump_state_find(copy->state, unit->pa);
	if (vms_dump_state_find(copy->state, page_pa) != own)
		return NULL;
	memset(to, 0, VMS_DUMP_PAGE);
	if (!unit->zero[page_pa / VMS_DUMP_PAGE - unit->pa / VMS_DUMP_PAGE])
		memcpy(to + (begin - page_pa), worker->slot->data + (begin - unit->pa),
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

static void read_edges(struct worker *worker)
{
	struct vms_dump_slot *slot = worker->slot;
	struct vms_dump_unit *unit = &slot->unit;
	uint64_t end = unit->pa + unit->size, first = unit->pa / VMS_DUMP_PAGE * VMS_DUMP_PAGE,
		 last = (end - 1) / VMS_DUMP_PAGE * VMS_DUMP_PAGE;
	if (first < unit->pa || first + VMS_DUMP_PAGE > end)
		unit->edge[0] = read_edge(worker, first, slot->edge[0]);
	if (last > first && last + VMS_DUMP_PAGE > end)
		unit->edge[1] = read_edge(worker, last, slot->edge[1]);
}

/*
 * True if the machine has ended. A process that is killed loses its memory some time before its
 * sockets, so this also checks an address that could be read before.
 */
static bool has_machine_gone(struct vms_dump_copy *copy)
{
	uint64_t pa = load_counter(&copy->readable);
	uint8_t byte;
	return vms_machine_ended(copy->source) == VMS_MACHINE_GONE ||
	       (pa != NOWHERE && !vms_machine_read_phys(copy->source, pa, &byte, 1));
}

/* ---- readers ---------------------------------------------------------- */

static void count_read(struct vms_dump_copy *copy, const struct vms_dump_unit *unit)
{
	uint64_t zeros = 0, end = unit->pa + unit->size, next;
	for (uint64_t pa = unit->pa; pa < end; pa = next) {
		next = find_page_end(pa, end);
		if (unit->zero[pa / VMS_DUMP_PAGE - unit->pa / VMS_DUMP_PAGE])
			zeros += next - pa;
	}
	add_to_counter(&copy->zeros, zeros);
	add_to_counter(&copy->read, unit->size);
}

static bool is_stopped(struct vms_dump_copy *copy)
{
	return g_atomic_int_get(&copy->stop);
}

/* Reads a unit into the worker's slot. */
static bool read_unit(struct worker *worker, uint64_t number, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	vms_dump_units_get(&copy->units, number, &worker->slot->unit);
	read_memory(worker);
	if (copy->sink->whole_pages)
		read_edges(worker);
	if (worker->unreadable && has_machine_gone(copy)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "cannot dump %s: the machine is gone before all its memory was copied",
			    vms_machine_info(copy->source)->name);
		return false;
	}
	count_read(copy, &worker->slot->unit);
	return true;
}

/* True if no thread reads the machine any more, now or later. The lock is held. */
static bool has_finished_reading(struct vms_dump_copy *copy)
{
	return copy->units_read == copy->n_units || (is_stopped(copy) && copy->reading == 0);
}

/* Counts the caller as a reader. False if the copy was cancelled: the caller must not read. */
static bool begin_read(struct vms_dump_copy *copy)
{
	g_mutex_lock(&copy->lock);
	bool begun = !is_stopped(copy);
	copy->reading += begun;
	g_mutex_unlock(&copy->lock);
	return begun;
}

static void end_read(struct vms_dump_copy *copy, bool done)
{
	g_mutex_lock(&copy->lock);
	copy->reading--;
	copy->units_read += done;
	if (has_finished_reading(copy))
		g_cond_broadcast(&copy->ended);
	g_mutex_unlock(&copy->lock);
}

/* ---- writing ---------------------------------------------------------- */

static bool write_unit(struct worker *worker, const struct vms_dump_unit *unit, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	if (!copy->sink->write(copy->sink, worker->index, unit, error))
		return false;
	add_to_counter(&copy->written, unit->size);
	return true;
}

/* Writes the unit that was just read, or, if the disk is behind, adds it to the backlog. */
static bool write_or_queue(struct worker *worker, uint64_t number, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	const struct vms_dump_unit *unit = &worker->slot->unit;
	/* Set before `behind` is read, so that a thread that has set `behind` sees this write. */
	__atomic_store_n(&worker->write_ns, vms_clock_now_ns(), __ATOMIC_SEQ_CST);
	bool written = true;
	if (g_atomic_int_get(&copy->behind)) {
		bool empty = !unit->data && !unit->edge[0] && !unit->edge[1];
		vms_dump_backlog_add(copy->backlog, number,
				     empty ? NULL : g_steal_pointer(&worker->slot));
	} else {
		written = write_unit(worker, unit, error);
	}
	__atomic_store_n(&worker->write_ns, 0, __ATOMIC_SEQ_CST);
	return written;
}

/* Writes or queues the unit that was just read. The last unit ends the backlog. */
static bool pass_unit_on(struct worker *worker, uint64_t number, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	if (!write_or_queue(worker, number, error))
		return false;
	g_mutex_lock(&copy->lock);
	bool last = ++copy->units_passed == copy->n_units;
	g_mutex_unlock(&copy->lock);
	if (last)
		vms_dump_backlog_end(copy->backlog);
	return true;
}

/*
 * Takes the place of the other worker of the pair if that one waits for the disk: if its write
 * takes too long, or if it is in a write while the disk is behind.
 */
static bool take_over_reading(struct worker *worker)
{
	struct vms_dump_copy *copy = worker->copy;
	bool behind = g_atomic_int_get(&copy->behind);
	uint64_t write_ns = __atomic_load_n(&worker->other->write_ns, __ATOMIC_SEQ_CST);
	if (write_ns == 0 || (!behind && vms_clock_now_ns() < write_ns + PATIENCE_NS))
		return false;
	g_atomic_int_set(&copy->behind, 1);
	g_mutex_lock(&copy->lock);
	bool replaced = !worker->other->writes;
	if (replaced) {
		worker->other->writes = true;
		worker->writes = false;
	}
	g_mutex_unlock(&copy->lock);
	return replaced;
}

/* ---- workers ---------------------------------------------------------- */

static bool is_writer(struct worker *worker)
{
	g_mutex_lock(&worker->copy->lock);
	bool writes = worker->writes;
	g_mutex_unlock(&worker->copy->lock);
	return writes;
}

/* Reads units until there are none left, or the other worker has taken over. */
static bool read_units(struct worker *worker, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	bool good = true;
	while (good && !is_writer(worker)) {
		if (!worker->slot)
			worker->slot = vms_dump_backlog_get(copy->backlog);
		uint64_t number;
		if (!worker->slot || !begin_read(copy))
			break;
		if ((number = add_to_counter(&copy->next_unit, 1)) >= copy->n_units) {
			end_read(copy, false);
			break;
		}
		good = read_unit(worker, number, error);
		end_read(copy, good);
		good = good && pass_unit_on(worker, number, error);
	}
	if (worker->slot)
		vms_dump_backlog_put(copy->backlog, g_steal_pointer(&worker->slot));
	return good;
}

/* Writes a unit of the backlog, and gives its slot back. */
static bool write_queued(struct worker *worker, uint64_t number, struct vms_dump_slot *slot,
			 GError **error)
{
	struct vms_dump_unit zeros;
	if (!slot) {
		vms_dump_units_get(&worker->copy->units, number, &zeros);
		return write_unit(worker, &zeros, error);
	}
	bool written = write_unit(worker, &slot->unit, error);
	vms_dump_backlog_put(worker->copy->backlog, slot);
	return written;
}

/* Writes units of the backlog until it ends (*ended), or this worker takes over reading. */
static bool write_units(struct worker *worker, bool *ended, GError **error)
{
	struct vms_dump_copy *copy = worker->copy;
	for (;;) {
		struct vms_dump_slot *slot = NULL;
		/* Checked before each write, because this worker may wait for long in its write. */
		if (take_over_reading(worker))
			return true;
		uint64_t number = 0, until_ns = is_writer(worker->other)
							? UINT64_MAX
							: vms_clock_now_ns() + PATIENCE_NS / 2;
		switch (vms_dump_backlog_take(copy->backlog, until_ns, &number, &slot)) {
		case VMS_DUMP_BACKLOG_UNIT:
			if (!write_queued(worker, number, slot, error))
				return false;
			break;
		case VMS_DUMP_BACKLOG_NOTHING: break;
		case VMS_DUMP_BACKLOG_ENDED:
		default: *ended = true; return true;
		}
	}
}

/* Makes the threads end as soon as the machine and the disk answer. Does not wait. */
static void cancel_copy(struct vms_dump_copy *copy)
{
	g_atomic_int_set(&copy->stop, 1);
	vms_dump_backlog_cancel(copy->backlog);
}

static void end_worker(struct vms_dump_copy *copy, GError *error)
{
	if (error)
		cancel_copy(copy);
	g_mutex_lock(&copy->lock);
	if (error && !copy->error)
		copy->error = g_steal_pointer(&error);
	copy->running--;
	g_cond_broadcast(&copy->ended);
	g_mutex_unlock(&copy->lock);
	g_clear_error(&error);
}

/* When there is nothing left to read, all workers write the rest. */
static gpointer run_worker(gpointer data)
{
	struct worker *worker = data;
	GError *error = NULL;
	bool good = true, ended = false;
	vms_thread_set_usual();
	while (good && !ended) {
		if (is_writer(worker)) {
			good = write_units(worker, &ended, &error);
			continue;
		}
		good = read_units(worker, &error);
		g_mutex_lock(&worker->copy->lock);
		worker->writes = true;
		g_mutex_unlock(&worker->copy->lock);
	}
	end_worker(worker->copy, error);
	return NULL;
}

/* Starts the workers. Fewer threads are enough, if at least one pair starts; else false. */
static bool start_workers(struct vms_dump_copy *copy, unsigned pairs, GError **error)
{
	g_autoptr(GError) failure = NULL;
	bool started = true;
	copy->workers = g_new0(struct worker, 2 * pairs);
	/* Of each pair the writer comes first: it watches the reader from its start. */
	for (unsigned i = 0; i < 2 * pairs; i++)
		copy->workers[i] = (struct worker) { .copy = copy,
						     .index = i,
						     .other = &copy->workers[i ^ 1],
						     .writes = i % 2 == 0 };
	for (unsigned i = 0; i < 2 * pairs && started; i++) {
		struct worker *worker = &copy->workers[i];
		worker->thread = g_thread_try_new("vms-dump", run_worker, worker, &failure);
		started = worker->thread != NULL;
		copy->running += started;
	}
	if (copy->running > 1)
		return true;
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

struct vms_dump_copy *vms_dump_copy_start(const struct vms_dump_state *state,
					  struct vms_dump_sink *sink, unsigned pairs,
					  uint64_t backlog, GError **error)
{
	g_autoptr(vms_dump_backlog) slots = vms_dump_backlog_new(backlog, 2 * pairs, error);
	if (!slots)
		return NULL;
	g_autoptr(vms_dump_copy) copy = g_new0(struct vms_dump_copy, 1);
	copy->state = state;
	copy->source = vms_machine_ref(state->source);
	copy->sink = sink;
	copy->backlog = g_steal_pointer(&slots);
	copy->behind = sink->is_slow && backlog > 0;
	copy->n_workers = 2 * pairs;
	copy->readable = NOWHERE;
	copy->unreadable = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	g_mutex_init(&copy->lock);
	g_cond_init(&copy->ended);
	vms_dump_units_init(&copy->units, state);
	copy->n_units = vms_dump_units_count(&copy->units);
	/* The lock keeps the threads from going on before all have started. */
	g_mutex_lock(&copy->lock);
	bool started = start_workers(copy, pairs, error);
	g_mutex_unlock(&copy->lock);
	return started ? g_steal_pointer(&copy) : NULL;
}

/* True if the stage has ended. The lock is held. */
static bool has_stage_ended(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage)
{
	return copy->running == 0 || copy->error ||
	       (stage == VMS_DUMP_COPY_READ && has_finished_reading(copy));
}

bool vms_dump_copy_wait(struct vms_dump_copy *copy, enum vms_dump_copy_stage stage,
			uint64_t until_ns)
{
	bool ended, in_time = true;
	g_mutex_lock(&copy->lock);
	while (!(ended = has_stage_ended(copy, stage)) && in_time)
		in_time = g_cond_wait_until(&copy->ended, &copy->lock, (gint64)(until_ns / 1000));
	g_mutex_unlock(&copy->lock);
	return ended;
}

void vms_dump_copy_leave(struct vms_dump_copy *copy, uint64_t until_ns)
{
	bool in_time = true;
	cancel_copy(copy);
	g_mutex_lock(&copy->lock);
	while (copy->reading > 0 && in_time)
		in_time = g_cond_wait_until(&copy->ended, &copy->lock, (gint64)(until_ns / 1000));
	if (copy->reading == 0)
		g_clear_pointer(&copy->source, vms_machine_unref);
	g_mutex_unlock(&copy->lock);
}

const GError *vms_dump_copy_error(struct vms_dump_copy *copy)
{
	g_mutex_lock(&copy->lock);
	const GError *error = copy->error;
	g_mutex_unlock(&copy->lock);
	return error;
}

void vms_dump_copy_join(struct vms_dump_copy *copy)
{
	for (unsigned i = 0; i < copy->n_workers; i++) {
		if (copy->workers[i].thread)
			g_thread_join(g_steal_pointer(&copy->workers[i].thread));
	}
}

void vms_dump_copy_free(struct vms_dump_copy *copy)
{
	if (!copy)
		return;
	cancel_copy(copy);
	vms_dump_copy_join(copy);
	g_clear_pointer(&copy->source, vms_machine_unref);
	g_free(copy->workers);
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
	return load_counter(&copy->read);
}

uint64_t vms_dump_copy_zeros(const struct vms_dump_copy *copy)
{
	return load_counter(&copy->zeros);
}

uint64_t vms_dump_copy_written(const struct vms_dump_copy *copy)
{
	return load_counter(&copy->written);
}

/* Returns how many bytes of [pa, end) are in pages of zeros. `buf` has room for all of it. */
static uint64_t count_zeros(const struct vms_dump_copy *copy, uint64_t pa, uint64_t end,
			    uint8_t *buf)
{
	uint64_t zeros = 0, first = pa, next;
	if (!vms_machine_read_phys(copy->source, pa, buf, end - pa))
		return 0;
	for (; pa < end; pa = next) {
		next = find_page_end(pa, end);
		if (is_zero(buf + (pa - first), next - pa))
			zeros += next - pa;
	}
	return zeros;
}

/* Returns how many bytes of a unit were never used, or are in pages of zeros now. */
static uint64_t count_unit_zeros(const struct vms_dump_copy *copy, const struct vms_dump_unit *unit,
				 uint8_t *buf)
{
	uint64_t pa = unit->pa, end = unit->pa + unit->size, zeros = 0, begin, stop;
	while (vms_machine_next_data(copy->source, pa, end, &begin, &stop)) {
		zeros += begin - pa + count_zeros(copy, begin, stop, buf);
		pa = stop;
	}
	return zeros + end - pa;
}

uint64_t vms_dump_copy_nonzero(const struct vms_dump_copy *copy, uint64_t until_ns)
{
	g_autofree uint8_t *buf = g_malloc(VMS_DUMP_UNIT_MAX);
	struct vms_dump_unit unit;
	/* In this order, zeros of a unit that is read now may be missed, but not count twice. */
	uint64_t zeros = load_counter(&copy->zeros);
	for (uint64_t number = load_counter(&copy->next_unit);
	     vms_dump_units_get(&copy->units, number, &unit) && vms_clock_now_ns() < until_ns;
	     number++)
		zeros += count_unit_zeros(copy, &unit, buf);
	return copy->state->bytes - zeros;
}

GArray *vms_dump_copy_unreadable(struct vms_dump_copy *copy, uint64_t *not_listed)
{
	*not_listed = copy->not_listed;
	return copy->unreadable;
}
