/* SPDX-License-Identifier: MIT */
/* A disk in memory. Tests put bytes in their places, and know how often it was read. */
#pragma once

#include "base/budget.h"
#include "base/file_source.h"
#include <glib.h>

typedef struct fake_disk {
	struct vms_file_source source; /* of its bytes; it owns nothing */
	uint8_t *bytes;
	uint64_t reads;
	/*
	 * What is read from `far_begin` on is what lies at `far_place`: a disk that is larger than
	 * its bytes. 0: it is not.
	 */
	uint64_t far_begin, far_place;
	/* A read of this part fails, but only after bytes were changed. */
	uint64_t lost_begin, lost_end;
} fake_disk;

/* Makes one of zeros. */
struct fake_disk *fake_disk_new(size_t size);
void fake_disk_free(struct fake_disk *disk);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(fake_disk, fake_disk_free)

void fake_disk_put(struct fake_disk *disk, uint64_t at, const void *bytes, size_t size);
/* Put a number of `size` bytes, its lowest or its highest byte first. */
void fake_disk_put_le(struct fake_disk *disk, uint64_t at, unsigned size, uint64_t value);
void fake_disk_put_be(struct fake_disk *disk, uint64_t at, unsigned size, uint64_t value);
/* Fills a part with bytes that are not those of another seed, or of another place of this one. */
void fake_disk_fill(struct fake_disk *disk, uint64_t at, size_t size, unsigned seed);
void fake_content(uint8_t *bytes, size_t size, unsigned seed);

/*
 * Reads a source in pieces of several sizes that begin anywhere in [begin, end), and compares them
 * with what is expected in that part.
 */
void fake_disk_check(const struct vms_file_source *source, uint64_t begin, uint64_t end,
		     const uint8_t *expected);

/* Makes a budget of so many steps and bytes. */
struct vms_budget *fake_disk_budget(uint64_t steps, uint64_t bytes);
