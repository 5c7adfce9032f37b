/* SPDX-License-Identifier: MIT */
#include "base/errno_name.h"
#include <string.h>

#define COMMON_MAX 133 /* EHWPOISON; x86-64 and aarch64 have the same numbers */

/* include/linux/errno.h: numbers that no program sees */
static const struct {
	unsigned number;
	const char *name;
} of_kernels[] = {
	{ 512, "ERESTARTSYS" },
	{ 513, "ERESTARTNOINTR" },
	{ 514, "ERESTARTNOHAND" },
	{ 515, "ENOIOCTLCMD" },
	{ 516, "ERESTART_RESTARTBLOCK" },
	{ 517, "EPROBE_DEFER" },
	{ 518, "EOPENSTALE" },
	{ 519, "ENOPARAM" },
	{ 521, "EBADHANDLE" },
	{ 522, "ENOTSYNC" },
	{ 523, "EBADCOOKIE" },
	{ 524, "ENOTSUPP" },
	{ 525, "ETOOSMALL" },
	{ 526, "ESERVERFAULT" },
	{ 527, "EBADTYPE" },
	{ 528, "EJUKEBOX" },
	{ 529, "EIOCBQUEUED" },
	{ 530, "ERECALLCONFLICT" },
	{ 531, "ENOGRACE" },
};

#define N_OF_KERNELS (sizeof(of_kernels) / sizeof(*of_kernels))

const char *vms_errno_name(uint64_t number)
{
	if (number > 0 && number <= COMMON_MAX)
		return strerrorname_np((int)number);
	for (unsigned i = 0; i < N_OF_KERNELS; i++)
		if (of_kernels[i].number == number)
			return of_kernels[i].name;
	return NULL;
}

unsigned vms_errno_number(const char *name)
{
	for (unsigned i = 1; i <= COMMON_MAX; i++) {
		const char *common = strerrorname_np((int)i);
		if (common && strcmp(common, name) == 0)
			return i;
	}
	for (unsigned i = 0; i < N_OF_KERNELS; i++)
		if (strcmp(of_kernels[i].name, name) == 0)
			return of_kernels[i].number;
	return 0;
}
