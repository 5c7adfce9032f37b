/* SPDX-License-Identifier: MIT */
/* A job beside a QEMU that this command starts, from the guest's first instruction on. */
#pragma once

#include "session.h"

struct run_job {
	/*
	 * Runs the job on the session's guest until its end. Calls run_job_let_go as soon as the
	 * machine may execute its first instruction.
	 */
	bool (*run)(struct run_job *job, struct session *session, GError **error);
	void *data;	    /* for `run` */
	const char *option; /* that asked for the job, for messages: "--calls" */
	const char *name;   /* of the job, for messages: "trace" */
	/* Set by run_job: */
	struct vms_launch *launch;
	bool has_let_go; /* the machine may run */
};

/* Lets the machine execute its first instruction. */
bool run_job_let_go(struct run_job *job, GError **error);
/* Starts the session's command with the agent in it, and runs the job until QEMU has ended. */
bool run_job(struct run_job *job, struct session *session, GError **error);
