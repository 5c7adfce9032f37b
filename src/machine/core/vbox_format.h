/* SPDX-License-Identifier: MIT */
/*
 * Names and magic numbers of the notes in VirtualBox's core files (its include/VBox/vmm/
 * dbgfcorefmt.h). core_x86_64.c has the registers in them.
 */
#pragma once

#define VMS_VBOX_CORE	   "VBCORE" /* the descriptor: magic, format, its size, version … */
#define VMS_VBOX_CORE_TYPE 0xb00
#define VMS_VBOX_CPU	   "VBCPU"
#define VMS_VBOX_CPU_TYPE  0xb01
#define VMS_VBOX_MAGIC	   0xc01ac0deU
#define VMS_VBOX_FORMAT_5  0x00010005U
#define VMS_VBOX_FORMAT_6  0x00010006U

/* Names in the format of 2010. */
#define VMS_VBOX_OLD_CORE "VBOXCORE"
#define VMS_VBOX_OLD_CPU  "VBOXCPU"
