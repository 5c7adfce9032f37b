/* SPDX-License-Identifier: MIT */
/*
 * Hashes for tables whose keys somebody else chose. With a public hash function, such as
 * g_str_hash, keys can be chosen that all collide, and a table of n keys then costs n^2. These
 * depend on a secret number, which is made once per process.
 *
 * For GLib's tables, in place of g_str_hash, g_int64_hash and g_direct_hash.
 */
#pragma once

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

/* Returns SipHash-1-3 of a block of bytes (Aumasson, Bernstein: "SipHash", 2012). */
uint64_t vms_keyed_hash(const void *bytes, size_t size);
/* Returns the hash of one number; as good, and quicker. */
uint64_t vms_keyed_hash_u64(uint64_t number);

/* A GHashFunc of a NUL-terminated text. */
guint vms_hash_text(gconstpointer text);
/* A GHashFunc of a pointer to an integer of 64 bits. */
guint vms_hash_int64(gconstpointer number);
/* A GHashFunc of keys that are themselves numbers (GUINT_TO_POINTER). */
guint vms_hash_direct(gconstpointer number);
