/* SPDX-License-Identifier: MIT */
/* What a build with -Db_pch=true compiles once for each program or library, in front of all its
 * files. */
#include <glib.h>
