/* SPDX-License-Identifier: MIT */
#include "guest/linux/vmcoreinfo.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE	   4096
#define PAGE_MASK  (~(uint64_t)(PAGE - 1))
#define SCAN_CHUNK (UINT64_C(4) << 20)

char *vms_vmcoreinfo_text(struct vms_bytes page)
{
	if (!vms_bytes_has(page, 0, strlen(VMS_VMCOREINFO_PREFIX)) ||
	    memcmp(page.data, VMS_VMCOREINFO_PREFIX, strlen(VMS_VMCOREINFO_PREFIX)))
		return NULL;
	char *text = g_strndup((const char *)page.data, MIN(page.size, VMS_VMCOREINFO_SIZE));
	/* A page that only begins so (a log, an environment) has a single line. */
	if (!strchr(text, '\n'))
		g_clear_pointer(&text, g_free);
	return text;
}

/* Returns what follows KEY= at the begin of a line, or NULL. */
static const char *find_value(const char *text, const char *key)
{
	size_t key_size = strlen(key);
	while (text) {
		if (!strncmp(text, key, key_size) && text[key_size] == '=')
			return text + key_size + 1;
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return NULL;
}

char *vms_vmcoreinfo_string(const char *text, const char *key)
{
	const char *value = find_value(text, key);
	return value ? g_strndup(value, strcspn(value, "\n")) : NULL;
}

static const char *skip_hex_prefix(const char *value)
{
	return g_str_has_prefix(value, "0x") ? value + 2 : NULL;
}

bool vms_vmcoreinfo_hex(const char *text, const char *key, uint64_t *ret)
{
	g_autofree char *value = vms_vmcoreinfo_string(text, key);
	if (!value)
		return false;
	const char *digits = skip_hex_prefix(value);
	return g_ascii_string_to_unsigned(digits ? digits : value, 16, 0, UINT64_MAX, ret, NULL);
}

bool vms_vmcoreinfo_number(const char *text, const char *key, int64_t *ret)
{
	g_autofree char *value = vms_vmcoreinfo_string(text, key);
	/* Some architectures print some numbers as 0x… */
	if (value && skip_hex_prefix(value))
		return vms_vmcoreinfo_hex(text, key, (uint64_t *)ret);
	return value && g_ascii_string_to_signed(value, 10, INT64_MIN, INT64_MAX, ret, NULL);
}

/* Searches one chunk of memory, and moves `*pa` behind what was searched. */
static char *scan_chunk(struct vms_machine *machine, uint64_t *pa, uint64_t size, uint8_t *buf)
{
	if (!vms_machine_read_phys(machine, *pa, buf, size)) {
		*pa += size;
		return NULL;
	}
	for (uint64_t offset = 0; offset + PAGE <= size; offset += PAGE) {
		char *text = vms_vmcoreinfo_text(
			(struct vms_bytes) { .data = buf + offset, .size = PAGE });
		if (text) {
			*pa += offset + PAGE;
			return text;
		}
	}
	*pa += size;
	return NULL;
}

/*
 * True if the memory at `pa` may be read. A machine that stands still while its memory is read must
 * not do so for all of it.
 */
static bool may_read(struct vms_machine *machine, struct vms_vmcoreinfo_search *search, uint64_t pa,
		     uint64_t size)
{
	if (!vms_machine_read_stops(machine, pa))
		return true;
	search->is_cut = search->stopped >= VMS_VMCOREINFO_STOPPED_MAX;
	search->stopped += search->is_cut ? 0 : size;
	return !search->is_cut;
}

char *vms_vmcoreinfo_scan(struct vms_machine *machine, struct vms_vmcoreinfo_search *search)
{
	g_autofree uint8_t *buf = g_malloc(SCAN_CHUNK);
	uint64_t *pa = &search->pa;
	size_t n_ranges;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n_ranges);
	for (size_t i = 0; i < n_ranges; i++) {
		if (ranges[i].kind != VMS_RANGE_RAM)
			continue;
		uint64_t end = ranges[i].pa + ranges[i].size, begin, stop;
		*pa = MAX(*pa, (ranges[i].pa + PAGE - 1) & PAGE_MASK);
		while (vms_machine_next_data(machine, *pa, end, &begin, &stop)) {
			*pa = MAX(*pa, begin & PAGE_MASK);
			stop = MIN(end, (stop + PAGE - 1) & PAGE_MASK);
			const uint64_t size = MIN(SCAN_CHUNK, stop - *pa);
			if (!may_read(machine, search, *pa, size))
				return NULL;
			char *text = scan_chunk(machine, pa, size, buf);
			if (text)
				return text;
		}
	}
	return NULL;
}
