/* SPDX-License-Identifier: MIT */
#include "agent/probes/vcpu_tallies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static bool share_memory(struct tallies *tallies)
{
	const size_t size = tallies->n * tallies->size;
	tallies->memfd = memfd_create("vmscope-tallies", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (tallies->memfd < 0 || ftruncate(tallies->memfd, (off_t)size) < 0 ||
	    fcntl(tallies->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return false;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    tallies->memfd, 0);
	if (memory == MAP_FAILED)
		return false;
	tallies->memory = memory;
	return true;
}

bool tallies_make(struct tallies *tallies, const struct vms_tally_shape *shape, unsigned n)
{
	struct vms_tally_layout layout;
	*tallies = TALLIES_NONE;
	errno = EINVAL;
	if (!vms_tally_lay_out(shape, &layout))
		return false;
	tallies->shape = *shape;
	tallies->size = layout.size;
	tallies->tally = calloc(n, sizeof(*tallies->tally));
	tallies->n = n;
	return tallies->tally && share_memory(tallies);
}

bool tallies_reserve(struct tallies *tallies, unsigned vcpu)
{
	const size_t at = vcpu * tallies->size;
	if (tallies->tally[vcpu].head)
		return true;
	errno = posix_fallocate(tallies->memfd, (off_t)at, (off_t)tallies->size);
	return errno == 0 &&
	       vms_tally_init(&tallies->tally[vcpu], &tallies->shape, tallies->memory + at);
}

void tallies_free(struct tallies *tallies)
{
	for (unsigned i = 0; tallies->tally && i < tallies->n; i++)
		vms_tally_clear(&tallies->tally[i]);
	free(tallies->tally);
	if (tallies->memory)
		munmap(tallies->memory, tallies->n * tallies->size);
	if (tallies->memfd >= 0)
		close(tallies->memfd);
}
