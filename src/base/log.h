/* SPDX-License-Identifier: MIT */
#pragma once

#include <vmscope/log.h>

/* Returns up to which level messages are wanted: warnings if there is no handler. For any thread.
 */
enum vms_log_level vms_log_get_level(void);
