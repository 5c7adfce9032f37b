/* SPDX-License-Identifier: MIT */
/*
 * Requests to the service that reads disks. Input: requests, each with a kind, a size (2 bytes) and
 * bytes; behind a kind of no request, the image that each request to add one brings.
 *
 * Covers: src/disk/disk_service.c.
 */
#include "disk/disk_service.h"
#include "base/budget.h"
#include <sys/mman.h>
#include <unistd.h>

#define IMAGE_BYTES  (256u << 10) /* the rest of it is zeros */
#define ANSWER_LIMIT (1u << 20)
#define REQUESTS     64
#define N_KINDS	     (VMS_DISK_CLOSE - VMS_DISK_ADD + 1)
#define HEAD	     3
#define DESCRIPTORS  2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int make_image(struct vms_bytes bytes)
{
	const int fd = memfd_create("image", MFD_CLOEXEC);
	g_assert_cmpint(write(fd, bytes.data, MIN(bytes.size, IMAGE_BYTES)), >=, 0);
	g_assert_cmpint(ftruncate(fd, IMAGE_BYTES), ==, 0);
	return fd;
}

/* Serves a request as a jail does: descriptors that are not kept are closed. */
static void serve(void *state, uint32_t kind, struct vms_bytes bytes, struct vms_bytes image)
{
	const size_t truth = offsetof(struct vms_disk_open, file.has_change);
	g_autofree uint8_t *own = g_memdup2(bytes.data, bytes.size);
	if (kind == VMS_DISK_OPEN && truth < bytes.size)
		own[truth] &= 1; /* our own requests have no other truth values */
	bytes.data = own;
	g_autoptr(GByteArray) answer = g_byte_array_new();
	g_autoptr(GError) error = NULL;
	int fds[DESCRIPTORS];
	struct vms_jail_work work = { .kind = kind,
				      .bytes = bytes,
				      .fds = fds,
				      .n_fds = kind == VMS_DISK_ADD ? DESCRIPTORS : 0,
				      .budget = bytes.budget,
				      .answer = answer };
	for (size_t i = 0; i < work.n_fds; i++)
		fds[i] = make_image(image);
	const bool done = vms_disk_service.serve(state, &work, &error);
	g_assert_cmpint(done, ==, error == NULL);
	g_assert_cmpuint(answer->len, <=, ANSWER_LIMIT);
	for (size_t i = 0; i < work.n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Gets the request at `*at`, and moves that behind it. False if there is none. */
static bool get_request(struct vms_bytes input, size_t *at, uint32_t *kind, struct vms_bytes *bytes)
{
	uint8_t first;
	uint16_t size;
	if (!vms_bytes_u8(input, *at, &first) || first >= N_KINDS ||
	    !vms_bytes_u16(input, *at + 1, &size) ||
	    !vms_bytes_slice(input, *at + HEAD, size, bytes))
		return false;
	*kind = VMS_DISK_ADD + first;
	*at += (size_t)HEAD + size;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .processor_ns = 300 * 1000 * 1000,
						    .bytes = 16 << 20 };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	const struct vms_bytes input = { data, size, budget };
	struct vms_bytes bytes, image;
	size_t at = 0, image_at = 0;
	uint32_t kind;
	void *state = vms_disk_service.begin(budget);
	for (unsigned i = 0; i < REQUESTS && get_request(input, &image_at, &kind, &bytes);)
		i++;
	if (!vms_bytes_slice(input, image_at, size - MIN(image_at, size), &image))
		image = (struct vms_bytes) { data, 0, budget };
	for (unsigned i = 0; i < REQUESTS && get_request(input, &at, &kind, &bytes); i++)
		serve(state, kind, bytes, image);
	vms_disk_service.end(state);
	return 0;
}
