/* SPDX-License-Identifier: MIT */
#include "self_file.h"

void two_lines(void);

struct vms_symbol_file *self_file_open(uint64_t va, struct self_file *ret)
{
	g_autoptr(GError) error = NULL;
	struct vms_symbol_file *file = vms_symbol_file_open("/proc/self/exe", &error);
	const char *source;
	uint64_t in_file;
	g_assert_no_error(error);
	g_assert_true(vms_symbol_file_lookup(file, "two_lines", &in_file));
	vms_symbol_file_set_bias(file, va - in_file);
	ret->base = vms_symbol_file_base(file) + va - in_file;
	g_assert_true(vms_symbol_file_line(file, va, &source, &ret->begin));
	g_assert_true(vms_symbol_file_line(file, va + SELF_FILE_LATER, &source, &ret->later));
	g_assert_cmpuint(ret->begin, <, ret->later);
	return file;
}

/* Whether a function begins with code of its own, the compiler decides. */
#line 1 SELF_FILE_SOURCE
void two_lines(void)
{
	__asm__ volatile("nop");
	__asm__ volatile(".skip 512, 0x90");
}
