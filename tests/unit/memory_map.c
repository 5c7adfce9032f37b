/* SPDX-License-Identifier: MIT */
/* A memory map that was found out, beside what a kernel says of its memory. */
#include "guest/linux/memory_map.h"
#include "fake_linux.h"
#include "machine/engine.h"
#include <string.h>

#define RAM_SIZE UINT64_C(0x10000)
#define VARIABLE 0x1000
#define TABLE	 0x1ffc /* its entries cross a page */
#define HIGH_PA	 (UINT64_C(1) << 32)
#define RAM	 1
#define RESERVED 2

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
	uint8_t *ram;
	unsigned n; /* entries */
};

static void set_up(struct fixture *f, gconstpointer data)
{
	static const struct fake_symbol symbols[] = { { "e820_table", VARIABLE }, { NULL, 0 } };
	(void)data;
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	f->ram = fake_machine_add_ram(f->machine, 0, RAM_SIZE);
	f->machine->info.has_inferred_map = true;
	f->guest = fake_linux_new(f->machine, symbols, NULL);
	f->n = 0;
	fake_machine_write_u64(f->machine, VARIABLE, TABLE);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static void add_entry(struct fixture *f, uint64_t pa, uint64_t size, uint32_t type)
{
	uint8_t *entry = f->ram + TABLE + 4 + (size_t)20 * f->n++;
	memcpy(entry, &pa, 8);
	memcpy(entry + 8, &size, 8);
	memcpy(entry + 16, &type, 4);
	memcpy(f->ram + TABLE, &f->n, 4);
}

static void check(struct fixture *f, const char *problem)
{
	g_autoptr(GError) error = NULL;
	bool right = vms_linux_check_memory_map(f->guest, &error);
	g_assert_true(right == !problem);
	if (!problem)
		return;
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	g_assert_nonnull(strstr(error->message, problem));
}

static void test_agrees(struct fixture *f, gconstpointer data)
{
	(void)data;
	add_entry(f, 0, 0x9fc0, RAM);
	add_entry(f, 0x9fc0, 0x40, RESERVED);
	add_entry(f, 0xa000, RAM_SIZE - 0xa000, RAM);
	add_entry(f, 0xfffc0000, 0x40000, RESERVED); /* firmware: not in the map */
	check(f, NULL);
}

static void test_lacks_high(struct fixture *f, gconstpointer data)
{
	(void)data;
	add_entry(f, 0, RAM_SIZE, RAM);
	add_entry(f, HIGH_PA, 0x1000, RAM);
	check(f, "memory at 0x100000000, of 0x1000 bytes");
	fake_machine_add_range(f->machine, HIGH_PA, 0x1000, VMS_RANGE_RAM, "ram");
	check(f, NULL);
}

static void test_lacks_end(struct fixture *f, gconstpointer data)
{
	(void)data;
	add_entry(f, 0, RAM_SIZE + 1, RAM);
	check(f, "memory at 0,");
}

/* Parts of it in ranges that follow each other. */
static void test_parts(struct fixture *f, gconstpointer data)
{
	(void)data;
	add_entry(f, 0x1000, RAM_SIZE, RAM);
	fake_machine_add_range(f->machine, RAM_SIZE, 0x800, VMS_RANGE_RAM, "ram");
	check(f, "memory at 0x1000,");
	fake_machine_add_range(f->machine, RAM_SIZE + 0x800, 0x800, VMS_RANGE_RAM, "ram");
	check(f, NULL);
}

static void test_sizes(struct fixture *f, gconstpointer data)
{
	(void)data;
	add_entry(f, UINT64_MAX - 1, UINT64_MAX, RAM);
	check(f, "memory at 0xfffffffffffffffe");
}

/* What cannot be read, or says more entries than there can be, proves nothing. */
static void test_unreadable(struct fixture *f, gconstpointer data)
{
	const uint32_t many = 3201;
	(void)data;
	check(f, NULL); /* no entries */
	memcpy(f->ram + TABLE, &many, 4);
	check(f, NULL);
	fake_machine_write_u64(f->machine, VARIABLE,
			       RAM_SIZE - 4); /* the first entry is not there */
	memcpy(f->ram + RAM_SIZE - 4, &(uint32_t) { 1 }, 4);
	check(f, NULL);
	fake_machine_write_u64(f->machine, VARIABLE, RAM_SIZE);
	check(f, NULL);
}

static void test_told(struct fixture *f, gconstpointer data)
{
	(void)data;
	add_entry(f, HIGH_PA, 0x1000, RAM);
	f->machine->info.has_inferred_map = false;
	check(f, NULL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/memory-map/agrees", struct fixture, NULL, set_up, test_agrees, tear_down);
	g_test_add("/memory-map/lacks-high", struct fixture, NULL, set_up, test_lacks_high,
		   tear_down);
	g_test_add("/memory-map/lacks-end", struct fixture, NULL, set_up, test_lacks_end,
		   tear_down);
	g_test_add("/memory-map/parts", struct fixture, NULL, set_up, test_parts, tear_down);
	g_test_add("/memory-map/sizes", struct fixture, NULL, set_up, test_sizes, tear_down);
	g_test_add("/memory-map/unreadable", struct fixture, NULL, set_up, test_unreadable,
		   tear_down);
	g_test_add("/memory-map/told", struct fixture, NULL, set_up, test_told, tear_down);
	return g_test_run();
}
