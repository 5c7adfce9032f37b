/* SPDX-License-Identifier: MIT */
/* Control flow graphs as text, JSON and pictures. */
#pragma once

#include "cfg_counts.h"

/* All of them: `counts` may be NULL, then nothing was counted. */

/* Appends a graph as text: every block with its instructions and edges. */
void cfg_text(struct session *session, const struct vms_cfg *cfg, const struct cfg_counts *counts);
/* Appends a graph in the language of Graphviz. */
void cfg_dot(struct session *session, const struct vms_cfg *cfg, const struct cfg_counts *counts);
/* Appends a graph as SVG, laid out by Graphviz's dot. Errors: NOT_FOUND (no dot), IO. */
bool cfg_svg(struct session *session, const struct vms_cfg *cfg, const struct cfg_counts *counts,
	     GError **error);
/* Appends a graph as a JSON object. */
void cfg_json(struct session *session, const struct vms_cfg *cfg, const struct cfg_counts *counts);
