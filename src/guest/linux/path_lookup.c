/* SPDX-License-Identifier: MIT */
#include "guest/linux/path_lookup.h"
#include "guest/linux/member.h"
#include <string.h>

#define ENTRIES_LIMIT (1u << 16) /* of one directory */
#define MOUNTS_LIMIT  (1u << 12) /* below one file system */
#define STACKED_LIMIT 16	 /* file systems mounted at one place */
#define NAME_SIZE     256
#define LEVELS_LIMIT  32 /* of PID namespaces: the kernel's own limit */

struct vms_path_lookup {
	struct vms_btf_member fs, root_mnt, root_dentry;
	/* The children of an entry: a list without a head since 6.8, before that a ring. */
	struct vms_btf_member children, sibling, subdirs, child;
	struct vms_btf_member name, name_size, inode;
	struct vms_btf_member mnt_root, mount_mnt, mounts, mount_child, mount_point;
	struct vms_btf_member leader, thread_pid, level, numbers, nr;
	uint64_t upid_size;
};

#define AT(member) offsetof(struct vms_path_lookup, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "task_struct", "fs", AT(fs), true },
	{ "fs_struct", "root.mnt", AT(root_mnt), true },
	{ "fs_struct", "root.dentry", AT(root_dentry), true },
	{ "dentry", "d_children", AT(children), true },
	{ "dentry", "d_sib", AT(sibling), true },
	{ "dentry", "d_subdirs", AT(subdirs), true },
	{ "dentry", "d_child", AT(child), true },
	{ "dentry", "d_name.name", AT(name), true },
	{ "dentry", "d_name.len", AT(name_size), true },
	{ "dentry", "d_inode", AT(inode), true },
	{ "vfsmount", "mnt_root", AT(mnt_root), true },
	{ "mount", "mnt", AT(mount_mnt), true },
	{ "mount", "mnt_mounts", AT(mounts), true },
	{ "mount", "mnt_child", AT(mount_child), true },
	{ "mount", "mnt_mountpoint", AT(mount_point), true },
	{ "task_struct", "group_leader", AT(leader), true },
	{ "task_struct", "thread_pid", AT(thread_pid), true },
	{ "pid", "level", AT(level), true },
	{ "pid", "numbers", AT(numbers), true },
	{ "upid", "nr", AT(nr), true },
};

static bool has_all_members(const struct vms_path_lookup *lookup)
{
	for (size_t i = 0; i < G_N_ELEMENTS(wanted_members); i++) {
		const size_t at = wanted_members[i].at;
		const bool may_lack = at == AT(children) || at == AT(sibling) ||
				      at == AT(subdirs) || at == AT(child);
		const struct vms_btf_member *member =
			(const void *)((const char *)lookup + wanted_members[i].at);
		if (!may_lack && !vms_member_there(member))
			return false;
	}
	return (vms_member_there(&lookup->children) && vms_member_there(&lookup->sibling)) ||
	       (vms_member_there(&lookup->subdirs) && vms_member_there(&lookup->child));
}

struct vms_path_lookup *vms_path_lookup_new(const struct vms_linux *guest)
{
	struct vms_path_lookup lookup = { 0 };
	if (!guest->btf ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &lookup) ||
	    !has_all_members(&lookup) || !vms_btf_size(guest->btf, "upid", &lookup.upid_size))
		return NULL;
	return g_memdup2(&lookup, sizeof(lookup));
}

void vms_path_lookup_free(struct vms_path_lookup *lookup)
{
	g_free(lookup);
}

/* ---- directory entries ------------------------------------------------ */

struct part {
	const char *name; /* not terminated */
	size_t size;
};

/* True if an entry has this name, and a file: one without stands for a file that is not there. */
static bool is_entry(const struct vms_path_lookup *lookup, struct vms_memory *memory,
		     uint64_t dentry, const struct part *part)
{
	uint64_t size, name, inode;
	char text[NAME_SIZE];
	return vms_member_read(memory, dentry, &lookup->name_size, &size) && size == part->size &&
	       size < sizeof(text) && vms_member_read(memory, dentry, &lookup->name, &name) &&
	       vms_memory_read(memory, name, text, size) && memcmp(text, part->name, size) == 0 &&
	       vms_member_read(memory, dentry, &lookup->inode, &inode) && inode != 0;
}

/* Finds the entry of a name in a directory. */
static bool find_entry(const struct vms_path_lookup *lookup, struct vms_memory *memory,
		       uint64_t directory, const struct part *part, uint64_t *ret)
{
	const bool is_new = vms_member_there(&lookup->children);
	const uint64_t head =
		directory + (is_new ? lookup->children.offset : lookup->subdirs.offset);
	const uint64_t at = is_new ? lookup->sibling.offset : lookup->child.offset;
	uint64_t node;
	if (!vms_memory_read_u64(memory, head, &node))
		return false;
	for (unsigned i = 0; i < ENTRIES_LIMIT && node != 0 && node != head; i++) {
		if (is_entry(lookup, memory, node - at, part)) {
			*ret = node - at;
			return true;
		}
		if (!vms_memory_read_u64(memory, node, &node))
			return false;
	}
	return false;
}

/* ---- mounts ----------------------------------------------------------- */

/* Finds the file system that is mounted on an entry. False if there is none. */
static bool find_mount(const struct vms_path_lookup *lookup, struct vms_memory *memory,
		       uint64_t *mnt, uint64_t *dentry)
{
	const uint64_t head = *mnt - lookup->mount_mnt.offset + lookup->mounts.offset;
	uint64_t node, point;
	if (!vms_memory_read_u64(memory, head, &node))
		return false;
	for (unsigned i = 0; i < MOUNTS_LIMIT && node != 0 && node != head; i++) {
		const uint64_t mount = node - lookup->mount_child.offset;
		if (!vms_member_read(memory, mount, &lookup->mount_point, &point))
			return false;
		if (point == *dentry) {
			*mnt = mount + lookup->mount_mnt.offset;
			return vms_member_read(memory, *mnt, &lookup->mnt_root, dentry);
		}
		if (!vms_memory_read_u64(memory, node, &node))
			return false;
	}
	return false;
}

static void cross_mounts(const struct vms_path_lookup *lookup, struct vms_memory *memory,
			 uint64_t *mnt, uint64_t *dentry)
{
	for (unsigned i = 0; i < STACKED_LIMIT && find_mount(lookup, memory, mnt, dentry); i++)
		;
}

bool vms_path_lookup_inode(const struct vms_path_lookup *lookup, struct vms_memory *memory,
			   uint64_t task, const char *path, uint64_t *ret)
{
	uint64_t fs, mnt, dentry;
	if (!vms_member_read(memory, task, &lookup->fs, &fs) || fs == 0 ||
	    !vms_member_read(memory, fs, &lookup->root_mnt, &mnt) ||
	    !vms_member_read(memory, fs, &lookup->root_dentry, &dentry))
		return false;
	cross_mounts(lookup, memory, &mnt, &dentry);
	for (;;) {
		path += strspn(path, "/");
		const struct part part = { path, strcspn(path, "/") };
		if (part.size == 0)
			return vms_member_read(memory, dentry, &lookup->inode, ret) && *ret != 0;
		if (!find_entry(lookup, memory, dentry, &part, &dentry))
			return false;
		cross_mounts(lookup, memory, &mnt, &dentry);
		path += part.size;
	}
}

bool vms_path_lookup_own_pid(const struct vms_path_lookup *lookup, struct vms_memory *memory,
			     uint64_t task, uint32_t *ret)
{
	uint64_t leader, pid, level, nr;
	if (!vms_member_read(memory, task, &lookup->leader, &leader) ||
	    !vms_member_read(memory, leader, &lookup->thread_pid, &pid) || pid == 0 ||
	    !vms_member_read(memory, pid, &lookup->level, &level) || level > LEVELS_LIMIT ||
	    !vms_member_read(memory, pid + lookup->numbers.offset + level * lookup->upid_size,
			     &lookup->nr, &nr))
		return false;
	*ret = (uint32_t)nr;
	return true;
}
