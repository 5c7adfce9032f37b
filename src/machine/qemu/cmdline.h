/* SPDX-License-Identifier: MIT */
/* What QEMU's command line tells of its machine (qemu-system(1)). */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a QMP monitor listens. One of the three members is set. */
struct vms_cmdline_qmp {
	char *path; /* as QEMU sees it, maybe relative; or NULL */
	char *tcp;  /* HOST:PORT, or NULL */
	int fd;	    /* a listening socket that QEMU was given, or -1 */
};

struct vms_cmdline {
	char *name;	   /* NULL when it has none */
	char *uuid;	   /* the same */
	char *accelerator; /* the first one that QEMU tries */
	unsigned vcpus;
	uint64_t memory; /* bytes */

	GArray *qmp;	     /* struct vms_cmdline_qmp: monitors that a client can connect to */
	GPtrArray *monitors; /* char *: ids of character devices that monitors use */
	char *gdb;	     /* address of the stub that -gdb or -s adds, or NULL */
	char *agent;	     /* path of the agent's socket, as QEMU sees it, or NULL */
};

void vms_cmdline_parse(char **args, struct vms_cmdline *ret);
void vms_cmdline_clear(struct vms_cmdline *cmdline);
