/* SPDX-License-Identifier: MIT */
/* When the stop of a vCPU's thread is polled for: on this processor it cannot come meanwhile. */
#include "machine/kvm/stop_poll.h"
#include <glib.h>

#define US UINT64_C(1000)

/* Polls for one stop that never comes: for how long, in us, and how often it looked. */
static unsigned poll_for_stop(struct vms_kvm_poll *poll, bool is_near, unsigned *looks)
{
	unsigned us = 0;
	*looks = 0;
	vms_kvm_poll_begin(poll);
	for (;; us++) {
		if (vms_kvm_poll_wants_look(poll, us * US)) {
			++*looks;
			vms_kvm_poll_note(poll, is_near);
		}
		if (!vms_kvm_poll_goes_on(poll, us * US))
			return us;
		g_assert_cmpuint(us, <, 1000);
	}
}

/* A thread on another processor: looked for once a stop, and polled for to the end. */
static void test_far(void)
{
	struct vms_kvm_poll poll = { 0 };
	unsigned looks;
	for (unsigned i = 0; i < 40; i++) {
		g_assert_cmpuint(poll_for_stop(&poll, false, &looks), ==, 100);
		g_assert_cmpuint(looks, ==, 1);
	}
}

/* One on this processor: given way to as soon as that is known, and at once for some stops. */
static void test_near(void)
{
	struct vms_kvm_poll poll = { 0 };
	unsigned looks;
	for (unsigned round = 0; round < 3; round++) {
		g_assert_cmpuint(poll_for_stop(&poll, true, &looks), ==, 31);
		g_assert_cmpuint(looks, ==, 1);
		for (unsigned i = 1; i < 16; i++) {
			g_assert_cmpuint(poll_for_stop(&poll, true, &looks), ==, 0);
			g_assert_cmpuint(looks, ==, 0);
		}
	}
	/* It has moved to another one meanwhile. */
	g_assert_cmpuint(poll_for_stop(&poll, false, &looks), ==, 100);
	g_assert_cmpuint(poll_for_stop(&poll, false, &looks), ==, 100);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/kvm-poll/far", test_far);
	g_test_add_func("/kvm-poll/near", test_near);
	return g_test_run();
}
