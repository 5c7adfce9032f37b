/* SPDX-License-Identifier: MIT */
#include "machine/kvm/vcpu_read.h"

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

/* A row of blocks that process_vm_readv(2) copies. */
struct copies {
	size_t n, size; /* blocks, and bytes of all */
	struct iovec local[1 + VMS_KVM_MAX_PREFETCH], remote[1 + VMS_KVM_MAX_PREFETCH];
};

/*
 * Adds a block. If it follows the last one, on both sides, it is joined to that one, because each
 * block costs time.
 */
static void add_copy(struct copies *copies, void *to, uint64_t from, size_t size)
{
	struct iovec *local = &copies->local[copies->n], *remote = &copies->remote[copies->n];
	copies->size += size;
	if (copies->n > 0 && (uint8_t *)local[-1].iov_base + local[-1].iov_len == to &&
	    (uintptr_t)remote[-1].iov_base + remote[-1].iov_len == from) {
		local[-1].iov_len += size;
		remote[-1].iov_len += size;
		return;
	}
	*local = (struct iovec) { to, size };
	*remote = (struct iovec) { (void *)(uintptr_t)from, size };
	copies->n++;
}

bool vms_kvm_read_state(pid_t pid, struct vms_kvm_slot *slot, struct kvm_run *page)
{
	const size_t registers_end = offsetof(struct kvm_run, s.regs.events);
	struct copies copies;
	size_t ends[VMS_KVM_MAX_PREFETCH]; /* of blocks, in what is copied */
	copies.n = copies.size = 0;
	add_copy(&copies, page, slot->run_hva, registers_end);
	for (unsigned i = 0; i < slot->n_prefetch; i++) {
		const struct vms_kvm_prefetch *wanted = &slot->prefetch[i];
		slot->is_prefetched[i] =
			wanted->hva && wanted->fd >= 0 &&
			pread(wanted->fd, slot->prefetched[i], VMS_KVM_PREFETCH_SIZE,
			      (off_t)wanted->file_offset) == VMS_KVM_PREFETCH_SIZE;
		if (wanted->hva && wanted->fd < 0)
			add_copy(&copies, slot->prefetched[i], wanted->hva, VMS_KVM_PREFETCH_SIZE);
		ends[i] = copies.size;
	}
	ssize_t n = process_vm_readv(pid, copies.local, copies.n, copies.remote, copies.n, 0);
	if (n < (ssize_t)registers_end) {
		errno = n < 0 ? errno : EFAULT;
		return false;
	}
	slot->regs = page->s.regs.regs;
	slot->sregs = page->s.regs.sregs;
	for (unsigned i = 0; i < slot->n_prefetch; i++)
		if (slot->prefetch[i].hva && slot->prefetch[i].fd < 0)
			slot->is_prefetched[i] = (ssize_t)ends[i] <= n;
	return true;
}
