/* SPDX-License-Identifier: MIT */
#pragma once

#include "machine/qemu/qemu.h"

/*
 * Removes what processes of vmscope have left in this QEMU that died together with their watchdogs.
 * Releases the machine if they held it.
 */
void vms_qemu_recover(struct vms_qemu *qemu);
