/* SPDX-License-Identifier: MIT */
/*
 * Memory that a hostile QEMU shares as that of a coverage: all of it is the fuzzer's.
 *
 * Covers: src/coverage/link.c src/coverage/report.c src/coverage/drcov.c src/coverage/lcov.c.
 */
#include "coverage/report-private.h"

#include <string.h>

#define MEMORY (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_coverage_link link = { .size = MEMORY, .woken = -1 };
	link.shared = g_aligned_alloc0(1, MEMORY, 4096);
	memcpy(link.shared, data, MIN(size, MEMORY));
	if (vms_coverage_link_take_layout(&link)) {
		g_autoptr(vms_coverage_functions) none = vms_coverage_functions_new(NULL);
		g_autoptr(vms_coverage_report) report =
			vms_coverage_report_new(&link, vms_coverage_link_blocks(&link), none);
		g_autoptr(GString) out = g_string_new(NULL);
		vms_coverage_report_drcov(report, out);
		vms_coverage_report_lcov(report, out);
	}
	g_aligned_free(link.shared);
	return 0;
}
