/* SPDX-License-Identifier: MIT */
#include "export/export-private.h"
void vms_export_flamegraph(const struct vms_profile *profile, GString *out)
{
	g_string_append(out, vms_profile_title(profile));
}
