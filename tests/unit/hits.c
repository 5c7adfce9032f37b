/* SPDX-License-Identifier: MIT */
/*
 * Hits on their way from a vCPU to who takes them: what the agent accepts of a client and writes,
 * the order of their numbers, and rings that no agent would write.
 */
#include "machine/agent/hits.h"

#include "agent/probes/plan.h"
#include "machine/agent/hit_order.h"
#include "probe_request.h"
#include <string.h>
#include <sys/socket.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

#define VCPUS	  4
#define RING_SIZE (64u << 10)
#define VA	  0xffffffff81000000

/* ---- the agent's side ---------------------------------------------------------------- */

/* A request with its file, which a test may damage. */
struct start {
	struct vms_agent_probes options;
	struct file {
		struct vms_agent_place places[2];
		struct vms_op ops[4];
	} file;
	size_t cut; /* bytes that the file lacks */
};

/* Two places: both collect register 0; the second one requires that it is even. */
static const struct start sound_start = {
	.options = { .message = { VMS_AGENT_MAGIC, VMS_AGENT_PROBES_START },
		     .id = 1,
		     .vcpu = VMS_AGENT_ALL_VCPUS,
		     .ring_size = RING_SIZE,
		     .n_places = 2,
		     .n_ops = 4 },
	.file.places = { { VA, 0, 2 }, { VA + 8, VMS_AGENT_PLACE_AFTER, 2 } },
	.file.ops = { { .code = VMS_OP_REGISTER },
		      { .code = VMS_OP_COLLECT, .size = 8 },
		      { .code = VMS_OP_REGISTER },
		      { .code = VMS_OP_REQUIRE } },
};

/* Returns null if it is refused. */
static struct probe_set *make_set(const struct start *start)
{
	struct reply reply = { 0 };
	struct probe_set *set = probe_request_send(&start->options, &start->file,
						   sizeof(start->file) - start->cut, VCPUS, &reply);
	for (unsigned i = 0; set && i < VCPUS; i++)
		g_assert_true(probe_set_reserve(set, i));
	if (set)
		set->armed = true;
	else
		g_assert_cmpint(reply.message.kind, ==, VMS_AGENT_ERROR);
	return set;
}

static void assert_refused(const struct start *start)
{
	g_assert_null(make_set(start));
}

static void test_requests(void)
{
	struct start start = sound_start;
	probe_set_free(make_set(&start));
	start.cut = 1;
	assert_refused(&start);
	start = sound_start;
	start.options.n_places = 0;
	assert_refused(&start);
	start = sound_start;
	start.options.n_places = VMS_AGENT_MAX_PLACES + 1;
	assert_refused(&start);
	start = sound_start;
	start.options.n_ops = VMS_AGENT_MAX_OPS + 1;
	assert_refused(&start);
	start = sound_start;
	start.options.n_ops = 3;
	assert_refused(&start);
	start = sound_start;
	start.options.ring_size = RING_SIZE / 2;
	assert_refused(&start);
	start = sound_start;
	start.options.ring_size = RING_SIZE + 16;
	assert_refused(&start);
	start = sound_start;
	start.file.places[0].n_ops = 1; /* one belongs to nobody */
	assert_refused(&start);
	start = sound_start;
	start.file.places[1].n_ops = UINT32_MAX;
	assert_refused(&start);
	start = sound_start;
	start.file.places[0].flags = 2;
	assert_refused(&start);
	start = sound_start;
	start.file.ops[0].code = VMS_OP_ADD;
	assert_refused(&start);
	start = sound_start;
	start.file.ops[0].value = VMS_AGENT_MAX_REGS;
	assert_refused(&start);
}

static void test_plan(void)
{
	struct start start = sound_start;
	struct probe_set *sets[3];
	for (unsigned i = 0; i < 3; i++) {
		start.file.places[1].va = i == 2 ? 0x401234 : VA;
		sets[i] = make_set(&start);
	}
	struct plan *plan = plan_new(sets, 3);
	struct plan_place place = plan_find(plan, VA);
	g_assert_cmpuint(place.n_before, ==, 3);
	g_assert_cmpuint(place.n_after, ==, 2);
	for (unsigned i = 0; i < 5; i++) {
		g_assert_cmpint(place.entries[i].after, ==, i >= 3);
		g_assert_cmpuint(place.entries[i].set, ==, i % 3);
		g_assert_cmpuint(place.entries[i].place, ==, i >= 3);
	}
	place = plan_find(plan, 0x401234);
	g_assert_cmpuint(place.n_before + 10 * place.n_after, ==, 10);
	g_assert_null(plan_find(plan, VA + 1).entries);
	g_assert_null(plan_find(plan, 0).entries);
	g_assert_true(plan->has_after);
	for (uint64_t va = 0; va < 8192; va++)
		g_assert_cmpint(plan_has_offset(plan, va), ==, va % 4096 == 0x234);
	plan_free(plan);
	for (unsigned i = 0; i < 3; i++)
		probe_set_free(sets[i]);
}

/* ---- both sides ---------------------------------------------------------------------- */

/* What was handed out. */
struct taken {
	uint64_t n, last;
	uint64_t of_vcpu[VCPUS];
	uint64_t next[VCPUS]; /* value that the next hit of each vCPU must have */
};

static void on_hit(const struct vms_hit *hit, void *data)
{
	struct taken *taken = data;
	struct vms_value_head head;
	uint64_t value;
	g_assert_cmpuint(hit->number, >, taken->last);
	g_assert_null(hit->regs);
	g_assert_cmpuint(hit->size, ==, sizeof(head) + sizeof(value));
	memcpy(&value, hit->values + sizeof(head), sizeof(value));
	g_assert_cmpuint(value, >=, taken->next[hit->vcpu]);
	taken->next[hit->vcpu] = value + 1;
	taken->of_vcpu[hit->vcpu]++;
	taken->last = hit->number;
	taken->n++;
}

static const unsigned cpu_index[VCPUS] = { 0, 1, 2, 3 };

/* A set of probes, and who takes its hits. */
struct route {
	struct probe_set *set;
	struct vms_hits *hits;
	struct taken taken;
	struct vms_probes_counts counts;
};

static void open_route(struct route *route, const struct start *start)
{
	struct probe_set *set = make_set(start);
	const struct vms_hits_expected expected = { 2, start->options.max_hits, cpu_index, VCPUS };
	GError *error = NULL;
	*route = (struct route) { .set = set };
	route->hits = vms_hits_new(set->rings.shared, set->rings.size, &expected, on_hit,
				   &route->taken, &error);
	g_assert_no_error(error);
}

static void close_route(struct route *route, const void *data G_GNUC_UNUSED)
{
	vms_hits_free(route->hits);
	probe_set_free(route->set);
}

static void open_sound(struct route *route, const void *data G_GNUC_UNUSED)
{
	open_route(route, &sound_start);
}

#define LIMIT 12345

static void open_limited(struct route *route, const void *data G_GNUC_UNUSED)
{
	struct start start = sound_start;
	start.options.max_hits = LIMIT;
	open_route(route, &start);
}

/* On one vCPU; the first place has the second one's condition, too. */
static void open_conditional(struct route *route, const void *data G_GNUC_UNUSED)
{
	struct start start = sound_start;
	start.options.vcpu = 2;
	start.file.places[0].n_ops = 4;
	start.file.places[1].n_ops = 0;
	open_route(route, &start);
}

static void take(struct route *route, bool ended)
{
	vms_hits_take(route->hits, ended);
	vms_hits_counts(route->hits, &route->counts);
}

static bool read_reg(void *data, unsigned reg, uint64_t *ret)
{
	g_assert_cmpuint(reg, ==, 0);
	*ret = *(const uint64_t *)data;
	return true;
}

/* Returns true if it has ended the set. */
static bool hit_place(struct probe_set *set, unsigned vcpu, uint32_t place, uint64_t value)
{
	const struct vms_program_input input = { read_reg, NULL, &value, vcpu };
	const struct probe_hit hit = { place, vcpu, &input };
	return probe_set_run(set, &hit);
}

#define PER_VCPU 40000

struct worker {
	struct probe_set *set;
	unsigned vcpu, ended;
};

static gpointer work(gpointer data)
{
	struct worker *worker = data;
	for (uint64_t i = 0; i < PER_VCPU; i++)
		worker->ended += hit_place(worker->set, worker->vcpu, 0, i);
	return NULL;
}

/* Takes what four vCPUs hit at the same time. Returns how many of them have ended the set. */
static unsigned take_of_all(struct route *route, uint64_t expected)
{
	struct worker workers[VCPUS];
	GThread *threads[VCPUS];
	unsigned ended = 0;
	for (unsigned i = 0; i < VCPUS; i++) {
		workers[i] = (struct worker) { route->set, i, 0 };
		threads[i] = g_thread_new("vCPU", work, &workers[i]);
	}
	while (route->taken.n < expected)
		vms_hits_take(route->hits, false);
	for (unsigned i = 0; i < VCPUS; i++) {
		g_thread_join(threads[i]);
		ended += workers[i].ended;
	}
	return ended;
}

static void test_all_in_order(struct route *route, const void *data G_GNUC_UNUSED)
{
	g_assert_cmpuint(take_of_all(route, VCPUS * PER_VCPU), ==, 0);
	take(route, true);
	g_assert_cmpuint(route->taken.last, ==, VCPUS * PER_VCPU);
	g_assert_cmpuint(route->counts.hits, ==, VCPUS * PER_VCPU);
	g_assert_cmpuint(route->counts.lost, ==, 0);
	g_assert_false(vms_hits_is_stopped(route->hits));
}

/* What the agent has written into all rings, in bytes. */
static uint64_t written(const struct probe_set *set)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < VCPUS; i++)
		sum += atomic_load(&set->rings.shared->ring[i].head);
	return sum;
}

static void test_limit(struct route *route, const void *data G_GNUC_UNUSED)
{
	g_assert_cmpuint(take_of_all(route, LIMIT), ==, 1);
	take(route, false);
	g_assert_cmpuint(route->taken.n, ==, LIMIT);
	g_assert_cmpuint(route->counts.hits, ==, LIMIT);
	g_assert_true(vms_hits_is_stopped(route->hits));
	/* A vCPU that was on its way there takes a number, but writes nothing. */
	const uint64_t before = written(route->set);
	route->set->ended = false;
	atomic_store(&route->set->rings.shared->hits, LIMIT);
	g_assert_false(hit_place(route->set, 0, 0, PER_VCPU));
	g_assert_cmpuint(written(route->set), ==, before);
}

static void test_conditions_and_vcpu(struct route *route, const void *data G_GNUC_UNUSED)
{
	for (unsigned i = 0; i < VCPUS; i++) {
		hit_place(route->set, i, 0, 5);
		hit_place(route->set, i, 0, 0);
	}
	take(route, false);
	g_assert_cmpuint(route->taken.of_vcpu[2], ==, 1);
	g_assert_cmpuint(route->taken.n, ==, 1);
	g_assert_cmpuint(route->counts.rejected, ==, 1);
	g_assert_cmpuint(route->counts.unknown, ==, 0);
}

/* A hit that finds no room has its number, and all others come. */
static void test_lost(struct route *route, const void *data G_GNUC_UNUSED)
{
	probe_set_abandon(route->set); /* so that nobody waits for room */
	for (uint64_t i = 0; i < 2000; i++)
		hit_place(route->set, 1, 0, i);
	hit_place(route->set, 0, 0, 0);
	take(route, false);
	g_assert_cmpuint(route->counts.hits, ==, 2001);
	g_assert_cmpuint(route->counts.lost, >, 0);
	g_assert_cmpuint(route->counts.lost + route->taken.n, ==, 2001);
	g_assert_cmpuint(route->taken.last, ==, 2001);
}

/* The client is woken once for its sleep. */
static void test_wake(struct route *route, const void *data G_GNUC_UNUSED)
{
	char byte;
	const int woken = route->set->rings.woken;
	hit_place(route->set, 0, 0, 0);
	g_assert_cmpint(recv(woken, &byte, 1, MSG_DONTWAIT), ==, -1);
	vms_hits_set_sleeps(route->hits, true);
	hit_place(route->set, 0, 0, 1);
	hit_place(route->set, 0, 0, 2);
	g_assert_cmpint(recv(woken, &byte, 1, MSG_DONTWAIT), ==, 1);
	g_assert_cmpint(recv(woken, &byte, 1, MSG_DONTWAIT), ==, -1);
}

/* ---- order --------------------------------------------------------------------------- */

static void note_number(const struct vms_agent_hit *hit, const uint8_t *values, void *data)
{
	GString *text = data;
	g_string_append_printf(text, "%u%s%.*s", (unsigned)hit->number, hit->size ? "=" : "",
			       (int)hit->size, (const char *)values);
	g_string_append_c(text, ' ');
}

static void add(struct vms_hit_order *order, uint64_t number, const char *values)
{
	const struct vms_agent_hit hit = { .number = number, .size = (uint32_t)strlen(values) };
	vms_hit_order_add(order, &hit, (const uint8_t *)values);
}

static void assert_runs(struct vms_hit_order *order, uint64_t settled, const char *expected,
			uint64_t lost)
{
	g_autoptr(GString) text = g_string_new(NULL);
	vms_hit_order_run(order, settled, note_number, text);
	g_assert_cmpstr(text->str, ==, expected);
	g_assert_cmpuint(order->lost, ==, lost);
}

static void test_order(void)
{
	struct vms_hit_order order;
	vms_hit_order_init(&order);
	assert_runs(&order, 0, "", 0);
	add(&order, 3, "c");
	add(&order, 1, "aaa");
	assert_runs(&order, 1, "1=aaa ", 0);
	add(&order, 5, "");
	g_assert_cmpuint(vms_hit_order_first(&order), ==, 3);
	assert_runs(&order, 1, "", 0);
	add(&order, 2, "bb");
	assert_runs(&order, 1, "2=bb 3=c ", 0);
	assert_runs(&order, 4, "5 ", 1); /* 4 does not come */
	g_assert_cmpuint(vms_hit_order_first(&order), ==, 0);
	add(&order, 4, "late");
	add(&order, 6, "f");
	add(&order, 6, "again");
	assert_runs(&order, 4, "6=f ", 1);
	assert_runs(&order, 9, "", 4); /* 7 to 9 */
	add(&order, 10, "j");
	assert_runs(&order, 9, "10=j ", 4);
	vms_hit_order_clear(&order);
}

/* ---- rings that no agent writes ------------------------------------------------------- */

static void ignore_log(enum vms_log_level level, const char *message, void *data)
{
	(void)level, (void)message, (void)data;
}

/* Writes one hit, damaged by `damage`; nothing may be handed out. */
static void assert_not_taken(void (*damage)(struct vms_agent_block *block,
					    struct vms_agent_hit *hit))
{
	struct route route;
	struct start start = sound_start;
	start.options.max_hits = 100;
	open_route(&route, &start);
	hit_place(route.set, 0, 0, 0);
	unsigned char *data = rings_data(&route.set->rings, 0);
	struct vms_agent_block block;
	struct vms_agent_hit hit;
	memcpy(&block, data, sizeof(block));
	memcpy(&hit, data + sizeof(block), sizeof(hit));
	damage(&block, &hit);
	memcpy(data, &block, sizeof(block));
	memcpy(data + sizeof(block), &hit, sizeof(hit));
	vms_hits_take(route.hits, false);
	vms_hits_take(route.hits, true);
	g_assert_cmpuint(route.taken.n, ==, 0);
	close_route(&route, NULL);
}

#define DAMAGE(name, statement)                                                                    \
	static void name(struct vms_agent_block *block, struct vms_agent_hit *hit)                 \
	{                                                                                          \
		(void)block, (void)hit;                                                            \
		statement;                                                                         \
	}
DAMAGE(other_kind, block->kind = 3)
DAMAGE(appended, block->kind = VMS_AGENT_APPENDED)
DAMAGE(odd_block, block->size = 7)
DAMAGE(long_block, block->size = UINT32_MAX - 15)
DAMAGE(short_block, block->size = 16)
DAMAGE(other_place, hit->place = 2)
DAMAGE(other_vcpu, hit->vcpu = VCPUS)
DAMAGE(no_number, hit->number = 0)
DAMAGE(high_number, hit->number = 101)
DAMAGE(more_values, hit->size = 13)
DAMAGE(many_values, hit->size = UINT32_MAX)
DAMAGE(part_of_head, hit->size = 3)
DAMAGE(part_of_value, hit->size = 11)

static void test_hostile(void)
{
	void (*const damages[])(struct vms_agent_block *, struct vms_agent_hit *) = {
		other_kind,  appended,	   odd_block,	  long_block,  short_block,
		other_place, other_vcpu,   no_number,	  high_number, more_values,
		many_values, part_of_head, part_of_value,
	};
	vms_log_set_handler(ignore_log, NULL, VMS_LOG_WARNING);
	for (size_t i = 0; i < G_N_ELEMENTS(damages); i++)
		assert_not_taken(damages[i]);
	vms_log_set_handler(NULL, NULL, VMS_LOG_INFO);
}

/* A number that is always about to come holds the others back for a while only. */
static void test_never_settled(struct route *route, const void *data G_GNUC_UNUSED)
{
	atomic_store(&route->set->rings.shared->ring[3].taking, 1);
	atomic_store(&route->set->rings.shared->hits, 5);
	hit_place(route->set, 0, 0, 0);
	g_assert_cmpuint(vms_hits_take(route->hits, false), ==, 0);
	while (vms_hits_take(route->hits, false) == 0)
		g_usleep(10000);
	g_assert_cmpuint(route->taken.last, ==, 6);
}

static void add_test(const char *path, void (*open)(struct route *, const void *),
		     void (*test)(struct route *, const void *))
{
	g_test_add(path, struct route, NULL, open, test, close_route);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/hits/requests", test_requests);
	g_test_add_func("/hits/plan", test_plan);
	add_test("/hits/all-in-order", open_sound, test_all_in_order);
	add_test("/hits/limit", open_limited, test_limit);
	add_test("/hits/conditions-and-vcpu", open_conditional, test_conditions_and_vcpu);
	add_test("/hits/lost", open_sound, test_lost);
	add_test("/hits/wake", open_sound, test_wake);
	g_test_add_func("/hits/order", test_order);
	g_test_add_func("/hits/hostile", test_hostile);
	add_test("/hits/never-settled", open_sound, test_never_settled);
	return g_test_run();
}
