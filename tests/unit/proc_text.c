/* SPDX-License-Identifier: MIT */
/* Lines of /proc, as kernels write them, and as they never do. */
#include "base/proc_text.h"
#include <glib.h>
#include <sys/sysmacros.h>

static void test_mapping(void)
{
	static const char *const wrong[] = {
		"",
		"\n",
		"7f63e7e00000-7f6427e00000",
		"7f63e7e00000 rw-s 00000000 00:1a 1034",
		"7f6427e00000-7f63e7e00000 rw-s 00000000 00:1a 1034",
		"1000-1000 rw-s 00000000 00:1a 1034",
		"1000-2000 rw 00000000 00:1a 1034",
		"1000-2000 rw-s 00000000 1a 1034",
		"1000-2000 rw-s 00000000 00:1a x",
	};
	struct vms_proc_mapping mapping;
	g_assert_true(vms_proc_parse_mapping("7f63e7e00000-7f6427e00000 rw-s 00200000 fd:1a 1034"
					     "                       /dev/shm/x y\n",
					     &mapping));
	g_assert_cmphex(mapping.start, ==, 0x7f63e7e00000);
	g_assert_cmphex(mapping.end, ==, 0x7f6427e00000);
	g_assert_cmphex(mapping.file_offset, ==, 0x200000);
	g_assert_cmphex(mapping.device, ==, makedev(0xfd, 0x1a));
	g_assert_cmpuint(mapping.inode, ==, 1034);
	g_assert_true(mapping.is_shared);
	g_assert_true(mapping.is_readable);
	g_assert_cmpstr(mapping.name, ==, "/dev/shm/x y\n");
	g_assert_true(vms_proc_parse_mapping(
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", &mapping));
	g_assert_cmphex(mapping.end, ==, 0xffffffffff601000);
	g_assert_false(mapping.is_shared);
	g_assert_false(mapping.is_readable);
	g_assert_true(vms_proc_parse_mapping("1000-2000 rw-p 00000000 00:00 0", &mapping));
	g_assert_cmpstr(mapping.name, ==, "");
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
		g_assert_false(vms_proc_parse_mapping(wrong[i], &mapping));
}

static bool parse_unix(const char *text, struct vms_proc_unix *ret, char line[256])
{
	g_strlcpy(line, text, 256);
	return vms_proc_parse_unix(line, ret);
}

static void test_unix(void)
{
	static const char *const wrong[] = {
		"",
		"Num       RefCount Protocol Flags    Type St Inode Path\n",
		"ffff8f0000000000: 00000002 00000000 00000000 0002 01 12345\n",
		"ffff8f0000000000: 00000002 00000000 00010000 0001 01\n",
	};
	struct vms_proc_unix entry;
	char line[256];
	g_assert_true(parse_unix("ffff8f0000000000: 00000002 00000000 00010000 0001 01 12345"
				 " /run/vm 1.qmp\n",
				 &entry, line));
	g_assert_cmpuint(entry.inode, ==, 12345);
	g_assert_cmpstr(entry.path, ==, "/run/vm 1.qmp");
	g_assert_false(entry.is_connected);
	g_assert_true(parse_unix("0000000000000000: 00000003 00000000 00000000 0001 03 678 @x",
				 &entry, line));
	g_assert_cmpstr(entry.path, ==, "@x");
	g_assert_true(entry.is_connected);
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
		g_assert_false(parse_unix(wrong[i], &entry, line));
}

static void test_tcp(void)
{
	static const char *const wrong[] = {
		"",
		("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
		 "  timeout inode\n"),
		"   0: 0100007F:115C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0",
	};
	struct vms_proc_tcp entry;
	g_assert_true(vms_proc_parse_tcp("   1: 0100007F:115C 0100007F:D9A6 01 00000000:00000000 "
					 "00:00000000 00000000  1000        0 98765 1 0000\n",
					 &entry));
	g_assert_cmpstr(entry.local, ==, "0100007F:115C");
	g_assert_cmpstr(entry.remote, ==, "0100007F:D9A6");
	g_assert_cmpuint(entry.inode, ==, 98765);
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
		g_assert_false(vms_proc_parse_tcp(wrong[i], &entry));
}

static void test_field(void)
{
	const char *stat = "7 (a) R (b) S 1 22 333";
	g_assert_cmpstr(vms_proc_find_field(stat, 3), ==, "S 1 22 333");
	g_assert_cmpstr(vms_proc_find_field(stat, 6), ==, "333");
	g_assert_null(vms_proc_find_field(stat, 7));
	g_assert_null(vms_proc_find_field("", 3));
	g_assert_null(vms_proc_find_field("7 (a)", 3));
}

static void test_turns(void)
{
	g_assert_cmpuint(vms_proc_parse_turns("6423197 12037 481\n"), ==, 481);
	g_assert_cmpuint(vms_proc_parse_turns("18446744073709551615 0 18446744073709551615\n"), ==,
			 UINT64_MAX);
	g_assert_cmpuint(vms_proc_parse_turns("0 0 0\n"), ==, 0);
	g_assert_cmpuint(vms_proc_parse_turns("6423197 12037\n"), ==, 0);
	g_assert_cmpuint(vms_proc_parse_turns("6423197"), ==, 0);
	g_assert_cmpuint(vms_proc_parse_turns(""), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/proc-text/mapping", test_mapping);
	g_test_add_func("/proc-text/unix", test_unix);
	g_test_add_func("/proc-text/tcp", test_tcp);
	g_test_add_func("/proc-text/field", test_field);
	g_test_add_func("/proc-text/turns", test_turns);
	return g_test_run();
}
