/* SPDX-License-Identifier: MIT */
/* What QEMU's command line tells of its machine (qemu-system(1)). */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct vms_cmdline {
	char *name;	   /* NULL when it has none */
	char *accelerator; /* the first that QEMU is to try */
	unsigned vcpus;
	uint64_t memory; /* bytes */

	/* The first QMP monitor that a client can connect to; all NULL and -1 without one. */
	char *qmp_path; /* as QEMU sees it, maybe relative */
	char *qmp_tcp;	/* HOST:PORT */
	int qmp_fd;	/* a listening socket that QEMU was given */
	char *gdb;	/* where -gdb or -s has put a stub, or NULL */
};

void vms_cmdline_parse(char **args, struct vms_cmdline *ret);
void vms_cmdline_clear(struct vms_cmdline *cmdline);
