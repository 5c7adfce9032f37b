/* SPDX-License-Identifier: MIT */
/* Sampler sessions: what they refuse, and that nothing is changed by it. */
#include <string.h>
#include <unistd.h>
#include <vmscope/sampler.h>

static const struct vms_sample_specification usual = { .period = 1000000 };

static struct vms_sampler *make(const struct vms_sample_specification *specifications, size_t n,
				GError **error)
{
	const struct vms_sampler_options options = { .size = sizeof(options),
						     .specifications = specifications,
						     .n_specifications = n,
						     .user_only = true };
	return vms_sampler_new(vms_sampler_engine_host(), &options, error);
}

static void assert_refused(const struct vms_sample_specification *specifications, size_t n,
			   const char *message)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(make(specifications, n, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_assert_nonnull(strstr(error->message, message));
}

static void test_specification(void)
{
	const struct vms_sample_specification two[2] = { usual, usual };
	const struct vms_sample_specification instructions = { VMS_TIMEBASE_INSTRUCTIONS, 1000000,
							       VMS_CALL_GRAPH_FRAME_POINTERS };
	const struct vms_sample_specification dwarf = { VMS_TIMEBASE_NANOSECONDS, 1000000,
							VMS_CALL_GRAPH_DWARF };
	const struct vms_sample_specification quick = { .period = VMS_SAMPLER_PERIOD_MIN_NS - 1 };
	const struct vms_sample_specification limit = { .period = VMS_SAMPLER_PERIOD_MIN_NS };
	assert_refused(NULL, 0, "exactly one");
	assert_refused(NULL, 1, "exactly one");
	assert_refused(two, 2, "exactly one");
	assert_refused(&instructions, 1, "nanoseconds"); /* of a host */
	assert_refused(&dwarf, 1, "frame pointers");
	assert_refused(&quick, 1, "10 us");
	g_autoptr(vms_sampler) sampler = make(&limit, 1, NULL);
	g_assert_nonnull(sampler);
}

/* Threads wait in the kernel, which `user_only` leaves out. */
static void test_wall(void)
{
	g_autoptr(GError) error = NULL;
	const struct vms_sampler_options options = { .size = sizeof(options),
						     .specifications = &usual,
						     .n_specifications = 1,
						     .user_only = true,
						     .wall = true };
	g_assert_null(vms_sampler_new(vms_sampler_engine_host(), &options, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
}

static void assert_state(struct vms_sampler *sampler, enum vms_sampler_state state)
{
	g_assert_cmpint(vms_sampler_state(sampler), ==, state);
}

static void test_states(void)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autoptr(vms_sampler) sampler = make(&usual, 1, NULL);
	const struct vms_sampler_target self = { .kind = VMS_SAMPLER_PROCESS, .id = getpid() };
	g_assert_false(vms_sampler_stop(sampler, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_false(vms_sampler_start(sampler, NULL)); /* it has no target */
	assert_state(sampler, VMS_SAMPLER_READY);
	g_assert_true(vms_sampler_add(sampler, &self, NULL));
	g_clear_error(&error);
	if (!vms_sampler_start(sampler, &error)) {
		g_test_skip(error->message);
		return;
	}
	g_assert_false(vms_sampler_start(sampler, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	assert_state(sampler, VMS_SAMPLER_RUNNING);
	g_assert_false(vms_sampler_wait(sampler, 0)); /* this process has not ended */
	g_assert_true(vms_sampler_stop(sampler, NULL));
	g_assert_false(vms_sampler_stop(sampler, NULL));
	g_assert_false(vms_sampler_start(sampler, NULL));
	g_assert_false(vms_sampler_add(sampler, &self, NULL));
	assert_state(sampler, VMS_SAMPLER_STOPPED);
	vms_sampler_read(sampler, bytes);
	g_assert_cmpmem(bytes->data, 8, "\x10\0\4FxT\x16\0", 8);
}

/* A process that is added while the session runs is sampled; one that does not exist is told. */
static void test_add(void)
{
	const char *const loop[] = { "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done",
				     NULL };
	const struct vms_sampler_target self = { .kind = VMS_SAMPLER_THREAD, .id = getpid() };
	const struct vms_sampler_target command = { .kind = VMS_SAMPLER_COMMAND, .command = loop };
	const struct vms_sampler_target nobody = { .kind = VMS_SAMPLER_PROCESS, .id = G_MAXINT };
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_sampler) sampler = make(&usual, 1, NULL);
	struct vms_sampler_stats stats;
	g_assert_false(vms_sampler_add(sampler, &nobody, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_assert_true(vms_sampler_add(sampler, &self, NULL));
	if (!vms_sampler_start(sampler, NULL)) {
		g_test_skip("no perf events");
		return;
	}
	g_assert_true(vms_sampler_add(sampler, &command, NULL));
	while (vms_sampler_command_status(sampler) < 0)
		g_usleep(1000);
	g_assert_true(vms_sampler_stop(sampler, NULL));
	vms_sampler_get_stats(sampler, &stats);
	g_assert_cmpuint(stats.collected, >, 5);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/sampler/specification", test_specification);
	g_test_add_func("/sampler/wall", test_wall);
	g_test_add_func("/sampler/states", test_states);
	g_test_add_func("/sampler/add", test_add);
	return g_test_run();
}
