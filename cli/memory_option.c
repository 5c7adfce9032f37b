/* SPDX-License-Identifier: MIT */
#include "memory_option.h"
#include "session.h"
#include "values.h"
#include <string.h>

static bool parse_place(const char *option, struct vms_ram_place *ret, GError **error)
{
	g_autofree char *text = g_strdup(option);
	char *size = strchr(text, ':'), *va = strchr(text, '@');
	if (size && va && size < va) {
		*size++ = *va++ = '\0';
		if (value_in_c(text, &ret->pa) && value_in_c(va, &ret->hva) &&
		    (value_in_c(size, &ret->size) ||
		     value_size("--memory", size, &ret->size, NULL)) &&
		    ret->size > 0 && ret->size - 1 <= G_MAXUINT64 - ret->pa &&
		    ret->size - 1 <= G_MAXUINT64 - ret->hva)
			return true;
	}
	usage_error(error, "--memory %s: it must be PA:SIZE@VA, like 0x100000000:1G@0x7f0040000000",
		    option);
	return false;
}

static int compare_places(const void *a, const void *b)
{
	const struct vms_ram_place *x = a, *y = b;
	return (x->pa > y->pa) - (x->pa < y->pa);
}

GArray *memory_option_parse(char **options, GError **error)
{
	g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(struct vms_ram_place));
	for (; *options; options++) {
		struct vms_ram_place place;
		if (!parse_place(*options, &place, error))
			return NULL;
		g_array_append_val(places, place);
	}
	g_array_sort(places, compare_places);
	for (guint i = 1; i < places->len; i++) {
		const struct vms_ram_place *last =
			&g_array_index(places, struct vms_ram_place, i - 1);
		if (last[1].pa - last[0].pa >= last[0].size)
			continue;
		usage_error(error, "--memory: two places overlap at %#" G_GINT64_MODIFIER "x",
			    last[1].pa);
		return NULL;
	}
	return g_steal_pointer(&places);
}
