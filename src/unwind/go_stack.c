/* SPDX-License-Identifier: MIT */
#include "unwind/go_stack.h"
#include "symbol/go_functions.h"
#include <string.h>

/*
 * Where the runtime's own walks end (topofstack() in src/runtime/traceback.go of Go), or change to
 * the stack of a goroutine. In symbol tables, names of functions in assembly have a suffix.
 */
#define SUFFIX ".abi0"
static const struct {
	const char *name;
	enum vms_walk_end end;
} functions[] = {
	{ "runtime.mstart", VMS_WALK_ROOT },	     { "runtime.rt0_go", VMS_WALK_ROOT },
	{ "runtime.mcall", VMS_WALK_ROOT },	     { "runtime.systemstack", VMS_WALK_GOROUTINE },
	{ "runtime.morestack", VMS_WALK_GOROUTINE }, { "runtime.asmcgocall", VMS_WALK_GOROUTINE },
};

static bool has_name(const char *symbol, const char *name)
{
	const size_t size = strlen(name);
	return strncmp(symbol, name, size) == 0 &&
	       (symbol[size] == '\0' || strcmp(symbol + size, SUFFIX) == 0);
}

bool vms_go_stack_end(struct vms_binary *binary, uint64_t offset, bool waits,
		      enum vms_walk_end *end)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	struct vms_symbol symbol;
	if (!elf || !vms_go_has_functions(elf))
		return false;
	struct vms_symbol_table *table =
		waits ? vms_binary_functions(binary) : vms_binary_known_functions(binary);
	if (!table) {
		*end = VMS_WALK_NO_TABLE;
		return true;
	}
	if (!vms_symbol_table_find(table, offset, &symbol))
		return false;
	for (size_t i = 0; i < G_N_ELEMENTS(functions); i++)
		if (has_name(symbol.name, functions[i].name)) {
			*end = functions[i].end;
			return true;
		}
	return false;
}
