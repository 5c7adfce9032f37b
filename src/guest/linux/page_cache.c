/* SPDX-License-Identifier: MIT */
/*
 * Kernels with type information (BTF) are newer than 5.2, so the tree is always an XArray
 * (include/linux/xarray.h, since 4.20). Members are looked for by name, never by version.
 */
#include "guest/linux/page_cache.h"
#include "guest/linux/member.h"
#include "guest/linux/vmcoreinfo.h"
#include <vmscope/log.h>

#define SLOTS_MAX	  64
#define TREE_DEPTH	  12	     /* 64 bits of index by 6 bits each, rounded up */
#define FOLIO_PAGES_LIMIT (1u << 20) /* of one large folio */
#define SECTIONS_LIMIT	  (1u << 16) /* that are looked at for the first one with memory */
#define ROOTS_LIMIT	  (1u << 16)
/* Low bits of an entry of an XArray. */
#define ENTRY_KIND     3
#define ENTRY_INTERNAL 2
#define ENTRY_NODES    4096 /* an internal entry above this is a node */
#define ENTRY_SIBLINGS 256  /* one below this leads to another slot of the same node */
#define HAS_MEM_MAP    2    /* SECTION_HAS_MEM_MAP, include/linux/mmzone.h */
#define SECTION_FLAGS  UINT64_C(0x3f)
#define MAPPING_FLAGS  UINT64_C(3) /* PAGE_MAPPING_ANON and others */
#define OVERLAY_MAGIC  0x794c7630  /* OVERLAYFS_SUPER_MAGIC, include/uapi/linux/magic.h */

struct vms_page_cache {
	gatomicrefcount refs;
	struct vms_machine *machine;
	uint64_t page_size;
	uint64_t vmemmap; /* address that the struct page of frame 0 would have */
	uint64_t page_struct_size, inode_size;
	int64_t uptodate;   /* number of the bit PG_uptodate */
	uint64_t unwritten; /* bits of pages that are not on the disk yet */
	struct vms_btf_member f_mapping, f_inode;
	struct vms_btf_member i_mapping, i_size, i_ino, i_sb, i_nlink, s_dev, s_bdev, s_uuid, host;
	struct vms_btf_member s_magic, d_inode, ctime;
	struct vms_btf_member head, shift, slots;
	struct vms_btf_member flags, mapping, index, compound_head;
	GMutex lock;		   /* guards `memory` */
	struct vms_memory *memory; /* of its own: see the header */
};

#define AT(member) offsetof(struct vms_page_cache, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "file", "f_mapping", AT(f_mapping), false },
	{ "file", "f_inode", AT(f_inode), false },
	{ "inode", "i_mapping", AT(i_mapping), false },
	{ "inode", "i_size", AT(i_size), false },
	{ "inode", "i_ino", AT(i_ino), false },
	{ "inode", "i_sb", AT(i_sb), false },
	{ "inode", "i_nlink", AT(i_nlink), false },
	{ "super_block", "s_dev", AT(s_dev), false },
	{ "super_block", "s_bdev", AT(s_bdev), true },
	{ "super_block", "s_uuid", AT(s_uuid), true },
	{ "super_block", "s_magic", AT(s_magic), true },
	{ "dentry", "d_inode", AT(d_inode), true },
	{ "address_space", "host", AT(host), false },
	{ "address_space", "i_pages.xa_head", AT(head), false },
	{ "xa_node", "shift", AT(shift), false },
	{ "xa_node", "slots", AT(slots), false },
	{ "page", "mapping", AT(mapping), false },
};

/* Members that were renamed. The first that is there is used. */
static const struct {
	size_t at;
	struct {
		const char *type, *path;
	} names[3];
} renamed_members[] = {
	{ AT(flags), { { "page", "flags.f" }, { "page", "flags" } } },
	{ AT(index), { { "folio", "index" }, { "page", "index" }, { "page", "__folio_index" } } },
	{ AT(compound_head), { { "page", "compound_head" }, { "page", "compound_info" } } },
};

/* ---- where the kernel keeps its pages --------------------------------- */

/*
 * Finds the first section of memory that has pages, and what it says of them. A root is a page of
 * sections. The value is the address of the struct page of frame 0, with flags in its low bits.
 */
static bool find_section(const struct vms_linux *guest, uint64_t roots, int64_t n_roots,
			 uint64_t section_size, const struct vms_btf_member *mem_map, uint64_t *ret)
{
	const uint64_t per_root = guest->page_size / section_size;
	uint64_t root, budget = SECTIONS_LIMIT;
	for (int64_t i = 0; i < MIN(n_roots, (int64_t)ROOTS_LIMIT) && budget > 0; i++) {
		if (!vms_memory_read_u64(guest->memory, roots + (uint64_t)i * sizeof(root), &root))
			return false;
		for (uint64_t j = 0; root && j < per_root && budget > 0; j++, budget--)
			if (vms_member_read(guest->memory, root + j * section_size, mem_map, ret) &&
			    (*ret & HAS_MEM_MAP))
				return true;
	}
	return false;
}

static bool find_vmemmap_by_sections(const struct vms_linux *guest, uint64_t *ret)
{
	struct vms_btf_member mem_map;
	uint64_t roots, variable, section_size, value;
	int64_t n_roots = 1;
	if (!vms_btf_size(guest->btf, "mem_section", &section_size) || section_size == 0 ||
	    !vms_btf_member(guest->btf, "mem_section", "section_mem_map", &mem_map))
		return false;
	/* VMCOREINFO has the value of the variable mem_section, kallsyms its address. */
	if (!guest->vmcoreinfo ||
	    !vms_vmcoreinfo_hex(guest->vmcoreinfo, "SYMBOL(mem_section)", &roots)) {
		if (!vms_linux_symbol(guest, "mem_section", &variable) ||
		    !vms_memory_read_u64(guest->memory, variable, &roots))
			return false;
	}
	if (guest->vmcoreinfo)
		vms_vmcoreinfo_number(guest->vmcoreinfo, "LENGTH(mem_section)", &n_roots);
	if (!find_section(guest, roots, n_roots, section_size, &mem_map, &value))
		return false;
	*ret = value & ~SECTION_FLAGS;
	return true;
}

static bool find_vmemmap(const struct vms_linux *guest, uint64_t *ret)
{
	uint64_t variable;
	if (find_vmemmap_by_sections(guest, ret))
		return true;
	return vms_linux_symbol(guest, "vmemmap_base", &variable) && /* x86-64 */
	       vms_memory_read_u64(guest->memory, variable, ret);
}

/* ---- finding the members ---------------------------------------------- */

static bool find_renamed_members(const struct vms_btf *btf, struct vms_page_cache *cache)
{
	for (size_t i = 0; i < G_N_ELEMENTS(renamed_members); i++) {
		struct vms_btf_member *member = (void *)((char *)cache + renamed_members[i].at);
		bool found = false;
		for (size_t j = 0; j < 3 && renamed_members[i].names[j].type && !found; j++)
			found = vms_btf_member(btf, renamed_members[i].names[j].type,
					       renamed_members[i].names[j].path, member);
		if (!found)
			return false;
	}
	return true;
}

/* Finds what only comparisons with disks need. It may be missing. */
static void find_state(const struct vms_btf *btf, struct vms_page_cache *cache)
{
	static const char *const times[] = { "i_ctime_sec", "__i_ctime.tv_sec", "i_ctime.tv_sec" };
	static const char *const flags[] = { "PG_dirty", "PG_writeback" };
	int64_t bit;
	for (size_t i = 0; i < G_N_ELEMENTS(times); i++)
		if (vms_btf_member(btf, "inode", times[i], &cache->ctime))
			break;
	for (size_t i = 0; i < G_N_ELEMENTS(flags); i++)
		if (vms_btf_enumerator(btf, flags[i], &bit) && bit >= 0 && bit < 64)
			cache->unwritten |= UINT64_C(1) << bit;
}

static bool find_layout(const struct vms_linux *guest, struct vms_page_cache *cache)
{
	return guest->btf &&
	       vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), cache) &&
	       find_renamed_members(guest->btf, cache) &&
	       vms_btf_size(guest->btf, "page", &cache->page_struct_size) &&
	       cache->page_struct_size > 0 &&
	       vms_btf_size(guest->btf, "inode", &cache->inode_size) &&
	       vms_btf_enumerator(guest->btf, "PG_uptodate", &cache->uptodate) &&
	       cache->uptodate >= 0 && cache->uptodate < 64 &&
	       cache->slots.size / sizeof(uint64_t) > 0 &&
	       cache->slots.size / sizeof(uint64_t) <= SLOTS_MAX &&
	       find_vmemmap(guest, &cache->vmemmap);
}

struct vms_page_cache *vms_page_cache_new(const struct vms_linux *guest)
{
	struct vms_page_cache layout = { .page_size = guest->page_size };
	if (!find_layout(guest, &layout)) {
		vms_log(VMS_LOG_INFO,
			"the page cache of the guest's kernel is not understood: functions of its "
			"programs get no names");
		return NULL;
	}
	find_state(guest->btf, &layout);
	struct vms_page_cache *cache = g_memdup2(&layout, sizeof(layout));
	g_atomic_ref_count_init(&cache->refs);
	g_mutex_init(&cache->lock);
	cache->machine = vms_machine_ref(guest->machine);
	cache->memory = vms_memory_new(guest->machine, vms_memory_regs(guest->memory));
	g_autoptr(vms_budget) budget = vms_budget_new_part(vms_machine_budget(guest->machine),
							   "files in the guest's memory");
	vms_memory_set_budget(cache->memory, budget);
	return cache;
}

struct vms_page_cache *vms_page_cache_ref(struct vms_page_cache *cache)
{
	g_atomic_ref_count_inc(&cache->refs);
	return cache;
}

void vms_page_cache_unref(struct vms_page_cache *cache)
{
	if (!cache || !g_atomic_ref_count_dec(&cache->refs))
		return;
	vms_memory_free(cache->memory);
	vms_machine_unref(cache->machine);
	g_mutex_clear(&cache->lock);
	g_free(cache);
}

pid_t vms_page_cache_process(const struct vms_page_cache *cache)
{
	return vms_machine_info(cache->machine)->pid;
}

/* ---- files ------------------------------------------------------------ */

bool vms_page_cache_locate(const struct vms_page_cache *cache, struct vms_memory *memory,
			   uint64_t file, struct vms_cached_file *ret)
{
	*ret = (struct vms_cached_file) { 0 };
	/* Of an overlay's file, f_inode is the overlay's and f_mapping the layer's. */
	return vms_member_read(memory, file, &cache->f_mapping, &ret->mapping) &&
	       vms_member_read(memory, ret->mapping, &cache->host, &ret->inode);
}

/* Reads which file system it is, as its disk says it. */
static void read_file_system(struct vms_page_cache *cache, uint64_t super_block,
			     struct vms_cached_file *file)
{
	uint64_t bdev;
	memset(file->uuid, 0, sizeof(file->uuid));
	file->is_on_disk = vms_member_there(&cache->s_bdev) && vms_member_there(&cache->s_uuid) &&
			   vms_member_read(cache->memory, super_block, &cache->s_bdev, &bdev) &&
			   bdev != 0 &&
			   vms_memory_read(cache->memory, super_block + cache->s_uuid.offset,
					   file->uuid, sizeof(file->uuid));
}

/* Reads all about an inode. The caller holds the lock. */
static bool read_inode(struct vms_page_cache *cache, struct vms_cached_file *file)
{
	uint64_t mapping, links, super_block, ctime;
	if (!vms_member_read(cache->memory, file->inode, &cache->i_mapping, &mapping) ||
	    mapping != file->mapping ||
	    !vms_member_read(cache->memory, file->inode, &cache->i_ino, &file->number) ||
	    !vms_member_read(cache->memory, file->inode, &cache->i_size, &file->size) ||
	    !vms_member_read(cache->memory, file->inode, &cache->i_nlink, &links) ||
	    !vms_member_read(cache->memory, file->inode, &cache->i_sb, &super_block) ||
	    !vms_member_read(cache->memory, super_block, &cache->s_dev, &file->device))
		return false;
	file->has_no_link = links == 0;
	file->has_change = vms_member_there(&cache->ctime) &&
			   vms_member_read(cache->memory, file->inode, &cache->ctime, &ctime);
	file->change_s = file->has_change ? (uint32_t)ctime : 0;
	read_file_system(cache, super_block, file);
	return file->size <= INT64_MAX;
}

bool vms_page_cache_identify(struct vms_page_cache *cache, struct vms_cached_file *file)
{
	g_mutex_lock(&cache->lock);
	const bool read = read_inode(cache, file);
	g_mutex_unlock(&cache->lock);
	return read;
}

/*
 * Returns the inode that has the pages of a file. An overlay has none: those of a file that was
 * written belong to the file of its upper layer. In struct ovl_inode (fs/overlayfs/ovl_entry.h), a
 * pointer to the entry of that file is directly behind the overlay's inode. The kernel's own types
 * lack that struct, because overlays are a module. The caller holds the lock.
 */
static uint64_t find_real_inode(struct vms_page_cache *cache, uint64_t inode)
{
	uint64_t super_block, magic, upper, real;
	if (vms_member_there(&cache->s_magic) && vms_member_there(&cache->d_inode) &&
	    vms_member_read(cache->memory, inode, &cache->i_sb, &super_block) &&
	    vms_member_read(cache->memory, super_block, &cache->s_magic, &magic) &&
	    magic == OVERLAY_MAGIC &&
	    vms_memory_read_u64(cache->memory, inode + cache->inode_size, &upper) && upper != 0 &&
	    vms_member_read(cache->memory, upper, &cache->d_inode, &real) && real != 0)
		return real;
	return inode;
}

bool vms_page_cache_of_inode(struct vms_page_cache *cache, uint64_t inode,
			     struct vms_cached_file *ret)
{
	g_mutex_lock(&cache->lock);
	*ret = (struct vms_cached_file) { .inode = find_real_inode(cache, inode) };
	const bool read =
		vms_member_read(cache->memory, ret->inode, &cache->i_mapping, &ret->mapping) &&
		read_inode(cache, ret);
	g_mutex_unlock(&cache->lock);
	return read;
}

/* ---- the tree of pages ------------------------------------------------ */

static bool is_node(uint64_t entry)
{
	return (entry & ENTRY_KIND) == ENTRY_INTERNAL && entry > ENTRY_NODES;
}

static bool is_sibling(uint64_t entry)
{
	return (entry & ENTRY_KIND) == ENTRY_INTERNAL && entry < ENTRY_SIBLINGS;
}

/* Reads one slot of a node. A sibling leads to the slot with the entry, which is read then. */
static bool read_slot(struct vms_page_cache *cache, uint64_t node, uint64_t slot, uint64_t *ret)
{
	const uint64_t slots = node + cache->slots.offset;
	const uint64_t n_slots = cache->slots.size / sizeof(*ret);
	if (!vms_memory_read_u64(cache->memory, slots + slot * sizeof(*ret), ret))
		return false;
	if (!is_sibling(*ret))
		return true;
	const uint64_t other = *ret >> 2;
	return other < n_slots &&
	       vms_memory_read_u64(cache->memory, slots + other * sizeof(*ret), ret) &&
	       !is_sibling(*ret);
}

/*
 * Finds the struct page that the tree has for page `index` of a file. The shift of a node must be
 * smaller than that of the one above, so the walk ends.
 */
static bool find_entry(struct vms_page_cache *cache, uint64_t mapping, uint64_t index,
		       uint64_t *ret)
{
	const uint64_t n_slots = cache->slots.size / sizeof(uint64_t);
	uint64_t entry, shift, above = 64;
	if (!vms_member_read(cache->memory, mapping, &cache->head, &entry))
		return false;
	if (!is_node(entry) && index != 0)
		return false;
	for (unsigned depth = 0; depth < TREE_DEPTH && is_node(entry); depth++) {
		const uint64_t node = entry - ENTRY_INTERNAL;
		if (!vms_member_read(cache->memory, node, &cache->shift, &shift) || shift >= above)
			return false;
		if (depth == 0 && index >> shift >= n_slots)
			return false;
		if (!read_slot(cache, node, (index >> shift) % n_slots, &entry))
			return false;
		above = shift;
	}
	*ret = entry;
	return entry != 0 && (entry & ENTRY_KIND) == 0;
}

/*
 * Reads a page's state. True if it is of this file, and its bytes are the file's, and it has none
 * of the flags `without`.
 */
static bool belongs_to_file(struct vms_page_cache *cache, uint64_t page, uint64_t mapping,
			    uint64_t without)
{
	uint64_t flags, its_mapping;
	return vms_member_read(cache->memory, page, &cache->mapping, &its_mapping) &&
	       (its_mapping & ~MAPPING_FLAGS) == mapping &&
	       vms_member_read(cache->memory, page, &cache->flags, &flags) &&
	       (flags >> cache->uptodate & 1) && !(flags & without);
}

/*
 * Finds the physical address of page `index`, and the struct page that tells whose it is. A large
 * folio has one entry for all of its pages: that of its first page, the head. Its own index tells
 * which one is meant. (Before 5.4 each page has an entry of its own; a tail says so.)
 */
static bool find_page(struct vms_page_cache *cache, uint64_t mapping, uint64_t index,
		      uint64_t *head, uint64_t *pa)
{
	uint64_t entry, first, compound;
	if (!find_entry(cache, mapping, index, &entry) || entry < cache->vmemmap ||
	    !vms_member_read(cache->memory, entry, &cache->compound_head, &compound))
		return false;
	uint64_t frame = (entry - cache->vmemmap) / cache->page_struct_size;
	if (compound & 1) {
		*head = compound - 1;
	} else {
		*head = entry;
		if (!vms_member_read(cache->memory, entry, &cache->index, &first) ||
		    first > index || index - first >= FOLIO_PAGES_LIMIT)
			return false;
		frame += index - first;
	}
	*pa = frame * cache->page_size;
	return frame <= UINT64_MAX / cache->page_size;
}

/* Reads bytes of one page. The page is checked after its bytes were read, because it may go. */
static bool read_page(struct vms_page_cache *cache, const struct vms_cached_file *file,
		      uint64_t offset, void *buf, size_t size, uint64_t without)
{
	uint64_t head, pa;
	return find_page(cache, file->mapping, offset / cache->page_size, &head, &pa) &&
	       vms_machine_read_phys(cache->machine, pa + offset % cache->page_size, buf, size) &&
	       belongs_to_file(cache, head, file->mapping, without);
}

/* Reads bytes of a file's pages. The caller holds the lock. */
static bool read_pages(struct vms_page_cache *cache, const struct vms_cached_file *file,
		       uint64_t offset, uint8_t *buf, size_t size, uint64_t without)
{
	while (size > 0) {
		const size_t part = MIN(size, cache->page_size - offset % cache->page_size);
		if (!read_page(cache, file, offset, buf, part, without))
			return false;
		offset += part;
		buf += part;
		size -= part;
	}
	return true;
}

static bool read_without(struct vms_page_cache *cache, const struct vms_cached_file *file,
			 uint64_t offset, void *buf, size_t size, uint64_t without)
{
	uint64_t number;
	if (offset > file->size || size > file->size - offset)
		return false;
	g_mutex_lock(&cache->lock);
	/* The memory of an inode that is gone may belong to another one. */
	const bool read = read_pages(cache, file, offset, buf, size, without) &&
			  vms_member_read(cache->memory, file->inode, &cache->i_ino, &number) &&
			  number == file->number;
	g_mutex_unlock(&cache->lock);
	return read;
}

bool vms_page_cache_read(struct vms_page_cache *cache, const struct vms_cached_file *file,
			 uint64_t offset, void *buf, size_t size)
{
	return read_without(cache, file, offset, buf, size, 0);
}

bool vms_page_cache_read_clean(struct vms_page_cache *cache, const struct vms_cached_file *file,
			       uint64_t offset, void *buf, size_t size)
{
	return read_without(cache, file, offset, buf, size, cache->unwritten);
}
