/* SPDX-License-Identifier: MIT */
/*
 * The pages of `report --open`, and their addresses. A page of another site may ask for what is on
 * the loopback interface. So the profile's path has a secret part, only the viewer's own pages may
 * read the answer, and a request that names another host, as after a change of a site's address, is
 * refused.
 *
 * Two addresses lead to the profile:
 *  - that for one use (/open/NUMBER), which the browser is started with. Every user of this host
 *    can read it there. It redirects to the profile in its viewer, and is gone then.
 *  - the profile's in its viewer, with the secret path. It is printed on the user's own terminal,
 *    and works as often as one likes: by hand, in a second browser, through a tunnel. The viewer
 *    is a page of another site and has no cookies of ours, so that the path must be the secret.
 */
#pragma once

#include "base/http_server.h"
#include <vmscope/export.h>

struct viewer;

struct profile_pages {
	const struct viewer *viewer;
	const GString *profile;
	char *host;	     /* "127.0.0.1:PORT" */
	char *path;	     /* of the profile: "/SECRET/profile.json" */
	char *once;	     /* for one use: "/open/NUMBER" */
	char *address;	     /* of the profile in its viewer */
	bool was_opened;     /* the address for one use has been used */
	bool was_used_twice; /* it has been used again: nothing is served any more */
	bool is_over;	     /* and who came second has been told */
	uint64_t last_ns;    /* when the profile was sent */
	unsigned sending;    /* answers with the profile that are being sent */
};

/* Returns the format that is served if none was asked for. */
const struct vms_exporter *profile_pages_default(void);
/*
 * Makes addresses for a profile in the format of the exporter, which must outlive the pages.
 * Errors: UNSUPPORTED (no viewer is known for the format), IO (there are no random numbers).
 */
bool profile_pages_init(struct profile_pages *pages, const struct vms_exporter *exporter,
			const GString *profile, unsigned port, GError **error);
void profile_pages_clear(struct profile_pages *pages);

/* Answers a request: calls of a struct vms_http_server, whose data are the pages. */
void profile_pages_answer(const struct vms_http_request *request, struct vms_http_answer *ret,
			  void *pages);
void profile_pages_finish(const struct vms_http_answer *answer, void *pages);
