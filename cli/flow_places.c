/* SPDX-License-Identifier: MIT */
#include "flow_places.h"
#include "base/clock.h"
#include <string.h>
#include <vmscope/log.h>

#define POLL_INTERVAL_NS UINT64_C(200000000) /* between checks for loaded and unloaded modules */

/* A SPEC of the user, and the addresses of its probes. */
struct spec_places {
	const char *text;
	GArray *vas;   /* uint64_t, sorted; NULL if there are none */
	GArray *found; /* the same at the last check; flow_places_change makes them `vas` */
	bool was_there;
	bool is_watched; /* checked again, because its code can be loaded or unloaded */
};

struct flow_places {
	struct session *session;
	struct vms_flow *flow;
	const struct flow_conditions *conditions;
	GArray *specs; /* struct spec_places */
	bool waits;
	uint64_t checked_ns;
};

static struct spec_places *get_spec(const struct flow_places *places, guint i)
{
	return &g_array_index(places->specs, struct spec_places, i);
}

static void free_vas(GArray **vas)
{
	if (*vas)
		g_array_unref(*vas);
	*vas = NULL;
}

static int compare_vas(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static bool is_same(const GArray *a, const GArray *b)
{
	if (!a || !b)
		return a == b;
	return a->len == b->len && memcmp(a->data, b->data, a->len * sizeof(uint64_t)) == 0;
}

/* True if an address lies in a module, which can be unloaded. */
static bool is_in_module(struct session *session, const GArray *vas)
{
	for (guint i = 0; vas && i < vas->len; i++) {
		struct vms_location location = { 0 };
		if (vms_guest_locate(session->guest, NULL, g_array_index(vas, uint64_t, i),
				     &location) &&
		    location.module && strcmp(location.module, "vmlinux") != 0)
			return true;
	}
	return false;
}

/* Returns the current addresses of a SPEC. NULL if there are none. */
static GArray *find_addresses(const struct flow_places *places, const struct spec_places *spec)
{
	GArray *vas = flow_spec_find(places->session, spec->text, places->conditions, NULL);
	if (vas)
		g_array_sort(vas, compare_vas);
	return vas;
}

/* Adds the places of a SPEC whose code is loaded. */
static bool add_spec(struct flow_places *places, struct spec_places *spec, GError **error)
{
	if (!flow_spec_add(places->session, places->flow, spec->text, places->conditions, error))
		return false;
	spec->vas = find_addresses(places, spec);
	spec->was_there = true;
	spec->is_watched = places->waits || is_in_module(places->session, spec->vas);
	return true;
}

/*
 * True if the error only means that the code is not loaded yet, and --pending waits for it. Clears
 * the error then.
 */
static bool is_not_loaded_yet(const struct flow_places *places, struct spec_places *spec,
			      GError **failure)
{
	if (!places->waits || !g_error_matches(*failure, VMS_ERROR, VMS_ERROR_NOT_FOUND))
		return false;
	vms_log(VMS_LOG_INFO, "waiting for %s: %s", spec->text, (*failure)->message);
	g_clear_error(failure);
	spec->is_watched = true;
	return true;
}

struct flow_places *flow_places_new(struct session *session, struct vms_flow *flow,
				    const struct flow_conditions *conditions, char *const *specs,
				    size_t n, bool waits, GError **error)
{
	struct flow_places *places = g_new0(struct flow_places, 1);
	places->session = session;
	places->flow = flow;
	places->conditions = conditions;
	places->specs = g_array_new(FALSE, TRUE, sizeof(struct spec_places));
	places->waits = waits;
	places->checked_ns = vms_clock_now_ns();
	for (size_t i = 0; i < n; i++) {
		GError *failure = NULL;
		struct spec_places spec = { .text = specs[i] };
		const bool added = add_spec(places, &spec, &failure);
		if (added || is_not_loaded_yet(places, &spec, &failure)) {
			g_array_append_val(places->specs, spec);
			continue;
		}
		g_propagate_error(error, failure);
		flow_places_free(places);
		return NULL;
	}
	return places;
}

void flow_places_free(struct flow_places *places)
{
	if (!places)
		return;
	for (guint i = 0; i < places->specs->len; i++) {
		free_vas(&get_spec(places, i)->vas);
		free_vas(&get_spec(places, i)->found);
	}
	g_array_unref(places->specs);
	g_free(places);
}

bool flow_places_is_empty(const struct flow_places *places)
{
	for (guint i = 0; i < places->specs->len; i++)
		if (get_spec(places, i)->vas)
			return false;
	return true;
}

bool flow_places_must_change(struct flow_places *places)
{
	bool is_watched = false, changes = false;
	for (guint i = 0; i < places->specs->len; i++)
		is_watched |= get_spec(places, i)->is_watched;
	if (!is_watched || vms_clock_now_ns() < places->checked_ns + POLL_INTERVAL_NS)
		return false;
	places->checked_ns = vms_clock_now_ns();
	/* If the list cannot be read now, the next check reads it. */
	if (!vms_guest_refresh_modules(places->session->guest, NULL))
		return false;
	for (guint i = 0; i < places->specs->len; i++) {
		struct spec_places *spec = get_spec(places, i);
		free_vas(&spec->found);
		if (!spec->is_watched)
			continue;
		spec->found = find_addresses(places, spec);
		changes |= !is_same(spec->vas, spec->found);
	}
	return changes;
}

static void report_change(const struct spec_places *spec)
{
	if (!spec->found)
		vms_log(VMS_LOG_WARNING, "%s is not there any more: its module was unloaded",
			spec->text);
	else
		vms_log(VMS_LOG_INFO, "%s is there now: %u place%s", spec->text, spec->found->len,
			spec->found->len == 1 ? "" : "s");
}

bool flow_places_change(struct flow_places *places, GError **error)
{
	for (guint i = 0; i < places->specs->len; i++) {
		struct spec_places *spec = get_spec(places, i);
		if (!spec->is_watched || is_same(spec->vas, spec->found))
			continue;
		report_change(spec);
		if (spec->vas &&
		    !vms_flow_remove(places->flow, (const uint64_t *)(const void *)spec->vas->data,
				     spec->vas->len, error))
			return false;
		free_vas(&spec->vas);
		if (spec->found && !add_spec(places, spec, error))
			return false;
	}
	return true;
}

void flow_places_warn(const struct flow_places *places)
{
	for (guint i = 0; i < places->specs->len; i++)
		if (!get_spec(places, i)->was_there)
			vms_log(VMS_LOG_WARNING, "%s was not probed: its code was never loaded",
				get_spec(places, i)->text);
}
