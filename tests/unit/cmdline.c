/* SPDX-License-Identifier: MIT */
#include "machine/qemu/cmdline.h"

static void parse(const char *line, struct vms_cmdline *ret)
{
	g_auto(GStrv) args = g_strsplit(line, " ", -1);
	g_test_message("%s", line);
	vms_cmdline_parse(args, ret);
}

/* All sockets of a command line, in its order. */
static char *describe(const GArray *sockets)
{
	GString *text = g_string_new(NULL);
	for (guint i = 0; i < sockets->len; i++) {
		const struct vms_cmdline_qmp *qmp =
			&g_array_index(sockets, struct vms_cmdline_qmp, i);
		g_assert_cmpint((qmp->path != NULL) + (qmp->tcp != NULL) + (qmp->fd >= 0), ==, 1);
		if (qmp->fd >= 0)
			g_string_append_printf(text, "fd %d;", qmp->fd);
		else
			g_string_append_printf(text, "%s %s;", qmp->path ? "path" : "tcp",
					       qmp->path ? qmp->path : qmp->tcp);
	}
	return g_string_free(text, FALSE);
}

static void test_qmp(void)
{
	static const struct {
		const char *line, *sockets;
	} cases[] = {
		{ "qemu -m 1G", "" },
		{ "qemu -qmp", "" },
		{ "qemu -qmp unix:/run/a,server=on,wait=off", "path /run/a;" },
		{ "qemu --qmp unix:rel/b,server,nowait", "path rel/b;" },
		{ "qemu -qmp unix:/run/a,,b,server=on", "path /run/a,b;" },
		{ "qemu -qmp unix:/run/client", "" },
		{ "qemu -qmp unix:/run/client,server=off", "" },
		{ "qemu -qmp stdio", "" },
		{ "qemu -qmp tcp:10.0.0.1:4444,server=on", "tcp 10.0.0.1:4444;" },
		{ "qemu -qmp tcp::4444,server=on,wait=off", "tcp localhost:4444;" },
		{ "qemu -qmp tcp:0.0.0.0:1,server=on", "tcp localhost:1;" },
		{ "qemu -qmp stdio -qmp-pretty unix:/p,server=on", "path /p;" },
		{ "qemu -monitor unix:/hmp,server=on", "" },
		{ "qemu -chardev socket,id=a,path=/a,server=on -mon chardev=a,mode=control",
		  "path /a;" },
		{ "qemu -mon a,mode=control -chardev socket,id=a,path=/a,server=on", "path /a;" },
		{ "qemu -chardev socket,id=a,path=/a,server=on -mon chardev=a", "" },
		{ "qemu -chardev socket,id=a,path=/a,server=on -mon chardev=a,mode=readline", "" },
		{ "qemu -chardev socket,id=a,path=/a,server=on -chardev "
		  "socket,id=b,host=::,port=5,server=on -mon chardev=b,mode=control",
		  "tcp localhost:5;" },
		{ "qemu -chardev socket,id=charmonitor,fd=26,server=on,wait=off -mon "
		  "chardev=charmonitor,id=monitor,mode=control",
		  "fd 26;" },
		{ "qemu -chardev socket,id=a,path=/a,server=on -qmp chardev:a", "path /a;" },
		{ "qemu -mon chardev=missing,mode=control", "" },
		{ "qemu -qmp unix:/a,server=on -qmp stdio -qmp unix:/b,server=on -qmp "
		  "tcp::7,server=on",
		  "path /a;path /b;tcp localhost:7;" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vms_cmdline cmdline;
		parse(cases[i].line, &cmdline);
		g_autofree char *sockets = describe(cmdline.qmp);
		g_assert_cmpstr(sockets, ==, cases[i].sockets);
		vms_cmdline_clear(&cmdline);
	}
}

static void test_agent(void)
{
	static const struct {
		const char *line, *agent;
	} cases[] = {
		{ "qemu", NULL },
		{ "qemu -plugin", NULL },
		{ "qemu -plugin /usr/lib/libvmscope-agent-api4.so,socket=/run/a", "/run/a" },
		{ "qemu --plugin file=libvmscope-agent-api7.so,socket=a,,b", "a,b" },
		{ "qemu -plugin /usr/lib/libvmscope-agent-api4.so", NULL },
		{ "qemu -plugin /usr/lib/libother.so,socket=/run/a", NULL },
		{ "qemu -plugin /libvmscope-agent/libother.so,socket=/run/a", NULL },
		{ "qemu -plugin other.so -plugin x/libvmscope-agent-api4.so,socket=/run/b",
		  "/run/b" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vms_cmdline cmdline;
		parse(cases[i].line, &cmdline);
		g_assert_cmpstr(cmdline.agent, ==, cases[i].agent);
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

/*
 * As many monitors and chardevs as a command line of a MiB can have: each monitor has another look
 * at all chardevs, so that not all are looked for.
 */
static void test_many_monitors(void)
{
	enum { N = 30000, MOST = 16 };
	static const char *const monitors[][2] = { { "-qmp", "chardev:x" },
						   { "-qmp-pretty", "chardev:x" },
						   { "-mon", "x,mode=control" } };
	for (size_t i = 0; i < G_N_ELEMENTS(monitors); i++) {
		g_autoptr(GPtrArray) args = g_ptr_array_new();
		struct vms_cmdline cmdline;
		g_ptr_array_add(args, (char *)"qemu");
		for (unsigned n = 0; n < N; n++) {
			g_ptr_array_add(args, (char *)monitors[i][0]);
			g_ptr_array_add(args, (char *)monitors[i][1]);
			g_ptr_array_add(args, (char *)"-chardev");
			g_ptr_array_add(args, (char *)"socket,id=y");
		}
		g_ptr_array_add(args, (char *)"-chardev");
		g_ptr_array_add(args, (char *)"socket,id=x,path=/x,server=on");
		g_ptr_array_add(args, NULL);
		vms_cmdline_parse((char **)args->pdata, &cmdline);
		g_assert_cmpuint(cmdline.qmp->len, ==, MOST);
		vms_cmdline_clear(&cmdline);
	}
}

static void test_no_arguments(void)
{
	char *none[] = { NULL };
	struct vms_cmdline cmdline;
	vms_cmdline_parse(none, &cmdline);
	g_assert_cmpuint(cmdline.qmp->len, ==, 0);
	vms_cmdline_clear(&cmdline);
}

static void test_uuid(void)
{
	static const struct {
		const char *line, *uuid;
	} cases[] = {
		{ "qemu", NULL },
		{ "qemu -uuid", NULL },
		{ "qemu -uuid 4dea22b3-1d52-d8f3-2516-782e98ab3fa0 -name x",
		  "4dea22b3-1d52-d8f3-2516-782e98ab3fa0" },
		{ "qemu -name uuid=1 --uuid 2", "2" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct vms_cmdline cmdline;
		parse(cases[i].line, &cmdline);
		g_assert_cmpstr(cmdline.uuid, ==, cases[i].uuid);
		vms_cmdline_clear(&cmdline);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/cmdline/uuid", test_uuid);
	g_test_add_func("/cmdline/qmp", test_qmp);
	g_test_add_func("/cmdline/agent", test_agent);
	g_test_add_func("/cmdline/machine", test_machine);
	g_test_add_func("/cmdline/many-monitors", test_many_monitors);
	g_test_add_func("/cmdline/no-arguments", test_no_arguments);
	return g_test_run();
}
