/* SPDX-License-Identifier: MIT */
/*
 * Scripts in Lua that are called for the records of a flow. They run in vmscope's own thread, after
 * the hit: the vCPU has gone on, and the memory that they read is what is there now.
 */
#pragma once

#include "session.h"

typedef struct flow_script flow_script;

/* Help on what a script can do, newly allocated; NULL if this vmscope was built without Lua. */
char *flow_script_explain(void);
/*
 * Loads and runs a file, which must define a function `hit`. The session's guest, if any, gives
 * symbols and memory. What it prints is appended to `out`. Times are counted from the moment of
 * flow_script_begin. Errors: IO (the file), MALFORMED (the script fails, with its line),
 * UNSUPPORTED (this vmscope was built without Lua).
 */
struct flow_script *flow_script_load(struct session *session, const char *path, GString *out,
				     GError **error);
void flow_script_begin(struct flow_script *script, uint64_t begin_ns);
/* Calls `hit` for a record. Errors: MALFORMED (it fails, or takes too long or too much memory). */
bool flow_script_hit(struct flow_script *script, const struct vms_flow_record *record, GString *out,
		     GError **error);
/* Calls `finish`, if the script has that function. Errors: as above. */
bool flow_script_finish(struct flow_script *script, GString *out, GError **error);
/* NULL is allowed. */
void flow_script_free(struct flow_script *script);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(flow_script, flow_script_free)
