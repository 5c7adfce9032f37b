/* SPDX-License-Identifier: MIT */
/* The image of any content of a kernel whose symbols leave out its variables. */
#include "../unit/fake_linux.h"
#include "guest/linux/kernel_image.h"

#define IMAGE_VA UINT64_C(0xffff800080000000)
#define OTHER_VA UINT64_C(0xffff000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static GByteArray *types(void)
{
	struct encoder encoder = encoder_new();
	const uint32_t number = put_type(&encoder, "u64", INT, 0, false, 8);
	put(&encoder, 64);
	const uint32_t object = put_type(&encoder, "module_kobject", STRUCT, 1, false, 16);
	put_member(&encoder, "mod", number, 64);
	put_type(&encoder, "module", STRUCT, 2, false, 0x80);
	put_member(&encoder, "list", number, 0x10 * 8);
	put_member(&encoder, "mkobj", object, 0x40 * 8);
	return finish(&encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_symbol symbols[] = { { "schedule", IMAGE_VA }, { NULL, 0 } };
	struct vms_machine *machine = fake_machine_new(&vms_arch_aarch64, 1);
	uint8_t *other = fake_machine_add_ram(machine, OTHER_VA, 0x2000);
	memcpy(other, data, MIN(size, 0x2000));
	struct vms_linux *guest = fake_linux_new(machine, symbols, types());
	const struct vms_kernel_image image = { IMAGE_VA, { data, size } };
	guest->text[0].begin = guest->text[0].end = IMAGE_VA;
	vms_linux_find_hidden(guest, &image);
	vms_linux_find_hidden_modules(guest, &image);
	vms_linux_free(guest);
	vms_machine_unref(machine);
	return 0;
}
