/* SPDX-License-Identifier: MIT */
/* What a peer of the watchdog's process has sent last: it has room for one peer's at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What a stub says of a stop that a request has caused. */
#define VMS_PEER_TOLD_STOP "$T02"

bool vms_peer_send(int fd, const char *text);
/*
 * Receives what the peer has sent. With `peek`, it stays in the socket for the holder, which may go
 * on some time; then what was received before is received once more. False if the connection broke.
 */
bool vms_peer_receive(int fd, bool peek);
/* Forgets what was received. */
void vms_peer_forget(void);
/* How many bytes were received. */
size_t vms_peer_size(void);
/* The end of what was received. */
const char *vms_peer_end(void);
/* Where `text` is among what was received, or NULL. */
const char *vms_peer_find(const char *text);
/* The last place before `end` where `text` was received, or NULL. */
const char *vms_peer_find_last(const char *text, const char *end);
/* How often `text` was received. */
unsigned vms_peer_count(const char *text);

enum vms_peer_answer { VMS_PEER_ANSWERED, VMS_PEER_SILENT, VMS_PEER_CLOSED };

/* Waits until the peer has sent `mark`. */
enum vms_peer_answer vms_peer_wait(int fd, const char *mark, bool peek, int wait_ms);
