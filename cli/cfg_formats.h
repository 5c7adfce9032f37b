/* SPDX-License-Identifier: MIT */
/* Control flow graphs as text, JSON and pictures. */
#pragma once

#include "session.h"

/* Appends a graph as text: every block with its instructions and edges. */
void cfg_text(struct session *session, const struct vms_cfg *cfg);
/* Appends a graph in the language of Graphviz. */
void cfg_dot(struct session *session, const struct vms_cfg *cfg);
/* Appends a graph as SVG, laid out by Graphviz's dot. Errors: NOT_FOUND (no dot), IO. */
bool cfg_svg(struct session *session, const struct vms_cfg *cfg, GError **error);
/* Appends a graph as a JSON object. */
void cfg_json(struct session *session, const struct vms_cfg *cfg);
