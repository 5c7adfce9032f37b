/* SPDX-License-Identifier: MIT */
/* Holds of vCPUs, with stand-ins for QEMU, for a vCPU and for its client. */
#include "agent/hold/hold.h"
#include "agent/qemu/internals.h"
#include "agent/qemu/kick.h"
#include "base/clock.h"
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIN	  VMS_AGENT_PIN
#define PC	  1
#define SLICE_NS  UINT64_C(100000000) /* after which a pinned vCPU looks for its client */
#define RESUME_NS UINT64_C(1000000)   /* that a vCPU waits when it goes on after a halt */
#define MS	  1000		      /* in us */

/* ---- stand-ins ---------------------------------------------------------------- */

static struct vcpu vcpu;
static unsigned kicks, waits;
static bool needs_code;
static void (*at_wait)(void); /* what the client does when a wait begins; NULL: nothing */

unsigned vcpus_max(void)
{
	return 1;
}

struct vcpu *vcpu_get(unsigned index)
{
	return index == 0 ? &vcpu : NULL;
}

const struct arch *vcpu_arch(void)
{
	static const char *const regs[] = { "r0", "pc" };
	static const struct arch arch = { .name = "fake", .regs = regs, .n_regs = 2, .pc = PC };
	return &arch;
}

void vcpu_read_all(struct vcpu *which G_GNUC_UNUSED, uint32_t has_regs[VMS_AGENT_MAX_REGS / 32],
		   uint64_t regs[VMS_AGENT_MAX_REGS])
{
	has_regs[0] = 3;
	regs[0] = 100;
	regs[PC] = 0x1234;
}

bool kick_needs_code(void)
{
	return needs_code;
}

void kick_vcpu(unsigned index)
{
	g_assert_cmpuint(index, ==, 0);
	kicks++;
}

void kick_begin_wait(void)
{
	waits++;
	if (at_wait)
		at_wait();
}

void kick_end_wait(void)
{
}

bool internals_read_ram(uint64_t address, void *buf, size_t size)
{
	memset(buf, (int)address, size);
	return address < 256;
}

/* ---- a client ------------------------------------------------------------------ */

static struct vms_agent_shared *shared;
static struct vms_agent_vcpu *slot;
static size_t shared_size;

static void set_up(void)
{
	uint64_t size;
	vcpu = (struct vcpu) { .state = VMS_AGENT_RUNNING, .thread = 42 };
	kicks = waits = 0;
	needs_code = false;
	at_wait = NULL;
	const int fd = hold_open(0, &size);
	g_assert_cmpint(fd, >=, 0);
	shared_size = size;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	g_assert_true(shared != MAP_FAILED);
	close(fd);
	slot = &shared->vcpu[0];
}

static void tear_down(void)
{
	hold_service.client_gone(0);
	munmap(shared, shared_size);
}

static void request(uint32_t wanted)
{
	const struct vms_agent_hold hold = { .vcpu = 0 };
	const struct request request = { .message = &hold.message, .size = sizeof(hold) };
	struct reply reply = { 0 };
	atomic_store(&slot->wanted, wanted);
	hold_service.answer(&request, &reply);
	g_assert_cmpuint(reply.size, ==, 0);
}

static uint64_t answer_kick(void)
{
	const uint64_t begin_ns = vms_clock_now_ns();
	g_assert_false(hold_service.vcpu_kicked(&vcpu));
	return vms_clock_now_ns() - begin_ns;
}

/* ---- tests ----------------------------------------------------------------------- */

/*
 * A brief hold ends by itself, before who holds it could have been forgotten: the vCPU must not
 * stand still for as long as a pinned one would. The host may be slow, but not each time.
 */
static void test_brief(void)
{
	uint64_t shortest_ns = UINT64_MAX;
	for (uint32_t hold = 1; hold <= 20; hold++) {
		request(hold);
		g_assert_cmpuint(kicks, ==, hold);
		shortest_ns = MIN(shortest_ns, answer_kick());
		g_assert_cmpuint(slot->held, ==, hold);
		g_assert_cmpuint(slot->wanted, ==, 0);
		g_assert_cmpuint(slot->broken, ==, 0);
		g_assert_cmpuint(waits, ==, hold);
	}
	g_assert_cmpuint(shortest_ns, <, SLICE_NS / 2);
	g_assert_cmpuint(slot->has_regs[0], ==, 3);
	g_assert_cmphex(slot->regs[PC], ==, 0x1234);
	g_assert_cmpuint(slot->thread, ==, 42);
}

static gpointer release_later(gpointer data G_GNUC_UNUSED)
{
	while (atomic_load(&slot->held) != 7)
		g_usleep(MS / 10);
	g_usleep(20 * MS);
	g_assert_cmpuint(atomic_load(&slot->wanted), ==, 7 | PIN);
	atomic_store(&slot->wanted, 0);
	return NULL;
}

/* A pinned hold ends when it is released, and no sooner. Meanwhile the vCPU wakes up rarely. */
static void test_pinned(void)
{
	g_autoptr(GThread) client = g_thread_new("client", release_later, NULL);
	request(7 | PIN);
	const uint64_t took_ns = answer_kick();
	g_thread_join(g_steal_pointer(&client));
	g_assert_cmpuint(took_ns, >=, UINT64_C(20000000));
	g_assert_cmpuint(waits, <=, 1 + took_ns / SLICE_NS);
	g_assert_cmpuint(slot->wanted, ==, 0);
	g_assert_cmpuint(slot->broken, ==, 0);
}

static void pin_then_release(void)
{
	g_assert_cmpuint(slot->held, ==, 5);
	g_assert_cmpuint(slot->wanted, ==, waits == 1 ? 5 : 5 | PIN);
	atomic_store(&slot->wanted, waits == 1 ? 5 | PIN : 0);
}

/* A client pins the vCPU before its brief hold has ended: it stays held. */
static void test_pin_in_time(void)
{
	request(5);
	at_wait = pin_then_release;
	answer_kick();
	g_assert_cmpuint(waits, ==, 2);
	g_assert_cmpuint(slot->wanted, ==, 0);
}

/* A halted vCPU is not kicked: it stands still anyway, with the registers that it had then. */
static void test_halted(void)
{
	hold_service.vcpu_halts(&vcpu, 0x5678);
	g_assert_cmpuint(slot->state, ==, VMS_AGENT_HALTED);
	request(3);
	g_assert_cmpuint(kicks, ==, 0);
	g_assert_cmpuint(slot->held, ==, 3);
	g_assert_cmphex(slot->regs[PC], ==, 0x5678);
	hold_service.vcpu_resumes(&vcpu); /* which ends a brief hold */
	g_assert_cmpuint(slot->state, ==, VMS_AGENT_RUNNING);
	g_assert_cmpuint(slot->wanted, ==, 0);
	g_assert_cmpuint(kicks, ==, 0);

	hold_service.vcpu_halts(&vcpu, 0);
	request(4 | PIN);
	g_assert_cmpuint(slot->held, ==, 4);
	g_assert_cmphex(slot->regs[PC], ==, 0x1234);
	hold_service.vcpu_resumes(&vcpu); /* a pinned one goes on, once the vCPU answers its kick */
	g_assert_cmpuint(slot->wanted, ==, 4 | PIN);
	g_assert_cmpuint(kicks, ==, 1);
	hold_break(0);
	g_assert_cmpuint(slot->wanted, ==, 0);
	g_assert_cmpuint(slot->broken, ==, 1);
	answer_kick();
	g_assert_cmpuint(waits, ==, 0);
}

/*
 * Where only code can be kicked, a vCPU waits before it goes on after a halt, for a client that has
 * pinned it, but only for a millisecond: it has QEMU's big lock. For a brief hold it does not wait.
 */
static void test_resumes(void)
{
	uint64_t shortest_ns = UINT64_MAX;
	needs_code = true;
	for (uint32_t hold = 1; hold <= 20; hold++) {
		hold_service.vcpu_halts(&vcpu, 0);
		request(hold);
		const uint64_t begin_ns = vms_clock_now_ns();
		hold_service.vcpu_resumes(&vcpu);
		shortest_ns = MIN(shortest_ns, vms_clock_now_ns() - begin_ns);
		g_assert_cmpuint(slot->wanted, ==, 0);
	}
	g_assert_cmpuint(shortest_ns, <, RESUME_NS / 2);
	g_assert_cmpuint(kicks, ==, 0);

	hold_service.vcpu_halts(&vcpu, 0);
	request(100 | PIN);
	const uint64_t begin_ns = vms_clock_now_ns();
	hold_service.vcpu_resumes(&vcpu);
	g_assert_cmpuint(vms_clock_now_ns() - begin_ns, >=, RESUME_NS);
	g_assert_cmpuint(slot->wanted, ==, 100 | PIN);
	g_assert_cmpuint(kicks, ==, 1);
}

/* Memory is copied by a vCPU that was kicked by QEMU's queue, as only that holds QEMU's lock. */
static void test_prefetch(void)
{
	slot->n_prefetch = 2;
	slot->prefetch_hva[0] = 17;
	slot->prefetch_hva[1] = 1000; /* no memory */
	for (uint32_t hold = 1; hold <= 2; hold++) {
		needs_code = hold == 2;
		request(hold);
		answer_kick();
		g_assert_cmpuint(slot->is_prefetched[0], ==, hold == 1);
		g_assert_cmpuint(slot->is_prefetched[1], ==, 0);
		g_assert_cmpuint(slot->prefetched[0][VMS_AGENT_PREFETCH_SIZE - 1], ==, 17);
	}
	needs_code = false;
	slot->is_prefetched[0] = 1;
	hold_service.vcpu_halts(&vcpu, 0);
	request(3);
	g_assert_cmpuint(slot->is_prefetched[0], ==, 0);
	hold_service.vcpu_resumes(&vcpu);
	/* More than there is room for: the rest is left out. */
	slot->n_prefetch = UINT32_MAX;
	request(4);
	answer_kick();
	g_assert_cmpuint(slot->is_prefetched[0], ==, 1);
}

/* A vCPU that is unplugged, or a client that is gone, holds nothing. */
static void test_ends(void)
{
	request(1 | PIN);
	g_assert_true(hold_any(0));
	g_assert_true(hold_any_vcpu());
	g_assert_false(hold_any(1));
	hold_service.vcpu_ends(&vcpu);
	g_assert_cmpuint(slot->state, ==, VMS_AGENT_ABSENT);
	g_assert_cmpuint(slot->wanted, ==, 0);
	g_assert_cmpuint(slot->broken, ==, 1);
	request(2 | PIN);
	hold_service.client_gone(0);
	g_assert_false(hold_any_vcpu());
	answer_kick();
	g_assert_cmpuint(waits, ==, 0);
}

static void check_refused(const struct vms_agent_hold *hold, size_t size, unsigned client)
{
	const struct request request = { .client = client,
					 .message = &hold->message,
					 .size = size };
	struct reply reply = { 0 };
	hold_service.answer(&request, &reply);
	g_assert_cmpuint(reply.size, >, 0);
	g_assert_cmpuint(reply.failure.code, ==, VMS_ERROR_PROTOCOL);
	g_assert_cmpuint(kicks, ==, 0);
}

static void test_malformed(void)
{
	struct vms_agent_hold hold = { .vcpu = 0 };
	check_refused(&hold, sizeof(hold) - 1, 0);
	check_refused(&hold, sizeof(hold), 1); /* has not said hello */
	hold.vcpu = 1;
	check_refused(&hold, sizeof(hold), 0);
}

struct test {
	const char *name;
	void (*run)(void);
};

static void run(gconstpointer data)
{
	const struct test *test = data;
	set_up();
	test->run();
	tear_down();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "/agent-hold/brief", test_brief },
		{ "/agent-hold/pinned", test_pinned },
		{ "/agent-hold/pin-in-time", test_pin_in_time },
		{ "/agent-hold/halted", test_halted },
		{ "/agent-hold/resumes", test_resumes },
		{ "/agent-hold/prefetch", test_prefetch },
		{ "/agent-hold/ends", test_ends },
		{ "/agent-hold/malformed", test_malformed },
	};
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add_data_func(tests[i].name, &tests[i], run);
	return g_test_run();
}
