/* SPDX-License-Identifier: MIT */
/* What a peer has sent to the watchdog's process. There is one buffer, for one peer at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What a stub says of a stop that a request has caused. */
#define VMS_PEER_TOLD_STOP "$T02"

bool vms_peer_send(int fd, const char *text);
/*
 * Receives what the peer has sent. With `peek` it also stays in the socket, for a holder that may
 * go on later, so the next call receives it again. False if the connection broke.
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
