/* SPDX-License-Identifier: MIT */
/*
 * Who called whom in a trace, how often, and how long that took: the records of uftrace's data
 * files, added up. Times of a call that is open at the end of its stream reach to the stream's last
 * record.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/error.h>

/* A function, by the address in the records. */
struct vms_called {
	uint64_t address;
	uint64_t calls, self_ns;
};

/* Calls from one function to another. */
struct vms_call_edge {
	uint32_t caller, callee; /* indices of functions */
	uint64_t calls;
	uint64_t total_ns;    /* with all that was called below */
	uint64_t total_calls; /* the same */
};

typedef struct vms_call_graph {
	GArray *functions;		  /* struct vms_called */
	GArray *edges;			  /* struct vms_call_edge */
	GHashTable *by_address, *by_pair; /* indices + 1 */
	GArray *open;			  /* the calls of the stream that are open */
	uint64_t last_ns;
} vms_call_graph;

struct vms_call_graph *vms_call_graph_new(void);
void vms_call_graph_free(struct vms_call_graph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_call_graph, vms_call_graph_free)

/*
 * Adds the next records of a stream, whole ones. Errors: MALFORMED (what is no record, or more
 * functions than any trace has), UNSUPPORTED (records with arguments).
 */
bool vms_call_graph_add(struct vms_call_graph *graph, struct vms_bytes records, GError **error);
/* Ends a stream: what is open ends, and the next records are another one's. */
void vms_call_graph_end_stream(struct vms_call_graph *graph);
