/* SPDX-License-Identifier: MIT */
#include <vmscope/error.h>

GQuark vms_error_quark(void)
{
	return g_quark_from_static_string("vms-error");
}
