/* SPDX-License-Identifier: MIT */
#include "sample/run_facts.h"
#include "base/clock.h"
#include <string.h>
#include <vmscope/facts.h>
#include <vmscope/machine.h>

const char *vms_sample_end_text(enum vms_sample_end end)
{
	static const char *const texts[] = {
		[VMS_SAMPLE_NOT_RUN] = "not run",
		[VMS_SAMPLE_COMPLETE] = "complete",
		[VMS_SAMPLE_STOPPED] = "stopped",
		[VMS_SAMPLE_CANCELLED] = "cancelled",
		[VMS_SAMPLE_GONE] = "the machine went away",
		[VMS_SAMPLE_RESET] = "the guest was reset",
		[VMS_SAMPLE_FAILED] = "failed",
	};
	return texts[end];
}

bool vms_sample_ended_early(enum vms_sample_end end)
{
	return end == VMS_SAMPLE_GONE || end == VMS_SAMPLE_RESET || end == VMS_SAMPLE_FAILED;
}

const char *vms_sample_failure_name(enum vms_sample_failure failure)
{
	static const char *const names[VMS_SAMPLE_N_FAILURES] = {
		[VMS_SAMPLE_FAIL_HOLD] = "could not be held",
		[VMS_SAMPLE_FAIL_REGS] = "registers could not be read",
		[VMS_SAMPLE_FAIL_TORN] = "released too early",
		[VMS_SAMPLE_FAIL_PAUSED] = "machine was paused",
		[VMS_SAMPLE_FAIL_NOT_NOW] = "migration, snapshot or backup",
	};
	return names[failure];
}

static void clear_item(gpointer data)
{
	struct vms_run_item *item = data;

	g_free(item->title);
	vms_table_free(item->table);
	g_free(item->error);
}

static void copy_guest_facts(struct vms_run_facts *facts, const struct vms_guest *guest)
{
	const struct vms_guest_info *info = vms_guest_info(guest);

	facts->why = g_strdup(vms_guest_why(guest));
	if (vms_guest_kind(guest) == VMS_GUEST_NONE)
		return;
	facts->system = g_strdup(info->name);
	facts->release = g_strdup(info->release);
	facts->version = g_strdup(info->version);
	facts->hostname = g_strdup(info->hostname);
	facts->unwinder = g_strdup(info->unwinder);
}

struct vms_run_facts *vms_run_facts_new(struct vms_machine *machine, const struct vms_guest *guest)
{
	const struct vms_machine_info *info = vms_machine_info(machine);
	struct vms_run_facts *facts = g_new0(struct vms_run_facts, 1);

	facts->machine_name = g_strdup(info->name);
	facts->machine_description = g_strdup(info->description);
	facts->pid = info->pid;
	if (guest)
		copy_guest_facts(facts, guest);
	facts->items = g_array_new(FALSE, FALSE, sizeof(struct vms_run_item));
	g_array_set_clear_func(facts->items, clear_item);
	return facts;
}

void vms_run_facts_set_begin(struct vms_run_facts *facts, uint64_t begin_ns)
{
	facts->begin_ns = begin_ns;
	if (begin_ns)
		facts->begin_utc_ns =
			g_get_real_time() * 1000 - (int64_t)(vms_clock_now_ns() - begin_ns);
}

void vms_run_facts_free(struct vms_run_facts *facts)
{
	if (!facts)
		return;
	g_free(facts->title);
	g_free(facts->machine_name);
	g_free(facts->machine_description);
	g_free(facts->system);
	g_free(facts->release);
	g_free(facts->version);
	g_free(facts->hostname);
	g_free(facts->unwinder);
	g_free(facts->why);
	g_free(facts->error);
	g_free(facts->left_out);
	for (unsigned i = 0; i < VMS_SAMPLE_N_FAILURES; i++)
		g_free(facts->reasons[i]);
	g_free(facts->vcpus);
	g_array_unref(facts->items);
	g_free(facts);
}

/* Returns how often samples were taken, newly allocated. */
static char *describe_interval(const struct vms_run_facts *facts)
{
	const double hz = 1e9 / (double)facts->interval_ns;
	if (facts->interval_instructions)
		return g_strdup_printf("every %" G_GUINT64_FORMAT " instructions",
				       facts->interval_instructions);
	return g_strdup_printf("at %.*f Hz", hz < 10 ? 1 : 0, hz);
}

void vms_run_facts_set_title(struct vms_run_facts *facts)
{
	g_autofree char *system = facts->system
					  ? g_strdup_printf("%s %s", facts->system,
							    facts->release ? facts->release : "")
					  : g_strdup("Unknown guest");
	g_autofree char *interval = describe_interval(facts);
	bool early = vms_sample_ended_early(facts->end);

	facts->title = g_strdup_printf(
		"%s on %s, %u vCPU%s, %.1f s %s%s%s%s%s%s", system, facts->machine_description,
		facts->n_vcpus, facts->n_vcpus == 1 ? "" : "s", (double)facts->elapsed_ns / 1e9,
		interval, early ? " (ended early: " : "",
		early ? vms_sample_end_text(facts->end) : "", early ? ")" : "",
		facts->left_out ? ", left out: " : "", facts->left_out ?: "");
}

/* ---- items ------------------------------------------------------------ */

static void read_item(struct vms_run_facts *facts, struct vms_guest *guest, const char *name,
		      const char *title)
{
	g_autoptr(GError) error = NULL, loss = NULL;
	struct vms_run_item item = {
		.title = g_strdup(title),
		.table = vms_facts_get(guest, name, &loss, &error),
	};

	item.error = loss || error ? g_strdup((loss ? loss : error)->message) : NULL;
	g_array_append_val(facts->items, item);
}

static bool is_known(const GArray *known, const char *name)
{
	for (guint i = 0; i < known->len; i++)
		if (strcmp(g_array_index(known, struct vms_fact, i).name, name) == 0)
			return true;
	return false;
}

void vms_run_facts_read_items(struct vms_run_facts *facts, struct vms_guest *guest,
			      const char *const *names)
{
	g_autoptr(GArray) known = vms_facts_list(guest);

	for (guint i = 0; i < known->len; i++) {
		const struct vms_fact *fact = &g_array_index(known, struct vms_fact, i);
		if (names ? g_strv_contains(names, fact->name) : fact->in_report)
			read_item(facts, guest, fact->name, fact->title);
	}
	for (; names && *names; names++)
		if (!is_known(known, *names))
			read_item(facts, guest, *names, *names);
}
