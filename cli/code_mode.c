/* SPDX-License-Identifier: MIT */
#include "code_mode.h"
#include "values.h"

#define SEGMENT (UINT64_C(1) << 16) /* bytes that 16-bit code reaches */

bool code_mode_parse(const char *text, int *bits, GError **error)
{
	static const struct choice widths[] = {
		{ "16", 16 }, { "32", 32 }, { "64", 64 }, { NULL }
	};
	*bits = 0;
	return value_choose("--bits", text, widths, bits, error);
}

bool code_mode_check(struct session *session, int bits, GError **error)
{
	const struct vms_arch *arch = vms_machine_arch(session->machine);
	if (!bits || arch->code_mode)
		return true;
	usage_error(error, "--bits %d: all code of %s is 64-bit code", bits, arch->name);
	return false;
}

bool code_mode_get(struct session *session, unsigned vcpu, struct vms_code_mode *ret,
		   GError **error)
{
	struct vms_regs regs;
	if (!vms_machine_all_regs(session->machine, vcpu, &regs, error))
		return false;
	vms_arch_code_mode(vms_machine_arch(session->machine), &regs, ret);
	return true;
}

void code_mode_choose(unsigned vcpu, uint64_t va, int bits, struct vms_code_mode *mode)
{
	const bool is_told = bits || va > UINT32_MAX;
	if (is_told)
		mode->bits = bits ? (unsigned)bits : 64;
	if (!is_told && !mode->is_certain)
		vms_log(VMS_LOG_WARNING,
			"the mode of vCPU %u is not known: its code is shown as %u-bit code; "
			"--bits chooses another",
			vcpu, mode->bits);
	if (mode->bits == 64)
		mode->code_base = 0;
	else if (mode->bits == 16 && va - mode->code_base >= SEGMENT)
		mode->code_base = va & ~(SEGMENT - 1);
}
