/* SPDX-License-Identifier: MIT */
/* With commands that are no QEMU: those are in tests/integration/test_run.py. */
#include <vmscope/launch.h>

#include <glib/gstdio.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static const char *const sleeper[] = { "sleep", "1000", NULL };
static char *runtime; /* the folder of all sockets, with a comma, which QEMU takes for an end */

static struct vms_launch *make(const char *const *command, bool paused)
{
	const struct vms_launch_options options = { .size = sizeof(options), .paused = paused };
	g_autoptr(GError) error = NULL;
	struct vms_launch *launch = vms_launch_new(command, &options, &error);
	g_assert_no_error(error);
	return launch;
}

/* How often a command has the word. */
static unsigned count(const struct vms_launch *launch, const char *word)
{
	unsigned n = 0;
	for (char *const *words = vms_launch_command(launch); *words; words++)
		n += strcmp(*words, word) == 0;
	return n;
}

static void test_command(void)
{
	static const char *const command[] = { "env", "qemu-system-x86_64", "-m", "1G", NULL };
	g_autoptr(vms_launch) first = make(command, false);
	g_autoptr(vms_launch) second = make(command, false);
	char *const *words = vms_launch_command(first), *const *others = vms_launch_command(second);
	g_auto(GStrv) parts = g_strsplit(runtime, ",", -1);
	g_autofree char *escaped = g_strjoinv(",,", parts);
	for (size_t i = 0; command[i]; i++)
		g_assert_cmpstr(words[i], ==, command[i]);
	g_assert_cmpuint(count(first, "-qmp"), ==, 4);
	g_assert_cmpuint(count(first, "-plugin"), ==, 0);
	g_assert_false(vms_launch_has_agent(first));
	/* Two QEMUs of one process have sockets of their own. */
	for (; *words; words++, others++) {
		if (g_str_has_prefix(*words, "unix:")) {
			g_assert_true(g_str_has_prefix(*words + strlen("unix:"), escaped));
			g_assert_cmpstr(*words, !=, *others);
		}
	}
}

static void test_paused(void)
{
	static const char *const runs[] = { "qemu-system-x86_64", NULL }, *const waits[] = {
		"qemu-system-x86_64", "-S", NULL
	};
	g_autoptr(vms_launch) free = make(runs, false), held = make(runs, true),
			      own = make(waits, true);
	g_assert_cmpuint(count(free, "-S"), ==, 0);
	g_assert_cmpuint(count(held, "-S"), ==, 1);
	g_assert_cmpuint(count(own, "-S"), ==, 1);
	/* Its user lets it go. */
	g_assert_true(vms_launch_let_go(own, NULL));
	g_assert_false(vms_launch_let_go(held, NULL)); /* nobody listens */
}

static void test_has_option(void)
{
	static const char *const command[] = { "env",	     "-S", "qemu-system-x86_64",
					       "--snapshot", "-m", NULL };
	g_assert_true(vms_launch_has_option(command, "snapshot"));
	g_assert_true(vms_launch_has_option(command, "m"));
	g_assert_false(vms_launch_has_option(command, "S"));
	g_assert_false(vms_launch_has_option(command, "snap"));
}

static void test_order(void)
{
	g_autoptr(vms_launch) launch = make(sleeper, false);
	g_autoptr(GError) early = NULL, again = NULL;
	vms_launch_end(launch); /* nothing to end */
	g_assert_null(vms_launch_open(launch, &early));
	g_assert_error(early, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	g_assert_true(vms_launch_start(launch, NULL));
	pid_t pid = vms_launch_pid(launch);
	g_assert_cmpint(kill(pid, 0), ==, 0);
	g_assert_false(vms_launch_start(launch, &again));
	g_assert_error(again, VMS_ERROR, VMS_ERROR_INVALID_STATE);
	vms_launch_end(launch);
	g_assert_cmpint(kill(pid, 0), ==, -1); /* gone, and nobody has to wait for it */
	g_assert_cmpint(vms_launch_pid(launch), ==, 0);
}

/* A process that has ended, and one that its owner has waited for. */
static void test_ended(void)
{
	static const char *const ends[] = { "true", NULL };
	for (unsigned i = 0; i < 2; i++) {
		g_autoptr(vms_launch) launch = make(ends, false);
		g_autoptr(GError) error = NULL;
		g_assert_true(vms_launch_start(launch, NULL));
		if (i == 1)
			waitpid(vms_launch_pid(launch), NULL, 0);
		g_assert_null(vms_launch_open(launch, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_CLOSED);
		vms_launch_end(launch);
	}
}

static void test_errors(void)
{
	static const char *const missing[] = { "/nowhere/qemu-system-x86_64", NULL };
	struct vms_launch_options options = { .size = sizeof(options),
					      .agent = VMS_LAUNCH_NEED_AGENT,
					      .agent_folder = runtime };
	g_autoptr(vms_launch) launch = make(missing, false);
	g_autoptr(GError) start = NULL, agent = NULL, size = NULL;
	g_assert_false(vms_launch_start(launch, &start));
	g_assert_error(start, VMS_ERROR, VMS_ERROR_IO);
	g_assert_null(vms_launch_new(missing, &options, &agent));
	g_assert_error(agent, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	g_assert_nonnull(strstr(agent->message, runtime));
	options.size = 0;
	g_assert_null(vms_launch_new(missing, &options, &size));
	g_assert_error(size, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
}

/* Root's sockets have one place, which is not the test's. */
static void become_nobody(void)
{
	if (geteuid() == 0)
		g_assert_true(setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
			      setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	become_nobody();
	runtime = g_dir_make_tmp("vmscope,launch-XXXXXX", NULL);
	g_setenv("XDG_RUNTIME_DIR", runtime, TRUE);
	g_unsetenv("VMSCOPE_AGENT_DIR");
	g_test_add_func("/launch/command", test_command);
	g_test_add_func("/launch/paused", test_paused);
	g_test_add_func("/launch/has-option", test_has_option);
	g_test_add_func("/launch/order", test_order);
	g_test_add_func("/launch/ended", test_ended);
	g_test_add_func("/launch/errors", test_errors);
	int status = g_test_run();
	g_autofree char *folder = g_build_filename(runtime, "vmscope", NULL);
	g_rmdir(folder);
	g_rmdir(runtime);
	g_free(runtime);
	return status;
}
