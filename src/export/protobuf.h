/* SPDX-License-Identifier: MIT */
/*
 * Encodes Protocol Buffers. A message is a string to which fields are appended. A field that is 0
 * or
 * "" is left out, because this means the same in proto3.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

void vms_protobuf_append_number(GString *out, unsigned field, uint64_t number);
/* Appends a number even if it is 0: for fields of proto2 and of a oneof. */
void vms_protobuf_append_any_number(GString *out, unsigned field, uint64_t number);
/* Appends a string. NULL is the empty string. */
void vms_protobuf_append_text(GString *out, unsigned field, const char *text);
/* Appends a message, even if it is empty. */
void vms_protobuf_append_message(GString *out, unsigned field, const GString *message);
/* Appends a repeated number in packed form. */
void vms_protobuf_append_packed(GString *out, unsigned field, const uint64_t *numbers, size_t n);
