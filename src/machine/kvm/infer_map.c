/* SPDX-License-Identifier: MIT */
#include "machine/kvm/infer_map.h"
#include "base/clock.h"
#include "base/keyed_hash.h"
#include "machine/host/proc_path.h"
#include "machine/kvm/prove_map.h"
#include "machine/kvm/vcpu_regs.h"
#include <string.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

#define MILLISECOND UINT64_C(1000000)
/* How long to look for a proof: what vCPUs use changes. */
#define LOOK_NS	 (3000 * MILLISECOND)
#define PAUSE_US 5000
/* How long to try to see one vCPU. */
#define TRY_NS (100 * MILLISECOND)
/*
 * For how many rounds nothing may contradict a guess if one with more memory is possible, too. In
 * all of them together each vCPU must have been seen.
 */
#define RIVAL_ROUNDS 5

/* A guess, and what is known of it. */
struct candidate {
	const struct vms_kvm_guess *guess;
	unsigned parts; /* that are proved */
	bool is_wrong;
};

struct inference {
	struct vms_kvm_holder *holder;
	const struct vms_arch *arch;
	GArray *vcpus;
	struct vms_ram ram; /* by addresses of the process */
	struct candidate *candidates;
	unsigned n;
	bool has_seen_vcpu; /* one with page tables */
	GHashTable *unseen; /* numbers of the vCPUs that were not seen yet */
};

static int compare_places(const void *a, const void *b)
{
	const struct vms_ram_place *x = a, *y = b;
	return (x->pa > y->pa) - (x->pa < y->pa);
}

/* Opens all areas, each at the address that it has in the process. */
static void open_areas(struct inference *inference, const struct vms_host_identity *process,
		       const GArray *areas)
{
	g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(struct vms_ram_place));
	for (guint i = 0; i < areas->len; i++) {
		const struct vms_kvm_area *area = &g_array_index(areas, struct vms_kvm_area, i);
		for (unsigned j = 0; j < area->n; j++) {
			struct vms_ram_place place = { area->segments[j].hva,
						       area->segments[j].size,
						       area->segments[j].hva };
			g_array_append_val(places, place);
		}
	}
	g_array_sort(places, compare_places);
	vms_ram_open(&inference->ram, process, (const struct vms_ram_place *)(void *)places->data,
		     places->len);
}

/* Reads the registers of a vCPU. False if it cannot be seen now. */
static bool see_vcpu(struct inference *inference, unsigned vcpu, struct vms_regs *ret)
{
	struct vms_kvm_slot *slot = vms_kvm_holder_slot(inference->holder, vcpu);
	bool seen = g_array_index(inference->vcpus, struct vms_kvm_vcpu, vcpu).thread &&
		    vms_kvm_holder_hold(inference->holder, vcpu, false, vms_clock_now_ns() + TRY_NS,
					NULL);
	vms_kvm_holder_release(inference->holder, vcpu);
	if (!seen || slot->outcome != VMS_KVM_HELD)
		return false;
	vms_kvm_set_regs(&slot->regs, &slot->sregs, ret);
	return true;
}

static bool are_all_wrong(const struct inference *inference)
{
	for (unsigned i = 0; i < inference->n; i++)
		if (!inference->candidates[i].is_wrong)
			return false;
	return true;
}

/*
 * Checks all guesses by what each vCPU uses now. The guest runs meanwhile: a process whose page
 * tables go away makes every guess look wrong. Then all are looked at again.
 */
static void check_guesses(struct inference *inference)
{
	for (unsigned vcpu = 0; vcpu < inference->vcpus->len; vcpu++) {
		struct vms_regs regs;
		if (!see_vcpu(inference, vcpu, &regs))
			continue;
		g_hash_table_remove(inference->unseen, GUINT_TO_POINTER(vcpu));
		for (unsigned i = 0; i < inference->n; i++) {
			struct candidate *candidate = &inference->candidates[i];
			if (candidate->is_wrong)
				continue;
			enum vms_kvm_proof proof =
				vms_kvm_prove(candidate->guess, &inference->ram, inference->arch,
					      &regs, &candidate->parts);
			candidate->is_wrong = proof == VMS_KVM_WRONG;
			inference->has_seen_vcpu |= proof != VMS_KVM_NOTHING;
		}
	}
	if (!are_all_wrong(inference))
		return;
	for (unsigned i = 0; i < inference->n; i++) {
		inference->candidates[i].is_wrong = false;
		inference->candidates[i].parts = 0;
	}
}

static bool is_proved(const struct candidate *candidate)
{
	return !candidate->is_wrong && candidate->parts == vms_kvm_guess_parts(candidate->guess);
}

/* The only guess that is proved, or NULL. *n_proved and *n_possible count them. */
static const struct vms_kvm_guess *find_proved(const struct inference *inference,
					       unsigned *n_proved, unsigned *n_possible)
{
	const struct vms_kvm_guess *found = NULL;
	*n_proved = *n_possible = 0;
	for (unsigned i = 0; i < inference->n; i++) {
		*n_possible += !inference->candidates[i].is_wrong;
		if (!is_proved(&inference->candidates[i]))
			continue;
		found = inference->candidates[i].guess;
		++*n_proved;
	}
	return *n_proved == 1 ? found : NULL;
}

/* Sets the error that nothing is proved. */
static void set_unproved(const struct inference *inference, pid_t pid, unsigned n_proved,
			 GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "cannot tell where the memory of the machine lies in process %d, whose monitor "
		    "does not say: %s; give it by --memory PA:SIZE@VA",
		    (int)pid,
		    !inference->has_seen_vcpu ? "no vCPU has page tables, or all are paused"
		    : n_proved == 1	      ? "not every vCPU could be looked at"
		    : n_proved > 1	      ? "several layouts agree with its page tables"
					      : "no layout of a known monitor agrees with its page "
						"tables, or nothing that its vCPUs use is above "
						"4 GiB at the moment");
}

static const struct vms_kvm_guess *look_for_proof(struct inference *inference, pid_t pid,
						  GError **error)
{
	const uint64_t end_ns = vms_clock_now_ns() + LOOK_NS;
	unsigned n_proved = 0, n_possible = 0;
	for (unsigned round = 1;; round++) {
		check_guesses(inference);
		const struct vms_kvm_guess *found = find_proved(inference, &n_proved, &n_possible);
		if (found && (n_possible == 1 ||
			      (round >= RIVAL_ROUNDS && g_hash_table_size(inference->unseen) == 0)))
			return found;
		if (vms_clock_now_ns() > end_ns)
			break;
		g_usleep(PAUSE_US);
	}
	set_unproved(inference, pid, n_proved, error);
	return NULL;
}

static void log_map(pid_t pid, const struct vms_kvm_guess *guess)
{
	for (unsigned i = 0; i < guess->n; i++)
		vms_log(VMS_LOG_INFO,
			"process %d has guest-physical %#" G_GINT64_MODIFIER
			"x, of %#" G_GINT64_MODIFIER "x bytes, at %#" G_GINT64_MODIFIER
			"x: proved by page tables",
			(int)pid, guess->places[i].pa, guess->places[i].size, guess->places[i].hva);
}

struct vms_kvm_guess *vms_kvm_infer_map(struct vms_kvm_holder *holder,
					const struct vms_host_identity *process, GArray *vcpus,
					const struct vms_arch *arch, GError **error)
{
	g_autofree char *path = vms_host_process_path(process->pid, "maps");
	g_autofree char *maps = NULL;
	if (!g_file_get_contents(path, &maps, NULL, NULL)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot see what process %d has mapped: run as the user that runs it, "
			    "or as root",
			    (int)process->pid);
		return NULL;
	}
	g_autoptr(GArray) areas = vms_kvm_list_areas(maps);
	g_autoptr(GArray) guesses = vms_kvm_list_guesses(areas);
	struct inference inference = { .holder = holder, .arch = arch, .vcpus = vcpus };
	g_autofree struct candidate *candidates = g_new0(struct candidate, guesses->len);
	for (guint i = 0; i < guesses->len; i++)
		candidates[i].guess = &g_array_index(guesses, struct vms_kvm_guess, i);
	inference.candidates = candidates;
	inference.n = guesses->len;
	g_autoptr(GHashTable) unseen = g_hash_table_new(vms_hash_direct, NULL);
	for (guint i = 0; i < vcpus->len; i++)
		g_hash_table_add(unseen, GUINT_TO_POINTER(i));
	inference.unseen = unseen;
	open_areas(&inference, process, areas);
	const struct vms_kvm_guess *found = look_for_proof(&inference, process->pid, error);
	vms_ram_close(&inference.ram);
	if (!found)
		return NULL;
	log_map(process->pid, found);
	return g_memdup2(found, sizeof(*found));
}
