/* SPDX-License-Identifier: MIT */
/* Names of containers by paths of control groups, as their tools make them. */
#include "guest/container.h"
#include <glib.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *path, *name;
} cases[] = {
	{ "/", NULL },
	{ "", NULL },
	{ "/system.slice/docker-" ID ".scope", "docker-0123456789ab" },
	{ "/docker/" ID, "docker-0123456789ab" },
	{ "/docker/" ID "/system.slice/nginx.service", "docker-0123456789ab" },
	{ "/docker-" ID ".scope/init.scope", "docker-0123456789ab" },
	{ "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice/"
	  "cri-containerd-" ID ".scope",
	  "cri-containerd-0123456789ab" },
	{ "/kubepods/besteffort/pod1-2/" ID, "container-0123456789ab" },
	{ "/machine.slice/libpod-" ID ".scope/container", "libpod-0123456789ab" },
	{ "/machine.slice/libpod-conmon-" ID ".scope",
	  "/machine.slice/libpod-conmon-" ID ".scope" },
	{ "/kubepods.slice/crio-" ID ".scope", "crio-0123456789ab" },
	{ "/lxc.payload.web/system.slice/ssh.service", "lxc-web" },
	{ "/lxc/web", "lxc-web" },
	{ "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt", "machine-qemu-1-vm" },
	{ "/system.slice/nginx.service", "nginx.service" },
	{ "/user.slice/user-0.slice/user@0.service/app.slice/a.service", "a.service" },
	{ "/user.slice/user-0.slice/session-3.scope", "/user.slice/user-0.slice/session-3.scope" },
	{ "/docker-0123.scope", "/docker-0123.scope" },
	{ "/a\\x00b\\x2.service", "a?b\\x2.service" },
	{ "/a\\x1b[2J\\xff\\x0a.service", "a?[2J??.service" },
	{ "/machine-\\x1b\\xc3\\xa9.scope", "machine-?\303\251" },
	{ "/\x1b[31m", "/?[31m" },
	{ "//lxc.payload.", "//lxc.payload." },
	/* A container in a container. */
	{ "/lxc.payload.web/docker/" ID, "docker-0123456789ab" },
};

static void test_names(void)
{
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *name = vms_container_name(cases[i].path);
		g_assert_cmpstr(name, ==, cases[i].name);
	}
}

static void test_deep(void)
{
	g_autoptr(GString) path = g_string_new(NULL);
	for (unsigned i = 0; i < 2000; i++)
		g_string_append(path, "/a");
	g_autofree char *name = vms_container_name(path->str);
	g_assert_cmpstr(name, ==, path->str);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/container/names", test_names);
	g_test_add_func("/container/deep", test_deep);
	return g_test_run();
}
