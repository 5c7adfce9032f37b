/* SPDX-License-Identifier: MIT */
/*
 * What kernel addresses are called. The kernel's own code stays where it is; modules and BPF
 * programs come and go, and others take their place. So whoever keeps an address of theirs notes it
 * while they are there: from then on their names are kept, under a number.
 */
#include "guest/linux/naming.h"
#include "guest/linux/module.h"
#include "guest/linux/trampoline.h"

/* Bytes of symbols that are kept of code that may have gone. */
#define NOTED_LIMIT (64u << 20)

struct noted_code {
	struct vms_symbol_table *symbols;
	uint64_t part; /* where the part of a module begins; of BPF programs 0 */
};

struct vms_linux_noted {
	GArray *codes; /* struct noted_code, by number less one */
	size_t bytes;
};

static void clear_noted(gpointer data)
{
	vms_symbol_table_unref(((struct noted_code *)data)->symbols);
}

void vms_linux_noted_free(struct vms_linux_noted *noted)
{
	if (!noted)
		return;
	g_array_unref(noted->codes);
	g_free(noted);
}

/* Is it code that the kernel does not have for ever? */
static bool is_loaded(const struct vms_linux *guest, uint64_t va)
{
	return (va < guest->image || va >= guest->image_end) && !vms_linux_in_trampoline(guest, va);
}

/* What tells of `va`, which is not in the kernel's image. The table is NULL where nothing does. */
static struct noted_code code_at(const struct vms_linux *guest, uint64_t va)
{
	uint64_t part;
	bool is_text;
	const struct vms_module *module = vms_linux_module_part_at(guest, va, &part, &is_text);
	if (module)
		return (struct noted_code) { module->symbols, part };
	return (struct noted_code) { guest->bpf, 0 };
}

static bool locate(const struct vms_symbol_table *symbols, uint64_t va, struct vms_location *ret)
{
	struct vms_symbol symbol;
	if (!symbols || !vms_symbol_table_find(symbols, va, &symbol))
		return false;
	ret->symbol = symbol.name;
	ret->offset = va - symbol.va;
	ret->start = symbol.va;
	ret->size = symbol.size;
	return true;
}

bool vms_linux_locate_kernel(const struct vms_linux *guest, uint64_t va, struct vms_location *ret)
{
	if (!is_loaded(guest, va))
		return vms_linux_locate_trampoline(guest, va, ret) ||
		       locate(guest->symbols, va, ret);
	const struct noted_code code = code_at(guest, va);
	if (!locate(code.symbols, va, ret))
		return false;
	ret->module = vms_symbol_table_module(code.symbols);
	ret->part = code.part;
	return true;
}

/* ---- noting ----------------------------------------------------------- */

/* The number of `code`; 0 when it cannot be kept. Under the lock. */
static uint32_t number_of(struct vms_linux *guest, const struct noted_code *code)
{
	if (!guest->noted) {
		guest->noted = g_new0(struct vms_linux_noted, 1);
		guest->noted->codes = g_array_new(FALSE, FALSE, sizeof(struct noted_code));
		g_array_set_clear_func(guest->noted->codes, clear_noted);
	}
	GArray *codes = guest->noted->codes;
	/* The last ones are those of now. */
	for (guint i = codes->len; i-- > 0;) {
		const struct noted_code *noted = &g_array_index(codes, struct noted_code, i);
		if (noted->symbols == code->symbols && noted->part == code->part)
			return i + 1;
	}
	const size_t bytes = sizeof(*code) + vms_symbol_table_bytes(code->symbols);
	if (bytes > NOTED_LIMIT - guest->noted->bytes)
		return 0;
	guest->noted->bytes += bytes;
	vms_symbol_table_ref(code->symbols);
	g_array_append_vals(codes, code, 1);
	return codes->len;
}

uint32_t vms_linux_note_code(void *system, uint64_t va)
{
	struct vms_linux *guest = system;
	struct vms_symbol symbol;
	if (!is_loaded(guest, va))
		return 0;
	const struct noted_code code = code_at(guest, va);
	/* Without a stamp each reading of the list of BPF programs makes another table. */
	if (!code.symbols || !vms_symbol_table_find(code.symbols, va, &symbol) ||
	    (code.symbols == guest->bpf && !guest->bpf_stamp.va))
		return 0;
	g_mutex_lock(&guest->lock);
	uint32_t number = number_of(guest, &code);
	g_mutex_unlock(&guest->lock);
	return number;
}

bool vms_linux_locate_noted(void *system, uint32_t number, uint64_t va, struct vms_location *ret)
{
	struct vms_linux *guest = system;
	struct noted_code code = { 0 };
	g_mutex_lock(&guest->lock);
	if (guest->noted && number - 1 < guest->noted->codes->len)
		code = g_array_index(guest->noted->codes, struct noted_code, number - 1);
	g_mutex_unlock(&guest->lock);
	if (!locate(code.symbols, va, ret))
		return false;
	ret->module = vms_symbol_table_module(code.symbols);
	ret->part = code.part;
	return true;
}

bool vms_linux_code_changed(const void *system, struct vms_memory *memory, uint64_t va)
{
	const struct vms_linux *guest = system;
	return is_loaded(guest, va) &&
	       (vms_linux_modules_changed(guest, memory) ||
		(guest->bpf && vms_stamp_is_old(&guest->bpf_stamp, memory)));
}
