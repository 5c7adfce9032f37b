/* SPDX-License-Identifier: MIT */
/*
 * Arms probes and prints each hit as a line of JSON, until standard input ends, or no more hits can
 * come. A line of the input is a command: "disarm N" and "arm N", of the set N; "counts N"; "hold",
 * which holds the machine once, as a sampler does.
 *
 *   probes pid PID | qmp ADDRESS  [vcpu=N] [max=N] PLACE… [-- [vcpu=N] [max=N] PLACE…]…
 *
 * A PLACE is ADDRESS:before, ADDRESS:after or ADDRESS:halt, and items, each after a colon. Items
 * are values: `rdi`; `[rdi]16`, the bytes there; `"rdi"16`, the string there; `u64(rdi)`, the
 * number there. Or a condition on one: `rdi=77`.
 */
#include "machine/probes.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SETS 16
/* How long to wait before the next look at a machine whose probes were taken away. */
#define TAKEN_AWAY_US 20000

struct set {
	unsigned number;
	struct vms_probes_request request;
	GArray *places; /* struct vms_place */
	struct vms_probes *probes;
};

static const struct vms_arch *arch;

static void print_error(const char *what, unsigned number, const GError *error)
{
	printf("{\"%s\": %u, \"error\": %d, \"message\": \"%s\"}\n", what, number, error->code,
	       error->message);
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
	struct vms_place place = {
		.va = strtoull(words[0], NULL, 0),
		.after = strcmp(words[1], "after") == 0,
		.halts = strcmp(words[1], "halt") == 0,
	};
	for (unsigned i = 2; words[i]; i++)
		add_item(ops, words[i]);
	struct vms_program *program = g_new0(struct vms_program, 1);
	program->n = ops->len;
	program->ops = (const void *)g_array_free(ops, FALSE);
	place.program = program;
	g_array_append_val(set->places, place);
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

/* Reads the arguments of a set. Returns the index behind them. */
static int read_set(struct set *set, int argc, char **argv, int at)
{
	set->places = g_array_new(FALSE, FALSE, sizeof(struct vms_place));
	set->request.vcpu = VMS_ALL_VCPUS;
	for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
		if (g_str_has_prefix(argv[at], "vcpu="))
			set->request.vcpu = atoi(argv[at] + 5);
		else if (g_str_has_prefix(argv[at], "max="))
			set->request.max_hits = strtoull(argv[at] + 4, NULL, 0);
		else
			add_place(set, argv[at]);
	}
	set->request.places = (const void *)set->places->data;
	set->request.n = set->places->len;
	set->request.hit = print_hit;
	set->request.data = set;
	return at + 1;
}

static void arm(struct vms_machine *machine, struct set *set)
{
	g_autoptr(GError) error = NULL;
	set->probes = vms_probes_arm(machine, &set->request, &error);
	if (error)
		print_error("armed", set->number, error);
	else
		printf("{\"armed\": %u}\n", set->number);
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

static void disarm(struct set *set)
{
	g_autoptr(GError) error = NULL;
	if (!set->probes)
		return;
	if (!vms_probes_disarm(set->probes, &error))
		print_error("disarmed", set->number, error);
	print_counts(set);
	g_clear_pointer(&set->probes, vms_probes_free);
}

/* Holds the machine as a sampler does, beside its probes. */
static void hold_once(struct vms_machine *machine)
{
	struct vms_regs regs;
	g_autoptr(GError) error = NULL;
	if (!vms_machine_hold(machine, VMS_ALL_VCPUS, &error)) {
		print_error("held", 0, error);
		return;
	}
	if (!vms_machine_regs(machine, 0, &regs, &error))
		print_error("held", 0, error);
	vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
}

static void execute_line(struct vms_machine *machine, struct set *sets, const char *line)
{
	const char *space = strchr(line, ' ');
	struct set *set = &sets[space ? (unsigned)atoi(space) % MAX_SETS : 0];
	if (g_str_has_prefix(line, "arm"))
		arm(machine, set);
	else if (g_str_has_prefix(line, "disarm"))
		disarm(set);
	else if (g_str_has_prefix(line, "counts") && set->probes)
		print_counts(set);
	else if (g_str_has_prefix(line, "hold"))
		hold_once(machine);
}

/* Executes the lines that have come. False at the end of the input. */
static bool execute_input(struct vms_machine *machine, struct set *sets)
{
	static char text[512];
	static size_t size;
	struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
	char *end;
	if (poll(&input, 1, 0) == 0)
		return true;
	const ssize_t n = read(STDIN_FILENO, text + size, sizeof(text) - size);
	if (n <= 0)
		return false;
	size += (size_t)n;
	while ((end = memchr(text, '\n', size))) {
		*end++ = 0;
		execute_line(machine, sets, text);
		size -= (size_t)(end - text);
		memmove(text, end, size);
	}
	return true;
}

/* Takes hits until the end of the input, or of the machine. */
static void take_hits(struct vms_machine *machine, struct set *sets, GError **error)
{
	do {
		g_clear_error(error);
		fflush(stdout);
		if (!vms_machine_take_hits(machine, 20, error) &&
		    !g_error_matches(*error, VMS_ERROR, VMS_ERROR_NOT_NOW))
			return;
		/* The probes were taken away: others may be armed. */
		if (*error) {
			print_error("taken", 0, *error);
			g_usleep(TAKEN_AWAY_US);
		}
	} while (execute_input(machine, sets));
	g_clear_error(error);
	vms_machine_take_hits(machine, 0, error); /* has the machine ended? */
}

int main(int argc, char **argv)
{
	struct set sets[MAX_SETS] = { 0 };
	g_autoptr(GError) error = NULL;
	if (argc < 4)
		return 2;
	g_autoptr(vms_machine) machine = strcmp(argv[1], "pid") == 0
						 ? vms_machine_open_pid(atoi(argv[2]), &error)
						 : vms_machine_open_qmp(argv[2], &error);
	if (!machine) {
		print_error("opened", 0, error);
		return 1;
	}
	vms_machine_allow_stop(machine, true);
	arch = vms_machine_arch(machine);
	int at = 3;
	for (unsigned n = 0; at < argc && n < MAX_SETS; n++) {
		sets[n].number = n;
		at = read_set(&sets[n], argc, argv, at);
		arm(machine, &sets[n]);
	}
	take_hits(machine, sets, &error);
	for (unsigned i = 0; i < MAX_SETS; i++)
		disarm(&sets[i]);
	if (error)
		print_error("taken", 0, error);
	return 0;
}
