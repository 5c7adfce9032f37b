/* SPDX-License-Identifier: MIT */
/*
 * Programs of probes that a hostile client sends to the agent. Input: which registers and which
 * memory cannot be read (1 byte), then operations.
 *
 * Covers: src/probe/program.c.
 */
#include "probe/program.h"

#include <glib.h>
#include <string.h>

#define N_REGS 32
#define CANARY 64 /* bytes behind the output that nothing may touch */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_reads;

static bool read_reg(void *data, unsigned reg, uint64_t *ret)
{
	const uint8_t *options = data;
	g_assert_cmpuint(reg, <, N_REGS);
	*ret = reg * UINT64_C(0x123456789);
	return (reg ^ *options) & 3;
}

static bool read_memory(void *data, uint64_t va, void *buf, size_t size)
{
	const uint8_t *options = data;
	n_reads++;
	g_assert_cmpuint(size, >, 0);
	g_assert_cmpuint(size, <=, VMS_PROGRAM_OUTPUT_MAX);
	/* So that what lists say is sometimes what they may. */
	memset(buf, (int)(va ^ *options) & 0x7f, size);
	return (va >> 12 ^ *options) & 3;
}

static bool read_wide(void *data, unsigned number, void *buf, size_t size)
{
	const uint8_t *options = data;
	g_assert_cmpuint(number, <, VMS_WIDE_MAX);
	g_assert_cmpuint(size, >, 0);
	g_assert_cmpuint(size, <=, VMS_WIDE_BYTES_MAX);
	memset(buf, (int)number, size);
	return (number ^ *options) & 3;
}

/* The output is values with their heads, and nothing else. */
static void check_output(const uint8_t *output, size_t size)
{
	g_assert_cmpuint(size, <=, VMS_PROGRAM_OUTPUT_MAX);
	while (size > 0) {
		struct vms_value_head head;
		g_assert_cmpuint(size, >=, sizeof(head));
		memcpy(&head, output, sizeof(head));
		g_assert_cmpuint(head.status, <, VMS_VALUE_COUNT);
		g_assert_cmpuint(head.size, <=, size - sizeof(head));
		output += sizeof(head) + head.size;
		size -= sizeof(head) + head.size;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t untouched[CANARY] = { 0 };
	uint8_t options = size > 0 ? data[0] : 0;
	const size_t n = size > 0 ? (size - 1) / sizeof(struct vms_op) : 0;
	g_autofree struct vms_op *ops = g_new0(struct vms_op, n + 1);
	g_autofree uint8_t *output = g_malloc0(VMS_PROGRAM_OUTPUT_MAX + CANARY);
	const struct vms_program program = { ops, n };
	const struct vms_program_input input = {
		.reg = read_reg, .read = read_memory, .data = &options, .vcpu = 1, .wide = read_wide
	};
	size_t used;
	if (size > 0)
		memcpy(ops, data + 1, n * sizeof(*ops));
	if (!vms_program_check(&program, N_REGS))
		return 0;
	n_reads = 0;
	vms_program_run(&program, &input, output, &used);
	check_output(output, used);
	/* By pages; of lists, each item. */
	g_assert_cmpuint(n_reads, <=,
			 (VMS_PROGRAM_OUTPUT_MAX / 4096 + 2 + 3 * VMS_LIST_ITEMS_MAX) * n);
	g_assert_cmpmem(output + VMS_PROGRAM_OUTPUT_MAX, CANARY, untouched, CANARY);
	return 0;
}
