/* SPDX-License-Identifier: MIT */
/*
 * What ran, from the agent's memory to the report: numbers of blocks, marks of several vCPUs, how
 * far a block came, files for others; and memory that no agent would share.
 */
#include "coverage/report-private.h"

#include "agent/coverage/blocks.h"
#include <string.h>
#include <sys/mman.h>

#define VCPUS  3
#define BLOCKS 8
#define VA     0xffffffff81000000

struct memory {
	struct blocks blocks;
	struct vms_coverage_link link;
};

static void make_memory(struct memory *memory)
{
	memset(memory, 0, sizeof(*memory));
	g_assert_true(blocks_make(&memory->blocks, BLOCKS, VCPUS));
	atomic_store(&memory->blocks.shared->state, VMS_AGENT_COVERAGE_RUNS);
	memory->link.shared = memory->blocks.shared;
	memory->link.size = memory->blocks.size;
	g_assert_true(vms_coverage_link_take_layout(&memory->link));
}

static void note(struct memory *memory, uint64_t va, uint32_t size, uint16_t n_insns)
{
	const struct vms_agent_block_covered block = {
		.va = va, .size = size, .n_insns = n_insns, .first_size = 2
	};
	g_assert_cmpuint(blocks_note(&memory->blocks, &block), !=, BLOCKS_NONE);
}

/* As code of a vCPU does. */
static void set_mark(struct memory *memory, uint32_t block, unsigned vcpu, unsigned end)
{
	unsigned char *first = blocks_mark(&memory->blocks, block, end);
	memset(first + vcpu * (size_t)VMS_AGENT_MARKS_LINE, 0xff, 8);
}

static struct vms_coverage_report *make_report(const struct memory *memory)
{
	g_autoptr(vms_coverage_functions) none = vms_coverage_functions_new(NULL);
	return vms_coverage_report_new(&memory->link, vms_coverage_link_blocks(&memory->link),
				       none);
}

static void assert_block(const struct vms_coverage_report *report, size_t index, uint64_t va,
			 uint32_t size, bool is_whole)
{
	size_t n;
	const struct vms_covered_block *blocks = vms_coverage_report_blocks(report, &n);
	g_assert_cmpuint(index, <, n);
	g_assert_cmphex(blocks[index].va, ==, va);
	g_assert_cmpuint(blocks[index].size, ==, size);
	g_assert_cmpint(blocks[index].is_whole, ==, is_whole);
	g_assert_cmphex(blocks[index].function, ==, VMS_COVERED_NO_FUNCTION);
}

static size_t count_blocks(const struct vms_coverage_report *report)
{
	size_t n;
	vms_coverage_report_blocks(report, &n);
	return n;
}

/* The same block again has its number; another size, address or epoch is another block. */
static void test_numbers(void)
{
	struct memory memory;
	struct vms_agent_block_covered block = { .va = VA, .size = 8, .n_insns = 2 };
	make_memory(&memory);
	g_assert_cmpuint(blocks_note(&memory.blocks, &block), ==, 0);
	block.size = 9;
	g_assert_cmpuint(blocks_note(&memory.blocks, &block), ==, 1);
	block.epoch = 1;
	g_assert_cmpuint(blocks_note(&memory.blocks, &block), ==, 2);
	block.va++;
	g_assert_cmpuint(blocks_note(&memory.blocks, &block), ==, 3);
	block = (struct vms_agent_block_covered) { .va = VA, .size = 8, .n_insns = 2 };
	g_assert_cmpuint(blocks_note(&memory.blocks, &block), ==, 0);
	g_assert_cmpuint(vms_coverage_link_blocks(&memory.link), ==, 4);
	g_assert_cmphex(vms_coverage_link_block(&memory.link, 3).va, ==, VA + 1);
	blocks_free(&memory.blocks);
}

static void test_no_room(void)
{
	struct memory memory;
	make_memory(&memory);
	for (uint32_t i = 0; i < BLOCKS; i++)
		note(&memory, VA + i, 4, 1);
	const struct vms_agent_block_covered more = { .va = VA + BLOCKS, .size = 4 };
	g_assert_cmphex(blocks_note(&memory.blocks, &more), ==, BLOCKS_NONE);
	g_assert_cmphex(blocks_note(&memory.blocks, &more), ==, BLOCKS_NONE);
	note(&memory, VA, 4, 1);
	g_autoptr(vms_coverage_report) report = make_report(&memory);
	g_assert_cmpuint(report->totals.lost, ==, 2);
	blocks_free(&memory.blocks);
}

/* Each mark of each vCPU tells of its own block alone. */
static void test_marks(void)
{
	struct memory memory;
	make_memory(&memory);
	for (uint32_t i = 0; i < BLOCKS; i++)
		note(&memory, VA + 16 * i, 16, 2);
	for (uint32_t block = 0; block < BLOCKS; block++)
		for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++)
			for (unsigned end = 0; end < 2; end++) {
				set_mark(&memory, block, vcpu, end);
				for (uint32_t i = 0; i < BLOCKS; i++)
					g_assert_cmpuint(vms_coverage_link_ran(&memory.link, i), ==,
							 i == block ? 1U << end : 0);
				blocks_clear(&memory.blocks);
			}
	blocks_free(&memory.blocks);
}

/* What is marked after the end does not count. */
static void test_settled(void)
{
	struct memory memory;
	make_memory(&memory);
	note(&memory, VA, 16, 2);
	note(&memory, VA + 16, 16, 2);
	set_mark(&memory, 0, 1, 0);
	blocks_settle(&memory.blocks);
	atomic_store(&memory.blocks.shared->state, VMS_AGENT_COVERAGE_ENDED);
	set_mark(&memory, 0, 1, 1);
	set_mark(&memory, 1, 0, 0);
	g_autoptr(vms_coverage_report) report = make_report(&memory);
	g_assert_cmpuint(count_blocks(report), ==, 1);
	assert_block(report, 0, VA, 2, false);
	atomic_store(&memory.blocks.shared->state, VMS_AGENT_COVERAGE_WAITS);
	g_autoptr(vms_coverage_report) waits = make_report(&memory);
	g_assert_cmpuint(count_blocks(waits), ==, 0);
	g_assert_true(waits->totals.never_began);
	blocks_free(&memory.blocks);
}

/* An instruction that has ended a block tells how far that came, if it can be only that block. */
static void test_left_in_the_middle(void)
{
	struct memory memory;
	make_memory(&memory);
	note(&memory, VA, 16, 4);	  /* left at VA + 8 */
	note(&memory, VA + 8, 4, 1);	  /* which is executed alone */
	note(&memory, VA + 0x100, 16, 4); /* left by a fault */
	note(&memory, VA + 0x200, 16, 4); /* one of these two was left at VA + 0x208 */
	note(&memory, VA + 0x204, 12, 3);
	note(&memory, VA + 0x208, 4, 1);
	note(&memory, VA + 0x300, 4, 1);
	for (uint32_t i = 0; i < 7; i++)
		set_mark(&memory, i, 2, i == 1 || i == 5);
	g_autoptr(vms_coverage_report) report = make_report(&memory);
	g_assert_cmpuint(count_blocks(report), ==, 7);
	assert_block(report, 0, VA, 8, false);
	assert_block(report, 1, VA + 8, 4, true);
	assert_block(report, 2, VA + 0x100, 2, false);
	assert_block(report, 3, VA + 0x200, 2, false);
	assert_block(report, 4, VA + 0x204, 2, false);
	assert_block(report, 5, VA + 0x208, 4, true);
	assert_block(report, 6, VA + 0x300, 4, true);
	g_assert_cmpuint(report->totals.cut, ==, 4);
	blocks_free(&memory.blocks);
}

static void test_drcov(void)
{
	static const char head[] =
		"DRCOV VERSION: 2\nDRCOV FLAVOR: vmscope\nModule Table: version 2, count 2\n"
		"Columns: id, base, end, entry, path\n"
		"  0, 0x0000000000001000, 0x0000000000001010, 0x0000000000000000, 0x0\n"
		"  1, 0xffffffff81000000, 0xffffffff81000024, 0x0000000000000000, "
		"0xffffffff00000000\nBB Table: 3 bbs\n";
	static const uint8_t table[] = { 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0,
					 8, 0, 1, 0, 32, 0, 0, 0, 4, 0, 1, 0 };
	struct memory memory;
	make_memory(&memory);
	note(&memory, VA + 32, 4, 1);
	note(&memory, VA, 8, 2);
	note(&memory, 0x1000, 16, 3);
	for (uint32_t i = 0; i < 3; i++)
		for (unsigned end = 0; end < 2; end++)
			set_mark(&memory, i, 0, end);
	g_autoptr(vms_coverage_report) report = make_report(&memory);
	g_autoptr(GString) out = g_string_new(NULL);
	vms_coverage_report_drcov(report, out);
	g_assert_cmpmem(out->str, out->len - sizeof(table), head, sizeof(head) - 1);
	g_assert_cmpmem(out->str + sizeof(head) - 1, sizeof(table), table, sizeof(table));
	blocks_free(&memory.blocks);
}

/* A report without anything gives files without anything. */
static void test_empty(void)
{
	struct memory memory;
	make_memory(&memory);
	g_autoptr(vms_coverage_report) report = make_report(&memory);
	g_autoptr(GString) lcov = g_string_new(NULL);
	g_autoptr(GString) drcov = g_string_new(NULL);
	vms_coverage_report_lcov(report, lcov);
	vms_coverage_report_drcov(report, drcov);
	g_assert_cmpstr(lcov->str, ==, "TN:vmscope\n");
	g_assert_true(g_str_has_suffix(drcov->str, "BB Table: 0 bbs\n"));
	blocks_free(&memory.blocks);
}

/* Memory that is described as larger than it is. */
static void test_wrong_layout(void)
{
	struct memory memory;
	make_memory(&memory);
	struct vms_agent_covered *shared = memory.blocks.shared;
	const struct vms_agent_covered sound = *shared;
	const struct vms_agent_covered wrong[] = {
		{ .blocks_offset = memory.blocks.size + 8, .n_vcpus = 1 },
		{ .blocks_offset = 4, .n_vcpus = 1 },
		{ .marks_offset = UINT64_MAX - 7, .n_vcpus = 1 },
		{ .marks_offset = 4, .n_vcpus = 1 },
		{ .n_vcpus = 0 },
		{ .n_vcpus = VMS_AGENT_MAX_VCPUS + 1 },
		{ .max_blocks = VMS_AGENT_MAX_BLOCKS, .n_vcpus = 1 },
		{ .max_blocks = UINT32_MAX - 3, .n_vcpus = 1 },
		{ .max_blocks = BLOCKS - 1, .n_vcpus = 1 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
		*shared = wrong[i];
		g_assert_false(vms_coverage_link_take_layout(&memory.link));
	}
	memory.link.size = sizeof(*shared) - 1;
	*shared = sound;
	g_assert_false(vms_coverage_link_take_layout(&memory.link));
	blocks_free(&memory.blocks);
}

/* A vCPU asks for a look while another one is made: it needs one of its own. */
static void test_looks(void)
{
	struct memory memory;
	uint32_t looks;
	make_memory(&memory);
	struct vms_agent_covered *shared = memory.blocks.shared;
	g_assert_false(vms_coverage_link_wants_look(&memory.link, &looks));
	atomic_store(&shared->looks, 1);
	g_assert_true(vms_coverage_link_wants_look(&memory.link, &looks));
	atomic_store(&shared->looks, 2);
	vms_coverage_link_answer_look(&memory.link, looks);
	g_assert_true(vms_coverage_link_wants_look(&memory.link, &looks));
	vms_coverage_link_answer_look(&memory.link, looks);
	g_assert_false(vms_coverage_link_wants_look(&memory.link, &looks));
	blocks_free(&memory.blocks);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/coverage/numbers", test_numbers);
	g_test_add_func("/coverage/no-room", test_no_room);
	g_test_add_func("/coverage/marks", test_marks);
	g_test_add_func("/coverage/settled", test_settled);
	g_test_add_func("/coverage/left-in-the-middle", test_left_in_the_middle);
	g_test_add_func("/coverage/drcov", test_drcov);
	g_test_add_func("/coverage/empty", test_empty);
	g_test_add_func("/coverage/looks", test_looks);
	g_test_add_func("/coverage/wrong-layout", test_wrong_layout);
	return g_test_run();
}
