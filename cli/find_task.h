/* SPDX-License-Identifier: MIT */
#pragma once

#include "session.h"

/*
 * Finds the thread of the guest that has this tid. The machine is held. Errors: NOT_FOUND, those of
 * vms_guest_tasks, and what damage of the list may have hidden the thread.
 */
bool find_task(struct session *session, unsigned tid, struct vms_task *ret, GError **error);
