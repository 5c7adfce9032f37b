/* SPDX-License-Identifier: MIT */
#pragma once

#include "machine/qemu/qemu.h"

/*
 * Removes what vmscope's processes that died together with their watchdogs have left in this QEMU,
 * and lets a machine go on that they held.
 */
void vms_qemu_recover(struct vms_qemu *qemu);
