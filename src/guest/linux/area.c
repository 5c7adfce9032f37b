/* SPDX-License-Identifier: MIT */
#include "guest/linux/area.h"

#include "base/text.h"
#include "guest/linux/member.h"
#include <vmscope/log.h>

#define TREE_DEPTH	 64 /* of the red-black tree: twice the depth for 2^32 areas */
#define MAPLE_DEPTH	 16
#define MAPLE_NODE_SIZE	 256 /* size and alignment of struct maple_node */
#define MAPLE_NODE_SHIFT 3   /* lowest bit of the node's type in an entry */
#define MAPLE_TYPE_MASK	 15
#define PATH_DEPTH	 64
#define VM_EXEC		 4 /* include/linux/mm.h */
#define NAME_MAX_BYTES	 255

struct vms_areas {
	struct vms_btf_member start, end, pgoff, file, flags;
	struct vms_btf_member ops, ops_name, private_data, special_name;
	struct vms_btf_member map_count, total_vm, start_brk, brk, start_stack;
	/* The tree of areas: a maple tree from 6.1 on, a red-black tree before. */
	struct vms_btf_member maple_root, rb_root, rb_node, rb_left, rb_right;
	struct vms_btf_member range_pivot, range_slot, arange_pivot, arange_slot;
	int64_t maple_leaf, maple_range, maple_arange;
	/* The path of a file. */
	struct vms_btf_member dentry, mnt, name, name_size, parent;
	struct vms_btf_member mnt_root, mount_mnt, mount_parent, mount_point;
	/* The path of an overlay's file, which maps a file of one of its layers. */
	struct vms_btf_member mnt_ns, mnt_sb, d_sb, user_dentry, user_mnt;
	uint64_t page_size;    /* vm_pgoff counts such pages */
	uint64_t name_special; /* address of the function that names special areas; 0: unknown */
};

#define AT(member) offsetof(struct vms_areas, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "vm_area_struct", "vm_start", AT(start), false },
	{ "vm_area_struct", "vm_end", AT(end), false },
	{ "vm_area_struct", "vm_pgoff", AT(pgoff), false },
	{ "vm_area_struct", "vm_file", AT(file), false },
	{ "vm_area_struct", "vm_flags", AT(flags), true },
	{ "vm_area_struct", "vm_ops", AT(ops), true },
	{ "vm_operations_struct", "name", AT(ops_name), true },
	{ "vm_area_struct", "vm_private_data", AT(private_data), true },
	{ "vm_special_mapping", "name", AT(special_name), true },
	{ "mm_struct", "map_count", AT(map_count), false },
	{ "mm_struct", "total_vm", AT(total_vm), false },
	{ "mm_struct", "start_brk", AT(start_brk), false },
	{ "mm_struct", "brk", AT(brk), false },
	{ "mm_struct", "start_stack", AT(start_stack), false },
	{ "mm_struct", "mm_mt.ma_root", AT(maple_root), true },
	{ "mm_struct", "mm_rb.rb_node", AT(rb_root), true },
	{ "vm_area_struct", "vm_rb", AT(rb_node), true },
	{ "rb_node", "rb_left", AT(rb_left), true },
	{ "rb_node", "rb_right", AT(rb_right), true },
	{ "maple_range_64", "pivot", AT(range_pivot), true },
	{ "maple_range_64", "slot", AT(range_slot), true },
	{ "maple_arange_64", "pivot", AT(arange_pivot), true },
	{ "maple_arange_64", "slot", AT(arange_slot), true },
	{ "file", "f_path.dentry", AT(dentry), false },
	{ "file", "f_path.mnt", AT(mnt), false },
	{ "dentry", "d_name.name", AT(name), false },
	{ "dentry", "d_name.len", AT(name_size), false },
	{ "dentry", "d_parent", AT(parent), false },
	{ "vfsmount", "mnt_root", AT(mnt_root), false },
	{ "mount", "mnt", AT(mount_mnt), false },
	{ "mount", "mnt_parent", AT(mount_parent), false },
	{ "mount", "mnt_mountpoint", AT(mount_point), false },
	{ "mount", "mnt_ns", AT(mnt_ns), true },
	{ "vfsmount", "mnt_sb", AT(mnt_sb), true },
	{ "dentry", "d_sb", AT(d_sb), true },
	{ "backing_file", "user_path.dentry", AT(user_dentry), true },
	{ "backing_file", "user_path.mnt", AT(user_mnt), true },
};

struct vms_areas *vms_areas_new(const struct vms_linux *guest)
{
	struct vms_areas areas = { .page_size = guest->page_size };
	if (!guest->btf ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &areas))
		return NULL;
	bool maple = vms_member_there(&areas.maple_root) &&
		     vms_btf_enumerator(guest->btf, "maple_leaf_64", &areas.maple_leaf) &&
		     vms_btf_enumerator(guest->btf, "maple_range_64", &areas.maple_range) &&
		     vms_btf_enumerator(guest->btf, "maple_arange_64", &areas.maple_arange);
	if (!maple && !vms_member_there(&areas.rb_root)) {
		vms_log(VMS_LOG_WARNING,
			"memory areas of the guest's processes are kept in a way not known here");
		return NULL;
	}
	if (!vms_linux_symbol(guest, "special_mapping_name", &areas.name_special))
		areas.name_special = 0;
	return g_memdup2(&areas, sizeof(areas));
}

void vms_areas_free(struct vms_areas *areas)
{
	g_free(areas);
}

uint64_t vms_areas_stamp(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm)
{
	uint64_t map_count, total_vm;
	if (!vms_member_read(memory, mm, &areas->map_count, &map_count) ||
	    !vms_member_read(memory, mm, &areas->total_vm, &total_vm))
		return 0;
	return map_count << 40 ^ total_vm;
}

/* ---- finding an area -------------------------------------------------- */

/*
 * Finds the slot for `va` in one node of the maple tree (lib/maple_tree.c). The range of slot i
 * ends at pivot i. The last slot in use has the rest of the node's range. A pivot of 0 is not in
 * use. `*last` is the last address of the node's range, and becomes that of the slot's range.
 */
static bool find_maple_slot(const uint8_t *bytes, const struct vms_btf_member *pivot,
			    const struct vms_btf_member *slot, uint64_t va, uint64_t *last,
			    uint64_t *ret)
{
	struct vms_bytes node = { bytes, MAPLE_NODE_SIZE };
	uint64_t i, end, n_pivots = pivot->size / sizeof(end);
	for (i = 0; i < n_pivots; i++) {
		if (!vms_bytes_u64(node, pivot->offset + i * sizeof(end), &end))
			return false;
		if ((end == 0 && i > 0) || end >= *last)
			break;
		if (va <= end) {
			*last = end;
			break;
		}
	}
	return i < slot->size / sizeof(*ret) &&
	       vms_bytes_u64(node, slot->offset + i * sizeof(*ret), ret);
}

/*
 * Finds the entry for `va`. It is 0 in a gap between areas. `*last` is the last address that has
 * the same entry. The low bits of an entry tell the type of the node that it leads to.
 */
static bool find_in_maple_tree(const struct vms_areas *areas, struct vms_memory *memory,
			       uint64_t mm, uint64_t va, uint64_t *last, uint64_t *ret)
{
	uint64_t entry;
	*last = UINT64_MAX;
	if (!vms_member_read(memory, mm, &areas->maple_root, &entry))
		return false;
	for (unsigned depth = 0; depth < MAPLE_DEPTH; depth++) {
		uint8_t node[MAPLE_NODE_SIZE];
		int64_t type = entry >> MAPLE_NODE_SHIFT & MAPLE_TYPE_MASK;
		bool arange = type == areas->maple_arange;
		if (!arange && type != areas->maple_range && type != areas->maple_leaf)
			return false;
		if (!vms_memory_read(memory, entry & ~UINT64_C(0xff), node, sizeof(node)) ||
		    !find_maple_slot(node, arange ? &areas->arange_pivot : &areas->range_pivot,
				     arange ? &areas->arange_slot : &areas->range_slot, va, last,
				     &entry))
			return false;
		if (type == areas->maple_leaf) {
			*ret = entry;
			return true;
		}
	}
	return false;
}

/* Finds the first area that ends beyond `va`. A gap is always followed by an area or by the end. */
static bool find_next_in_maple_tree(const struct vms_areas *areas, struct vms_memory *memory,
				    uint64_t mm, uint64_t va, uint64_t *ret)
{
	uint64_t last;
	for (unsigned i = 0; i < 2; i++) {
		if (!find_in_maple_tree(areas, memory, mm, va, &last, ret))
			return false;
		if (*ret != 0 || last == UINT64_MAX)
			return *ret != 0;
		va = last + 1;
	}
	return false;
}

static bool find_next_in_rb_tree(const struct vms_areas *areas, struct vms_memory *memory,
				 uint64_t mm, uint64_t va, uint64_t *ret)
{
	uint64_t node;
	*ret = 0;
	if (!vms_member_read(memory, mm, &areas->rb_root, &node))
		return false;
	for (unsigned depth = 0; depth < TREE_DEPTH && node; depth++) {
		uint64_t end, area = node - areas->rb_node.offset;
		if (!vms_member_read(memory, area, &areas->end, &end))
			return false;
		if (va < end)
			*ret = area;
		if (!vms_member_read(memory, node, va < end ? &areas->rb_left : &areas->rb_right,
				     &node))
			return false;
	}
	return *ret != 0;
}

bool vms_areas_next(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    uint64_t va, struct vms_area *ret)
{
	uint64_t pages = 0, flags = VM_EXEC;
	bool found = vms_member_there(&areas->maple_root)
			     ? find_next_in_maple_tree(areas, memory, mm, va, &ret->va)
			     : find_next_in_rb_tree(areas, memory, mm, va, &ret->va);
	if (!found || !vms_member_read(memory, ret->va, &areas->start, &ret->start) ||
	    !vms_member_read(memory, ret->va, &areas->end, &ret->end) ||
	    !vms_member_read(memory, ret->va, &areas->file, &ret->file) ||
	    !vms_member_read(memory, ret->va, &areas->pgoff, &pages))
		return false;
	if (vms_member_there(&areas->flags))
		vms_member_read(memory, ret->va, &areas->flags, &flags);
	ret->executable = flags & VM_EXEC;
	ret->offset = ret->file ? pages * areas->page_size : 0;
	return ret->start < ret->end && va < ret->end;
}

bool vms_areas_find(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    uint64_t va, struct vms_area *ret)
{
	return vms_areas_next(areas, memory, mm, va, ret) && va >= ret->start;
}

uint64_t vms_areas_file(const struct vms_areas *areas, struct vms_memory *memory,
			const struct vms_area *area)
{
	uint64_t dentry;
	return area->file && vms_member_read(memory, area->file, &areas->dentry, &dentry) ? dentry
											  : 0;
}

/* ---- the name of an area ---------------------------------------------- */

/* A path. It is filled from its end, towards the root. */
struct path {
	char text[VMS_AREA_NAME_SIZE];
	size_t begin; /* offset of its first byte in `text` */
};

/* Puts "/name" before the path. False if it does not fit or cannot be read. */
static bool prepend_name(const struct vms_areas *areas, struct vms_memory *memory, uint64_t dentry,
			 struct path *path)
{
	uint64_t name, size;
	if (!vms_member_read(memory, dentry, &areas->name, &name) ||
	    !vms_member_read(memory, dentry, &areas->name_size, &size) || size == 0 ||
	    size > NAME_MAX_BYTES || size + 1 > path->begin ||
	    !vms_memory_read(memory, name, path->text + path->begin - size, size))
		return false;
	path->begin -= size;
	if (path->text[path->begin] != '/')
		path->text[--path->begin] = '/';
	return true;
}

/*
 * Goes from the root of the file system that is mounted as `*mnt` to the directory entry that it is
 * mounted on. False at the root of all file systems.
 */
static bool cross_mount(const struct vms_areas *areas, struct vms_memory *memory, uint64_t *mnt,
			uint64_t *dentry)
{
	uint64_t parent, mount = *mnt - areas->mount_mnt.offset;
	if (!vms_member_read(memory, mount, &areas->mount_parent, &parent) || parent == mount ||
	    !vms_member_read(memory, mount, &areas->mount_point, dentry))
		return false;
	*mnt = parent + areas->mount_mnt.offset;
	return true;
}

/* The mnt_ns of a mount that no process sees: MNT_NS_INTERNAL, fs/mount.h. */
#define INTERNAL_NAMESPACE UINT64_C(0xffffffffffffffea)

/*
 * Reads where a file is. An overlay maps the file of one of its layers. Since 6.7 that file has the
 * path in a mount of the overlay's own, and the path that users see lies behind it, in struct
 * backing_file (fs/file_table.c). Other internal mounts have ordinary files, with nothing behind
 * them: so what is taken for a path must be an entry of the file system that is mounted there.
 */
static bool read_place(const struct vms_areas *areas, struct vms_memory *memory, uint64_t file,
		       uint64_t *mnt, uint64_t *dentry)
{
	uint64_t namespace, user_mnt, user_dentry, mounted, its;
	if (!vms_member_read(memory, file, &areas->dentry, dentry) ||
	    !vms_member_read(memory, file, &areas->mnt, mnt))
		return false;
	if (!vms_member_there(&areas->user_dentry) || !vms_member_there(&areas->mnt_ns) ||
	    !vms_member_read(memory, *mnt - areas->mount_mnt.offset, &areas->mnt_ns, &namespace) ||
	    namespace != INTERNAL_NAMESPACE)
		return true;
	if (vms_member_read(memory, file, &areas->user_dentry, &user_dentry) &&
	    vms_member_read(memory, file, &areas->user_mnt, &user_mnt) &&
	    vms_member_read(memory, user_mnt, &areas->mnt_sb, &mounted) &&
	    vms_member_read(memory, user_dentry, &areas->d_sb, &its) && its == mounted) {
		*mnt = user_mnt;
		*dentry = user_dentry;
	}
	return true;
}

/*
 * Reads the path of a file, as prepend_path() does in fs/d_path.c. If a part of the path cannot be
 * read, the path begins behind that part.
 */
static void read_path(const struct vms_areas *areas, struct vms_memory *memory, uint64_t file,
		      struct path *path)
{
	uint64_t dentry, mnt, root, parent;
	if (!read_place(areas, memory, file, &mnt, &dentry))
		return;
	for (unsigned depth = 0; depth < PATH_DEPTH; depth++) {
		if (!vms_member_read(memory, mnt, &areas->mnt_root, &root))
			return;
		if (dentry == root) {
			if (!cross_mount(areas, memory, &mnt, &dentry))
				return;
			continue;
		}
		if (!prepend_name(areas, memory, dentry, path) ||
		    !vms_member_read(memory, dentry, &areas->parent, &parent) || parent == dentry)
			return;
		dentry = parent;
	}
}

/* Reads the name that the kernel gave to an area such as the vDSO. False for other areas. */
static bool read_special_name(const struct vms_areas *areas, struct vms_memory *memory,
			      const struct vms_area *area, char *name)
{
	uint64_t ops, function, mapping, va;
	return areas->name_special && vms_member_read(memory, area->va, &areas->ops, &ops) &&
	       vms_member_read(memory, ops, &areas->ops_name, &function) &&
	       function == areas->name_special &&
	       vms_member_read(memory, area->va, &areas->private_data, &mapping) &&
	       vms_member_read(memory, mapping, &areas->special_name, &va) &&
	       vms_memory_read_string(memory, va, name, VMS_AREA_NAME_SIZE);
}

/* Names an area without a file by the rules of show_map_vma() in fs/proc/task_mmu.c. */
static const char *choose_anonymous_name(const struct vms_areas *areas, struct vms_memory *memory,
					 uint64_t mm, const struct vms_area *area)
{
	uint64_t start_brk, brk, stack;
	if (!vms_member_read(memory, mm, &areas->start_brk, &start_brk) ||
	    !vms_member_read(memory, mm, &areas->brk, &brk) ||
	    !vms_member_read(memory, mm, &areas->start_stack, &stack))
		return "[anon]";
	if (area->start <= brk && area->end >= start_brk)
		return "[heap]";
	return area->start <= stack && area->end >= stack ? "[stack]" : "[anon]";
}

void vms_areas_name(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    const struct vms_area *area, char name[VMS_AREA_NAME_SIZE])
{
	struct path path = { .begin = sizeof(path.text) - 1 };
	if (area->file) {
		read_path(areas, memory, area->file, &path);
		g_strlcpy(name, path.text[path.begin] ? path.text + path.begin : "[file]",
			  VMS_AREA_NAME_SIZE);
		vms_text_clean(name);
	} else if (!read_special_name(areas, memory, area, name)) {
		g_strlcpy(name, choose_anonymous_name(areas, memory, mm, area), VMS_AREA_NAME_SIZE);
	}
}
