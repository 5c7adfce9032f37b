/* SPDX-License-Identifier: MIT */
#include "machine/kvm/kvm_engine.h"

#include "arch/x86_64.h"
#include "base/clock.h"
#include "base/text.h"
#include "machine/host/proc_path.h"
#include "machine/kvm/holder.h"
#include "machine/kvm/obstacle.h"
#include "machine/kvm/pairing.h"
#include "machine/kvm/vcpu_regs.h"
#include "machine/kvm/vcpus.h"
#include <string.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)
/* How long to try to hold a vCPU, which may be in its monitor's code for a while. */
#define TRY_NS (2000 * MILLISECOND)
/* How long to try if other vCPUs are held: this one may wait for one of them. */
#define WAITING_NS (50 * MILLISECOND)

_Static_assert(VMS_KVM_PREFETCH_SIZE == VMS_PREFETCH_SIZE,
	       "the holder's blocks are those of the machine interface");

/* Blocks of memory that come along with a hold, by guest-physical address. */
struct prefetch_list {
	unsigned n;
	uint64_t pa[VMS_KVM_MAX_PREFETCH];
};

/* The last hold of a vCPU. */
struct hold {
	uint32_t broken; /* the slot's count when the hold began */
	bool torn;	 /* more was wanted of a brief hold than had been read */
	struct prefetch_list prefetch, next_prefetch; /* of this hold, and of the next one */
};

struct kvm_machine {
	struct vms_machine machine;
	struct vms_host_identity process;
	struct vms_ram ram;
	GArray *vcpus;		       /* struct vms_kvm_vcpu */
	struct vms_kvm_holder *holder; /* a slot per vCPU, and one to find out about threads */
	struct hold *holds;	       /* by vCPU, behind its lock */
	atomic_uint n_held;
	GStringChunk *strings; /* of info and ranges */
};

static struct kvm_machine *kvm_of(struct vms_machine *machine)
{
	return (struct kvm_machine *)machine;
}

static struct vms_kvm_slot *slot_of(struct kvm_machine *kvm, unsigned vcpu)
{
	return vms_kvm_holder_slot(kvm->holder, vcpu);
}

static const struct vms_kvm_vcpu *vcpu_of(const struct kvm_machine *kvm, unsigned vcpu)
{
	return &g_array_index(kvm->vcpus, struct vms_kvm_vcpu, vcpu);
}

/* ---- hold and release ------------------------------------------------------------------- */

static bool set_hold_error(struct kvm_machine *kvm, unsigned vcpu, enum vms_error code,
			   const char *why, GError **error)
{
	g_set_error(error, VMS_ERROR, code, "cannot hold vCPU %u of %s: %s", vcpu,
		    kvm->machine.info.name, why);
	return false;
}

static bool explain_outcome(struct kvm_machine *kvm, unsigned vcpu, enum vms_kvm_outcome outcome,
			    GError **error)
{
	switch (outcome) {
	case VMS_KVM_THREAD_GONE:
		if (!vms_host_identity_is_alive(&kvm->process))
			return set_hold_error(kvm, vcpu, VMS_ERROR_CLOSED, "its process has ended",
					      error);
		return set_hold_error(kvm, vcpu, VMS_ERROR_NOT_FOUND, "its thread has ended",
				      error);
	case VMS_KVM_REFUSED:
		return vms_kvm_set_trace_error(kvm->process.pid, kvm->machine.vcpu_threads[vcpu],
					       error);
	case VMS_KVM_UNSEEN:
		return set_hold_error(kvm, vcpu, VMS_ERROR_INVALID_STATE,
				      "it is paused, or halted in its monitor, since before this "
				      "program came: its registers are known when it has run again",
				      error);
	case VMS_KVM_AWAY:
		if (atomic_load(&kvm->n_held) > 0)
			return set_hold_error(kvm, vcpu, VMS_ERROR_WAITING,
					      "it seems to wait for another vCPU that is held",
					      error);
		return set_hold_error(kvm, vcpu, VMS_ERROR_TIMEOUT,
				      "its thread does something else than to run the guest",
				      error);
	case VMS_KVM_QUEUED:
		return set_hold_error(kvm, vcpu, VMS_ERROR_TIMEOUT,
				      "its thread has not got a processor since it was held last: "
				      "the host is overloaded",
				      error);
	case VMS_KVM_NO_REGS:
		return set_hold_error(kvm, vcpu, VMS_ERROR_UNSUPPORTED,
				      "KVM does not store its registers", error);
	case VMS_KVM_OTHER_GUEST:
		return set_hold_error(kvm, vcpu, VMS_ERROR_TIMEOUT,
				      "it stays in system management mode, or in a guest of its "
				      "own",
				      error);
	case VMS_KVM_OTHER_THREAD:
		return set_hold_error(kvm, vcpu, VMS_ERROR_NOT_FOUND,
				      "another thread runs it now; attach anew", error);
	case VMS_KVM_HELD:
	default: return true;
	}
}

/* Tells what to prefetch. Called before the hold is requested. */
static void write_prefetch_list(struct kvm_machine *kvm, unsigned vcpu)
{
	struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	struct hold *hold = &kvm->holds[vcpu];
	hold->prefetch = hold->next_prefetch;
	hold->next_prefetch.n = 0;
	for (unsigned i = 0; i < hold->prefetch.n; i++) {
		struct vms_ram_source source;
		vms_ram_locate(&kvm->ram, hold->prefetch.pa[i], VMS_KVM_PREFETCH_SIZE, &source);
		slot->prefetch[i] =
			(struct vms_kvm_prefetch) { source.hva, source.fd, source.file_offset };
		slot->is_prefetched[i] = 0;
	}
	slot->n_prefetch = hold->prefetch.n;
}

static bool hold_with(struct vms_machine *machine, unsigned vcpu, bool pinned, GError **error)
{
	struct kvm_machine *kvm = kvm_of(machine);
	struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	struct hold *hold = &kvm->holds[vcpu];
	const bool others = atomic_load(&kvm->n_held) > 0;
	g_autoptr(GError) failure = NULL;
	if (!vcpu_of(kvm, vcpu)->thread)
		return set_hold_error(
			kvm, vcpu, VMS_ERROR_NOT_FOUND,
			"no thread runs it: it was unplugged, or has not run since it "
			"was paused",
			error);
	write_prefetch_list(kvm, vcpu);
	hold->broken = atomic_load(&slot->broken);
	hold->torn = false;
	slot->limit_ns = machine->hold_limit_ns;
	if (!vms_kvm_holder_hold(kvm->holder, vcpu, pinned,
				 vms_clock_now_ns() + (others ? WAITING_NS : TRY_NS), &failure))
		set_hold_error(kvm, vcpu, (enum vms_error)failure->code, failure->message, error);
	else if (explain_outcome(kvm, vcpu, slot->outcome, error)) {
		atomic_fetch_add(&kvm->n_held, 1);
		return true;
	}
	vms_kvm_holder_release(kvm->holder, vcpu);
	return false;
}

static bool hold(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_with(machine, (unsigned)vcpu, true, error);
}

static bool hold_briefly(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_with(machine, (unsigned)vcpu, false, error);
}

/* The holder lets a vCPU go as soon as it has read what a brief hold is for. */
static bool pin(struct vms_machine *machine, int vcpu)
{
	kvm_of(machine)->holds[vcpu].torn = true;
	return false;
}

static bool check_held(struct kvm_machine *kvm, unsigned vcpu, GError **error)
{
	if (kvm->holds[vcpu].torn) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_GONE_ON,
			    "vCPU %u of %s went on before this program had seen all", vcpu,
			    kvm->machine.info.name);
		return false;
	}
	if (atomic_load(&slot_of(kvm, vcpu)->broken) == kvm->holds[vcpu].broken)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "vCPU %u of %s was let go while it was held, since this program was stopped or "
		    "took too long: what was read may be torn",
		    vcpu, kvm->machine.info.name);
	return false;
}

static bool release(struct vms_machine *machine, int vcpu, GError **error)
{
	struct kvm_machine *kvm = kvm_of(machine);
	vms_kvm_holder_release(kvm->holder, (unsigned)vcpu);
	atomic_fetch_sub(&kvm->n_held, 1);
	return check_held(kvm, (unsigned)vcpu, error);
}

static bool last_hold_ns(struct vms_machine *machine, unsigned vcpu, uint64_t *ret)
{
	*ret = vms_kvm_holder_last_hold_ns(kvm_of(machine)->holder, vcpu);
	return true;
}

/* ---- prefetch and registers ------------------------------------------------------------- */

static void prefetch(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	struct prefetch_list *next = &kvm_of(machine)->holds[vcpu].next_prefetch;
	if (next->n < VMS_KVM_MAX_PREFETCH)
		next->pa[next->n++] = pa;
}

static const void *prefetched(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	struct kvm_machine *kvm = kvm_of(machine);
	const struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	const struct prefetch_list *list = &kvm->holds[vcpu].prefetch;
	for (unsigned i = 0; i < list->n; i++)
		if (list->pa[i] == pa)
			return slot->is_prefetched[i] ? slot->prefetched[i] : NULL;
	return NULL;
}

static bool regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	struct kvm_machine *kvm = kvm_of(machine);
	const struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	vms_kvm_set_regs(&slot->regs, &slot->sregs, ret);
	return check_held(kvm, vcpu, error);
}

/* ---- memory ------------------------------------------------------------------------------ */

static bool read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return vms_ram_read(&kvm_of(machine)->ram, pa, buf, size);
}

static size_t read_parts(struct vms_machine *machine, const struct vms_phys_part *parts, size_t n)
{
	return vms_ram_read_parts(&kvm_of(machine)->ram, parts, n);
}

static void next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
		      uint64_t *stop)
{
	vms_ram_next_data(&kvm_of(machine)->ram, pa, end, begin, stop);
}

/* ---- the machine ------------------------------------------------------------------------- */

/* A monitor does not say whether its owner has paused it: a vCPU that stands still is halted. */
static bool is_paused(struct vms_machine *machine)
{
	(void)machine;
	return false;
}

static enum vms_machine_end ended(struct vms_machine *machine)
{
	return vms_host_identity_is_alive(&kvm_of(machine)->process) ? VMS_MACHINE_GOES_ON
								     : VMS_MACHINE_GONE;
}

static bool check_vcpus(struct vms_machine *machine, GError **error)
{
	struct kvm_machine *kvm = kvm_of(machine);
	g_autoptr(GArray) now = vms_kvm_list_vcpus(kvm->process.pid, error);
	if (!now)
		return false;
	bool same = now->len == kvm->vcpus->len;
	for (guint i = 0; same && i < now->len; i++)
		same = g_array_index(now, struct vms_kvm_vcpu, i).number == vcpu_of(kvm, i)->number;
	if (!same)
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "%s has other vCPUs than when it was attached, %u instead of %u: some "
			    "were plugged or unplugged since; attach anew",
			    machine->info.name, now->len, kvm->vcpus->len);
	return same;
}

static void close_machine(struct vms_machine *machine)
{
	struct kvm_machine *kvm = kvm_of(machine);
	vms_kvm_holder_free(kvm->holder);
	vms_ram_close(&kvm->ram);
	g_clear_pointer(&kvm->vcpus, g_array_unref);
	g_clear_pointer(&machine->ranges, g_array_unref);
	g_free(machine->vcpu_threads);
	g_free(kvm->holds);
	vms_host_identity_close(&kvm->process);
	g_string_chunk_free(kvm->strings);
	g_free(kvm);
}

static const struct vms_engine engine = {
	.name = "kvm",
	.holds_each = true,
	.hold = hold,
	.release = release,
	.hold_briefly = hold_briefly,
	.pin = pin,
	.last_hold_ns = last_hold_ns,
	.regs = regs,
	.prefetch = prefetch,
	.prefetched = prefetched,
	.read_ram = read_ram,
	.read_parts = read_parts,
	.next_data = next_data,
	.check_vcpus = check_vcpus,
	.is_paused = is_paused,
	.ended = ended,
	.close = close_machine,
};

/* ---- opening ------------------------------------------------------------------------------ */

/* The executable's name, fit for a terminal. */
static const char *name_process(struct kvm_machine *kvm)
{
	g_autofree char *path = vms_host_process_path(kvm->process.pid, "exe");
	g_autofree char *target = g_file_read_link(path, NULL);
	g_autofree char *name = g_path_get_basename(target ? target : "kvm");
	vms_text_clean(name);
	return g_string_chunk_insert(kvm->strings, name);
}

static void describe(struct kvm_machine *kvm)
{
	struct vms_machine_info *info = &kvm->machine.info;
	info->name = name_process(kvm);
	info->engine = "kvm";
	info->accelerator = "kvm";
	info->pid = kvm->process.pid;
	g_autofree char *description = g_strdup_printf("%s, KVM", info->name);
	info->description = g_string_chunk_insert(kvm->strings, description);
	kvm->machine.arch = vms_arch_by_name("x86_64");
}

static void add_ranges(struct kvm_machine *kvm, const struct vms_ram_place *places, size_t n)
{
	kvm->machine.ranges = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	for (size_t i = 0; i < n; i++) {
		struct vms_range range = { places[i].pa, places[i].size, VMS_RANGE_RAM, "ram" };
		g_array_append_val(kvm->machine.ranges, range);
	}
}

static void prepare_slots(struct kvm_machine *kvm)
{
	for (guint i = 0; i < kvm->vcpus->len; i++) {
		const struct vms_kvm_vcpu *vcpu = vcpu_of(kvm, i);
		struct vms_kvm_slot *slot = slot_of(kvm, i);
		slot->run_hva = vcpu->run_hva;
		memcpy(slot->fds, vcpu->fds, sizeof(slot->fds));
		slot->n_fds = vcpu->n_fds;
		atomic_store(&slot->tid, vcpu->thread);
		kvm->machine.vcpu_threads[i] = vcpu->thread;
	}
}

/* Starts the holder, which keeps the files that memory is read from, and finds the threads. */
static bool start_holding(struct kvm_machine *kvm, GError **error)
{
	const unsigned n = kvm->vcpus->len;
	g_autoptr(GArray) files = vms_ram_files(&kvm->ram);
	kvm->machine.n_vcpus = n;
	kvm->machine.vcpu_threads = g_new0(pid_t, n);
	kvm->holds = g_new0(struct hold, n);
	kvm->holder = vms_kvm_holder_new(&kvm->process, n + 1, (const int *)(void *)files->data,
					 files->len, error);
	if (!kvm->holder ||
	    !vms_kvm_pair_threads(kvm->holder, n, kvm->process.pid, kvm->vcpus, error))
		return false;
	prepare_slots(kvm);
	return true;
}

/* Vcpus whose page is not mapped cannot be looked at: nobody runs them. */
static void drop_unmapped(GArray *vcpus)
{
	for (guint i = vcpus->len; i > 0; i--)
		if (!g_array_index(vcpus, struct vms_kvm_vcpu, i - 1).run_hva)
			g_array_remove_index(vcpus, i - 1);
}

static bool open_machine(struct kvm_machine *kvm, pid_t pid, const struct vms_ram_place *places,
			 size_t n, GError **error)
{
	uint8_t byte;
	if (!vms_host_identity_open(&kvm->process, pid, error) ||
	    !vms_kvm_check_process(pid, error))
		return false;
	kvm->vcpus = vms_kvm_list_vcpus(pid, error);
	if (!kvm->vcpus)
		return false;
	drop_unmapped(kvm->vcpus);
	describe(kvm);
	add_ranges(kvm, places, n);
	vms_ram_open(&kvm->ram, &kvm->process, places, n);
	for (size_t i = 0; i < n; i++) {
		if (vms_ram_covers(&kvm->ram, places[i].pa, places[i].size) &&
		    vms_ram_read(&kvm->ram, places[i].pa, &byte, 1))
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "process %d has no memory at %#" G_GINT64_MODIFIER
			    "x to %#" G_GINT64_MODIFIER "x that could be read",
			    (int)pid, places[i].hva, places[i].hva + places[i].size);
		return false;
	}
	return start_holding(kvm, error);
}

struct vms_machine *vms_kvm_open_places(pid_t pid, const struct vms_ram_place *places, size_t n,
					GError **error)
{
	struct kvm_machine *kvm = g_new0(struct kvm_machine, 1);
	kvm->strings = g_string_chunk_new(256);
	if (!open_machine(kvm, pid, places, n, error)) {
		close_machine(&kvm->machine);
		return NULL;
	}
	vms_machine_init(&kvm->machine, &engine);
	return &kvm->machine;
}
