/* SPDX-License-Identifier: MIT */
#include "machine/qemu/cmdline.h"

#include <string.h>

#define DEFAULT_MEMORY (128U << 20)
/*
 * How many monitors of each option to read. The chardev of each is searched for among all
 * arguments, and any user may start a "QEMU" with a long command line.
 */
#define MONITORS_MAX 16

/* Takes the part of an option up to the next single comma; ",," stands for a comma. */
static char *take_part(const char **text)
{
	GString *part = g_string_new(NULL);
	const char *c = *text;
	for (; *c && (c[0] != ',' || c[1] == ','); c++) {
		if (c[0] == ',')
			c++;
		g_string_append_c(part, *c);
	}
	*text = *c ? c + 1 : c;
	return g_string_free(part, FALSE);
}

/*
 * The value of `key` in an option like "4,maxcpus=8" or "cpus=4,maxcpus=8". With `first`, `key` is
 * the one that the first part may leave out.
 */
static char *option_value(const char *option, const char *key, bool first)
{
	size_t length = strlen(key);
	for (const char *rest = option; *rest; first = false) {
		g_autofree char *part = take_part(&rest);
		if (strncmp(part, key, length) == 0 && part[length] == '=')
			return g_strdup(part + length + 1);
		if (first && !strchr(part, '='))
			return g_steal_pointer(&part);
	}
	return NULL;
}

static uint64_t option_number(const char *option, const char *key, bool first)
{
	g_autofree char *value = option_value(option, key, first);
	return value ? g_ascii_strtoull(value, NULL, 10) : 0;
}

/* The argument of the next option `name`, from args[*i] on. Moves *i behind it. */
static const char *next_option(char **args, size_t *i, const char *name)
{
	while (args[*i] && args[*i + 1]) {
		const char *arg = args[(*i)++];
		if (arg[0] == '-' && strcmp(arg + 1 + (arg[1] == '-'), name) == 0)
			return args[(*i)++];
	}
	return NULL;
}

static const char *first_option(char **args, const char *name)
{
	size_t i = 1;
	return args[0] ? next_option(args, &i, name) : NULL;
}

static bool has_flag(char **args, const char *name)
{
	for (size_t i = 1; args[0] && args[i]; i++) {
		if (args[i][0] == '-' && strcmp(args[i] + 1 + (args[i][1] == '-'), name) == 0)
			return true;
	}
	return false;
}

static unsigned parse_vcpus(const char *option)
{
	if (!option)
		return 1;
	uint64_t n = option_number(option, "cpus", true);
	if (n)
		return (unsigned)MIN(n, G_MAXUINT);
	static const char *const levels[] = { "drawers",  "books",   "sockets", "dies",
					      "clusters", "modules", "cores",	"threads" };
	n = 1;
	for (size_t i = 0; i < G_N_ELEMENTS(levels) && n <= G_MAXUINT16; i++)
		n *= CLAMP(option_number(option, levels[i], false), 1, G_MAXUINT16);
	return (unsigned)MIN(n, G_MAXUINT);
}

/* Bytes of "4G" or "size=4096M,slots=2". A number without a suffix is in MiB. */
static uint64_t parse_memory(const char *option)
{
	g_autofree char *size = option ? option_value(option, "size", true) : NULL;
	char *suffix;
	if (!size)
		return DEFAULT_MEMORY;
	uint64_t n = g_ascii_strtoull(size, &suffix, 10);
	static const char suffixes[] = "kmgt";
	char lower = g_ascii_tolower(*suffix);
	const char *found = lower ? strchr(suffixes, lower) : &suffixes[1];
	unsigned shift = found ? 10 * (unsigned)(found - suffixes + 1) : 0;
	return n <= G_MAXUINT64 >> shift ? n << shift : 0;
}

static char *parse_accelerator(char **args)
{
	if (has_flag(args, "enable-kvm"))
		return g_strdup("kvm");
	const char *accel = first_option(args, "accel");
	if (accel)
		return option_value(accel, "accel", true);
	const char *machine = first_option(args, "machine");
	if (!machine)
		machine = first_option(args, "M");
	g_autofree char *list = machine ? option_value(machine, "accel", false) : NULL;
	return list ? g_strndup(list, strcspn(list, ":")) : g_strdup("tcg");
}

/* True if QEMU listens on the socket. */
static bool is_server(const char *option)
{
	g_autofree char *server = option_value(option, "server", false);
	for (const char *rest = option; !server && *rest;) {
		g_autofree char *part = take_part(&rest);
		if (strcmp(part, "server") == 0)
			return true;
	}
	return server && strcmp(server, "on") == 0;
}

/* The address HOST:PORT to connect to when QEMU listens on `host`. */
static char *make_tcp_address(const char *host, const char *port)
{
	bool any = !host || !*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
	return g_strdup_printf("%s:%s", any ? "localhost" : host, port);
}

static void add_qmp(struct vms_cmdline *ret, char *path, char *tcp, int fd)
{
	struct vms_cmdline_qmp qmp = { path, tcp, fd };
	if (path || tcp || fd >= 0)
		g_array_append_val(ret->qmp, qmp);
}

/* Adds the monitor of "unix:PATH,server=on" or "tcp:HOST:PORT,server=on". */
static void add_device(const char *device, struct vms_cmdline *ret)
{
	const char *rest = device;
	g_autofree char *address = take_part(&rest);
	if (!is_server(device))
		return;
	if (g_str_has_prefix(address, "unix:")) {
		add_qmp(ret, g_strdup(address + strlen("unix:")), NULL, -1);
	} else if (g_str_has_prefix(address, "tcp:")) {
		char *host = address + strlen("tcp:"), *colon = strrchr(host, ':');
		if (colon) {
			*colon = 0;
			add_qmp(ret, NULL, make_tcp_address(host, colon + 1), -1);
		}
	}
}

/* Adds the monitor on chardev `id`: "socket,id=mon,path=PATH,server=on", or host and port, or fd.
 */
static void add_chardev(char **args, const char *id, struct vms_cmdline *ret)
{
	const char *chardev;
	for (size_t i = 0; (chardev = next_option(args, &i, "chardev"));) {
		g_autofree char *name = option_value(chardev, "id", false);
		if (g_strcmp0(name, id) != 0 || !is_server(chardev))
			continue;
		g_autofree char *host = option_value(chardev, "host", false);
		g_autofree char *port = option_value(chardev, "port", false);
		g_autofree char *fd = option_value(chardev, "fd", false);
		add_qmp(ret, option_value(chardev, "path", false),
			port ? make_tcp_address(host, port) : NULL,
			fd ? (int)MIN(g_ascii_strtoull(fd, NULL, 10), G_MAXINT) : -1);
		return;
	}
}

static void parse_qmp(char **args, const char *option, struct vms_cmdline *ret)
{
	const char *device;
	unsigned n = 0;
	for (size_t i = 0; n < MONITORS_MAX && (device = next_option(args, &i, option)); n++) {
		if (g_str_has_prefix(device, "chardev:"))
			add_chardev(args, device + strlen("chardev:"), ret);
		else
			add_device(device, ret);
	}
}

static void parse_mon(char **args, struct vms_cmdline *ret)
{
	const char *monitor;
	unsigned n = 0;
	for (size_t i = 0; n < MONITORS_MAX && (monitor = next_option(args, &i, "mon")); n++) {
		g_autofree char *mode = option_value(monitor, "mode", false);
		g_autofree char *id = option_value(monitor, "chardev", true);
		if (id && g_strcmp0(mode, "control") == 0)
			add_chardev(args, id, ret);
		if (id)
			g_ptr_array_add(ret->monitors, g_steal_pointer(&id));
	}
}

/* Notes monitors on a character device that has an id: "-monitor chardev:ID". */
static void parse_named_monitors(char **args, const char *option, struct vms_cmdline *ret)
{
	const char *device;
	for (size_t i = 0; (device = next_option(args, &i, option));) {
		if (g_str_has_prefix(device, "chardev:"))
			g_ptr_array_add(ret->monitors, g_strdup(device + strlen("chardev:")));
	}
}

/* The agent's socket in "DIRECTORY/libvmscope-agent-api4.so,socket=PATH". */
static char *parse_agent(char **args)
{
	const char *plugin;
	for (size_t i = 0; (plugin = next_option(args, &i, "plugin"));) {
		g_autofree char *file = option_value(plugin, "file", true);
		g_autofree char *name = file ? g_path_get_basename(file) : NULL;
		if (name && g_str_has_prefix(name, "libvmscope-agent"))
			return option_value(plugin, "socket", false);
	}
	return NULL;
}

static void clear_qmp(gpointer data)
{
	struct vms_cmdline_qmp *qmp = data;
	g_free(qmp->path);
	g_free(qmp->tcp);
}

void vms_cmdline_parse(char **args, struct vms_cmdline *ret)
{
	const char *name = first_option(args, "name"), *gdb = first_option(args, "gdb");
	*ret = (struct vms_cmdline) { 0 };
	ret->qmp = g_array_new(FALSE, FALSE, sizeof(struct vms_cmdline_qmp));
	g_array_set_clear_func(ret->qmp, clear_qmp);
	ret->monitors = g_ptr_array_new_with_free_func(g_free);
	ret->name = name ? option_value(name, "guest", true) : NULL;
	ret->uuid = g_strdup(first_option(args, "uuid"));
	ret->accelerator = parse_accelerator(args);
	ret->vcpus = parse_vcpus(first_option(args, "smp"));
	ret->memory = parse_memory(first_option(args, "m"));
	parse_qmp(args, "qmp", ret);
	parse_qmp(args, "qmp-pretty", ret);
	parse_mon(args, ret);
	parse_named_monitors(args, "qmp", ret);
	parse_named_monitors(args, "qmp-pretty", ret);
	parse_named_monitors(args, "monitor", ret);
	ret->agent = parse_agent(args);
	if (has_flag(args, "s"))
		ret->gdb = g_strdup("localhost:1234");
	else if (gdb && strcmp(gdb, "none") != 0)
		ret->gdb = g_strdup(gdb);
}

void vms_cmdline_clear(struct vms_cmdline *cmdline)
{
	g_free(cmdline->name);
	g_free(cmdline->uuid);
	g_free(cmdline->accelerator);
	g_clear_pointer(&cmdline->qmp, g_array_unref);
	g_clear_pointer(&cmdline->monitors, g_ptr_array_unref);
	g_free(cmdline->gdb);
	g_free(cmdline->agent);
	*cmdline = (struct vms_cmdline) { 0 };
}
