/* SPDX-License-Identifier: MIT */
#include "machine/qemu/cmdline.h"

static void parse(const char *line, struct vms_cmdline *ret)
{
	g_auto(GStrv) args = g_strsplit(line, " ", -1);
	g_test_message("%s", line);
	vms_cmdline_parse(args, ret);
}

static void test_qmp(void)
{
	static const struct {
		const char *line, *path, *tcp;
		int fd;
	} cases[] = {
		{ "qemu -m 1G", NULL, NULL, -1 },
		{ "qemu -qmp", NULL, NULL, -1 },
		{ "qemu -qmp unix:/run/a,server=on,wait=off", "/run/a", NULL, -1 },
		{ "qemu --qmp unix:rel/b,server,nowait", "rel/b", NULL, -1 },
		{ "qemu -qmp unix:/run/a,,b,server=on", "/run/a,b", NULL, -1 },
		{ "qemu -qmp unix:/run/client", NULL, NULL, -1 },
		{ "qemu -qmp unix:/run/client,server=off", NULL, NULL, -1 },
		{ "qemu -qmp stdio", NULL, NULL, -1 },
		{ "qemu -qmp tcp:10.0.0.1:4444,server=on", NULL, "10.0.0.1:4444", -1 },
		{ "qemu -qmp tcp::4444,server=on,wait=off", NULL, "localhost:4444", -1 },
		{ "qemu -qmp tcp:0.0.0.0:1,server=on", NULL, "localhost:1", -1 },
		{ "qemu -qmp stdio -qmp-pretty unix:/p,server=on", "/p", NULL, -1 },
		{ "qemu -monitor unix:/hmp,server=on", NULL, NULL, -1 },
		{ "qemu -chardev socket,id=a,path=/a,server=on -mon chardev=a,mode=control", "/a",
		  NULL, -1 },
		{ "qemu -mon a,mode=control -chardev socket,id=a,path=/a,server=on", "/a", NULL,
		  -1 },
		{ "qemu -chardev socket,id=a,path=/a,server=on -mon chardev=a", NULL, NULL, -1 },
		{ "qemu -chardev socket,id=a,path=/a,server=on -mon chardev=a,mode=readline", NULL,
		  NULL, -1 },
		{ "qemu -chardev socket,id=a,path=/a,server=on -chardev "
		  "socket,id=b,host=::,port=5,server=on -mon chardev=b,mode=control",
		  NULL, "localhost:5", -1 },
		{ "qemu -chardev socket,id=charmonitor,fd=26,server=on,wait=off -mon "
		  "chardev=charmonitor,id=monitor,mode=control",
		  NULL, NULL, 26 },
		{ "qemu -chardev socket,id=a,path=/a,server=on -qmp chardev:a", "/a", NULL, -1 },
		{ "qemu -mon chardev=missing,mode=control", NULL, NULL, -1 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vms_cmdline cmdline;
		parse(cases[i].line, &cmdline);
		g_assert_cmpstr(cmdline.qmp_path, ==, cases[i].path);
		g_assert_cmpstr(cmdline.qmp_tcp, ==, cases[i].tcp);
		g_assert_cmpint(cmdline.qmp_fd, ==, cases[i].fd);
		vms_cmdline_clear(&cmdline);
	}
}

static void test_machine(void)
{
	static const struct {
		const char *line, *name, *accelerator, *gdb;
		unsigned vcpus;
		uint64_t mib;
	} cases[] = {
		{ "qemu", NULL, "tcg", NULL, 1, 128 },
		{ "qemu -name vm -smp 4 -m 512", "vm", "tcg", NULL, 4, 512 },
		{ "qemu -name guest=web,debug-threads=on -smp 2,maxcpus=8 -m 4G", "web", "tcg",
		  NULL, 2, 4096 },
		{ "qemu -name debug-threads=on,guest=x -smp maxcpus=8,cpus=3 -m "
		  "slots=2,size=2048M,maxmem=1T",
		  "x", "tcg", NULL, 3, 2048 },
		{ "qemu -smp sockets=2,cores=3,threads=2 -m size=1t", NULL, "tcg", NULL, 12,
		  1 << 20 },
		{ "qemu -enable-kvm -s", NULL, "kvm", "localhost:1234", 1, 128 },
		{ "qemu -accel kvm,kernel-irqchip=on -gdb tcp::99", NULL, "kvm", "tcp::99", 1,
		  128 },
		{ "qemu -machine q35,accel=kvm:tcg -gdb none", NULL, "kvm", NULL, 1, 128 },
		{ "qemu -M accel=tcg -m 1048576k", NULL, "tcg", NULL, 1, 1024 },
		{ "qemu -m 99999999999999999999T -smp 0", NULL, "tcg", NULL, 1, 0 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vms_cmdline cmdline;
		parse(cases[i].line, &cmdline);
		g_assert_cmpstr(cmdline.name, ==, cases[i].name);
		g_assert_cmpstr(cmdline.accelerator, ==, cases[i].accelerator);
		g_assert_cmpstr(cmdline.gdb, ==, cases[i].gdb);
		g_assert_cmpuint(cmdline.vcpus, ==, cases[i].vcpus);
		g_assert_cmpuint(cmdline.memory, ==, cases[i].mib << 20);
		vms_cmdline_clear(&cmdline);
	}
}

static void test_no_arguments(void)
{
	char *none[] = { NULL };
	struct vms_cmdline cmdline;
	vms_cmdline_parse(none, &cmdline);
	g_assert_null(cmdline.qmp_path);
	vms_cmdline_clear(&cmdline);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/cmdline/qmp", test_qmp);
	g_test_add_func("/cmdline/machine", test_machine);
	g_test_add_func("/cmdline/no-arguments", test_no_arguments);
	return g_test_run();
}
