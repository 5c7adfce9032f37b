/* SPDX-License-Identifier: MIT */
/* Formats socket addresses and control messages like strace. The bytes are the guest's. */
#pragma once

#include <glib.h>
#include <stddef.h>

/* Appends a struct sockaddr by its family. */
void syscall_append_socket_address(GString *out, const void *bytes, size_t size);
/*
 * Appends the control messages of a message: [{cmsg_len=20, …}]. `bytes` may be fewer than `size`.
 * `word_size` is that of the program: 8 or 4.
 */
void syscall_append_control(GString *out, const void *bytes, size_t n_bytes, size_t size,
			    unsigned word_size);
