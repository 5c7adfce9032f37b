/* SPDX-License-Identifier: MIT */
/* What a hold reads of a vCPU, by one call: of this very process. */
#include "machine/kvm/vcpu_read.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  4096
#define BLOCK VMS_KVM_PREFETCH_SIZE

/* Memory of which each byte tells where it is; its third page is not mapped. */
static uint8_t *map_memory(void)
{
	uint8_t *memory =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_assert_true(memory != MAP_FAILED);
	for (unsigned i = 0; i < 4 * PAGE; i++)
		memory[i] = (uint8_t)(i / BLOCK + i % BLOCK * 7);
	munmap(memory + 2 * PAGE, PAGE);
	return memory;
}

static void want(struct vms_kvm_slot *slot, uint64_t hva, int fd, uint64_t file_offset)
{
	slot->prefetch[slot->n_prefetch++] = (struct vms_kvm_prefetch) { hva, fd, file_offset };
}

static void check_block(const struct vms_kvm_slot *slot, unsigned i, const void *expected)
{
	g_assert_cmpint(slot->is_prefetched[i], ==, expected != NULL);
	if (expected)
		g_assert_cmpmem(slot->prefetched[i], BLOCK, expected, BLOCK);
}

static struct vms_kvm_slot *new_slot(const struct kvm_run *run)
{
	struct vms_kvm_slot *slot = g_new0(struct vms_kvm_slot, 1);
	slot->run_hva = (uintptr_t)run;
	return slot;
}

/* Blocks that follow each other, in any order, apart, twice, in a file, and none at all. */
static void test_blocks(void)
{
	uint8_t *memory = map_memory();
	struct kvm_run run = { .s.regs.regs.rip = 0x1234,
			       .s.regs.sregs.cr3 = 0x5000,
			       .kvm_valid_regs = 3 },
		       page;
	g_autofree struct vms_kvm_slot *slot = new_slot(&run);
	const int file = memfd_create("blocks", MFD_CLOEXEC);
	g_assert_cmpint(write(file, memory + 100, 3 * BLOCK), ==, 3 * BLOCK);
	static const unsigned offsets[] = { 0,	       BLOCK, 2 * BLOCK, 4 * BLOCK,
					    3 * BLOCK, 7,     7,	 5 * BLOCK };
	for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++)
		want(slot, (uintptr_t)memory + offsets[i], -1, 0);
	want(slot, 1, file, BLOCK);
	want(slot, 1, file, 3 * BLOCK - 1); /* beyond its end */
	want(slot, 0, -1, 0);
	/* It follows the last one in memory, and not in the list. */
	want(slot, (uintptr_t)memory + 6 * BLOCK, -1, 0);
	g_assert_true(vms_kvm_read_state(getpid(), slot, &page));
	for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++)
		check_block(slot, i, memory + offsets[i]);
	check_block(slot, 8, memory + 100 + BLOCK);
	check_block(slot, 9, NULL);
	check_block(slot, 10, NULL);
	check_block(slot, 11, memory + 6 * BLOCK);
	g_assert_cmphex(slot->regs.rip, ==, 0x1234);
	g_assert_cmphex(slot->sregs.cr3, ==, 0x5000);
	g_assert_cmpuint(page.kvm_valid_regs, ==, 3);
	close(file);
	munmap(memory, 2 * PAGE);
	munmap(memory + 3 * PAGE, PAGE);
}

/* What comes before memory that is not there is read, and said to be; no more than that. */
static void test_unmapped(void)
{
	uint8_t *memory = map_memory();
	struct kvm_run run = { .s.regs.regs.rip = 0x1234 }, page;
	g_autofree struct vms_kvm_slot *slot = new_slot(&run);
	want(slot, (uintptr_t)memory + 2 * PAGE - BLOCK, -1, 0);
	want(slot, (uintptr_t)memory + 2 * PAGE, -1, 0); /* follows it */
	want(slot, (uintptr_t)memory + 3 * PAGE, -1, 0);
	g_assert_true(vms_kvm_read_state(getpid(), slot, &page));
	check_block(slot, 0, memory + 2 * PAGE - BLOCK);
	check_block(slot, 1, NULL);
	check_block(slot, 2, NULL);
	g_assert_cmphex(slot->regs.rip, ==, 0x1234);
	slot->run_hva = (uintptr_t)memory + 2 * PAGE;
	g_assert_false(vms_kvm_read_state(getpid(), slot, &page));
	g_assert_cmpint(errno, ==, EFAULT);
	munmap(memory, 2 * PAGE);
	munmap(memory + 3 * PAGE, PAGE);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/kvm-reading/blocks", test_blocks);
	g_test_add_func("/kvm-reading/unmapped", test_unmapped);
	return g_test_run();
}
