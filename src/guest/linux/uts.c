/* SPDX-License-Identifier: MIT */
#include "guest/linux/uts.h"
#include "base/text.h"

#define PREFIX	     "Linux version "
#define BANNER_LIMIT 1024

/* struct new_utsname (include/uapi/linux/utsname.h): fields of 65 bytes. */
#define UTS_FIELD 65
enum uts_field { UTS_SYSNAME, UTS_NODENAME, UTS_RELEASE, UTS_VERSION };
/* What struct uts_namespace has before it: nothing from 5.11 on, a reference count before. */
#define UTS_OFFSET_LIMIT 64

char *vms_linux_banner(struct vms_bytes image)
{
	const uint8_t *from = image.data, *end = image.data + image.size, *hit;
	while ((hit = memmem(from, (size_t)(end - from), PREFIX, strlen(PREFIX)))) {
		from = hit + 1;
		/* The log may hold a copy, but without the newline and the NUL. */
		size_t limit = MIN((size_t)(end - hit), BANNER_LIMIT);
		const uint8_t *newline = memchr(hit, '\n', limit);
		if (!newline || newline + 1 == end || newline[1] != 0 ||
		    memchr(hit, 0, (size_t)(newline - hit)) ||
		    !memchr(hit, '(', (size_t)(newline - hit)))
			continue;
		char *banner = g_strndup((const char *)hit, (size_t)(newline - hit));
		vms_text_clean(banner);
		return banner;
	}
	return NULL;
}

void vms_uts_from_banner(const char *banner, struct vms_uts *ret)
{
	const char *release = banner + strlen(PREFIX);
	const char *version = g_strrstr(banner, ") #");
	ret->release = g_strndup(release, strcspn(release, " "));
	ret->version = version ? g_strdup(version + 2) : NULL;
	ret->hostname = NULL;
}

static char *uts_field(struct vms_bytes ns, size_t uts, enum uts_field field)
{
	char *text = g_strndup((const char *)ns.data + uts + field * UTS_FIELD, UTS_FIELD);
	vms_text_clean(text);
	return text;
}

bool vms_uts_from_namespace(struct vms_bytes ns, const char *banner, struct vms_uts *ret)
{
	static const char sysname[] = "Linux";
	for (size_t at = 0; at < UTS_OFFSET_LIMIT; at += 4) {
		if (!vms_bytes_has(ns, at, (UTS_VERSION + 1) * UTS_FIELD))
			return false;
		if (memcmp(ns.data + at, sysname, sizeof(sysname)))
			continue;
		g_autofree char *release = uts_field(ns, at, UTS_RELEASE);
		g_autofree char *prefix = g_strconcat(PREFIX, release, " ", NULL);
		if (!g_str_has_prefix(banner, prefix))
			continue;
		ret->release = g_steal_pointer(&release);
		ret->version = uts_field(ns, at, UTS_VERSION);
		ret->hostname = uts_field(ns, at, UTS_NODENAME);
		return true;
	}
	return false;
}

void vms_uts_clear(struct vms_uts *uts)
{
	g_clear_pointer(&uts->release, g_free);
	g_clear_pointer(&uts->version, g_free);
	g_clear_pointer(&uts->hostname, g_free);
}
