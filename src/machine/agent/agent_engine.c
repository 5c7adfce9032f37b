/* SPDX-License-Identifier: MIT */
/*
 * Holds vCPUs as described in protocol.h. There is no watchdog: if a client ends or is stopped, the
 * agent itself releases the vCPUs that the client holds, and counts that.
 */
#include "machine/agent/agent_engine.h"

#include "base/clock.h"
#include "machine/agent/agent_probes.h"
#include "machine/qemu/qemu.h"
#include "machine/qemu/recover.h"
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How long to sleep before checking whether the vCPU can still answer. A vCPU may wait inside QEMU
 * for another vCPU that we hold, to run alone or to flush its TLB. Then the other one must be
 * released.
 */
#define SLICE_NS (50 * 1000 * 1000)
/*
 * How long to spin for a vCPU's answer before sleeping. The vCPU is held until we see the answer.
 */
#define SPIN_NS (100 * 1000)

/* Blocks of memory to prefetch with a hold, by guest-physical address. */
struct prefetch_list {
	unsigned n;
	uint64_t pa[VMS_AGENT_MAX_PREFETCH];
};

/* The last hold of a vCPU. */
struct hold {
	uint32_t number;
	uint32_t broken;		    /* the slot's count when the hold began */
	bool torn;			    /* the pin was too late: the vCPU had continued */
	bool is_late;			    /* the last wait for the vCPU timed out */
	struct prefetch_list prefetch;	    /* for this hold */
	struct prefetch_list next_prefetch; /* for the next hold */
};

_Static_assert(VMS_AGENT_PREFETCH_SIZE == VMS_PREFETCH_SIZE,
	       "the agent's blocks have the size of those of the machine interface");

struct agent_machine {
	struct vms_qemu qemu;
	struct vms_agent_link *link;
	struct hold *holds; /* by vCPU; the vCPU's lock guards it */
	atomic_uint n_held;
	struct vms_agent_prober prober;
	bool may_spin; /* the host has a spare CPU for each vCPU */
	/* By the agent's index of a register: the architecture's index, or -1. */
	int8_t reg_of[VMS_AGENT_MAX_REGS];
};

static struct agent_machine *get_agent(struct vms_machine *machine)
{
	return (struct agent_machine *)machine;
}

static struct vms_agent_vcpu *get_slot(struct agent_machine *agent, unsigned vcpu)
{
	return &agent->link->shared->vcpu[agent->qemu.cpu_index[vcpu]];
}

/* Waits for SLICE_NS at most while the word has this value. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	const struct timespec timeout = { .tv_nsec = SLICE_NS };
	syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static void clear_wanted(struct vms_agent_vcpu *slot)
{
	atomic_store(&slot->wanted, 0);
	syscall(SYS_futex, &slot->wanted, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- hold and release ------------------------------------------------- */

/* `flags`: VMS_AGENT_PIN, or 0 for a brief hold. */
static bool request_hold(struct agent_machine *agent, unsigned vcpu, uint32_t flags, GError **error)
{
	struct vms_agent_vcpu *slot = get_slot(agent, vcpu);
	struct hold *hold = &agent->holds[vcpu];
	struct vms_agent_hold message = { .message = { .kind = VMS_AGENT_HOLD },
					  .vcpu = agent->qemu.cpu_index[vcpu] };
	hold->number = (hold->number + 1) % VMS_AGENT_PIN;
	hold->number += hold->number == 0;
	hold->broken = atomic_load(&slot->broken);
	atomic_store(&slot->wanted, hold->number | flags);
	return vms_agent_send(agent->link, &message.message, sizeof(message), -1, error);
}

/* Writes which memory the vCPU must prefetch. Called before the hold is requested. */
static void write_prefetch_list(struct agent_machine *agent, unsigned vcpu)
{
	struct vms_agent_vcpu *slot = get_slot(agent, vcpu);
	struct hold *hold = &agent->holds[vcpu];
	hold->prefetch = hold->next_prefetch;
	hold->next_prefetch.n = 0;
	for (unsigned i = 0; i < hold->prefetch.n; i++) {
		slot->prefetch_hva[i] = vms_ram_address(
			vms_qemu_ram(&agent->qemu), hold->prefetch.pa[i], VMS_AGENT_PREFETCH_SIZE);
		slot->is_prefetched[i] = 0;
	}
	slot->n_prefetch = hold->prefetch.n;
}

/* True if the agent has ended the hold. */
static bool is_broken(const struct hold *hold, struct vms_agent_vcpu *slot)
{
	return atomic_load(&slot->broken) != hold->broken;
}

static bool set_hold_error(struct agent_machine *agent, unsigned vcpu, enum vms_error code,
			   const char *why, GError **error)
{
	g_set_error(error, VMS_ERROR, code, "cannot hold vCPU %u of %s: %s", vcpu,
		    agent->qemu.machine.info.name, why);
	return false;
}

/*
 * Spins, because a wakeup of this thread takes longer than most samples, and the vCPU is held for
 * that time. Yields, because the agent's thread may need this CPU to pass the request on.
 */
static void spin_until_held(struct agent_machine *agent, struct vms_agent_vcpu *slot,
			    uint32_t number)
{
	uint64_t end_ns = vms_clock_now_ns() + SPIN_NS;
	while (agent->may_spin && atomic_load(&slot->held) != number && vms_clock_now_ns() < end_ns)
		sched_yield();
}

/* Returns until when to wait for a vCPU. Waits only briefly if its last answer was late. */
static uint64_t choose_deadline(const struct agent_machine *agent, const struct hold *hold)
{
	const uint64_t late_ns = VMS_STREAM_LATE_MS * UINT64_C(1000000);
	return hold->is_late ? vms_clock_now_ns() + late_ns
			     : vms_stream_deadline(&agent->link->stream);
}

/* True if the deadline has passed, or the caller has given up. */
static bool is_time_over(struct agent_machine *agent, uint64_t deadline_ns)
{
	uint64_t now_ns = vms_clock_now_ns();
	uint64_t give_up_ns = atomic_load(&agent->qemu.machine.give_up_ns);
	return now_ns > deadline_ns || (give_up_ns > 0 && now_ns > give_up_ns);
}

/* Waits for the hold that was requested. */
static bool wait_until_held(struct agent_machine *agent, unsigned vcpu, uint32_t flags,
			    GError **error)
{
	struct vms_agent_vcpu *slot = get_slot(agent, vcpu);
	struct hold *hold = &agent->holds[vcpu];
	uint64_t deadline_ns = choose_deadline(agent, hold);
	uint64_t busy_ns = vms_clock_now_ns() + SLICE_NS;
	uint32_t held;
	spin_until_held(agent, slot, hold->number);
	while ((held = atomic_load(&slot->held)) != hold->number) {
		futex_wait(&slot->held, held);
		if (atomic_load(&slot->held) == hold->number)
			return true;
		if (atomic_load(&slot->state) == VMS_AGENT_ABSENT)
			return set_hold_error(agent, vcpu, VMS_ERROR_NOT_FOUND, "it was unplugged",
					      error);
		if (vms_agent_link_is_closed(agent->link))
			return set_hold_error(agent, vcpu, VMS_ERROR_CLOSED, "QEMU is gone", error);
		if (vms_clock_now_ns() > busy_ns && atomic_load(&agent->n_held) > 0)
			return set_hold_error(agent, vcpu, VMS_ERROR_WAITING,
					      "it seems to wait for another vCPU that is held",
					      error);
		if (is_time_over(agent, deadline_ns)) {
			hold->is_late = true;
			return set_hold_error(
				agent, vcpu, VMS_ERROR_TIMEOUT,
				"it does not answer; QEMU may be stopped or overloaded, or may be "
				"waiting for a disk or a host device",
				error);
		}
		/* The agent ended the hold before we saw it: request it again. */
		if (is_broken(hold, slot) && !request_hold(agent, vcpu, flags, error))
			return false;
	}
	return true;
}

/*
 * Waits until the agent knows a vCPU. QEMU calls its plugins shortly after it has created a vCPU,
 * so one without a thread will follow. False if it was unplugged, or does not follow in time.
 */
static bool wait_until_plugged(struct agent_machine *agent, unsigned vcpu)
{
	const struct vms_agent_vcpu *slot = get_slot(agent, vcpu);
	uint64_t deadline_ns = vms_stream_deadline(&agent->link->stream);
	while (atomic_load(&slot->state) == VMS_AGENT_ABSENT) {
		if (slot->thread != 0 || is_time_over(agent, deadline_ns))
			return false;
		g_usleep(1000);
	}
	return true;
}

/*
 * Follows changes of QEMU's memory map. Does nothing while vCPUs are held, or while another thread
 * uses QEMU's monitor: then the next hold does it.
 */
static void update_memory_map(struct agent_machine *agent)
{
	GMutex *lock = &agent->qemu.machine.lock;
	if (agent->qemu.qmp.memory_changes == 0 || atomic_load(&agent->n_held) > 0 ||
	    !g_mutex_trylock(lock))
		return;
	vms_qemu_follow_ranges(&agent->qemu);
	g_mutex_unlock(lock);
}

/* `flags` as for request_hold. */
static bool hold_vcpu(struct vms_machine *machine, int vcpu, uint32_t flags, GError **error)
{
	struct agent_machine *agent = get_agent(machine);
	update_memory_map(agent);
	if (!wait_until_plugged(agent, (unsigned)vcpu))
		return set_hold_error(agent, (unsigned)vcpu, VMS_ERROR_NOT_FOUND,
				      "it was unplugged", error);
	write_prefetch_list(agent, (unsigned)vcpu);
	agent->holds[vcpu].torn = false;
	if (request_hold(agent, (unsigned)vcpu, flags, error) &&
	    wait_until_held(agent, (unsigned)vcpu, flags, error)) {
		atomic_fetch_add(&agent->n_held, 1);
		agent->holds[vcpu].is_late = false;
		return true;
	}
	clear_wanted(get_slot(agent, (unsigned)vcpu));
	return false;
}

static bool agent_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_vcpu(machine, vcpu, VMS_AGENT_PIN, error);
}

static bool agent_hold_briefly(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_vcpu(machine, vcpu, 0, error);
}

static bool agent_pin(struct vms_machine *machine, int vcpu)
{
	struct hold *hold = &get_agent(machine)->holds[vcpu];
	struct vms_agent_vcpu *slot = get_slot(get_agent(machine), (unsigned)vcpu);
	uint32_t wanted = hold->number;
	hold->torn = !atomic_compare_exchange_strong(&slot->wanted, &wanted,
						     hold->number | VMS_AGENT_PIN);
	return !hold->torn;
}

static bool check_held(struct agent_machine *agent, unsigned vcpu, GError **error)
{
	if (agent->holds[vcpu].torn) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_GONE_ON,
			    "vCPU %u of %s continued before this program had read all", vcpu,
			    agent->qemu.machine.info.name);
		return false;
	}
	if (!is_broken(&agent->holds[vcpu], get_slot(agent, vcpu)))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "the agent has released vCPU %u of %s during the hold, because this program "
		    "was stopped or took too long: what was read may be inconsistent",
		    vcpu, agent->qemu.machine.info.name);
	return false;
}

static bool agent_release(struct vms_machine *machine, int vcpu, GError **error)
{
	struct agent_machine *agent = get_agent(machine);
	clear_wanted(get_slot(agent, (unsigned)vcpu));
	atomic_fetch_sub(&agent->n_held, 1);
	return check_held(agent, (unsigned)vcpu, error);
}

/* ---- prefetch ---------------------------------------------------------- */

static void agent_prefetch(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	struct prefetch_list *next = &get_agent(machine)->holds[vcpu].next_prefetch;
	if (next->n < VMS_AGENT_MAX_PREFETCH)
		next->pa[next->n++] = pa;
}

static const void *agent_get_prefetched(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	struct agent_machine *agent = get_agent(machine);
	const struct vms_agent_vcpu *slot = get_slot(agent, vcpu);
	const struct prefetch_list *list = &agent->holds[vcpu].prefetch;
	for (unsigned i = 0; i < list->n; i++)
		if (list->pa[i] == pa)
			return slot->is_prefetched[i] ? slot->prefetched[i] : NULL;
	return NULL;
}

/* ---- registers -------------------------------------------------------- */

static bool agent_read_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	struct agent_machine *agent = get_agent(machine);
	const struct vms_agent_vcpu *slot = get_slot(agent, vcpu);
	*ret = (struct vms_regs) { 0 };
	for (unsigned i = 0; i < agent->link->hello.n_regs; i++) {
		if (agent->reg_of[i] >= 0 && slot->has_regs[i / 32] >> i % 32 & 1)
			vms_regs_set(ret, (unsigned)agent->reg_of[i], slot->regs[i]);
	}
	return check_held(agent, vcpu, error);
}

/* Finds the architecture's register with the same name for each register of the agent. */
static void find_regs(struct agent_machine *agent)
{
	for (unsigned i = 0; i < agent->link->hello.n_regs; i++) {
		char name[VMS_AGENT_REG_NAME + 1] = { 0 };
		memcpy(name, agent->link->shared->reg_names[i], VMS_AGENT_REG_NAME);
		agent->reg_of[i] = (int8_t)vms_arch_reg(agent->qemu.machine.arch, name);
	}
}

/* ---- probes ------------------------------------------------------------ */

static struct vms_probes *agent_arm_probes(struct vms_machine *machine,
					   const struct vms_probes_request *request, GError **error)
{
	return vms_agent_probes_arm(&get_agent(machine)->prober, request, error);
}

static bool agent_take_hits(struct vms_machine *machine, unsigned timeout_ms, GError **error)
{
	return vms_agent_probes_take(&get_agent(machine)->prober, timeout_ms, error);
}

static const struct vms_probe_engine probe_engine = {
	.arm = agent_arm_probes,
	.take = agent_take_hits,
	.disarm = vms_agent_probes_disarm,
	.is_armed = vms_agent_probes_is_armed,
	.counts = vms_agent_probes_counts,
	.free = vms_agent_probes_free,
	.tallies = vms_agent_probes_tallies,
};

/* ---- the machine ------------------------------------------------------ */

/* QMP events report every pause, so no command is sent. */
static bool agent_is_paused(struct vms_machine *machine)
{
	struct vms_qmp *qmp = &get_agent(machine)->qemu.qmp;
	vms_qmp_poll(qmp);
	return !qmp->running;
}

/* QEMU reports a pause before the guest continues, so the answer for a past time is final. */
static uint64_t agent_get_paused_ns(struct vms_machine *machine, uint64_t time_ns)
{
	return vms_qmp_paused_ns(&get_agent(machine)->qemu.qmp, time_ns);
}

/* The agent ends all holds when the link is closed. */
static void agent_close(struct vms_machine *machine)
{
	struct agent_machine *agent = get_agent(machine);
	vms_agent_prober_clear(&agent->prober);
	vms_agent_link_close(agent->link);
	vms_qemu_close(&agent->qemu);
	g_free(agent->holds);
	g_free(agent);
}

static const struct vms_engine engine = {
	.name = "agent",
	.holds_each = true,
	.hold = agent_hold,
	.release = agent_release,
	.hold_briefly = agent_hold_briefly,
	.pin = agent_pin,
	.regs = agent_read_regs,
	.prefetch = agent_prefetch,
	.prefetched = agent_get_prefetched,
	.system_regs = vms_qemu_system_regs,
	.check_ranges = vms_qemu_check_ranges,
	.update_ranges = vms_qemu_update_ranges,
	.check_vcpus = vms_qemu_check_vcpus,
	.read_ram = vms_qemu_read_ram,
	.read_parts = vms_qemu_read_parts,
	.next_data = vms_qemu_next_data,
	.is_paused = agent_is_paused,
	.paused_ns = agent_get_paused_ns,
	.ended = vms_qemu_ended,
	.resets = vms_qemu_resets,
	.pause_reason = vms_qemu_pause_reason,
	.probes = &probe_engine,
	.item_text = vms_qemu_item_text,
	.close = agent_close,
};

bool vms_agent_check_holds(const struct vms_agent_link *link, GError **error)
{
	if (!link->hello.one_thread || link->hello.max_vcpus == 1)
		return vms_agent_link_require(link, VMS_AGENT_CAN_HOLD, error);
	g_set_error_literal(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "QEMU runs all vCPUs in one thread");
	return false;
}

/* Drops vCPUs that the agent has no room for. They are the last ones, because indices ascend. */
static void limit_vcpus(struct agent_machine *agent)
{
	struct vms_machine *machine = &agent->qemu.machine;
	while (machine->n_vcpus > 0 &&
	       agent->qemu.cpu_index[machine->n_vcpus - 1] >= agent->link->hello.max_vcpus)
		machine->n_vcpus--;
}

static bool open_agent(struct agent_machine *agent, const char *const *qmp, GError **error)
{
	struct vms_machine *machine = &agent->qemu.machine;
	const struct vms_host_identity *process = &agent->link->process;
	if (!vms_qemu_open(&agent->qemu, qmp, process->pid, error))
		return false;
	/* If QEMU has ended, another process with its pid may have answered. */
	if (!vms_host_identity_is_alive(process)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "%s: QEMU is gone",
			    agent->link->stream.peer);
		return false;
	}
	vms_qemu_recover(&agent->qemu);
	machine->arch = vms_arch_by_name(agent->link->hello.arch);
	if (!machine->arch) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s: the architecture of this machine is not supported",
			    agent->link->stream.peer);
		return false;
	}
	const struct vms_ram *ram = vms_qemu_ram(&agent->qemu);
	if (!ram->parts || ram->parts->len == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "%s: cannot read the guest's memory from QEMU, process %d: run vmscope "
			    "as the same user, or as root",
			    agent->link->stream.peer, (int)process->pid);
		return false;
	}
	limit_vcpus(agent);
	agent->link->stream.give_up_ns = &machine->give_up_ns;
	machine->info.engine = "agent";
	agent->holds = g_new0(struct hold, MAX(machine->n_vcpus, 1));
	agent->may_spin = g_get_num_processors() >= 2 * machine->n_vcpus;
	find_regs(agent);
	agent->prober.machine = machine;
	agent->prober.link = agent->link;
	agent->prober.cpu_index = agent->qemu.cpu_index;
	agent->prober.reg_of = agent->reg_of;
	return true;
}

struct vms_machine *vms_agent_machine_open(struct vms_agent_link *link, const char *const *qmp,
					   GError **error)
{
	struct agent_machine *agent = g_new0(struct agent_machine, 1);
	agent->link = link;
	vms_agent_prober_init(&agent->prober);
	if (!open_agent(agent, qmp, error)) {
		agent_close(&agent->qemu.machine);
		return NULL;
	}
	vms_machine_init(&agent->qemu.machine, &engine);
	return &agent->qemu.machine;
}
