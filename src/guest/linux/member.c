/* SPDX-License-Identifier: MIT */
#include "guest/linux/member.h"
#include "base/text.h"

#include <vmscope/log.h>

#define INTEGER_SIZE 8

bool vms_members_find(const struct vms_btf *btf, const struct vms_wanted_member *wanted, size_t n,
		      void *to)
{
	for (size_t i = 0; i < n; i++) {
		struct vms_btf_member *member = (void *)((char *)to + wanted[i].at);
		*member = (struct vms_btf_member) { 0 };
		if (vms_btf_member(btf, wanted[i].type, wanted[i].path, member) ||
		    wanted[i].optional)
			continue;
		vms_log(VMS_LOG_WARNING, "the guest's kernel has no member %s in struct %s",
			wanted[i].path, wanted[i].type);
		return false;
	}
	return true;
}

/* Decodes the integer in the first `size` bytes of `bytes`. */
static uint64_t decode_integer(const struct vms_btf_member *member, const uint8_t *bytes,
			       size_t size)
{
	uint64_t value = 0;
	memcpy(&value, bytes, size);
	value = GUINT64_FROM_LE(value);
	if (member->bits == 0)
		return value;
	value >>= member->bit_offset;
	return member->bits < 64 ? value & ((UINT64_C(1) << member->bits) - 1) : value;
}

/* Returns how many bytes to read from the member's offset; 0 if the member is no integer. */
static size_t get_integer_size(const struct vms_btf_member *member)
{
	if (member->bits)
		return (member->bit_offset + member->bits + 7) / 8 <= INTEGER_SIZE
			       ? (member->bit_offset + member->bits + 7) / 8
			       : 0;
	return member->size <= INTEGER_SIZE ? member->size : 0;
}

bool vms_member_read(struct vms_memory *memory, uint64_t va, const struct vms_btf_member *member,
		     uint64_t *ret)
{
	uint8_t bytes[INTEGER_SIZE];
	size_t size = get_integer_size(member);
	if (!size || !vms_memory_read(memory, va + member->offset, bytes, size))
		return false;
	*ret = decode_integer(member, bytes, size);
	return true;
}

bool vms_member_get(struct vms_bytes object, const struct vms_btf_member *member, uint64_t *ret)
{
	size_t size = get_integer_size(member);
	if (!size || !vms_bytes_has(object, member->offset, size))
		return false;
	*ret = decode_integer(member, object.data + member->offset, size);
	return true;
}

bool vms_member_get_string(struct vms_bytes object, const struct vms_btf_member *member, char *buf,
			   size_t size)
{
	struct vms_bytes text;
	if (!vms_member_there(member) ||
	    !vms_bytes_slice(object, member->offset, member->size, &text))
		return false;
	size_t length = strnlen((const char *)text.data, MIN(text.size, size - 1));
	memset(buf, 0, size);
	memcpy(buf, text.data, length);
	vms_text_clean(buf);
	return true;
}

bool vms_member_read_string(struct vms_memory *memory, uint64_t va,
			    const struct vms_btf_member *member, char *buf, size_t size)
{
	size_t used = MIN(size, member->size + 1);
	memset(buf, 0, size);
	return vms_member_there(member) &&
	       vms_memory_read_string(memory, va + member->offset, buf, used);
}
