/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the client share: rows of requests, which are sent before the first answer is
 * received, so that a row costs one round trip.
 */
#pragma once

#include "machine/gdb/gdb.h"

/* The longest request, in bytes: it names a document of the target description. */
#define VMS_GDB_REQUEST_MAX 160
/* How many bytes of requests to send before any answer. Every socket takes so many at once. */
#define VMS_GDB_ROW_MAX	  2048
#define VMS_GDB_INTERRUPT '\003'
/* The number of a stop reply: a breakpoint or a step has stopped the machine. */
#define VMS_GDB_SIGTRAP 5

/* Begins a row: the bytes that precede it. The caller frees it. */
GString *vms_gdb_begin_row(const struct vms_gdb *gdb);
void vms_gdb_append_packet(GString *row, const char *payload);
/* Appends a command of the stub's monitor. vms_gdb_receive_text receives its answer. */
void vms_gdb_append_command(GString *row, const char *command);
/* Appends the requests for the registers of a vCPU. vms_gdb_receive_vcpu receives the answers. */
void vms_gdb_append_vcpu(const struct vms_gdb *gdb, unsigned vcpu, GString *row);
/* Prints the request by which those that follow are about this vCPU. */
void vms_gdb_print_selection(const struct vms_gdb *gdb, unsigned vcpu,
			     char request[VMS_GDB_REQUEST_MAX]);
/*
 * Sends a row, and changes it. The acknowledgement of the last packet goes before it: a message of
 * its own would wake the stub once more.
 */
bool vms_gdb_send_row(struct vms_gdb *gdb, GString *row, uint64_t deadline_ns, GError **error);

/* Sends one byte, which is no packet. */
bool vms_gdb_send_byte(struct vms_gdb *gdb, char byte, uint64_t deadline_ns, GError **error);
/* Sends a row of one packet. */
bool vms_gdb_send_packet(struct vms_gdb *gdb, const char *payload, uint64_t deadline_ns,
			 GError **error);
/* Receives one byte, which may be of a packet. */
bool vms_gdb_receive_byte(struct vms_gdb *gdb, uint64_t deadline_ns, uint8_t *ret, GError **error);

/*
 * Receives the next packet into `payload`. It is acknowledged later. When the stub asks for it,
 * `request` is sent again, unless that is NULL.
 */
bool vms_gdb_receive_packet(struct vms_gdb *gdb, const char *request, uint64_t deadline_ns,
			    GError **error);
/* Receives the next answer. Before it, the stub may say that the request has stopped the machine.
 */
bool vms_gdb_receive_answer(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error);
/* Receives what the monitor answers: see vms_gdb_monitor. */
char *vms_gdb_receive_text(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error);
/*
 * Receives the answers to vms_gdb_append_vcpu. If the stub refused to select the vCPU, which has
 * been unplugged then, the other answers are of another vCPU: the registers stay unknown.
 */
bool vms_gdb_receive_vcpu(struct vms_gdb *gdb, uint64_t deadline_ns, struct vms_regs *ret,
			  GError **error);
/* Parses `size` bytes in hexadecimal as a little-endian number, cut to 64 bits. False for "xx". */
bool vms_gdb_parse_register(const char *hex, unsigned size, uint64_t *ret);
/* True if the payload is a stop reply, whose signal is noted. */
bool vms_gdb_note_stop(struct vms_gdb *gdb);
/* True if the payload says that the machine has exited. */
bool vms_gdb_is_exit(struct vms_gdb *gdb);
/* True if the last answer is "OK". */
bool vms_gdb_is_ok(const struct vms_gdb *gdb);

/* Fails if the connection cannot be used any more. */
bool vms_gdb_check_open(struct vms_gdb *gdb, GError **error);
/* Sets an error, and notes that the connection cannot be used any more. Returns false. */
bool vms_gdb_fail_connection(struct vms_gdb *gdb, const char *what, GError **error);
