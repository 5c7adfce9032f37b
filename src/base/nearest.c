/* SPDX-License-Identifier: MIT */
#include "base/nearest.h"
#include <string.h>

#define NAME_MAX_LENGTH 64 /* longer names are not compared */

/*
 * Counts the letters to insert, remove or replace that make one name of the other; a letter of the
 * other case counts like another letter.
 */
static size_t count_changes(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t row[NAME_MAX_LENGTH + 1];
	for (size_t j = 0; j <= b_length; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = MIN(replaced, MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_length];
}

void vms_nearest_begin(struct vms_nearest *nearest, const char *wanted)
{
	*nearest = (struct vms_nearest) { .wanted = wanted };
}

static bool is_there(const struct vms_nearest *nearest, const char *name)
{
	for (size_t i = 0; i < nearest->n; i++)
		if (strcmp(nearest->best[i].name, name) == 0)
			return true;
	return false;
}

void vms_nearest_add(struct vms_nearest *nearest, const char *name)
{
	const size_t length = strlen(nearest->wanted), n = strlen(name);
	const size_t limit = MAX(length / 3, 1);
	if (length > NAME_MAX_LENGTH || n > NAME_MAX_LENGTH ||
	    (n > length ? n - length : length - n) > limit)
		return;
	const size_t distance = count_changes(nearest->wanted, length, name, n);
	size_t at = nearest->n;
	while (at > 0 && nearest->best[at - 1].distance > distance)
		at--;
	if (distance > limit || at == VMS_NEAREST_MAX || is_there(nearest, name))
		return;
	if (nearest->n == VMS_NEAREST_MAX)
		g_free(nearest->best[--nearest->n].name);
	memmove(&nearest->best[at + 1], &nearest->best[at],
		(nearest->n - at) * sizeof(nearest->best[0]));
	nearest->best[at].name = g_strdup(name);
	nearest->best[at].distance = distance;
	nearest->n++;
}

char *vms_nearest_end(struct vms_nearest *nearest)
{
	GString *text = g_string_new(NULL);
	for (size_t i = 0; i < nearest->n; i++) {
		g_string_append_printf(text, "%s%s",
				       i == 0		     ? " (did you mean "
				       : i + 1 == nearest->n ? " or "
							     : ", ",
				       nearest->best[i].name);
		g_free(nearest->best[i].name);
	}
	if (nearest->n)
		g_string_append(text, "?)");
	nearest->n = 0;
	return g_string_free(text, FALSE);
}
