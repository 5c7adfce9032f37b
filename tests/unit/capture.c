/* SPDX-License-Identifier: MIT */
/* Samples of vCPUs whose guest is not understood; those of real guests are tested with QEMU. */
#include "capture/capture.h"
#include "arch/x86_64.h"
#include "fake_machine.h"
#include "guest/guest-private.h"

#define CODE  0x100000
#define STACK 0x8000

struct fixture {
	struct vms_machine *machine;
	struct vms_guest guest;
	struct vms_memory *memory;
	struct vms_sample_record record;
	struct vms_user_copy copy;
};

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->machine = fake_machine_new(&vms_arch_x86_64, 2);
	f->guest = (struct vms_guest) { .machine = f->machine };
	fake_machine_add_ram(f->machine, CODE, 0x1000);
	fake_machine_add_ram(f->machine, STACK, 0x1000);
	struct vms_regs *regs = fake_machine_regs(f->machine, 1);
	vms_regs_set(regs, RIP, CODE + 0x100);
	vms_regs_set(regs, RSP, STACK + 0x100);
	vms_regs_set(regs, RBP, STACK + 0x140);
	vms_regs_set(regs, CS, 0x10);
	fake_machine_write_u64(f->machine, STACK + 0x148, CODE + 0x200);
	f->memory = vms_memory_new(f->machine, fake_machine_regs(f->machine, 0));
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL);
	vms_memory_free(f->memory);
	vms_machine_unref(f->machine);
}

static void capture(struct fixture *f, unsigned depth)
{
	GError *error = NULL;
	g_assert_true(vms_capture_vcpu(f->machine, &f->guest, f->memory, 1, depth, &f->record,
				       &f->copy, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(f->record.vcpu, ==, 1);
	g_assert_cmpuint(f->record.space, ==, VMS_NO_SPACE);
	g_assert_cmpuint(f->record.pid + f->record.tid, ==, 0);
}

static void put_code_before_pc(struct fixture *f, const uint8_t *code, size_t size)
{
	memcpy(fake_machine_at(f->machine, CODE + 0x100 - size), code, size);
}

static void test_running(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	capture(f, 128);
	g_assert_false(f->record.idle);
	g_assert_cmpuint(f->record.stack.n, ==, 2);
	g_assert_cmphex(f->record.stack.frame[0].pc, ==, CODE + 0x100);
	g_assert_cmphex(f->record.stack.frame[1].pc, ==, CODE + 0x200);
	capture(f, 1);
	g_assert_cmpuint(f->record.stack.n, ==, 1);
	g_assert_cmpint(f->record.stack.end, ==, VMS_WALK_DEPTH);
}

static void test_halted(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_code_before_pc(f, (const uint8_t[]) { 0xf4 }, 1);
	capture(f, 128);
	g_assert_true(f->record.idle);
	g_assert_cmpuint(f->record.stack.n, ==, 0);
	g_assert_cmpuint(f->record.stack.n_kernel, ==, 0);
	g_assert_cmpint(f->record.stack.end, ==, VMS_WALK_ROOT);
	g_assert_cmpint(f->record.stack.kernel_end, ==, VMS_WALK_ROOT);
}

/* A vCPU that nobody has started, as one that was plugged in: no code is read. */
static void test_at_reset(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_regs *regs = fake_machine_regs(f->machine, 1);
	vms_regs_set(regs, CR0, 0x60000010);
	vms_regs_set(regs, EFER, 0);
	vms_regs_set(regs, CS, 0xf000);
	vms_regs_set(regs, RIP, 0xfff0);
	capture(f, 128);
	g_assert_true(f->record.idle);
	g_assert_cmpuint(f->record.stack.n, ==, 0);
}

/* User mode cannot halt: what looks like it is part of another instruction. */
static void test_user(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_code_before_pc(f, (const uint8_t[]) { 0xf4 }, 1);
	vms_regs_set(fake_machine_regs(f->machine, 1), CS, 0x33);
	capture(f, 128);
	g_assert_false(f->record.idle);
	g_assert_cmpuint(f->record.stack.n, ==, 2);
	g_assert_cmpuint(f->record.stack.n_kernel, ==, 0);
}

static void test_unreadable_code(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_regs_set(fake_machine_regs(f->machine, 1), RIP, 0xdead0000);
	capture(f, 128);
	g_assert_false(f->record.idle);
	g_assert_cmphex(f->record.stack.frame[0].pc, ==, 0xdead0000);
}

static void test_not_held(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	g_assert_false(vms_capture_vcpu(f->machine, &f->guest, f->memory, 1, 128, &f->record,
					&f->copy, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
}

#define TEST(path, function)                                                                       \
	g_test_add("/capture/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	TEST("running", test_running);
	TEST("halted", test_halted);
	TEST("at-reset", test_at_reset);
	TEST("user", test_user);
	TEST("unreadable-code", test_unreadable_code);
	TEST("not-held", test_not_held);
	return g_test_run();
}
