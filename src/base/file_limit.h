/* SPDX-License-Identifier: MIT */
/* How many files this process may have open. */
#pragma once

/* Raises the limit as far as the process may by itself (getrlimit(2)). Takes no lock. */
void vms_raise_file_limit(void);
