/* SPDX-License-Identifier: MIT */
/*
 * Types made of BTF of any content: their names, values of them, and expressions that lead through
 * them. A value's bytes, and the memory that pointers lead to, are the input, too.
 *
 * Covers: src/guest/linux/btf_types.c src/types/types.c src/types/format.c src/flow/typed_values.c.
 */
#include "../unit/fake_guest.h"
#include "../unit/fake_machine.h"
#include "flow/expression.h"
#include "guest/linux/btf_types.h"
#include "probe/program.h"
#include <vmscope/arch.h>

#define TYPES_MAX   256	       /* that are looked at */
#define PARTS_MAX   16	       /* of each */
#define NAMES_MAX   4096       /* bytes of the name of a type */
#define TEXT_MAX    (64 << 10) /* bytes of a value's text */
#define VALUE_BYTES 96

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vms_bytes input;
static struct vms_guest *guest; /* without symbols */

static bool give_register(void *data G_GNUC_UNUSED, unsigned reg, uint64_t *ret)
{
	*ret = reg * UINT64_C(0x9e3779b97f4a7c15);
	return reg % 5;
}

static bool give_memory(void *data G_GNUC_UNUSED, uint64_t va, void *buf, size_t size)
{
	const size_t at = input.size ? va % input.size : 0;
	if (va % 7 == 0 || size > input.size - at)
		return false;
	memcpy(buf, input.data + at, size);
	return true;
}

/* Whatever compiles can be run. */
static void run_expression(const struct vms_known_types *known, const char *text)
{
	const struct vms_expression_scope scope = { &vms_arch_x86_64, guest, known };
	const struct vms_program_input program_input = { give_register, give_memory, NULL, 0 };
	g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	struct vms_expression_value value;
	uint8_t output[VMS_PROGRAM_OUTPUT_MAX];
	size_t size;
	g_autoptr(GError) error = NULL;
	if (!vms_expression_collect(&scope, text, 0, ops, &value, &error)) {
		g_assert_nonnull(error);
		return;
	}
	const struct vms_program program = { (const void *)ops->data, ops->len };
	if (vms_program_check(&program, vms_arch_x86_64.n_regs))
		vms_program_run(&program, &program_input, output, &size);
}

static void run_path(const struct vms_known_types *known, const char *word, const char *type,
		     const char *member)
{
	static const char *const forms[] = { "((%s%s *)arg1)->%s", "*((%s%s *)arg2)->%s",
					     "((%s%s *)arg3)[3].%s[arg1] + 1",
					     "((%s%s *)arg1)->%s == \"text\"" };
	for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
		g_autoptr(GString) text = g_string_new(forms[i]);
		g_string_replace(text, "%s", word, 1);
		g_string_replace(text, "%s", type, 1);
		g_string_replace(text, "%s", member, 1);
		run_expression(known, text->str);
	}
}

static void use_type(const struct vms_known_types *known, struct vms_type type)
{
	struct vms_type_info info;
	struct vms_type_part part, found;
	g_autoptr(GString) text = g_string_new(NULL);
	g_autofree char *name = vms_type_name(type);
	uint8_t bytes[VALUE_BYTES] = { 0 };
	memcpy(bytes, input.data, MIN(sizeof(bytes), input.size));
	g_assert_cmpuint(strlen(name), <, NAMES_MAX);
	vms_type_get_info(type, &info);
	vms_type_is_text(type);
	for (size_t n = 0; n <= sizeof(bytes); n += 24) {
		vms_type_format(type, bytes, n, VMS_TYPE_RESULT, text);
		g_assert_cmpuint(text->len, <, TEXT_MAX);
		g_string_truncate(text, 0);
	}
	for (uint32_t i = 0; i < PARTS_MAX && vms_type_get_part(type, i, &part); i++) {
		unsigned reg;
		vms_type_find_member(type, part.name, &found, NULL);
		vms_type_argument(type, i, 6, &reg, NULL);
		if (info.kind == VMS_TYPE_STRUCT || info.kind == VMS_TYPE_UNION)
			run_path(known, info.kind == VMS_TYPE_STRUCT ? "struct " : "union ",
				 info.name, part.name);
	}
}

static void use_function(struct vms_known_types *known, struct vms_type type)
{
	struct vms_type_part part;
	known->has_function = true;
	known->function = type;
	for (uint32_t i = 0; i < PARTS_MAX && vms_type_get_part(type, i, &part); i++)
		if (*part.name)
			run_expression(known, part.name);
	run_expression(known, "retval");
	run_expression(known, "*arg0");
	known->has_function = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_btf *btf = vms_btf_new((struct vms_bytes) { data, size }, NULL);
	if (!btf)
		return 0;
	if (!guest)
		guest = fake_guest_new(fake_machine_new(&vms_arch_x86_64, 1), VMS_GUEST_LINUX);
	input = (struct vms_bytes) { data, size };
	/* A module's types that have those of its kernel before them. */
	struct vms_types *base = vms_btf_make_types(btf, NULL, NULL);
	struct vms_types *types = vms_btf_make_types(btf, base, btf);
	struct vms_known_types known = { .types = types };
	struct vms_type type = { types, 0 };
	struct vms_type_info info;
	for (; type.number < TYPES_MAX; type.number++) {
		vms_type_get_info(type, &info);
		if (info.kind == VMS_TYPE_FUNCTION)
			use_function(&known, type);
		use_type(&known, type);
	}
	vms_types_unref(types);
	vms_types_unref(base);
	vms_btf_free(btf);
	return 0;
}
