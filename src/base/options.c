/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <string.h>
#include <vmscope/error.h>

/* No struct of options is larger, in bytes. */
#define SIZE_LIMIT 4096

static bool is_zero(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

bool vms_options_copy(const void *options, void *ret, size_t size, const char *name, GError **error)
{
	size_t given = size;
	if (options)
		memcpy(&given, options, sizeof(given));
	memset(ret, 0, size);
	if (given < sizeof(given) || given > SIZE_LIMIT) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "struct %s begins with a size of %zu bytes: set it to "
			    "sizeof(struct %s), which is %zu here",
			    name, given, name, size);
		return false;
	}
	if (options && given > size && !is_zero((const char *)options + size, given - size)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "struct %s has %zu bytes and options that this libvmscope " VMS_VERSION
			    " does not know: it knows %zu bytes; install a newer one",
			    name, given, size);
		return false;
	}
	if (options)
		memcpy(ret, options, MIN(given, size));
	memcpy(ret, &size, sizeof(size));
	return true;
}
