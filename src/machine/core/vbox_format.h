/* SPDX-License-Identifier: MIT */
/*
 * What notes of VirtualBox's core files are called and begin with (its include/VBox/vmm/
 * dbgfcorefmt.h). Their registers: core_x86_64.c.
 */
#pragma once

#define VMS_VBOX_CORE	   "VBCORE" /* the descriptor: magic, format, its size, version … */
#define VMS_VBOX_CORE_TYPE 0xb00
#define VMS_VBOX_CPU	   "VBCPU"
#define VMS_VBOX_CPU_TYPE  0xb01
#define VMS_VBOX_MAGIC	   0xc01ac0deU
#define VMS_VBOX_FORMAT_5  0x00010005U
#define VMS_VBOX_FORMAT_6  0x00010006U

/* As the format of 2010 may call them. */
#define VMS_VBOX_OLD_CORE "VBOXCORE"
#define VMS_VBOX_OLD_CPU  "VBOXCPU"
