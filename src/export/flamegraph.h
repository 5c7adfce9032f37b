/* SPDX-License-Identifier: MIT */
/*
 * The style sheet and the script of flame graphs. The build makes these strings from their files.
 */
#pragma once

extern const char vms_flamegraph_css[];
extern const char vms_flamegraph_js[];
