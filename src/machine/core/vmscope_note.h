/* SPDX-License-Identifier: MIT */
/*
 * A note of our own in core files that we write, for what no other note has a place for: the first
 * of all, but in VirtualBox's layout, which begins with VirtualBox's own. Lines of text
 * "key=value", in this order:
 *   writer=vmscope 0.1.0
 *   time=2026-11-20T14:03:54Z  when the machine was held
 *   machine=NAME, description=…, engine=…
 *   held_ms=12.345             how long the guest was held
 *   devices=ran on …           if only the vCPUs were held
 *   converted=2026-11-21…      when it was made of another file; what was noted there of the
 *                              machine stays
 *   range=PA SIZE ram|rom|mmio NAME
 *                              one per range, hexadecimal without 0x, sorted
 *   registers=VCPU NAME=VALUE …
 *                              hexadecimal; those that the notes of others lack
 *   unknown=VCPU NAME …        registers that the notes of others show, though nobody knew them
 *   unreadable=PA SIZE         memory that could not be read: zeros in the file
 * Readers skip keys that they do not know. Its type is none that others use for "CORE" notes, which
 * crash tells by their type alone.
 */
#pragma once

#define VMS_NOTE_OWNER "VMSCOPE"
#define VMS_NOTE_TYPE  0x564d5301
