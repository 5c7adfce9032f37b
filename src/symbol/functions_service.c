/* SPDX-License-Identifier: MIT */
#include "symbol/functions_service.h"
#include "base/buffered_source.h"
#include "symbol/binary_functions.h"
#include "symbol/packed_symbols.h"
#include <string.h>

#define REQUEST_KIND 0x300 /* its bytes are the name of the module, for messages */

/* ---- in the jail ------------------------------------------------------- */

/* Gets a source of the request. Each read of it is a question: blocks that were read are kept. */
static struct vms_file_source get_source(const struct vms_jail_work *work, size_t i)
{
	struct vms_file_source source = vms_file_source_buffered(&work->sources[i]);
	source.budget = work->budget;
	return source;
}

/* Gets the file with all symbols, if there is one. */
static bool get_separate(const struct vms_jail_work *work, struct vms_separate_symbols *ret)
{
	if (work->n_sources < 2)
		return false;
	ret->source = get_source(work, 1);
	if (vms_elf_image_read(&ret->source, &ret->elf, NULL))
		return true;
	vms_file_source_clear(&ret->source);
	return false;
}

static bool serve_functions(void *state, struct vms_jail_work *work, GError **error)
{
	struct vms_elf_image elf;
	struct vms_separate_symbols separate;
	(void)state;
	if (work->n_sources == 0) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_PROTOCOL, "there is no file");
		return false;
	}
	const uint64_t kept_before = vms_budget_spent(work->budget, VMS_BUDGET_BYTES);
	struct vms_file_source source = get_source(work, 0);
	if (!vms_elf_image_read(&source, &elf, error)) {
		vms_file_source_clear(&source);
		return false;
	}
	g_autofree char *module = g_strndup((const char *)work->bytes.data, work->bytes.size);
	const bool has_separate = get_separate(work, &separate);
	g_autoptr(vms_symbol_table) functions =
		vms_read_functions(&source, &elf, has_separate ? &separate : NULL, module);
	vms_symbols_pack(functions, work->answer);
	/* It is not kept here, but where it goes. */
	vms_budget_give_back(work->budget, VMS_BUDGET_BYTES,
			     vms_budget_spent(work->budget, VMS_BUDGET_BYTES) - kept_before);
	if (has_separate)
		vms_separate_symbols_clear(&separate);
	vms_elf_image_clear(&elf);
	vms_file_source_clear(&source);
	return true;
}

const struct vms_jail_service vms_functions_service = {
	.name = "functions",
	.first_kind = REQUEST_KIND,
	.last_kind = REQUEST_KIND,
	.serve = serve_functions,
};

/* ---- outside ----------------------------------------------------------- */

struct vms_symbol_table *vms_functions_from_jail(struct vms_jail *jail,
						 const struct vms_file_source *source,
						 const struct vms_file_source *separate,
						 const char *module, struct vms_budget *budget,
						 GError **error)
{
	const struct vms_file_source sources[] = { *source, separate ? *separate : *source };
	const struct vms_jail_request request = {
		.kind = REQUEST_KIND,
		.bytes = module,
		.size = strlen(module),
		.sources = sources,
		.n_sources = separate ? 2 : 1,
		.budget = budget,
	};
	g_autoptr(GByteArray) answer = g_byte_array_new();
	if (!vms_jail_call(jail, &request, answer, error))
		return NULL;
	struct vms_symbol_table *functions = vms_symbols_unpack(
		(struct vms_bytes) { answer->data, answer->len, budget }, module);
	if (!functions) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "what was read of %s makes no sense", module);
		return NULL;
	}
	vms_budget_take(budget, VMS_BUDGET_BYTES, vms_symbol_table_bytes(functions));
	return functions;
}
