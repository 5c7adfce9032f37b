/* SPDX-License-Identifier: MIT */
#include "recording_file.h"
#include "jailed_command.h"
#include <unistd.h>

/* What is shown of a damaged file is not all: the reason is the error then. */
static void note_damage(struct session *session, const struct vms_recording *recording,
			const char *path)
{
	size_t n;
	const struct vms_recording_damage *damages = vms_recording_damages(recording, &n);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	if (session->loss || (n == 0 && stats.is_complete))
		return;
	if (n > 0 && damages->is_costly)
		g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_BUDGET,
			    "%s is not shown whole: it costs more than a recording of its size may "
			    "(%s)%s",
			    path, damages->reason, n > 1 ? "; it is damaged, too" : "");
	else if (n > 0)
		g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "%s is %s at byte %" G_GUINT64_FORMAT " (%s): %" G_GUINT64_FORMAT
			    " bytes of it could not be read%s",
			    path, damages->is_truncated ? "truncated" : "damaged", damages->offset,
			    damages->reason, damages->size, n > 1 ? ", and more behind" : "");
	else
		g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "%s lacks its end: there may have been more samples", path);
	session->status = 1;
}

/* Fails if all samples are lost: then the damage is what a user has to know. */
static bool check_samples(struct session *session, const struct vms_recording *recording,
			  GError **error)
{
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	if (stats.samples > 0 || !session->loss)
		return true;
	g_propagate_prefixed_error(error, g_steal_pointer(&session->loss),
				   "no samples could be read: ");
	return false;
}

struct vms_profile *make_recording_profile(struct session *session, struct vms_recording *recording,
					   const char *path, unsigned flags, bool leaf_first,
					   GError **error)
{
	struct vms_profile *profile = vms_recording_profile(recording, flags, leaf_first, error);
	note_damage(session, recording, path); /* names may cost more than there is */
	return profile;
}

struct vms_recording *open_recording(struct session *session, const char *path, GError **error)
{
	const int fd = jailed_command_open(session, path, error);
	if (fd < 0)
		return NULL;
	g_autoptr(vms_recording) recording =
		vms_recording_load_fd(fd, path, session->jailed ? session->budget : NULL, error);
	close(fd);
	if (!recording)
		return NULL;
	note_damage(session, recording, path);
	return check_samples(session, recording, error) ? g_steal_pointer(&recording) : NULL;
}
