/* SPDX-License-Identifier: MIT */
#include "run_coverage.h"
#include "base/outfile.h"
#include "run_job.h"

struct cover {
	struct coverage_job job;
	struct vms_outfile *file;
};

static bool resume_machine(void *data, GError **error)
{
	return run_job_let_go(data, error);
}

static bool cover_guest(struct run_job *run, struct session *session, GError **error)
{
	struct cover *cover = run->data;
	if (!coverage_job_run(&cover->job, session, error) ||
	    !vms_outfile_write(cover->file, session->out->str, session->out->len, error) ||
	    !vms_outfile_commit(cover->file, error))
		return false;
	g_string_truncate(session->out, 0);
	return true;
}

bool cover_new_qemu(struct session *session, const struct coverage_words *words, const char *path,
		    GError **error)
{
	g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
	if (!file)
		return false;
	struct run_job run = { .run = cover_guest, .option = "--coverage", .name = "coverage" };
	struct cover cover = {
		.job = { .words = words, .started = resume_machine, .data = &run },
		.file = file,
	};
	run.data = &cover;
	return run_job(&run, session, error);
}
