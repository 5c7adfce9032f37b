/* SPDX-License-Identifier: MIT */
/*
 * A buffer of fixed size for the sample records of one CPU. A record that does not fit is dropped
 * and counted. One thread may put records while another one drains them.
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

/* Memory is only allocated when it is used. Errors: IO (no memory). */
bool vms_sample_buffer_init(struct vms_sample_buffer *buffer, uint64_t size, GError **error);
void vms_sample_buffer_clear(struct vms_sample_buffer *buffer);
/* Puts a record. False if there is no room: then the record is counted as lost. */
bool vms_sample_buffer_put(struct vms_sample_buffer *buffer, const void *record, uint64_t size);
/* Moves all records to the end of `out`, in order. */
void vms_sample_buffer_drain(struct vms_sample_buffer *buffer, GByteArray *out);
