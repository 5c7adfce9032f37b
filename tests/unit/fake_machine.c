/* SPDX-License-Identifier: MIT */
#include "fake_machine.h"
#include "base/clock.h"
#include "machine/engine.h"
#include <string.h>

struct ram {
	uint64_t pa;
	size_t size;
	uint8_t *data;
};

struct fake_machine {
	struct vms_machine machine;
	struct vms_engine engine;
	struct fake_hooks hooks;
	struct vms_regs *regs; /* by vCPU */
	GArray *ram;	       /* struct ram */
	uint64_t reads;
	size_t most_parts; /* that are read in one go */

	/* Brief holds: blocks to prefetch with the next one, and those that came with this one. */
	bool goes_on, torn;
	GArray *next, *prefetched; /* struct block */
};

struct block {
	uint64_t pa;
	uint8_t content[VMS_PREFETCH_SIZE];
};

static const struct fake_hooks *hooks_of(struct vms_machine *machine)
{
	return &((struct fake_machine *)machine)->hooks;
}

static bool fake_hold(struct vms_machine *machine, int vcpu G_GNUC_UNUSED, GError **error)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	struct fake_machine *fake = (struct fake_machine *)machine;
	fake->goes_on = fake->torn = false;
	g_array_set_size(fake->prefetched, 0);
	return !hooks->hold || hooks->hold(hooks->data, error);
}

static bool fake_release(struct vms_machine *machine, int vcpu G_GNUC_UNUSED, GError **error)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	if (((struct fake_machine *)machine)->torn) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_GONE_ON, "it went on");
		return false;
	}
	return !hooks->release || hooks->release(hooks->data, error);
}

static bool fake_observe(struct vms_machine *machine, GError **error)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	return hooks->observe(hooks->data, error);
}

static bool fake_get_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	*ret = *fake_machine_regs(machine, vcpu);
	return !hooks->regs || hooks->regs(hooks->data, vcpu, error);
}

static const struct ram *find_ram(struct fake_machine *fake, uint64_t pa, size_t size)
{
	for (guint i = 0; i < fake->ram->len; i++) {
		const struct ram *ram = &g_array_index(fake->ram, struct ram, i);
		if (pa >= ram->pa && pa - ram->pa <= ram->size &&
		    size <= ram->size - (pa - ram->pa))
			return ram;
	}
	return NULL;
}

static bool read_memory(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	const struct ram *ram = find_ram(fake, pa, size);
	__atomic_fetch_add(&fake->reads, 1, __ATOMIC_RELAXED);
	if (!ram)
		return false;
	memcpy(buf, ram->data + (pa - ram->pa), size);
	return true;
}

static bool fake_read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	return hooks->read(hooks->data, pa, size) && read_memory(machine, pa, buf, size);
}

static size_t fake_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts,
			      size_t n)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	uint64_t reads = fake->reads + (n > 0);
	size_t done = 0;
	while (done < MIN(n, fake->most_parts) &&
	       read_memory(machine, parts[done].pa, parts[done].buf, parts[done].size))
		done++;
	fake->reads = reads;
	return done;
}

static bool fake_hold_briefly(struct vms_machine *machine, int vcpu, GError **error)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	if (!fake_hold(machine, vcpu, error))
		return false;
	for (guint i = 0; i < fake->next->len; i++) {
		struct block block = g_array_index(fake->next, struct block, i);
		if (read_memory(machine, block.pa, block.content, sizeof(block.content)))
			g_array_append_val(fake->prefetched, block);
	}
	g_array_set_size(fake->next, 0);
	return true;
}

static bool fake_pin(struct vms_machine *machine, int vcpu G_GNUC_UNUSED)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	fake->torn = fake->goes_on;
	return !fake->torn;
}

static void fake_prefetch(struct vms_machine *machine, unsigned vcpu G_GNUC_UNUSED, uint64_t pa)
{
	struct block block = { .pa = pa };
	g_array_append_val(((struct fake_machine *)machine)->next, block);
}

static const void *fake_prefetched(struct vms_machine *machine, unsigned vcpu G_GNUC_UNUSED,
				   uint64_t pa)
{
	const GArray *blocks = ((struct fake_machine *)machine)->prefetched;
	for (guint i = 0; i < blocks->len; i++)
		if (g_array_index(blocks, struct block, i).pa == pa)
			return g_array_index(blocks, struct block, i).content;
	return NULL;
}

static void fake_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			   uint64_t *stop)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	hooks->next_data(hooks->data, pa, end, begin, stop);
}

static bool fake_is_paused(struct vms_machine *machine)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	return hooks->is_paused && hooks->is_paused(hooks->data);
}

static uint64_t fake_resets(struct vms_machine *machine)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	return hooks->resets ? hooks->resets(hooks->data) : 0;
}

static char *fake_pause_reason(struct vms_machine *machine)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	return hooks->pause_reason ? hooks->pause_reason(hooks->data) : NULL;
}

uint64_t fake_machine_give_up_ns(struct vms_machine *machine)
{
	return atomic_load(&machine->give_up_ns);
}

bool fake_machine_is_given_up(struct vms_machine *machine)
{
	uint64_t give_up_ns = fake_machine_give_up_ns(machine);
	return give_up_ns > 0 && vms_clock_now_ns() > give_up_ns;
}

static enum vms_machine_end fake_ended(struct vms_machine *machine)
{
	const struct fake_hooks *hooks = hooks_of(machine);
	return hooks->ended ? hooks->ended(hooks->data) : VMS_MACHINE_GOES_ON;
}

static void fake_close(struct vms_machine *machine)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	for (guint i = 0; i < fake->ram->len; i++)
		g_free(g_array_index(fake->ram, struct ram, i).data);
	g_array_unref(fake->ram);
	g_array_unref(fake->next);
	g_array_unref(fake->prefetched);
	g_array_unref(machine->ranges);
	g_free(fake->regs);
	g_free(fake);
}

static const struct vms_engine fake_engine = {
	.name = "fake",
	.hold = fake_hold,
	.release = fake_release,
	.regs = fake_get_regs,
	.read_phys = read_memory,
	.is_paused = fake_is_paused,
	.ended = fake_ended,
	.resets = fake_resets,
	.pause_reason = fake_pause_reason,
	.close = fake_close,
};

struct vms_machine *fake_machine_new(const struct vms_arch *arch, unsigned n_vcpus)
{
	struct fake_machine *fake = g_new0(struct fake_machine, 1);
	fake->regs = g_new0(struct vms_regs, n_vcpus);
	fake->ram = g_array_new(false, false, sizeof(struct ram));
	fake->next = g_array_new(false, false, sizeof(struct block));
	fake->prefetched = g_array_new(false, false, sizeof(struct block));
	fake->machine.arch = arch;
	fake->machine.n_vcpus = n_vcpus;
	fake->machine.info.name = fake->machine.info.engine = "fake";
	fake->machine.info.description = "a fake machine";
	fake->machine.ranges = g_array_new(false, false, sizeof(struct vms_range));
	fake->engine = fake_engine;
	vms_machine_init(&fake->machine, &fake->engine);
	return &fake->machine;
}

uint8_t *fake_machine_add_ram(struct vms_machine *machine, uint64_t pa, size_t size)
{
	struct ram ram = { pa, size, g_malloc0(size) };
	struct vms_range range = { pa, size, VMS_RANGE_RAM, "ram" };
	g_array_append_val(((struct fake_machine *)machine)->ram, ram);
	g_array_append_val(machine->ranges, range);
	return ram.data;
}

void fake_machine_add_range(struct vms_machine *machine, uint64_t pa, uint64_t size,
			    enum vms_range_kind kind, const char *name)
{
	struct vms_range range = { pa, size, kind, name };
	g_array_append_val(machine->ranges, range);
}

void fake_machine_clear_ranges(struct vms_machine *machine)
{
	g_array_set_size(machine->ranges, 0);
}

void *fake_machine_at(struct vms_machine *machine, uint64_t pa)
{
	const struct ram *ram = find_ram((struct fake_machine *)machine, pa, 1);
	if (!ram)
		g_error("a test writes to 0x%" G_GINT64_MODIFIER "x, where it has put no RAM", pa);
	return ram->data + (pa - ram->pa);
}

void fake_machine_write_u64(struct vms_machine *machine, uint64_t pa, uint64_t value)
{
	value = GUINT64_TO_LE(value);
	memcpy(fake_machine_at(machine, pa), &value, sizeof(value));
}

struct vms_regs *fake_machine_regs(struct vms_machine *machine, unsigned vcpu)
{
	return &((struct fake_machine *)machine)->regs[vcpu];
}

void fake_machine_set_hooks(struct vms_machine *machine, const struct fake_hooks *hooks)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	fake->hooks = *hooks;
	fake->engine.observe = hooks->observe ? fake_observe : NULL;
	fake->engine.next_data = hooks->next_data ? fake_next_data : NULL;
	fake->engine.read_ram = hooks->read ? fake_read_ram : NULL;
	fake->engine.read_phys = hooks->read ? NULL : read_memory;
}

void fake_machine_set_holds_each(struct vms_machine *machine)
{
	((struct fake_machine *)machine)->engine.holds_each = true;
}

void fake_machine_set_held_reads(struct vms_machine *machine, size_t max)
{
	((struct fake_machine *)machine)->engine.held_read_max = max;
}

void fake_machine_set_brief_holds(struct vms_machine *machine)
{
	struct vms_engine *engine = &((struct fake_machine *)machine)->engine;
	engine->holds_each = true;
	engine->hold_briefly = fake_hold_briefly;
	engine->pin = fake_pin;
	engine->prefetch = fake_prefetch;
	engine->prefetched = fake_prefetched;
}

void fake_machine_go_on(struct vms_machine *machine)
{
	((struct fake_machine *)machine)->goes_on = true;
}

void fake_machine_set_parts(struct vms_machine *machine, size_t most)
{
	struct fake_machine *fake = (struct fake_machine *)machine;
	fake->most_parts = most;
	fake->engine.read_parts = most > 0 ? fake_read_parts : NULL;
}

uint64_t fake_machine_reads(struct vms_machine *machine)
{
	return ((struct fake_machine *)machine)->reads;
}
