/* SPDX-License-Identifier: MIT */
#include "launch.h"

/*
 * Returns the build's folder with the agent's objects, newly allocated. Returns NULL if this
 * vmscope does not run from its build folder.
 */
static char *find_build_folder(void)
{
	g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *directory = g_path_get_dirname(program ? program : "");
	g_autofree char *folder = g_build_filename(directory, "..", "agent", NULL);
	return g_file_test(folder, G_FILE_TEST_IS_DIR) ? g_steal_pointer(&folder) : NULL;
}

struct vms_launch *launch_prepare(char *const *command, enum vms_launch_agent agent, bool paused,
				  GError **error)
{
	g_autofree char *folder = find_build_folder();
	const struct vms_launch_options options = {
		.size = sizeof(options),
		.agent = agent,
		.paused = paused,
		.agent_folder = folder,
	};
	return vms_launch_new((const char *const *)command, &options, error);
}
