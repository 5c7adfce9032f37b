/* SPDX-License-Identifier: MIT */
/* What is read twice in one hold is read once, and nothing outlives its hold. */
#include "fake_machine.h"
#include "machine/engine.h"
#include "machine/memory-private.h"

#define VCPUS 2
#define PA    0x1000 /* paging is off: virtual addresses are physical */

struct fixture {
	struct vms_machine *machine;
	struct vms_memory *memory;
};

static void start(struct fixture *f, bool holds_each)
{
	f->machine = fake_machine_new(&vms_arch_x86_64, VCPUS);
	if (holds_each)
		fake_machine_set_holds_each(f->machine);
	fake_machine_add_ram(f->machine, 0, 0x10000);
	f->memory = vms_memory_new(f->machine, fake_machine_regs(f->machine, 0));
}

static void finish(struct fixture *f)
{
	vms_memory_free(f->memory);
	vms_machine_unref(f->machine);
}

/* Writes behind the memory's back, and reads. */
static uint64_t read_after_write(struct fixture *f, uint64_t value)
{
	uint64_t ret = 0;
	fake_machine_write_u64(f->machine, PA, value);
	g_assert_true(vms_memory_read_u64(f->memory, PA, &ret));
	return ret;
}

static void hold(struct fixture *f, int vcpu)
{
	g_assert_true(vms_machine_hold(f->machine, vcpu, NULL));
}

static void release(struct fixture *f, int vcpu)
{
	g_assert_true(vms_machine_release(f->machine, vcpu, NULL));
}

static void test_whole(void)
{
	for (int each = 0; each < 2; each++) {
		struct fixture f;
		start(&f, each);
		g_assert_cmpuint(read_after_write(&f, 1), ==, 1);
		g_assert_cmpuint(read_after_write(&f, 2), ==, 2); /* it runs */
		for (uint64_t i = 3; i < 9; i += 3) {
			hold(&f, VMS_ALL_VCPUS);
			g_assert_cmpuint(read_after_write(&f, i), ==, i);
			g_assert_cmpuint(read_after_write(&f, i + 1), ==, i);
			release(&f, VMS_ALL_VCPUS);
			g_assert_cmpuint(read_after_write(&f, i + 2), ==, i + 2);
		}
		finish(&f);
	}
}

static void test_one_vcpu(void)
{
	struct fixture f;
	start(&f, true);
	hold(&f, 1);
	g_assert_cmpuint(read_after_write(&f, 1), ==, 1);
	g_assert_cmpuint(read_after_write(&f, 2), ==, 2); /* vCPU 0 runs: not the whole */
	vms_memory_set_vcpu(f.memory, 0);
	g_assert_cmpuint(read_after_write(&f, 3), ==, 3);
	g_assert_cmpuint(read_after_write(&f, 4), ==, 4);
	vms_memory_set_vcpu(f.memory, 1);
	g_assert_cmpuint(read_after_write(&f, 5), ==, 5);
	uint64_t reads = fake_machine_reads(f.machine);
	g_assert_cmpuint(read_after_write(&f, 6), ==, 5);
	g_assert_cmpuint(fake_machine_reads(f.machine), ==, reads);
	hold(&f, 0); /* others come and go */
	g_assert_cmpuint(read_after_write(&f, 7), ==, 5);
	release(&f, 0);
	release(&f, 1);
	g_assert_cmpuint(read_after_write(&f, 8), ==, 8);
	hold(&f, 1);
	g_assert_cmpuint(read_after_write(&f, 9), ==, 9);
	release(&f, 1);
	finish(&f);
}

static void read_pages(struct fixture *f, uint64_t first, uint64_t n, uint64_t expected)
{
	for (uint64_t i = first; i < first + n; i++) {
		uint64_t value;
		g_assert_true(vms_memory_read_u64(f->memory, i * 4096, &value));
		g_assert_cmpuint(value, ==, expected);
	}
}

static void write_pages(struct fixture *f, uint64_t value)
{
	for (uint64_t i = 0; i < 16; i++)
		fake_machine_write_u64(f->machine, i * 4096, value);
}

/* What a hold has read is read at once in the next one; as it is then, and no more than once. */
static void test_read_ahead(void)
{
	static const struct {
		size_t most; /* parts that the machine reads in one go */
		uint64_t reads;
	} cases[] = { { 0, 8 }, { 3, 6 }, { 8, 1 }, { 100, 1 } };
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fixture f;
		start(&f, false);
		fake_machine_set_parts(f.machine, cases[i].most);
		for (uint64_t round = 1; round < 5; round++) {
			write_pages(&f, round);
			hold(&f, VMS_ALL_VCPUS);
			uint64_t before = fake_machine_reads(f.machine);
			read_pages(&f, 4, 8, round);
			uint64_t reads = fake_machine_reads(f.machine) - before;
			g_assert_cmpuint(reads, ==, round == 1 ? 8 : cases[i].reads);
			read_pages(&f, 4, 8, round);
			g_assert_cmpuint(fake_machine_reads(f.machine) - before, ==, reads);
			release(&f, VMS_ALL_VCPUS);
		}
		write_pages(&f, 9);
		hold(&f, VMS_ALL_VCPUS);
		read_pages(&f, 0, 16, 9); /* others, too */
		release(&f, VMS_ALL_VCPUS);
		finish(&f);
	}
}

/* More memory than the cache has room for: blocks that share a place are not taken for one another.
 */
static void test_full_cache(void)
{
	const uint64_t begin = UINT64_C(1) << 20, size = UINT64_C(8) << 20;
	for (int vcpu = VMS_ALL_VCPUS; vcpu < 1; vcpu++) {
		struct fixture f;
		uint64_t value;
		start(&f, true);
		fake_machine_set_brief_holds(f.machine);
		fake_machine_add_ram(f.machine, begin, size);
		vms_memory_set_vcpu(f.memory, vcpu);
		for (uint64_t pa = begin; pa < begin + size; pa += VMS_PREFETCH_SIZE)
			fake_machine_write_u64(f.machine, pa, pa);
		hold(&f, VMS_ALL_VCPUS);
		for (uint64_t pa = begin; pa < begin + size; pa += VMS_PREFETCH_SIZE) {
			g_assert_true(vms_memory_read_u64(f.memory, pa, &value));
			g_assert_cmphex(value, ==, pa);
		}
		release(&f, VMS_ALL_VCPUS);
		finish(&f);
	}
}

/* Linux has the memory of each vCPU at a distance of 2^n from that of the next one. */
static void test_read_ahead_far(void)
{
	const uint64_t begin = UINT64_C(1) << 20;
	const uint64_t n = 64;
	for (uint64_t distance = 4096; distance <= UINT64_C(1) << 20; distance *= 2) {
		struct fixture f;
		uint64_t value, before = 0;
		start(&f, false);
		fake_machine_add_ram(f.machine, begin, n * distance);
		fake_machine_set_parts(f.machine, n);
		for (unsigned round = 0; round < 2; round++) {
			hold(&f, VMS_ALL_VCPUS);
			before = fake_machine_reads(f.machine);
			for (uint64_t i = 0; i < n; i++)
				g_assert_true(vms_memory_read_u64(f.memory, begin + i * distance,
								  &value));
			release(&f, VMS_ALL_VCPUS);
		}
		g_assert_cmpuint(fake_machine_reads(f.machine) - before, ==, 1);
		finish(&f);
	}
}

static void check_value(struct fixture *f, uint64_t pa, uint64_t expected)
{
	uint64_t value;
	g_assert_true(vms_memory_read_u64(f->memory, pa, &value));
	g_assert_cmpuint(value, ==, expected);
}

/* Memory that a brief hold has read is prefetched with the next one, as it was when that began. */
static void test_brief_hold(void)
{
	struct fixture f;
	start(&f, true);
	fake_machine_set_brief_holds(f.machine);
	vms_memory_set_vcpu(f.memory, 1);
	for (uint64_t round = 1; round < 5; round++) {
		fake_machine_write_u64(f.machine, PA, round);
		g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
		if (round > 1) { /* prefetched memory can be read even then */
			fake_machine_go_on(f.machine);
			fake_machine_write_u64(f.machine, PA, 99);
		}
		check_value(&f, PA, round);
		check_value(&f, PA, round);
		release(&f, 1);
	}
	finish(&f);
}

/* A read of several blocks, as of half a root table of pages, is prefetched like one of one block.
 */
static void test_blocks(void)
{
	enum { AT = PA + 8, SIZE = 2048 };
	struct fixture f;
	uint8_t before[SIZE], after[SIZE];
	start(&f, true);
	fake_machine_set_brief_holds(f.machine);
	vms_memory_set_vcpu(f.memory, 1);
	for (uint64_t i = 0; i < SIZE; i += 8)
		fake_machine_write_u64(f.machine, AT + i, i + 1);
	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	g_assert_true(vms_memory_read(f.memory, AT, before, SIZE));
	release(&f, 1);
	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	fake_machine_go_on(f.machine);
	fake_machine_write_u64(f.machine, AT, 99);
	g_assert_true(vms_memory_read(f.memory, AT, after, SIZE));
	g_assert_cmpmem(after, SIZE, before, SIZE);
	g_assert_cmpuint(after[8], ==, 9);
	release(&f, 1); /* it was not pinned, which would be too late now */
	finish(&f);
}

/*
 * A vCPU is pinned while other memory is read. If it has gone on before, that memory cannot be
 * read, and the release tells it.
 */
static void test_pin(void)
{
	struct fixture f;
	g_autoptr(GError) error = NULL;
	uint64_t value;
	start(&f, true);
	fake_machine_set_brief_holds(f.machine);
	vms_memory_set_vcpu(f.memory, 1);
	fake_machine_write_u64(f.machine, PA, 1);
	fake_machine_write_u64(f.machine, 2 * PA, 2);
	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	check_value(&f, PA, 1);
	fake_machine_go_on(f.machine); /* too late */
	check_value(&f, 2 * PA, 2);
	g_assert_true(vms_memory_pin(f.memory));
	release(&f, 1);

	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	fake_machine_go_on(f.machine);
	check_value(&f, 2 * PA, 2);
	g_assert_false(vms_memory_pin(f.memory));
	g_assert_false(vms_memory_read_u64(f.memory, 3 * PA, &value));
	uint8_t across[2 * PA];
	g_assert_false(vms_memory_read(f.memory, 2 * PA, across, sizeof(across)));
	g_assert_false(vms_machine_release(f.machine, 1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_GONE_ON);
	finish(&f);
}

/* A hold within a brief hold pins the vCPU. */
static void test_hold_in_brief_hold(void)
{
	struct fixture f;
	g_autoptr(GError) error = NULL;
	start(&f, true);
	fake_machine_set_brief_holds(f.machine);
	vms_memory_set_vcpu(f.memory, 1);
	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	hold(&f, 1);
	fake_machine_go_on(f.machine); /* too late */
	g_assert_cmpuint(read_after_write(&f, 1), ==, 1);
	release(&f, 1);
	release(&f, 1);

	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	fake_machine_go_on(f.machine);
	g_assert_false(vms_machine_hold(f.machine, 1, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_GONE_ON);
	g_assert_false(vms_machine_release(f.machine, 1, NULL));
	hold(&f, 1);
	g_assert_cmpuint(read_after_write(&f, 2), ==, 2);
	release(&f, 1);
	finish(&f);
}

/* Memory that was asked for is there as a whole, or not at all, and pins no vCPU. */
static void test_prefetch(void)
{
	enum { AT = PA + 100, SIZE = 1000 }; /* blocks that are used in part at both ends */
	struct fixture f;
	uint8_t bytes[SIZE + VMS_PREFETCH_SIZE];
	start(&f, true);
	fake_machine_set_brief_holds(f.machine);
	vms_memory_prefetch(f.memory, AT, SIZE); /* of the whole machine: nothing happens */
	g_assert_false(vms_memory_read_prefetched(f.memory, AT, bytes, SIZE));
	vms_memory_set_vcpu(f.memory, 1);
	for (uint64_t i = 0; i < SIZE; i += 8)
		fake_machine_write_u64(f.machine, AT + i, i);
	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	g_assert_false(vms_memory_read_prefetched(f.memory, AT, bytes, SIZE));
	vms_memory_prefetch(f.memory, AT, SIZE);
	release(&f, 1);
	g_assert_true(vms_machine_hold_briefly(f.machine, 1, NULL));
	fake_machine_go_on(f.machine);
	fake_machine_write_u64(f.machine, AT, 99);
	g_assert_true(vms_memory_read_prefetched(f.memory, AT, bytes, SIZE));
	for (uint64_t i = 0; i < SIZE; i += 8)
		g_assert_cmpmem(bytes + i, sizeof(i), &i, sizeof(i));
	g_assert_true(vms_memory_read_prefetched(f.memory, AT + SIZE - 1, bytes, 1));
	g_assert_false(vms_memory_read_prefetched(f.memory, AT, bytes, SIZE + VMS_PREFETCH_SIZE));
	g_assert_false(vms_memory_read_prefetched(f.memory, PA - 1, bytes, 2));
	release(&f, 1); /* it was not pinned, which would be too late now */
	finish(&f);
}

/* Memory that is read at once ends where the machine's does. */
static void test_read_start(void)
{
	struct fixture f;
	uint8_t bytes[0x2000];
	start(&f, false);
	g_assert_cmpuint(vms_memory_read_start(f.memory, PA + 8, bytes, sizeof(bytes)), ==,
			 sizeof(bytes));
	fake_machine_set_parts(f.machine, 16);
	g_assert_cmpuint(vms_memory_read_start(f.memory, PA + 8, bytes, sizeof(bytes)), ==,
			 sizeof(bytes));
	g_assert_cmpuint(vms_memory_read_start(f.memory, 0xf800, bytes, sizeof(bytes)), ==, 0x800);
	g_assert_cmpuint(vms_memory_read_start(f.memory, 0x20000, bytes, sizeof(bytes)), ==, 0);
	finish(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/memory/whole", test_whole);
	g_test_add_func("/memory/one-vcpu", test_one_vcpu);
	g_test_add_func("/memory/read-ahead", test_read_ahead);
	g_test_add_func("/memory/read-ahead-far", test_read_ahead_far);
	g_test_add_func("/memory/full-cache", test_full_cache);
	g_test_add_func("/memory/brief-hold", test_brief_hold);
	g_test_add_func("/memory/brief-hold/blocks", test_blocks);
	g_test_add_func("/memory/brief-hold/pin", test_pin);
	g_test_add_func("/memory/brief-hold/hold", test_hold_in_brief_hold);
	g_test_add_func("/memory/brief-hold/prefetch", test_prefetch);
	g_test_add_func("/memory/read-start", test_read_start);
	return g_test_run();
}
