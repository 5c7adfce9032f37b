/* SPDX-License-Identifier: MIT */
/* Holds vCPUs by holder.h, and reads memory; as an engine of the machine interface. */
#include "machine/kvm/kvm_engine.h"

#include "arch/x86_64.h"
#include "base/clock.h"
#include "machine/kvm/kvm_machine.h"
#include "machine/kvm/obstacle.h"
#include "machine/kvm/thread_call.h"
#include "machine/kvm/vcpu_regs.h"
#include <stdlib.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)
/* How long to try to hold a vCPU, which may be in its monitor's code for a while. */
#define TRY_NS (2000 * MILLISECOND)
/* How long to try if other vCPUs are held: this one may wait for one of them. */
#define WAITING_NS (50 * MILLISECOND)
/* How long registers that change seldom count as known. */
#define ASK_AGAIN_NS (1000 * MILLISECOND)

_Static_assert(VMS_KVM_PREFETCH_SIZE == VMS_PREFETCH_SIZE,
	       "the holder's blocks are those of the machine interface");

static struct vms_kvm_machine *kvm_of(struct vms_machine *machine)
{
	return (struct vms_kvm_machine *)machine;
}

const struct vms_ram *vms_kvm_ram(struct vms_kvm_machine *kvm)
{
	return kvm->has_qmp ? vms_qemu_ram(&kvm->qemu) : &kvm->ram;
}

static struct vms_kvm_slot *slot_of(struct vms_kvm_machine *kvm, unsigned vcpu)
{
	return vms_kvm_holder_slot(kvm->holder, vcpu);
}

static const struct vms_kvm_vcpu *vcpu_of(const struct vms_kvm_machine *kvm, unsigned vcpu)
{
	return &g_array_index(kvm->vcpus, struct vms_kvm_vcpu, vcpu);
}

/* Also if the process executes another program: then the memory that had the machine has an end. */
static enum vms_machine_end kvm_get_end(struct vms_machine *machine)
{
	const struct vms_kvm_machine *kvm = kvm_of(machine);
	uint8_t byte;
	return vms_host_identity_is_alive(&kvm->qemu.process) &&
			       pread(kvm->memory, &byte, 1, (off_t)vcpu_of(kvm, 0)->run_hva) != 0
		       ? VMS_MACHINE_GOES_ON
		       : VMS_MACHINE_GONE;
}

/* ---- hold and release ------------------------------------------------------------------- */

static bool set_hold_error(struct vms_kvm_machine *kvm, unsigned vcpu, enum vms_error code,
			   const char *why, GError **error)
{
	g_set_error(error, VMS_ERROR, code, "cannot hold vCPU %u of %s: %s", vcpu,
		    kvm->qemu.machine.info.name, why);
	return false;
}

/*
 * Its thread was in its monitor's code for as long as this program may wait, each time that it was
 * looked at.
 */
static bool set_away_error(struct vms_kvm_machine *kvm, unsigned vcpu, GError **error)
{
	const pid_t thread = kvm->qemu.machine.vcpu_threads[vcpu];
	g_autofree char *path = g_strdup_printf("/proc/%d/task/%d/syscall",
						(int)kvm->qemu.process.pid, (int)thread);
	g_autofree char *text = NULL;
	g_file_get_contents(path, &text, NULL, NULL);
	g_autofree char *call = vms_thread_call_describe(text ? text : "");
	/* A monitor that pauses its machine, for example, waits for each of its vCPUs. */
	const bool may_wait = atomic_load(&kvm->n_held) > 0;
	g_autofree char *why = g_strdup_printf(
		"its thread %d does not come back from its monitor to the guest, and may not be "
		"stopped there. It is in %s now%s: try again when it has done that",
		(int)thread, call, may_wait ? ", and may wait for another vCPU that is held" : "");
	return set_hold_error(kvm, vcpu, may_wait ? VMS_ERROR_WAITING : VMS_ERROR_TIMEOUT, why,
			      error);
}

static bool explain_outcome(struct vms_kvm_machine *kvm, unsigned vcpu,
			    enum vms_kvm_outcome outcome, GError **error)
{
	switch (outcome) {
	case VMS_KVM_THREAD_GONE:
		if (kvm_get_end(&kvm->qemu.machine) == VMS_MACHINE_GONE)
			return set_hold_error(kvm, vcpu, VMS_ERROR_CLOSED,
					      "its process has ended, or executes another program",
					      error);
		return set_hold_error(kvm, vcpu, VMS_ERROR_NOT_FOUND, "its thread has ended",
				      error);
	case VMS_KVM_REFUSED:
		return vms_kvm_set_trace_error(kvm->qemu.process.pid,
					       kvm->qemu.machine.vcpu_threads[vcpu], error);
	case VMS_KVM_UNSEEN:
		/* QEMU's owner pauses it: that waits for the vCPUs that are held. */
		if (kvm->has_qmp && atomic_load(&kvm->n_held) > 0)
			return set_hold_error(kvm, vcpu, VMS_ERROR_WAITING,
					      "it waits in QEMU, for another vCPU that is held",
					      error);
		return set_hold_error(kvm, vcpu, VMS_ERROR_INVALID_STATE,
				      "it is paused, or halted in its monitor, since before this "
				      "program came: its registers are known when it has run again",
				      error);
	case VMS_KVM_AWAY: return set_away_error(kvm, vcpu, error);
	case VMS_KVM_QUEUED:
		return set_hold_error(kvm, vcpu, VMS_ERROR_TIMEOUT,
				      "its thread has not got a processor since it was held last: "
				      "the host is overloaded",
				      error);
	case VMS_KVM_NO_REGS:
		return set_hold_error(kvm, vcpu, VMS_ERROR_UNSUPPORTED,
				      "KVM does not store its registers", error);
	case VMS_KVM_NO_FILES:
		return set_hold_error(kvm, vcpu, VMS_ERROR_IO,
				      "two files have to be open for each vCPU, and no more may be "
				      "opened: raise the limit (ulimit -n)",
				      error);
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

/* True if the holder has this descriptor open. A map that is newer than the holder may have others.
 */
static bool has_holder_file(const struct vms_kvm_machine *kvm, int fd)
{
	for (guint i = 0; i < kvm->files->len; i++)
		if (g_array_index(kvm->files, int, i) == fd)
			return true;
	return fd < 0;
}

static int compare_places(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/*
 * Tells what to prefetch. Called before the hold is requested. Blocks that follow each other in
 * memory do so in the list: the holder reads them at once.
 */
static void write_prefetch_list(struct vms_kvm_machine *kvm, unsigned vcpu)
{
	struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	struct vms_kvm_hold *hold = &kvm->holds[vcpu];
	hold->prefetch = hold->next_prefetch;
	hold->next_prefetch.n = 0;
	qsort(hold->prefetch.pa, hold->prefetch.n, sizeof(*hold->prefetch.pa), compare_places);
	for (unsigned i = 0; i < hold->prefetch.n; i++) {
		struct vms_ram_source source;
		vms_ram_locate(vms_kvm_ram(kvm), hold->prefetch.pa[i], VMS_KVM_PREFETCH_SIZE,
			       &source);
		if (!has_holder_file(kvm, source.fd))
			source.hva = 0;
		slot->prefetch[i] =
			(struct vms_kvm_prefetch) { source.hva, source.fd, source.file_offset };
		slot->is_prefetched[i] = 0;
	}
	slot->n_prefetch = hold->prefetch.n;
}

/* Until when to try to hold a vCPU. */
static uint64_t deadline_of(struct vms_kvm_machine *kvm)
{
	const bool others = atomic_load(&kvm->n_held) > 0;
	const uint64_t end_ns = vms_clock_now_ns() + (others ? WAITING_NS : TRY_NS);
	const uint64_t give_up_ns = atomic_load(&kvm->qemu.machine.give_up_ns);
	return give_up_ns ? MIN(end_ns, give_up_ns) : end_ns;
}

static bool hold_thread(struct vms_kvm_machine *kvm, unsigned vcpu, bool pinned, GError **error)
{
	struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	g_autoptr(GError) failure = NULL;
	if (!vcpu_of(kvm, vcpu)->thread)
		return set_hold_error(
			kvm, vcpu, VMS_ERROR_NOT_FOUND,
			"no thread runs it: it was unplugged, or has not run since it "
			"was paused",
			error);
	write_prefetch_list(kvm, vcpu);
	kvm->holds[vcpu].broken = atomic_load(&slot->broken);
	slot->limit_ns = kvm->qemu.machine.hold_limit_ns;
	if (!vms_kvm_holder_hold(kvm->holder, vcpu, pinned, deadline_of(kvm), &failure))
		set_hold_error(kvm, vcpu, (enum vms_error)failure->code, failure->message, error);
	else if (explain_outcome(kvm, vcpu, slot->outcome, error))
		return true;
	vms_kvm_holder_release(kvm->holder, vcpu);
	return false;
}

/* True if QEMU says that its machine stands still, as far as events have told. */
static bool is_qemu_paused(struct vms_kvm_machine *kvm)
{
	if (!kvm->has_qmp)
		return false;
	vms_qmp_poll(&kvm->qemu.qmp);
	return !kvm->qemu.qmp.running;
}

/*
 * Follows changes of QEMU's memory map. Does nothing while vCPUs are held, or while another thread
 * asks QEMU something: the next hold does it then.
 */
static void update_memory_map(struct vms_kvm_machine *kvm)
{
	GMutex *lock = &kvm->qemu.machine.lock;
	if (!kvm->has_qmp || kvm->qemu.qmp.memory_changes == 0 || atomic_load(&kvm->n_held) > 0 ||
	    !g_mutex_trylock(lock))
		return;
	vms_qemu_follow_ranges(&kvm->qemu);
	g_mutex_unlock(lock);
}

/*
 * True if a hold may succeed that has failed just now: QEMU's owner pauses or resumes the machine
 * at this moment, and the vCPU's thread or the event is still to come.
 */
static bool may_come(struct vms_kvm_machine *kvm, unsigned vcpu, uint64_t begin_ns,
		     const GError *failure)
{
	return kvm->has_qmp && slot_of(kvm, vcpu)->outcome == VMS_KVM_UNSEEN &&
	       g_error_matches(failure, VMS_ERROR, VMS_ERROR_INVALID_STATE) &&
	       vms_clock_now_ns() - begin_ns < TRY_NS;
}

static bool hold_with(struct vms_machine *machine, unsigned vcpu, bool pinned, GError **error)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	struct vms_kvm_hold *hold = &kvm->holds[vcpu];
	const uint64_t begin_ns = vms_clock_now_ns();
	g_autoptr(GError) failure = NULL;
	update_memory_map(kvm);
	hold->torn = false;
	do {
		g_clear_error(&failure);
		hold->is_paused = is_qemu_paused(kvm);
		hold->resumes = kvm->qemu.qmp.resumes;
		if (hold->is_paused || hold_thread(kvm, vcpu, pinned, &failure)) {
			atomic_fetch_add(&kvm->n_held, 1);
			return true;
		}
	} while (may_come(kvm, vcpu, begin_ns, failure));
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

static bool kvm_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_with(machine, (unsigned)vcpu, true, error);
}

static bool kvm_hold_briefly(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_with(machine, (unsigned)vcpu, false, error);
}

/* The holder lets a vCPU go as soon as it has read what a brief hold is for. */
static bool kvm_pin(struct vms_machine *machine, int vcpu)
{
	struct vms_kvm_hold *hold = &kvm_of(machine)->holds[vcpu];
	hold->torn = !hold->is_paused;
	return hold->is_paused;
}

/* What was read of a machine that its owner had paused is void if he has resumed it since. */
static bool check_paused(struct vms_kvm_machine *kvm, unsigned vcpu, GError **error)
{
	vms_qmp_poll(&kvm->qemu.qmp);
	if (kvm->qemu.qmp.resumes == kvm->holds[vcpu].resumes)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "%s was paused by its owner, and resumed while it was read: try again",
		    kvm->qemu.machine.info.name);
	return false;
}

static bool check_held(struct vms_kvm_machine *kvm, unsigned vcpu, GError **error)
{
	if (kvm->holds[vcpu].is_paused)
		return check_paused(kvm, vcpu, error);
	if (kvm->holds[vcpu].torn) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_GONE_ON,
			    "vCPU %u of %s went on before this program had seen all", vcpu,
			    kvm->qemu.machine.info.name);
		return false;
	}
	if (atomic_load(&slot_of(kvm, vcpu)->broken) == kvm->holds[vcpu].broken)
		return true;
	if (slot_of(kvm, vcpu)->is_asleep) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "vCPU %u of %s slept in its monitor's code, where it may not be "
			    "stopped, and has run since: what was read may be torn",
			    vcpu, kvm->qemu.machine.info.name);
		return false;
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "vCPU %u of %s was let go while it was held, since this program was stopped or "
		    "took too long: what was read may be torn",
		    vcpu, kvm->qemu.machine.info.name);
	return false;
}

static bool kvm_release(struct vms_machine *machine, int vcpu, GError **error)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	if (!kvm->holds[vcpu].is_paused)
		vms_kvm_holder_release(kvm->holder, (unsigned)vcpu);
	atomic_fetch_sub(&kvm->n_held, 1);
	return check_held(kvm, (unsigned)vcpu, error);
}

static bool kvm_last_hold_ns(struct vms_machine *machine, unsigned vcpu, uint64_t *ret)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	*ret = kvm->holds[vcpu].is_paused ? 0 : vms_kvm_holder_last_hold_ns(kvm->holder, vcpu);
	return true;
}

/* ---- prefetch and registers ------------------------------------------------------------- */

static void kvm_prefetch(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	struct vms_kvm_prefetch_list *next = &kvm_of(machine)->holds[vcpu].next_prefetch;
	if (next->n < VMS_KVM_MAX_PREFETCH)
		next->pa[next->n++] = pa;
}

static const void *kvm_get_prefetched(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	const struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	const struct vms_kvm_prefetch_list *list = &kvm->holds[vcpu].prefetch;
	for (unsigned i = 0; i < list->n; i++)
		if (list->pa[i] == pa)
			return slot->is_prefetched[i] ? slot->prefetched[i] : NULL;
	return NULL;
}

/*
 * QEMU's monitor tells the registers of a machine that its owner has paused. It is asked for those
 * of no other one: it would wait for a vCPU that is held.
 */
static bool get_paused_regs(struct vms_kvm_machine *kvm, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&kvm->qemu.machine.lock);
	*ret = (struct vms_regs) { 0 };
	return vms_qemu_monitor_regs(&kvm->qemu.machine, vcpu, ret, error);
}

static bool kvm_read_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	const struct vms_kvm_slot *slot = slot_of(kvm, vcpu);
	if (kvm->holds[vcpu].is_paused)
		return get_paused_regs(kvm, vcpu, ret, error) && check_paused(kvm, vcpu, error);
	vms_kvm_set_regs(&slot->regs, &slot->sregs, ret);
	return check_held(kvm, vcpu, error);
}

/*
 * Asks QEMU for the registers that KVM does not give along, while no vCPU is held: it would wait
 * for one. Some of them it does not tell, but has in its memory afterwards. They change seldom, if
 * at all, after the guest has booted.
 */
static void ask_seldom_regs(struct vms_machine *machine)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	const uint64_t now_ns = vms_clock_now_ns();
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&machine->lock);
	if (atomic_load(&kvm->n_held) > 0 || (kvm->told && now_ns - kvm->told_ns < ASK_AGAIN_NS))
		return;
	if (!kvm->told)
		kvm->told = g_new0(struct vms_regs, machine->n_vcpus);
	kvm->told_ns = now_ns;
	for (unsigned i = 0; i < machine->n_vcpus; i++) {
		struct vms_regs now = { 0 };
		if (!vms_qemu_monitor_regs(machine, i, &now, NULL))
			return; /* a QEMU that does not answer is not asked again and again */
		vms_qemu_add_state_regs(&kvm->qemu, i, &now);
		kvm->told[i] = now;
	}
}

/* Adds what QEMU has told before all vCPUs were held last. Under the machine's lock. */
static bool add_seldom_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	static const unsigned seldom[] = { DR0,	  DR1,	       DR2,	     DR3,
					   DR6,	  DR7,	       STAR,	     LSTAR,
					   CSTAR, SFMASK,      PAT,	     TSC_AUX,
					   XCR0,  SYSENTER_CS, SYSENTER_ESP, SYSENTER_EIP };
	struct vms_kvm_machine *kvm = kvm_of(machine);
	(void)error;
	for (size_t i = 0; i < G_N_ELEMENTS(seldom) && kvm->told; i++)
		if (!vms_regs_have(ret, seldom[i]) && vms_regs_have(&kvm->told[vcpu], seldom[i]))
			vms_regs_copy(ret, &kvm->told[vcpu], seldom[i]);
	return true;
}

/* ---- memory ------------------------------------------------------------------------------ */

static bool kvm_read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return vms_ram_read(vms_kvm_ram(kvm_of(machine)), pa, buf, size);
}

static size_t kvm_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts,
			     size_t n)
{
	return vms_ram_read_parts(vms_kvm_ram(kvm_of(machine)), parts, n);
}

static void kvm_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			  uint64_t *stop)
{
	vms_ram_next_data(vms_kvm_ram(kvm_of(machine)), pa, end, begin, stop);
}

/* ---- the machine ------------------------------------------------------------------------- */

/* Other monitors do not say whether their owner has paused the machine. */
static bool kvm_is_paused(struct vms_machine *machine)
{
	return is_qemu_paused(kvm_of(machine));
}

/* QEMU tells of a pause before the guest runs on, so the answer for a past time is final. */
static uint64_t kvm_get_paused_ns(struct vms_machine *machine, uint64_t time_ns)
{
	return vms_qmp_paused_ns(&kvm_of(machine)->qemu.qmp, time_ns);
}

static bool kvm_check_vcpus(struct vms_machine *machine, GError **error)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	g_autoptr(GArray) now = vms_kvm_list_vcpus(kvm->qemu.process.pid, error);
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

void vms_kvm_close(struct vms_machine *machine)
{
	struct vms_kvm_machine *kvm = kvm_of(machine);
	vms_kvm_holder_free(kvm->holder);
	if (kvm->memory >= 0)
		close(kvm->memory);
	vms_ram_close(&kvm->ram);
	if (!kvm->has_qmp)
		g_clear_pointer(&machine->ranges, g_array_unref);
	g_clear_pointer(&kvm->vcpus, g_array_unref);
	g_clear_pointer(&kvm->files, g_array_unref);
	g_free(kvm->holds);
	g_free(kvm->told);
	vms_qemu_close(&kvm->qemu);
	g_free(kvm);
}

#define COMMON_OPERATIONS                                                                          \
	.name = "kvm", .holds_each = true, .hold = kvm_hold, .release = kvm_release,               \
	.hold_briefly = kvm_hold_briefly, .pin = kvm_pin, .last_hold_ns = kvm_last_hold_ns,        \
	.regs = kvm_read_regs, .prefetch = kvm_prefetch, .prefetched = kvm_get_prefetched,         \
	.read_ram = kvm_read_ram, .read_parts = kvm_read_parts, .next_data = kvm_next_data,        \
	.is_paused = kvm_is_paused, .close = vms_kvm_close

const struct vms_engine vms_kvm_engine = {
	COMMON_OPERATIONS,
	.check_vcpus = kvm_check_vcpus,
	.ended = kvm_get_end,
};

/* With QMP there are facts that no other monitor tells. */
const struct vms_engine vms_kvm_qemu_engine = {
	COMMON_OPERATIONS,
	.before_holding_all = ask_seldom_regs,
	.system_regs = add_seldom_regs,
	.check_ranges = vms_qemu_check_ranges,
	.update_ranges = vms_qemu_update_ranges,
	.check_vcpus = vms_qemu_check_vcpus,
	.paused_ns = kvm_get_paused_ns,
	.ended = vms_qemu_ended,
	.resets = vms_qemu_resets,
	.pause_reason = vms_qemu_pause_reason,
	.item_text = vms_qemu_item_text,
};
