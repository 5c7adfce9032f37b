/* SPDX-License-Identifier: MIT */
/*
 * Code that the kernel's BPF compiler made. The list at `bpf_kallsyms` has a struct bpf_ksym for
 * each program (include/linux/bpf.h). /proc/kallsyms shows them as symbols of the module "bpf".
 * Since ecb60d1c670e ("bpf: Move lnode list node to struct bpf_ksym") (in v5.7).
 */
#include "guest/linux/bpf.h"
#include "guest/linux/list.h"
#include "guest/linux/member.h"
#include <string.h>
#include <vmscope/log.h>

#define PROGRAMS_LIMIT (1u << 14)
#define NAME_SIZE      512 /* KSYM_NAME_LEN */
#define SYMBOL_TYPE    't' /* BPF_SYM_ELF_TYPE */

struct layout {
	struct vms_btf_member start, end, name, node;
};

#define AT(member) offsetof(struct layout, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "bpf_ksym", "start", AT(start), false },
	{ "bpf_ksym", "end", AT(end), false },
	{ "bpf_ksym", "name", AT(name), false },
	{ "bpf_ksym", "lnode", AT(node), false },
};

/* Adds a program to the table. A program that is unloaded while it is read is left out. */
static void add_program(struct vms_linux *guest, const struct layout *layout, uint64_t va,
			struct vms_symbol_table *table)
{
	uint64_t start, end;
	char name[NAME_SIZE];
	if (vms_member_read(guest->memory, va, &layout->start, &start) &&
	    vms_member_read(guest->memory, va, &layout->end, &end) && end > start &&
	    vms_member_read_string(guest->memory, va, &layout->name, name, sizeof(name)) && *name)
		vms_symbol_table_add(table, name, start, end - start, SYMBOL_TYPE);
}

/* A list of programs that is being read. */
struct adding {
	struct vms_linux *guest;
	struct layout layout;
	struct vms_symbol_table *table;
};

static bool visit_program(uint64_t node, void *data)
{
	const struct adding *adding = data;
	add_program(adding->guest, &adding->layout, node - adding->layout.node.offset,
		    adding->table);
	return true;
}

static bool has_same_programs(const struct vms_symbol_table *a, const struct vms_symbol_table *b)
{
	const size_t n = vms_symbol_table_count(a);
	bool same = n == vms_symbol_table_count(b);
	for (size_t i = 0; i < n && same; i++) {
		const struct vms_symbol x = vms_symbol_table_get(a, i);
		const struct vms_symbol y = vms_symbol_table_get(b, i);
		same = x.va == y.va && x.size == y.size && strcmp(x.name, y.name) == 0;
	}
	return same;
}

void vms_linux_bpf_refresh(struct vms_linux *guest)
{
	struct adding adding = { .guest = guest };
	uint64_t head, tree;
	g_autoptr(GError) error = NULL;
	if (!guest->btf || !vms_linux_symbol(guest, "bpf_kallsyms", &head) ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members),
			      &adding.layout))
		return;
	g_mutex_lock(&guest->lock);
	if (guest->bpf && guest->bpf_stamp.va &&
	    !vms_stamp_is_old(&guest->bpf_stamp, guest->memory)) {
		g_mutex_unlock(&guest->lock);
		return;
	}
	struct vms_symbol_table *table = adding.table = vms_symbol_table_new("bpf");
	if (vms_linux_symbol(guest, "bpf_tree", &tree))
		vms_stamp_find(guest->btf, tree, "latch_tree_root", "seq", &guest->bpf_stamp);
	vms_stamp_take(&guest->bpf_stamp, guest->memory);
	const struct vms_list list = { guest->memory, "list of BPF programs", head,
				       PROGRAMS_LIMIT };
	vms_list_walk(&list, visit_program, &adding, &error);
	vms_symbol_table_finish(table, 0);
	/* If nothing has changed the old table stays: code that was noted keeps its number. */
	if (guest->bpf && has_same_programs(guest->bpf, table)) {
		vms_symbol_table_unref(table);
	} else {
		vms_symbol_table_unref(guest->bpf);
		guest->bpf = table;
	}
	g_mutex_unlock(&guest->lock);
	if (error)
		vms_log(VMS_LOG_INFO, "%s", error->message);
}

void vms_linux_bpf_list_programs(const struct vms_linux *guest, GArray *mappings)
{
	const size_t n = guest->bpf ? vms_symbol_table_count(guest->bpf) : 0;
	for (size_t i = 0; i < n; i++) {
		const struct vms_symbol program = vms_symbol_table_get(guest->bpf, i);
		const struct vms_mapping mapping = {
			.start = program.va,
			.end = program.va + program.size,
			.offset = program.va,
			.symbols = guest->bpf,
			.kind = VMS_MAPPING_PROGRAM,
		};
		g_array_append_val(mappings, mapping);
	}
}
