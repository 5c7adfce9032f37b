/* SPDX-License-Identifier: MIT */
/*
 * The note of vmscope in core files, for facts that no other note has a place for. It is the first
 * note, except in VirtualBox's layout, whose first note must be VirtualBox's own. It has lines of
 * text "key=value", in this order:
 *   writer=vmscope 0.1.0
 *   time=2026-11-20T14:03:54Z  when the machine was held
 *   machine=NAME, description=…, engine=…
 *   held_ms=12.345             how long the guest was held
 *   devices=ran on …           if only the vCPUs were held
 *   converted=2026-11-21…      when this file was made from another one; the lines about the
 *                              machine are copied from that file
 *   range=PA SIZE ram|rom|mmio NAME
 *                              one per range, hexadecimal without 0x, sorted
 *   registers=VCPU NAME=VALUE …
 *                              hexadecimal; registers that the other notes lack
 *   unknown=VCPU NAME …        registers that the other notes show, although they were not known
 *   unreadable=PA SIZE         memory that could not be read: zeros in the file
 * Readers skip keys that they do not know. The type differs from those of "CORE" notes, because
 * crash checks only the type of a note.
 */
#pragma once

#define VMS_NOTE_OWNER "VMSCOPE"
#define VMS_NOTE_TYPE  0x564d5301
