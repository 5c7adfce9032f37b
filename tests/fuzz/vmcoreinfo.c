/* SPDX-License-Identifier: MIT */
/*
 * A page of any content, and what is asked of it at detection.
 *
 * Covers: src/guest/linux/vmcoreinfo.c.
 */
#include "guest/linux/vmcoreinfo.h"
#include "guest/linux/kernel_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *text = vms_vmcoreinfo_text((struct vms_bytes) { data, size });
	struct vms_regs regs;
	uint64_t offset;
	if (!text)
		return 0;
	g_assert_cmpuint(strlen(text), <=, VMS_VMCOREINFO_SIZE);
	g_autofree char *release = vms_vmcoreinfo_string(text, "OSRELEASE");
	g_assert_null(strchr(release, '\n'));
	vms_vmcoreinfo_hex(text, "KERNELOFFSET", &offset);
	vms_linux_x86_64.regs_from_vmcoreinfo(text, &regs);
	return 0;
}
