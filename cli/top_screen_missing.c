/* SPDX-License-Identifier: MIT */
#include "top_screen.h"

bool top_screen_show(struct top_rounds *rounds G_GNUC_UNUSED, struct top_view view G_GNUC_UNUSED,
		     struct vms_budget *budget G_GNUC_UNUSED, GError **error)
{
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "this vmscope was built without ncurses: --once prints a table");
	return false;
}
