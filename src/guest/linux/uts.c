/* SPDX-License-Identifier: MIT */
#include "guest/linux/uts.h"
#include "base/text.h"

#define PREFIX	     "Linux version "
#define BANNER_LIMIT 1024

/* The size of each field of struct new_utsname (include/uapi/linux/utsname.h). */
#define UTS_FIELD 65
enum uts_field { UTS_SYSNAME, UTS_NODENAME, UTS_RELEASE, UTS_VERSION };
/* Where struct uts_namespace may have it: before 5.11, a reference count comes first. */
#define UTS_OFFSET_LIMIT 64

char *vms_linux_banner_at(struct vms_bytes image, size_t offset)
{
	struct vms_bytes text;
	if (offset > image.size || !vms_bytes_slice(image, offset, image.size - offset, &text) ||
	    !vms_bytes_has(text, 0, strlen(PREFIX)) || memcmp(text.data, PREFIX, strlen(PREFIX)))
		return NULL;
	/* The log may hold a copy, but a copy does not end with a newline and a NUL. */
	const uint8_t *newline = memchr(text.data, '\n', MIN(text.size, BANNER_LIMIT));
	size_t size = newline ? (size_t)(newline - text.data) : 0;
	if (!newline || size + 1 == text.size || newline[1] != 0 || memchr(text.data, 0, size) ||
	    !memchr(text.data, '(', size))
		return NULL;
	char *banner = g_strndup((const char *)text.data, size);
	vms_text_clean(banner);
	return banner;
}

char *vms_linux_banner(struct vms_bytes image)
{
	const uint8_t *from = image.data, *end = image.data + image.size, *hit;
	char *banner = NULL;
	while (!banner && (hit = memmem(from, (size_t)(end - from), PREFIX, strlen(PREFIX)))) {
		banner = vms_linux_banner_at(image, (size_t)(hit - image.data));
		from = hit + 1;
	}
	return banner;
}

void vms_uts_from_banner(const char *banner, struct vms_uts *ret)
{
	const char *release = banner + strlen(PREFIX);
	const char *version = g_strrstr(banner, ") #");
	ret->release = g_strndup(release, strcspn(release, " "));
	ret->version = version ? g_strdup(version + 2) : NULL;
	ret->hostname = NULL;
}

static char *get_uts_field(struct vms_bytes ns, size_t uts, enum uts_field field)
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
		g_autofree char *release = get_uts_field(ns, at, UTS_RELEASE);
		g_autofree char *prefix = g_strconcat(PREFIX, release, " ", NULL);
		if (!g_str_has_prefix(banner, prefix))
			continue;
		ret->release = g_steal_pointer(&release);
		ret->version = get_uts_field(ns, at, UTS_VERSION);
		ret->hostname = get_uts_field(ns, at, UTS_NODENAME);
		return true;
	}
	return false;
}
