/* SPDX-License-Identifier: MIT */
/* What the client of a trace says of an agent that is older, and looks that the agent asks for. */
#include "calls/trace.h"
#include <string.h>
#include <vmscope/error.h>

/* What needs tasks is refused before anything is sent or asked of the guest. */
static void test_no_tasks(void)
{
	static const uint32_t pids[] = { 1 };
	static const struct vms_calls_options cases[] = {
		{ .by = VMS_CALLS_BY_TASK },
		{ .by = VMS_CALLS_BY_VCPU, .pids = pids, .n_pids = G_N_ELEMENTS(pids) },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vms_agent_link link = {
			.stream.fd = -1,
			.hello.features = VMS_AGENT_FEATURES & ~VMS_AGENT_CAN_TRACK_TASKS,
		};
		struct vms_calls_trace trace = { .link = &link, .woken = -1 };
		g_autoptr(GError) error = NULL;
		g_assert_false(vms_calls_trace_start(&trace, NULL, &cases[i], &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
		g_assert_nonnull(strstr(error->message, "cannot tell tasks apart"));
	}
}

/*
 * A vCPU asks for a look while another one is made. It needs one of its own, also if the functions
 * that were sent meanwhile have let the vCPU go on.
 */
static void test_looks(void)
{
	for (unsigned lets_go_on = 0; lets_go_on < 2; lets_go_on++) {
		struct vms_agent_rings shared = { .looks = 1 };
		struct vms_calls_trace trace = { .memory = &shared };
		g_assert_true(vms_calls_trace_wants_look(&trace));
		g_assert_true(vms_calls_trace_begin_look(&trace));
		atomic_store(&shared.looks, 2);
		if (lets_go_on)
			atomic_store(&shared.looked, 2);
		vms_calls_trace_answer_look(&trace);
		g_assert_cmpuint(atomic_load(&shared.looked), ==, 1);
		g_assert_true(vms_calls_trace_wants_look(&trace));
		g_assert_true(vms_calls_trace_begin_look(&trace));
		vms_calls_trace_answer_look(&trace);
		g_assert_cmpuint(atomic_load(&shared.looked), ==, 2);
		g_assert_false(vms_calls_trace_begin_look(&trace));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/calls-trace/no-tasks", test_no_tasks);
	g_test_add_func("/calls-trace/looks", test_looks);
	return g_test_run();
}
