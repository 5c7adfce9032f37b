/* SPDX-License-Identifier: MIT */
/* Formats control flow graphs as text, JSON and pictures. */
#pragma once

#include "cfg_counts.h"

/* `counts` is NULL if nothing was counted. */

/* Appends a graph as text: every block with its instructions and edges. */
void cfg_append_text(struct session *session, const struct vms_cfg *cfg,
		     const struct cfg_counts *counts);
/* Appends a graph in the language of Graphviz. */
void cfg_append_dot(struct session *session, const struct vms_cfg *cfg,
		    const struct cfg_counts *counts);
/* Appends a graph as SVG, laid out by Graphviz's dot. Errors: NOT_FOUND (no dot), IO. */
bool cfg_append_svg(struct session *session, const struct vms_cfg *cfg,
		    const struct cfg_counts *counts, GError **error);
/* Appends a graph as a JSON object. */
void cfg_append_json(struct session *session, const struct vms_cfg *cfg,
		     const struct cfg_counts *counts);
