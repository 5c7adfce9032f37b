/* SPDX-License-Identifier: MIT */
/*
 * Scripts in Lua that are called for the records of a flow. They run in vmscope, after the hit: the
 * vCPU already executes other code, and scripts read memory as it is now.
 */
#pragma once

#include "session.h"

typedef struct flow_script flow_script;

/* Returns help on scripts, newly allocated. NULL if this vmscope was built without Lua. */
char *flow_script_explain(void);
/*
 * Loads and runs a file, which must define a function `hit`. Symbols and memory are those of the
 * session's guest, if it has one. Output of the script is appended to `out`. Times are relative to
 * the one of flow_script_begin. Errors: IO (the file), MALFORMED (the script fails, with its line),
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
