/* SPDX-License-Identifier: MIT */
/*
 * libvmscope exports what a public header declares between VMS_BEGIN_DECLS and VMS_END_DECLS, and
 * nothing else. The library itself is built with hidden symbols.
 */
#pragma once

#include <glib.h>

/* clang-format off */
#define VMS_BEGIN_DECLS G_BEGIN_DECLS _Pragma("GCC visibility push(default)")
#define VMS_END_DECLS _Pragma("GCC visibility pop") G_END_DECLS
/* clang-format on */
