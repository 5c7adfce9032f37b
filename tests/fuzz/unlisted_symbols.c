/* SPDX-License-Identifier: MIT */
/*
 * The image of any content of a kernel whose symbols leave out its variables.
 *
 * Covers: src/guest/linux/unlisted_symbols.c src/guest/linux/timekeeper.c.
 */
#include "guest/linux/unlisted_symbols.h"
#include "../unit/fake_linux.h"
#include "../unit/unlisted_types.h"
#include "guest/linux/kernel_image.h"

#define IMAGE_VA UINT64_C(0xffff800080000000)
#define OTHER_VA UINT64_C(0xffff000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_symbol symbols[] = { { "schedule", IMAGE_VA }, { NULL, 0 } };
	struct vms_machine *machine = fake_machine_new(&vms_arch_aarch64, 1);
	uint8_t *other = fake_machine_add_ram(machine, OTHER_VA, 0x2000);
	memcpy(other, data, MIN(size, 0x2000));
	struct vms_linux *guest = fake_linux_new(machine, symbols, unlisted_types());
	const struct vms_kernel_image image = { IMAGE_VA, { data, size } };
	guest->text[0].begin = guest->text[0].end = IMAGE_VA;
	vms_linux_find_unlisted(guest, &image);
	vms_linux_find_unlisted_by_types(guest, &image);
	vms_linux_free(guest);
	vms_machine_unref(machine);
	return 0;
}
