/* SPDX-License-Identifier: MIT */
/* What QEMU's command line tells of its machine (qemu-system(1)). */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a QMP monitor listens: one of three. */
struct vms_cmdline_qmp {
	char *path; /* as QEMU sees it, maybe relative; or NULL */
	char *tcp;  /* HOST:PORT, or NULL */
	int fd;	    /* a listening socket that QEMU was given, or -1 */
};

struct vms_cmdline {
	char *name;	   /* NULL when it has none */
	char *accelerator; /* the first that QEMU is to try */
	unsigned vcpus;
	uint64_t memory; /* bytes */

	GArray *qmp;	     /* struct vms_cmdline_qmp: monitors that a client can connect to */
	GPtrArray *monitors; /* char *: ids of the character devices of monitors that were named */
	char *gdb;	     /* where -gdb or -s has put a stub, or NULL */
	char *agent;	     /* the socket of our agent, as QEMU sees it, or NULL */
};

void vms_cmdline_parse(char **args, struct vms_cmdline *ret);
void vms_cmdline_clear(struct vms_cmdline *cmdline);
