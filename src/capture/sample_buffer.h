/* SPDX-License-Identifier: MIT */
/*
 * The samples of one CPU until somebody reads them: whole records, up to a number of bytes. It is
 * filled where samples are taken. A record that finds no room is dropped and counted. One thread
 * may put while another one drains.
 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vms_sample_buffer {
	uint8_t *data;
	uint64_t size;		  /* bytes */
	_Atomic uint64_t written; /* bytes that were ever put */
	_Atomic uint64_t read;	  /* bytes that were ever drained */
	_Atomic uint64_t kept;	  /* records that were put */
	_Atomic uint64_t lost;	  /* records that were dropped */
};

/* Memory is taken as it is used. Errors: IO (no memory). */
bool vms_sample_buffer_init(struct vms_sample_buffer *buffer, uint64_t size, GError **error);
void vms_sample_buffer_clear(struct vms_sample_buffer *buffer);
/* Puts a record. False if there is no room: then it is counted as lost. */
bool vms_sample_buffer_put(struct vms_sample_buffer *buffer, const void *record, uint64_t size);
/* Takes all records that were put until now, and appends them to `out`, in their order. */
void vms_sample_buffer_drain(struct vms_sample_buffer *buffer, GByteArray *out);
