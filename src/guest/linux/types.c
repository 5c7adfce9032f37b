/* SPDX-License-Identifier: MIT */
/*
 * The BTF of a module is what the kernel keeps of it, in the list `btf_modules` of struct
 * btf_module (kernel/bpf/btf.c): its `btf` has the bytes, with the numbers of the kernel's types.
 */
#include "guest/linux/types.h"
#include "guest/linux/btf_types.h"
#include "guest/linux/list.h"
#include "guest/linux/member.h"
#include "guest/linux/module.h"

#define MODULES_LIMIT 4096
#define BLOB_LIMIT    (16u << 20) /* bytes of a module's BTF; the largest have about 1 MiB */

struct module_types {
	uint64_t module, data, size; /* addresses of its struct module and its BTF; bytes of that */
	struct vms_types *types;
};

struct vms_linux_types {
	struct vms_types *kernel; /* NULL: not made yet */
	GArray *modules;	  /* struct module_types */
};

static struct vms_linux_types *make_store(void)
{
	struct vms_linux_types *types = g_new0(struct vms_linux_types, 1);
	types->modules = g_array_new(false, false, sizeof(struct module_types));
	return types;
}

void vms_linux_types_free(struct vms_linux_types *types)
{
	if (!types)
		return;
	for (guint i = 0; i < types->modules->len; i++)
		vms_types_unref(g_array_index(types->modules, struct module_types, i).types);
	g_array_unref(types->modules);
	vms_types_unref(types->kernel);
	g_free(types);
}

/* ---- the BTF of a module -------------------------------------------------------------- */

struct layout {
	struct vms_btf_member list, module, btf, data, size;
};

#define AT(member) offsetof(struct layout, member)

/* A kernel without CONFIG_DEBUG_INFO_BTF_MODULES has none of them. */
static const struct vms_wanted_member wanted_members[] = {
	{ "btf_module", "list", AT(list), true }, { "btf_module", "module", AT(module), true },
	{ "btf_module", "btf", AT(btf), true },	  { "btf", "data", AT(data), true },
	{ "btf", "data_size", AT(size), true },
};

struct search {
	struct vms_memory *memory;
	const struct layout *layout;
	uint64_t module;
	uint64_t btf; /* address of its struct btf; 0: not found */
};

static bool visit_module(uint64_t node, void *data)
{
	struct search *search = data;
	const uint64_t va = node - search->layout->list.offset;
	uint64_t module, btf;
	if (!vms_member_read(search->memory, va, &search->layout->module, &module) ||
	    !vms_member_read(search->memory, va, &search->layout->btf, &btf))
		return false;
	if (module == search->module)
		search->btf = btf;
	return true;
}

/* Sets the error that there are no types of a module. Returns false. */
static bool fail_module(GError **error, enum vms_error code, const char *name, const char *why)
{
	g_set_error(error, VMS_ERROR, code, "types of the guest's module %s: %s", name, why);
	return false;
}

/* Finds where the kernel keeps the BTF of the module whose struct module is at `module`. */
static bool find_blob(const struct vms_linux *guest, uint64_t module, const char *name,
		      uint64_t *data, uint64_t *size, GError **error)
{
	struct layout layout;
	uint64_t head;
	if (!vms_linux_symbol(guest, "btf_modules", &head) ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &layout) ||
	    !vms_member_there(&layout.list) || !vms_member_there(&layout.module) ||
	    !vms_member_there(&layout.btf) || !vms_member_there(&layout.data) ||
	    !vms_member_there(&layout.size))
		return fail_module(error, VMS_ERROR_UNSUPPORTED, name,
				   "the kernel's symbols do not tell where they are");
	const struct vms_list list = { guest->memory, "list of BTF of modules", head,
				       MODULES_LIMIT };
	struct search search = { guest->memory, &layout, module, 0 };
	GError *damage = NULL;
	if (!vms_list_walk(&list, visit_module, &search, &damage) && !search.btf) {
		g_propagate_error(error, damage);
		return false;
	}
	g_clear_error(&damage);
	if (!search.btf)
		return fail_module(error, VMS_ERROR_UNSUPPORTED, name, "it has none (BTF)");
	if (!vms_member_read(guest->memory, search.btf, &layout.data, data) ||
	    !vms_member_read(guest->memory, search.btf, &layout.size, size) || !*size ||
	    *size > BLOB_LIMIT)
		return fail_module(error, VMS_ERROR_MALFORMED, name, "their place makes no sense");
	return true;
}

static struct vms_types *read_module(const struct vms_linux *guest, const char *name, uint64_t va,
				     uint64_t size, struct vms_types *kernel, GError **error)
{
	g_autofree uint8_t *data = g_malloc(size);
	if (!vms_memory_read(guest->memory, va, data, size)) {
		fail_module(error, VMS_ERROR_UNREADABLE, name, "they cannot be read");
		return NULL;
	}
	struct vms_btf *btf = vms_btf_new((struct vms_bytes) { data, size, guest->budget }, error);
	if (!btf)
		return NULL;
	struct vms_types *types = vms_btf_make_types(btf, kernel, guest->btf);
	vms_btf_free(btf);
	return types;
}

/* Returns the types of a module, not a new reference. What was made before is used again. */
static struct vms_types *get_module(struct vms_linux *guest, uint64_t module, const char *name,
				    GError **error)
{
	GArray *made = guest->types->modules;
	struct module_types added = { .module = module };
	if (!find_blob(guest, module, name, &added.data, &added.size, error))
		return NULL;
	for (guint i = 0; i < made->len; i++) {
		const struct module_types *known = &g_array_index(made, struct module_types, i);
		if (known->module == module && known->data == added.data &&
		    known->size == added.size)
			return known->types;
	}
	added.types = read_module(guest, name, added.data, added.size, guest->types->kernel, error);
	if (added.types)
		g_array_append_val(made, added);
	return added.types;
}

/* ---- any code ------------------------------------------------------------------------ */

/* Under the guest's lock. */
static struct vms_types *get_types(struct vms_linux *guest, uint64_t va, GError **error)
{
	uint64_t module;
	if (!guest->types->kernel)
		guest->types->kernel = vms_btf_make_types(guest->btf, NULL, NULL);
	const struct vms_module *known = vms_linux_module_at(guest, va, NULL);
	return known && vms_linux_module_struct_at(guest, va, &module)
		       ? get_module(guest, module, known->name, error)
		       : guest->types->kernel;
}

struct vms_types *vms_linux_types(void *system, uint64_t va, GError **error)
{
	struct vms_linux *guest = system;
	if (!guest->btf) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "the guest's kernel has no type information (BTF)");
		return NULL;
	}
	g_mutex_lock(&guest->lock);
	if (!guest->types)
		guest->types = make_store();
	struct vms_types *types = get_types(guest, va, error);
	types = types ? vms_types_ref(types) : NULL;
	g_mutex_unlock(&guest->lock);
	return types;
}
