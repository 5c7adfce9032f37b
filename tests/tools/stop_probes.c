/* SPDX-License-Identifier: MIT */
/*
 * Arms places in a machine and prints their hits, a JSON object a line, until it is killed, its
 * standard input ends, or no more hits can come. A line "disarm N" disarms the set N, "arm N" arms
 * it again. For tests.
 *
 *   probes pid|qmp|gdb ADDRESS SET...
 *
 * A set is PLACE[,PLACE...][;max=N][;vcpu=N]; a place
 * VA[:after][:halts][:REG][:mem=REG+OFFSET/SIZE]
 * [:if=REG/VALUE].
 */
#include "machine/probes.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vmscope/log.h>

#define SETS_MAX 16

struct set {
	unsigned number;
	GArray *places; /* struct vms_place */
	struct vms_probes_request request;
	struct vms_probes *probes;
};

static void on_log(enum vms_log_level level, const char *message, void *data)
{
	(void)data;
	fprintf(stderr, "%d %s\n", (int)level, message);
}

static bool quiet; /* only the counts are printed */

static void print_value(const uint8_t **at, bool is_first)
{
	struct vms_value_head head;
	memcpy(&head, *at, sizeof(head));
	*at += sizeof(head);
	printf("%s\"", is_first ? "" : ",");
	if (head.status == VMS_VALUE_UNREADABLE)
		printf("?");
	for (unsigned i = 0; i < head.size; i++)
		printf("%02x", (*at)[i]);
	printf("\"");
	*at += head.size;
}

static void on_hit(const struct vms_hit *hit, void *data)
{
	const struct set *set = data;
	const uint8_t *at = hit->values;
	if (quiet)
		return;
	printf("{\"set\":%u,\"number\":%" G_GUINT64_FORMAT ",\"time\":%" G_GUINT64_FORMAT
	       ",\"place\":%u,\"vcpu\":%u,\"values\":[",
	       set->number, hit->number, hit->time_ns, hit->place, hit->vcpu);
	while (at < hit->values + hit->size)
		print_value(&at, at == hit->values);
	printf("]}\n");
}

static void add_op(GArray *ops, enum vms_op_code code, unsigned size, uint64_t value)
{
	struct vms_op op = { .code = (uint16_t)code, .size = (uint16_t)size, .value = value };
	g_array_append_val(ops, op);
}

/* REG, mem=REG+OFFSET/SIZE or if=REG/VALUE. */
static void parse_value(const struct vms_arch *arch, char *text, GArray *ops)
{
	const bool is_memory = g_str_has_prefix(text, "mem="),
		   is_condition = g_str_has_prefix(text, "if=");
	char *name = is_memory ? text + 4 : is_condition ? text + 3 : text;
	char *slash = strchr(name, '/');
	uint64_t number = slash ? g_ascii_strtoull(slash + 1, NULL, 0) : 0;
	if (slash)
		*slash = 0;
	char *plus = strchr(name, '+');
	uint64_t offset = plus ? g_ascii_strtoull(plus + 1, NULL, 0) : 0;
	if (plus)
		*plus = 0;
	int reg = vms_arch_reg(arch, name);
	if (reg >= 0)
		add_op(ops, VMS_OP_REGISTER, 0, (uint64_t)reg);
	else
		add_op(ops, VMS_OP_PUSH, 0, g_ascii_strtoull(name, NULL, 0));
	if (offset) {
		add_op(ops, VMS_OP_PUSH, 0, offset);
		add_op(ops, VMS_OP_ADD, 0, 0);
	}
	if (is_memory) {
		add_op(ops, VMS_OP_COLLECT_MEMORY, (unsigned)number, 0);
	} else if (is_condition) {
		add_op(ops, VMS_OP_PUSH, 0, number);
		add_op(ops, VMS_OP_EQUAL, 0, 0);
		add_op(ops, VMS_OP_REQUIRE, 0, 0);
	} else {
		add_op(ops, VMS_OP_COLLECT, 8, 0);
	}
}

static void parse_place(const struct vms_arch *arch, const char *text, struct set *set)
{
	g_auto(GStrv) words = g_strsplit(text, ":", -1);
	struct vms_place place = { .va = g_ascii_strtoull(words[0], NULL, 0) };
	GArray *ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	for (char **word = words + 1; *word; word++) {
		if (strcmp(*word, "after") == 0)
			place.after = true;
		else if (strcmp(*word, "halts") == 0)
			place.halts = true;
		else
			parse_value(arch, *word, ops);
	}
	struct vms_program *program = g_new0(struct vms_program, 1);
	program->n = ops->len;
	program->ops = (struct vms_op *)(void *)g_array_free(ops, FALSE);
	place.program = program;
	g_array_append_val(set->places, place);
}

static void parse_set(const struct vms_arch *arch, const char *text, unsigned number,
		      struct set *set)
{
	g_auto(GStrv) words = g_strsplit(text, ";", -1);
	g_auto(GStrv) places = g_strsplit(words[0], ",", -1);
	*set = (struct set) { .number = number };
	set->places = g_array_new(FALSE, FALSE, sizeof(struct vms_place));
	set->request =
		(struct vms_probes_request) { .vcpu = VMS_ALL_VCPUS, .hit = on_hit, .data = set };
	for (char **place = places; *place; place++)
		parse_place(arch, *place, set);
	for (char **word = words + 1; *word; word++) {
		if (g_str_has_prefix(*word, "max="))
			set->request.max_hits = strtoull(*word + 4, NULL, 0);
		else if (g_str_has_prefix(*word, "vcpu="))
			set->request.vcpu = atoi(*word + 5);
	}
	set->request.places = (struct vms_place *)(void *)set->places->data;
	set->request.n = set->places->len;
}

static void print_error(const char *what, unsigned number, const GError *error)
{
	g_autofree char *message = g_strescape(error->message, NULL);
	printf("{\"%s\":%u,\"error\":%d,\"message\":\"%s\"}\n", what, number, error->code, message);
}

static void arm(struct vms_machine *machine, struct set *set)
{
	g_autoptr(GError) error = NULL;
	set->probes = vms_probes_arm(machine, &set->request, &error);
	if (set->probes)
		printf("{\"armed\":%u}\n", set->number);
	else
		print_error("armed", set->number, error);
	fflush(stdout);
}

static void print_counts(const struct set *set)
{
	struct vms_probes_counts counts;
	vms_probes_counts(set->probes, &counts);
	printf("{\"counts\":%u,\"hits\":%" G_GUINT64_FORMAT ",\"rejected\":%" G_GUINT64_FORMAT
	       ",\"unknown\":%" G_GUINT64_FORMAT ",\"is_armed\":%d}\n",
	       set->number, counts.hits, counts.rejected, counts.unknown,
	       vms_probes_is_armed(set->probes));
	fflush(stdout);
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

static void sample(struct vms_machine *machine)
{
	struct vms_regs regs;
	g_autoptr(GError) error = NULL;
	if (!vms_machine_hold(machine, VMS_ALL_VCPUS, &error) ||
	    !vms_machine_regs(machine, 0, &regs, &error)) {
		print_error("sample", 0, error);
		return;
	}
	vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
}

/* Executes the lines that have come. False at their end. */
static bool execute(struct vms_machine *machine, struct set *sets, GString *text)
{
	char buf[512], *end;
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));
	if (n <= 0)
		return false;
	g_string_append_len(text, buf, n);
	while ((end = strchr(text->str, '\n'))) {
		unsigned number = 0;
		const char *space = strchr(text->str, ' ');
		if (space && space < end)
			number = (unsigned)atoi(space + 1) % SETS_MAX;
		if (g_str_has_prefix(text->str, "arm"))
			arm(machine, &sets[number]);
		else if (g_str_has_prefix(text->str, "disarm"))
			disarm(&sets[number]);
		else if (g_str_has_prefix(text->str, "counts") && sets[number].probes)
			print_counts(&sets[number]);
		else if (g_str_has_prefix(text->str, "sample"))
			sample(machine);
		g_string_erase(text, 0, end + 1 - text->str);
	}
	return true;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	struct set sets[SETS_MAX] = { 0 };
	vms_log_set_handler(on_log, NULL, VMS_LOG_INFO);
	if (argc < 4)
		return 2;
	quiet = getenv("QUIET") != NULL;
	struct vms_machine *machine =
		strcmp(argv[1], "pid") == 0   ? vms_machine_open_pid(atoi(argv[2]), &error)
		: strcmp(argv[1], "qmp") == 0 ? vms_machine_open_qmp(argv[2], &error)
					      : vms_machine_open_gdb(argv[2], &error);
	if (!machine) {
		print_error("opened", 0, error);
		return 1;
	}
	vms_machine_allow_stop(machine, true);
	for (int i = 3; i < argc && i - 3 < SETS_MAX; i++) {
		parse_set(vms_machine_arch(machine), argv[i], (unsigned)i - 3, &sets[i - 3]);
		arm(machine, &sets[i - 3]);
	}
	g_autoptr(GString) text = g_string_new(NULL);
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	bool goes_on = true;
	while (goes_on) {
		g_autoptr(GError) failure = NULL;
		if (!vms_machine_take_hits(machine, 20, &failure)) {
			print_error("take", 0, failure);
			goes_on = failure->code == VMS_ERROR_NOT_NOW && poll(&input, 1, 100) >= 0;
		}
		if (!quiet)
			fflush(stdout);
		if (poll(&input, 1, 0) > 0)
			goes_on = execute(machine, sets, text) && goes_on;
	}
	for (unsigned i = 0; i < SETS_MAX; i++)
		disarm(&sets[i]);
	vms_machine_unref(machine);
	printf("{\"end\":true}\n");
	return 0;
}
