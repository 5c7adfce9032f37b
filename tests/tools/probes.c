/* SPDX-License-Identifier: MIT */
/*
 * Arms probes and prints each hit as a line of JSON, until standard input ends or nothing is armed.
 *
 *   probes pid PID | qmp ADDRESS  [vcpu=N] [max=N] PLACE… [-- [vcpu=N] [max=N] PLACE…]…
 *
 * A PLACE is ADDRESS:before or ADDRESS:after, and items, each after a colon. Items are values:
 * `rdi`; `[rdi]16`, the bytes there; `"rdi"16`, the string there; `u64(rdi)`, the number there. Or
 * a condition on one: `rdi=77`.
 */
#include "machine/probes.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vmscope/log.h>

#define MAX_SETS 16

struct set {
	unsigned number;
	struct vms_probes_request request;
	GArray *places;	  /* struct vms_place */
	GArray *programs; /* GArray of struct vms_op, by place */
	struct vms_probes *probes;
};

static const struct vms_arch *arch;

static void fail(GError *error)
{
	printf("{\"error\": %d, \"message\": \"%s\"}\n", error->code, error->message);
	fflush(stdout);
	exit(1);
}

static void add_op(GArray *ops, unsigned code, unsigned size, uint64_t value)
{
	const struct vms_op op = { .code = (uint16_t)code, .size = (uint16_t)size, .value = value };
	g_array_append_val(ops, op);
}

static void add_register(GArray *ops, const char *name, size_t length)
{
	g_autofree char *copy = g_strndup(name, length);
	const int reg = vms_arch_reg(arch, copy);
	if (reg >= 0)
		add_op(ops, VMS_OP_REGISTER, 0, (uint64_t)reg);
	else
		add_op(ops, VMS_OP_PUSH, 0, strtoull(copy, NULL, 0));
}

static void add_item(GArray *ops, const char *item)
{
	const char *equal = strchr(item, '='), *end = strpbrk(item + 1, "]\")");
	if (equal) {
		add_register(ops, item, (size_t)(equal - item));
		add_op(ops, VMS_OP_PUSH, 0, strtoull(equal + 1, NULL, 0));
		add_op(ops, VMS_OP_EQUAL, 0, 0);
		add_op(ops, VMS_OP_REQUIRE, 0, 0);
	} else if (item[0] == '[' || item[0] == '"') {
		add_register(ops, item + 1, (size_t)(end - item - 1));
		add_op(ops, item[0] == '[' ? VMS_OP_COLLECT_MEMORY : VMS_OP_COLLECT_STRING,
		       (unsigned)atoi(end + 1), 0);
	} else if (g_str_has_prefix(item, "u64(")) {
		add_register(ops, item + 4, (size_t)(end - item - 4));
		add_op(ops, VMS_OP_LOAD, 8, 0);
		add_op(ops, VMS_OP_COLLECT, 8, 0);
	} else {
		add_register(ops, item, strlen(item));
		add_op(ops, VMS_OP_COLLECT, 8, 0);
	}
}

static void add_place(struct set *set, const char *text)
{
	g_auto(GStrv) words = g_strsplit(text, ":", -1);
	GArray *ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	const struct vms_place place = {
		.va = strtoull(words[0], NULL, 0),
		.after = strcmp(words[1], "after") == 0,
		.halts = strcmp(words[1], "halt") == 0,
	};
	for (unsigned i = 2; words[i]; i++)
		add_item(ops, words[i]);
	g_array_append_val(set->places, place);
	g_array_append_val(set->programs, ops);
}

static void print_values(const uint8_t *values, size_t size)
{
	static const char *const names[] = { "known", "unreadable", "cut" };
	const char *separator = "";
	while (size > 0) {
		struct vms_value_head head;
		memcpy(&head, values, sizeof(head));
		printf("%s[\"%s\", \"", separator, names[head.status]);
		for (unsigned i = 0; i < head.size; i++)
			printf("%02x", values[sizeof(head) + i]);
		printf("\"]");
		separator = ", ";
		values += sizeof(head) + head.size;
		size -= sizeof(head) + head.size;
	}
}

static void print_hit(const struct vms_hit *hit, void *data)
{
	const struct set *set = data;
	printf("{\"set\": %u, \"number\": %" G_GUINT64_FORMAT ", \"time\": %" G_GUINT64_FORMAT
	       ", \"place\": %u, \"vcpu\": %u, \"held\": %s, \"values\": [",
	       set->number, hit->number, hit->time_ns, hit->place, hit->vcpu,
	       hit->regs ? "true" : "false");
	print_values(hit->values, hit->size);
	printf("]}\n");
}

/* Reads the arguments of a set, and arms it. Returns the index behind them. */
static int arm(struct vms_machine *machine, struct set *set, int argc, char **argv, int at)
{
	g_autoptr(GError) error = NULL;
	set->places = g_array_new(FALSE, FALSE, sizeof(struct vms_place));
	set->programs = g_array_new(FALSE, FALSE, sizeof(GArray *));
	set->request.vcpu = VMS_ALL_VCPUS;
	for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
		if (g_str_has_prefix(argv[at], "vcpu="))
			set->request.vcpu = atoi(argv[at] + 5);
		else if (g_str_has_prefix(argv[at], "max="))
			set->request.max_hits = strtoull(argv[at] + 4, NULL, 0);
		else
			add_place(set, argv[at]);
	}
	g_autofree struct vms_program *programs = g_new0(struct vms_program, set->places->len);
	for (unsigned i = 0; i < set->places->len; i++) {
		const GArray *ops = g_array_index(set->programs, GArray *, i);
		programs[i] = (struct vms_program) { (const void *)ops->data, ops->len };
		g_array_index(set->places, struct vms_place, i).program = &programs[i];
	}
	set->request.places = (const void *)set->places->data;
	set->request.n = set->places->len;
	set->request.hit = print_hit;
	set->request.data = set;
	set->probes = vms_probes_arm(machine, &set->request, &error);
	if (error)
		fail(error);
	return at + 1;
}

/* False: there is input, or it has ended. */
static bool is_quiet(void)
{
	struct pollfd poll_input = { STDIN_FILENO, POLLIN, 0 };
	return poll(&poll_input, 1, 0) == 0;
}

static bool any_armed(const struct set *sets, unsigned n)
{
	bool any = false;
	for (unsigned i = 0; i < n; i++)
		any |= vms_probes_is_armed(sets[i].probes);
	return any;
}

static void print_counts(const struct set *set)
{
	struct vms_probes_counts counts;
	vms_probes_counts(set->probes, &counts);
	printf("{\"set\": %u, \"hits\": %" G_GUINT64_FORMAT ", \"rejected\": %" G_GUINT64_FORMAT
	       ", \"unknown\": %" G_GUINT64_FORMAT ", \"lost\": %" G_GUINT64_FORMAT
	       ", \"armed\": %s}\n",
	       set->number, counts.hits, counts.rejected, counts.unknown, counts.lost,
	       vms_probes_is_armed(set->probes) ? "true" : "false");
}

int main(int argc, char **argv)
{
	struct set sets[MAX_SETS] = { 0 };
	unsigned n = 0;
	GError *error = NULL;
	if (argc < 4)
		return 2;
	g_autoptr(vms_machine) machine = strcmp(argv[1], "pid") == 0
						 ? vms_machine_open_pid(atoi(argv[2]), &error)
						 : vms_machine_open_qmp(argv[2], &error);
	if (!machine)
		fail(error);
	vms_machine_allow_stop(machine, true);
	arch = vms_machine_arch(machine);
	for (int at = 3; at < argc && n < MAX_SETS; n++) {
		sets[n].number = n;
		at = arm(machine, &sets[n], argc, argv, at);
	}
	printf("{\"armed\": %u}\n", n);
	bool goes_on = true;
	while (goes_on && is_quiet() && any_armed(sets, n)) {
		fflush(stdout);
		goes_on = vms_machine_take_hits(machine, 20, &error);
	}
	if (goes_on) /* has the machine ended? */
		vms_machine_take_hits(machine, 0, &error);
	for (unsigned i = 0; i < n; i++)
		vms_probes_disarm(sets[i].probes, NULL);
	for (unsigned i = 0; i < n; i++)
		print_counts(&sets[i]);
	if (error)
		fail(error);
	for (unsigned i = 0; i < n; i++)
		vms_probes_free(sets[i].probes);
	return 0;
}
