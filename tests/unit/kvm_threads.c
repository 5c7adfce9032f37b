/* SPDX-License-Identifier: MIT */
/* What /proc says of the threads of a KVM monitor. */
#include "machine/kvm/thread_call.h"
#include "machine/kvm/vcpus.h"

#include <sys/syscall.h>

static void check_line(const char *text, enum vms_thread_call expected, int expected_fd)
{
	int fd = -1;
	g_assert_cmpint((int)vms_thread_call_parse(text, &fd), ==, (int)expected);
	g_assert_cmpint(fd, ==, expected_fd);
}

/* Numbers of system calls differ between architectures: the lines are made of those of this one. */
static void check_call(long number, const char *arguments, enum vms_thread_call expected,
		       int expected_fd)
{
	g_autofree char *text =
		g_strdup_printf("%ld %s 0x7ffc0000 0x7f0000001000\n", number, arguments);
	check_line(text, expected, expected_fd);
}

static void test_calls(void)
{
	check_line("running\n", VMS_THREAD_RUNS, -1);
	check_line("-1 0x7ffc0000 0x7f0000001000\n", VMS_THREAD_AWAY, -1);
	check_line("", VMS_THREAD_AWAY, -1);
	check_line("16 0xb\n", VMS_THREAD_AWAY, -1);
	check_line("16 0xb 0xae80 0x0 0x0 0x0 zz 0x1 0x1\n", VMS_THREAD_AWAY, -1);
	check_call(SYS_ioctl, "0xb 0xae80 0x0 0x0 0x0 0x0", VMS_THREAD_IN_GUEST, 11);
	check_call(SYS_ioctl, "0xb 0xae81 0x0 0x0 0x0 0x0", VMS_THREAD_AWAY, -1);
	check_call(SYS_ioctl, "0xffffffff0000000b 0xae80 0x0 0x0 0x0 0x0", VMS_THREAD_AWAY, -1);
	check_call(SYS_read, "0xb 0xae80 0x0 0x0 0x0 0x0", VMS_THREAD_AWAY, -1);
}

/* A worker of the kernel has no stack, and shows the call of the thread that made it. */
static void test_kernel_worker(void)
{
	g_autofree char *text =
		g_strdup_printf("%d 0xb 0xae80 0x0 0x0 0x0 0x0 0x0 0x0\n", SYS_ioctl);
	check_line(text, VMS_THREAD_AWAY, -1);
}

/* FUTEX_WAIT is 0, _WAKE 1, _WAIT_BITSET 9; 0x80 says that the futex is private. */
static void test_futex(void)
{
	check_call(SYS_futex, "0x7f00 0x80 0x2 0x0 0x0 0xffffffff", VMS_THREAD_WAITS, -1);
	check_call(SYS_futex, "0x7f00 0x189 0x0 0x0 0x0 0xffffffff", VMS_THREAD_WAITS, -1);
	check_call(SYS_futex, "0x7f00 0x80 0x2 0x7ffc 0x0 0x0", VMS_THREAD_AWAY, -1);
	check_call(SYS_futex, "0x7f00 0x81 0x1 0x0 0x0 0x0", VMS_THREAD_AWAY, -1);
	check_call(SYS_nanosleep, "0x7f00 0x0 0x0 0x0 0x0 0x0", VMS_THREAD_AWAY, -1);
	g_assert_true(vms_thread_waits_without_limit(SYS_futex, 0x189, 0));
	g_assert_false(vms_thread_waits_without_limit(SYS_futex, 0x189, 1));
	g_assert_false(vms_thread_waits_without_limit(UINT64_MAX, 0, 0));
}

static void check_description(const char *text, const char *expected)
{
	g_autofree char *described = vms_thread_call_describe(text);
	g_assert_cmpstr(described, ==, expected);
}

static void test_descriptions(void)
{
	g_autofree char *asleep =
		g_strdup_printf("%d 0x0 0x0 0x7f00 0x0 0x0 0x0 0x1 0x1\n", SYS_clock_nanosleep);
	check_description(asleep, "clock_nanosleep(2)");
	check_description("9999 0x0", "system call 9999");
	check_description("running\n", "its own code");
	check_description("-1 0x7ffc0000 0x7f0000001000\n", "its own code");
	check_description("", "its own code");
}

static void test_names(void)
{
	static const struct {
		const char *name;
		int number;
	} names[] = {
		{ "CPU 0/KVM\n", 0 },
		{ "CPU 17/KVM", 17 },
		{ "fc_vcpu 3", 3 },
		{ "vcpu2", 2 },
		{ "vcpu 2", 2 },
		{ "crosvm_vcpu12", 12 },
		{ "kvm-vcpu-1", 1 },
		{ "vcpu", -1 },
		{ "qemu-system-x86", -1 },
		{ "kvm-nx-lpage-re", -1 },
		{ "", -1 },
		{ "CPU /KVM", -1 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
		g_assert_cmpint(vms_kvm_parse_thread_name(names[i].name), ==, names[i].number);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/kvm-threads/calls", test_calls);
	g_test_add_func("/kvm-threads/kernel-worker", test_kernel_worker);
	g_test_add_func("/kvm-threads/futex", test_futex);
	g_test_add_func("/kvm-threads/descriptions", test_descriptions);
	g_test_add_func("/kvm-threads/names", test_names);
	return g_test_run();
}
