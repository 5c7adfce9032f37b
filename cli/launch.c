/* SPDX-License-Identifier: MIT */
#include "launch.h"

/* The folder into which the build of a vmscope that was not installed has put the agent's objects,
 * newly allocated; NULL if there is none. */
static char *build_folder(void)
{
	g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *directory = g_path_get_dirname(program ? program : "");
	g_autofree char *folder = g_build_filename(directory, "..", "agent", NULL);
	return g_file_test(folder, G_FILE_TEST_IS_DIR) ? g_steal_pointer(&folder) : NULL;
}

struct vms_launch *launch_prepare(char *const *command, enum vms_launch_agent agent, bool paused,
				  GError **error)
{
	g_autofree char *folder = build_folder();
	const struct vms_launch_options options = {
		.size = sizeof(options),
		.agent = agent,
		.paused = paused,
		.agent_folder = folder,
	};
	return vms_launch_new((const char *const *)command, &options, error);
}
