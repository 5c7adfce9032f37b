/* SPDX-License-Identifier: MIT */
#include "cfg/path.h"

const cs_insn *vms_path_decode(const struct vms_path *path, unsigned step)
{
	const struct vms_path_step *at = &path->steps[step];
	return vms_decoder_decode(path->decoder, at->va, at->code, at->size);
}
