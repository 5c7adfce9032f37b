/* SPDX-License-Identifier: MIT */
/*
 * Joins the samples of a machine's threads on its host with those of its guest.
 *
 * Both were taken at the same frequency, by one clock. A thread that executes the guest has no more
 * samples of the host than its vCPU has of the guest, and the nearest of these is at most half a
 * period away. On a busy host, a vCPU's thread waits for a processor, and a sample of the guest
 * that was due is only taken when the thread runs again. Samples of the host are taken while the
 * thread runs. So a sample of the guest that is further away has what the guest executed, too, if
 * the thread has no sample between both: it has then executed for about a period at most. If there
 * is no such sample, or the vCPU was halted then, what the guest executed is not known.
 */
#include "base/keyed_hash.h"
#include "base/search.h"
#include "sample/recording-private.h"
#include <string.h>

/* Timers are late, so a pair may be that part of a period further apart. */
#define LATE_SHARE 8

#define STEPS_OF_LOOKUP 10 /* of an address or of a name */
#define STEPS_OF_MOMENT 40 /* sorted, and searched for twice */

/*
 * Functions of KVM that make the processor execute the guest's code, or execute its next
 * instruction in its place. What they call is the host's way of doing so.
 */
static const char *const entries[] = {
	"x86_emulate_instruction", "vmx_vcpu_enter_exit", "vmx_vcpu_run",
	"svm_vcpu_enter_exit",	   "svm_vcpu_run",	  "pvm_vcpu_run",
	"kvm_arm_vcpu_enter_exit", "__kvm_vcpu_run",
};

/* Where a stack leaves the host for the guest: `cut` leaf frames are no part of what is shown. */
struct entry {
	bool in_guest;
	unsigned cut;
};

/* A sample of a vCPU. */
struct guest_moment {
	uint64_t time_ns;
	uint32_t vcpu;
	bool is_idle;
	const struct vms_recorded_stack *stack;
};

/* A sample of a vCPU's thread that ran, or was blocked. */
struct host_moment {
	uint64_t time_ns;
	uint32_t tid;
};

struct joining {
	struct vms_recording *recording;
	struct vms_sample_record *sample; /* the one that is being decoded */
	GHashTable *entries;		  /* struct entry by stack of the host */
	GArray *guest;			  /* struct guest_moment, by vCPU and time */
	GArray *host;	   /* struct host_moment, by thread and time; NULL: some may be missing */
	GHashTable *roles; /* role plus two, by thread */
};

/* ---- whether the guest executed ------------------------------------------------------ */

static bool is_entry(const char *symbol)
{
	const size_t length = symbol ? strcspn(symbol, ".") : 0; /* without ".isra.0" */
	for (size_t i = 0; i < G_N_ELEMENTS(entries); i++)
		if (strlen(entries[i]) == length && strncmp(entries[i], symbol, length) == 0)
			return true;
	return false;
}

/*
 * True for code that QEMU has translated, and for functions that only such code calls: their names
 * begin with "helper_". Translated code is the only code of QEMU's process that is in no file: it
 * is in anonymous memory, or in a memfd.
 */
static bool is_translated(const struct joining *joining, uint64_t pc)
{
	struct vms_symbolizer *symbolizer = joining->recording->symbolizer;
	const uint32_t space = joining->sample->space;
	struct vms_mapping mapping;
	struct vms_location location;
	if (!vms_symbolizer_mapping(symbolizer, space, pc, &mapping) || !mapping.name)
		return false;
	return strcmp(mapping.name, "[anon]") == 0 || g_str_has_prefix(mapping.name, "/memfd:") ||
	       (vms_symbolizer_locate(symbolizer, space, 0, pc, &location) && location.symbol &&
		g_str_has_prefix(location.symbol, "helper_"));
}

/*
 * Finds where the stack in joining->sample leaves the host. Translated code has no frame pointers:
 * what seems to have called it is none, while functions that it calls may have some.
 */
static struct entry find_entry(const struct joining *joining)
{
	const struct vms_stack *stack = &joining->sample->stack;
	struct vms_location location;
	if (joining->sample->waits)
		return (struct entry) { 0 };
	for (unsigned i = 0; i < stack->n; i++) {
		const struct vms_frame *frame = &stack->frame[i];
		if (frame->is_user && is_translated(joining, frame->pc - frame->is_return))
			return (struct entry) { .in_guest = true, .cut = stack->n };
		if (!frame->is_user &&
		    vms_symbolizer_locate(joining->recording->symbolizer, VMS_KERNEL_SPACE, 0,
					  frame->pc - frame->is_return, &location) &&
		    is_entry(location.symbol))
			return (struct entry) { .in_guest = true, .cut = i };
	}
	return (struct entry) { .in_guest = joining->sample->in_guest, .cut = stack->n };
}

static const struct entry *get_entry(struct joining *joining,
				     const struct vms_recorded_stack *stack)
{
	struct entry *entry = g_hash_table_lookup(joining->entries, stack);
	if (entry)
		return entry;
	vms_recorded_stack_get(stack, joining->sample);
	entry = g_new(struct entry, 1);
	*entry = vms_budget_step(joining->recording->budget,
				 (uint64_t)joining->sample->stack.n * STEPS_OF_LOOKUP)
			 ? find_entry(joining)
			 : (struct entry) { 0 };
	g_hash_table_insert(joining->entries, (gpointer)stack, entry);
	return entry;
}

/* ---- what the guest executed --------------------------------------------------------- */

static int compare_guest_moments(const void *a, const void *b)
{
	const struct guest_moment *x = a, *y = b;
	if (x->vcpu != y->vcpu)
		return x->vcpu < y->vcpu ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void sort_guest(struct joining *joining)
{
	const GArray *moments = joining->recording->guest.moments;
	for (guint i = 0; i < moments->len; i++) {
		const struct vms_recorded_moment *moment =
			&g_array_index(moments, struct vms_recorded_moment, i);
		const struct guest_moment kept = { moment->time_ns, moment->stack->cpu,
						   vms_recorded_stack_is_idle(moment->stack),
						   moment->stack };
		if (!vms_recorded_stack_waits(moment->stack))
			g_array_append_val(joining->guest, kept);
	}
	g_array_sort(joining->guest, compare_guest_moments);
}

static int compare_host_moments(const void *a, const void *b)
{
	const struct host_moment *x = a, *y = b;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* Samples of threads that only waited for a processor are left out: their guest did not move. */
static void sort_host(struct joining *joining)
{
	const struct vms_recording *recording = joining->recording;
	const struct vms_recorded_system *host = &recording->host;
	uint32_t vcpu;
	if (!host->is_complete || host->stats.lost || host->stats.throttled ||
	    recording->damages->len)
		return;
	joining->host = g_array_new(FALSE, FALSE, sizeof(struct host_moment));
	for (guint i = 0; i < host->moments->len; i++) {
		const struct vms_recorded_moment *moment =
			&g_array_index(host->moments, struct vms_recorded_moment, i);
		const struct host_moment kept = { moment->time_ns, moment->tid };
		if (vms_recorded_stack_waits(moment->stack) != 'R' &&
		    vms_machine_threads_vcpu(&recording->threads, moment->tid, &vcpu))
			g_array_append_val(joining->host, kept);
	}
	g_array_sort(joining->host, compare_host_moments);
}

static bool is_host_before(const GArray *host, size_t i, uint32_t tid, uint64_t time_ns)
{
	const struct host_moment *moment = &g_array_index(host, struct host_moment, i);
	return moment->tid != tid ? moment->tid < tid : moment->time_ns < time_ns;
}

/* True if a thread has no sample between two times. */
static bool has_no_sample(const struct joining *joining, uint32_t tid, uint64_t a, uint64_t b)
{
	const GArray *host = joining->host;
	const uint64_t begin = MIN(a, b), end = MAX(a, b);
	const size_t first = VMS_SEARCH(host->len, i, is_host_before(host, i, tid, begin + 1));
	return first == host->len || !is_host_before(host, first, tid, end);
}

static bool is_before(const GArray *guest, size_t i, uint32_t vcpu, uint64_t time_ns)
{
	const struct guest_moment *moment = &g_array_index(guest, struct guest_moment, i);
	return moment->vcpu != vcpu ? moment->vcpu < vcpu : moment->time_ns < time_ns;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * Returns the stack of a vCPU at a sample of its thread, or NULL: of the samples of the guest right
 * before and behind, the nearer one of those that have it.
 */
static const struct vms_recorded_stack *find_guest(const struct joining *joining, uint32_t vcpu,
						   uint32_t tid, uint64_t time_ns)
{
	const GArray *guest = joining->guest;
	const uint64_t period_ns = joining->recording->stats.period_ns;
	const uint64_t near_ns = period_ns / 2 + period_ns / LATE_SHARE;
	const struct vms_recorded_stack *found = NULL;
	uint64_t nearest_ns = UINT64_MAX;
	/* The first one at or behind the time. */
	const size_t begin = VMS_SEARCH(guest->len, i, is_before(guest, i, vcpu, time_ns));
	for (size_t i = begin ? begin - 1 : 0; i < guest->len && i <= begin; i++) {
		const struct guest_moment *moment = &g_array_index(guest, struct guest_moment, i);
		const uint64_t away_ns = distance(moment->time_ns, time_ns);
		if (moment->vcpu != vcpu || moment->is_idle || away_ns >= nearest_ns)
			continue;
		if (away_ns > near_ns &&
		    (!joining->host || !has_no_sample(joining, tid, moment->time_ns, time_ns)))
			continue;
		nearest_ns = away_ns;
		found = moment->stack;
	}
	return found;
}

/* ---- joined stacks ------------------------------------------------------------------- */

static guint hash_joined(gconstpointer data)
{
	const struct vms_recorded_stack *stack = data;
	const uint64_t parts[] = { (uintptr_t)stack->of, (uintptr_t)stack->guest,
				   (uint64_t)(uint32_t)stack->role << 1 | stack->in_guest };
	return (guint)vms_keyed_hash(parts, sizeof(parts));
}

static gboolean equal_joined(gconstpointer a, gconstpointer b)
{
	const struct vms_recorded_stack *x = a, *y = b;
	return x->of == y->of && x->guest == y->guest && x->role == y->role &&
	       x->in_guest == y->in_guest;
}

/* Returns the role of a thread, or -1. */
static int get_role(struct joining *joining, const struct vms_recorded_moment *moment)
{
	const void *key = GUINT_TO_POINTER(moment->tid);
	const int known = GPOINTER_TO_INT(g_hash_table_lookup(joining->roles, key));
	if (known)
		return known - 2;
	const int role =
		vms_machine_threads_role(&joining->recording->threads, moment->pid, moment->tid);
	g_hash_table_insert(joining->roles, (gpointer)key, GINT_TO_POINTER(role + 2));
	return role;
}

/* Returns false if there is no budget for that. */
static bool join_moment(struct joining *joining, struct vms_recorded_moment *moment)
{
	struct vms_recording_stats *stats = &joining->recording->stats;
	struct vms_recorded_stack joined = *moment->stack;
	uint32_t vcpu;
	joined.of = moment->stack;
	joined.role = get_role(joining, moment);
	joined.weight = 0;
	joined.in_guest = false;
	if (vms_machine_threads_vcpu(&joining->recording->threads, moment->tid, &vcpu)) {
		const struct entry *entry = get_entry(joining, moment->stack);
		joined.in_guest = entry->in_guest;
		joined.cut = entry->in_guest ? entry->cut : 0;
		joined.guest = entry->in_guest
				       ? find_guest(joining, vcpu, moment->tid, moment->time_ns)
				       : NULL;
		stats->in_guest += entry->in_guest;
		stats->joined += joined.guest != NULL;
	}
	struct vms_recorded_stack *known = vms_recorded_stacks_get(
		joining->recording->joined, &joined, joining->recording->budget);
	if (!known)
		return false;
	known->weight++;
	moment->stack = known;
	return true;
}

void vms_recording_join(struct vms_recording *recording)
{
	struct joining joining = {
		.recording = recording,
		.sample = g_new0(struct vms_sample_record, 1),
		.entries = g_hash_table_new_full(vms_hash_direct, NULL, NULL, g_free),
		.guest = g_array_new(FALSE, FALSE, sizeof(struct guest_moment)),
		.roles = g_hash_table_new(vms_hash_direct, NULL),
	};
	recording->joined = vms_recorded_stacks_new(hash_joined, equal_joined);
	recording->stats.guest_samples = recording->guest.moments->len;
	recording->stats.guest_session = recording->guest.stats;
	recording->stats.is_complete &= recording->guest.is_complete;
	sort_guest(&joining);
	sort_host(&joining);
	GArray *moments = recording->host.moments;
	guint n = 0;
	while (n < moments->len && vms_budget_step(recording->budget, STEPS_OF_MOMENT) &&
	       join_moment(&joining, &g_array_index(moments, struct vms_recorded_moment, n)))
		n++;
	g_array_set_size(moments, n); /* the rest has stacks that are not joined */
	g_hash_table_unref(joining.entries);
	g_hash_table_unref(joining.roles);
	g_array_unref(joining.guest);
	g_clear_pointer(&joining.host, g_array_unref);
	g_free(joining.sample);
}
