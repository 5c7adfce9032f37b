/* SPDX-License-Identifier: MIT */
/* Replaces flow_script.c in a build without Lua: flow_script_load fails. */
#include "flow_script.h"

char *flow_script_explain(void)
{
	return NULL;
}

struct flow_script *flow_script_load(struct session *session, const char *path, GString *out,
				     GError **error)
{
	(void)session, (void)out;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "cannot run %s: this vmscope was built without Lua 5.4", path);
	return NULL;
}

void flow_script_begin(struct flow_script *script, uint64_t begin_ns)
{
	(void)script, (void)begin_ns;
}

bool flow_script_hit(struct flow_script *script, const struct vms_flow_record *record, GString *out,
		     GError **error)
{
	(void)script, (void)record, (void)out, (void)error;
	return false;
}

bool flow_script_finish(struct flow_script *script, GString *out, GError **error)
{
	(void)script, (void)out, (void)error;
	return false;
}

void flow_script_free(struct flow_script *script)
{
	(void)script;
}
