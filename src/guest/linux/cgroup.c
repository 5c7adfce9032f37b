/* SPDX-License-Identifier: MIT */
#include "guest/linux/cgroup.h"
#include "base/budget.h"
#include "base/text.h"
#include "guest/linux/member.h"

#define DEPTH_LIMIT 64
#define NAME_SIZE   256 /* NAME_MAX and the NUL */
#define SUBSYS_MAX  32

struct vms_cgroups {
	struct vms_btf_member cgroups, dfl_cgrp, subsys, css_cgroup, kn, name, parent, new_parent;
};

#define AT(member) offsetof(struct vms_cgroups, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "task_struct", "cgroups", AT(cgroups), true },
	{ "css_set", "dfl_cgrp", AT(dfl_cgrp), true },
	{ "css_set", "subsys", AT(subsys), true },
	{ "cgroup_subsys_state", "cgroup", AT(css_cgroup), true },
	{ "cgroup", "kn", AT(kn), true },
	{ "kernfs_node", "name", AT(name), true },
	{ "kernfs_node", "parent", AT(parent), true },
	{ "kernfs_node", "__parent", AT(new_parent), true }, /* since 6.15 */
};

struct vms_cgroups *vms_cgroups_new(const struct vms_linux *guest)
{
	struct vms_cgroups cgroups = { 0 };
	if (!guest->btf ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &cgroups))
		return NULL;
	if (!vms_member_there(&cgroups.parent))
		cgroups.parent = cgroups.new_parent;
	if (!vms_member_there(&cgroups.cgroups) || !vms_member_there(&cgroups.dfl_cgrp) ||
	    !vms_member_there(&cgroups.kn) || !vms_member_there(&cgroups.name) ||
	    !vms_member_there(&cgroups.parent))
		return NULL;
	return g_memdup2(&cgroups, sizeof(cgroups));
}

void vms_cgroups_free(struct vms_cgroups *cgroups)
{
	g_free(cgroups);
}

/* Puts "/name" before the path that begins at `*begin`. False if it does not fit or is too long. */
static bool prepend_name(struct vms_memory *memory, uint64_t name, char *path, size_t *begin)
{
	char text[NAME_SIZE];
	if (!vms_memory_read_string(memory, name, text, sizeof(text)))
		return false;
	const size_t n = strlen(text);
	if (n == 0 || n + 1 > *begin)
		return false;
	*begin -= n;
	memcpy(path + *begin, text, n);
	path[--*begin] = '/';
	return true;
}

/* Reads the path of a group. The root has no parent, and its name does not count. */
static bool read_path(const struct vms_cgroups *cgroups, struct vms_memory *memory, uint64_t group,
		      char path[VMS_CGROUP_PATH_SIZE])
{
	uint64_t node, parent, name;
	size_t begin = VMS_CGROUP_PATH_SIZE - 1;
	if (!vms_member_read(memory, group, &cgroups->kn, &node))
		return false;
	path[begin] = '\0';
	for (unsigned depth = 0; depth < DEPTH_LIMIT; depth++) {
		if (!vms_member_read(memory, node, &cgroups->parent, &parent))
			return false;
		if (parent == 0) {
			memmove(path, path + begin, VMS_CGROUP_PATH_SIZE - begin);
			if (!path[0])
				g_strlcpy(path, "/", VMS_CGROUP_PATH_SIZE);
			vms_text_clean(path);
			return vms_budget_step(vms_memory_budget(memory),
					       VMS_STEPS_OF_CLEANING(strlen(path)));
		}
		if (!vms_member_read(memory, node, &cgroups->name, &name) ||
		    !prepend_name(memory, name, path, &begin))
			return false;
		node = parent;
	}
	return false;
}

/* Finds the group of version 1 of a controller. */
static bool find_old_group(const struct vms_cgroups *cgroups, struct vms_memory *memory,
			   uint64_t set, unsigned subsys, uint64_t *ret)
{
	uint64_t state;
	return vms_memory_read_u64(memory, set + cgroups->subsys.offset + subsys * sizeof(state),
				   &state) &&
	       state && vms_member_read(memory, state, &cgroups->css_cgroup, ret);
}

bool vms_cgroups_path(const struct vms_cgroups *cgroups, struct vms_memory *memory, uint64_t task,
		      char path[VMS_CGROUP_PATH_SIZE])
{
	uint64_t set, group;
	if (!vms_member_read(memory, task, &cgroups->cgroups, &set) ||
	    !vms_member_read(memory, set, &cgroups->dfl_cgrp, &group) ||
	    !read_path(cgroups, memory, group, path))
		return false;
	if (path[1] || !vms_member_there(&cgroups->subsys) ||
	    !vms_member_there(&cgroups->css_cgroup))
		return true;
	const size_t n = MIN(cgroups->subsys.size / sizeof(uint64_t), SUBSYS_MAX);
	for (unsigned i = 0; i < n && !path[1]; i++)
		if (!find_old_group(cgroups, memory, set, i, &group) ||
		    !read_path(cgroups, memory, group, path))
			g_strlcpy(path, "/", VMS_CGROUP_PATH_SIZE);
	return true;
}
