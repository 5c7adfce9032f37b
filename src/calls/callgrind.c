/* SPDX-License-Identifier: MIT */
/* Writes the call graph of a trace's directory as callgrind does, for KCachegrind. */
#include "base/keyed_hash.h"
#include "calls/call_graph.h"
#include "calls/trace_names.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/calls.h>

#define TEXT_LIMIT   (UINT64_C(256) << 20) /* of a map or a symbol file */
#define CHUNK	     (UINT64_C(1) << 20)   /* of records; whole ones */
#define RECORD_BYTES 16
#define UNKNOWN	     "???" /* what callgrind calls what is not known */

/* ---- reading the directory ---------------------------------------------------------------- */

static int open_file(const char *directory, const char *name, uint64_t limit, GError **error)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	struct stat status;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    (uint64_t)status.st_size <= limit)
		return fd;
	g_set_error(error, VMS_ERROR,
		    fd < 0 && errno == ENOENT ? VMS_ERROR_NOT_FOUND : VMS_ERROR_IO,
		    "cannot read %s: %s", path,
		    fd < 0 ? g_strerror(errno) : "it is no regular file, or too large");
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool set_read_error(const char *directory, const char *name, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot read %s/%s: %s", directory, name,
		    g_strerror(errno));
	return false;
}

/* Returns the text of a file, newly allocated. */
static char *read_text(const char *directory, const char *name, GError **error)
{
	const int fd = open_file(directory, name, TEXT_LIMIT, error);
	g_autoptr(GString) text = g_string_new(NULL);
	char part[65536];
	ssize_t got = 1;
	while (fd >= 0 && got > 0 && text->len <= TEXT_LIMIT) {
		got = read(fd, part, sizeof(part));
		if (got > 0)
			g_string_append_len(text, part, got);
	}
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && got < 0)
		set_read_error(directory, name, error);
	return fd < 0 || got < 0 ? NULL : g_string_free(g_steal_pointer(&text), FALSE);
}

/* Adds the records of a data file. The last one may not be whole: its writer was killed. */
static bool add_stream(struct vms_call_graph *graph, const char *directory, const char *name,
		       GError **error)
{
	const int fd = open_file(directory, name, UINT64_MAX, error);
	if (fd < 0)
		return false;
	g_autofree uint8_t *bytes = g_malloc(CHUNK);
	size_t kept = 0;
	bool done = true;
	ssize_t got = 0;
	while (done && (got = read(fd, bytes + kept, CHUNK - kept)) > 0) {
		const size_t n = kept + (size_t)got, whole = n - n % RECORD_BYTES;
		done = vms_call_graph_add(graph, (struct vms_bytes) { bytes, whole }, error);
		kept = n - whole;
		memmove(bytes, bytes + whole, kept);
	}
	vms_call_graph_end_stream(graph);
	close(fd);
	if (!done)
		g_prefix_error(error, "cannot read %s/%s: ", directory, name);
	return got < 0 ? set_read_error(directory, name, error) : done;
}

static bool is_data_file(const char *name)
{
	return g_ascii_isdigit(name[0]) && strcmp(name + strspn(name, "0123456789"), ".dat") == 0;
}

static bool is_map(const char *name)
{
	return g_str_has_prefix(name, "sid-") && g_str_has_suffix(name, ".map");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the names of the directory's files that fit, sorted: char *. */
static GPtrArray *list_files(const char *directory, bool (*fits)(const char *name), GError **error)
{
	g_autoptr(GError) failure = NULL;
	g_autoptr(GDir) dir = g_dir_open(directory, 0, &failure);
	const char *name;
	if (!dir) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "cannot read the trace %s: %s",
			    directory, failure->message);
		return NULL;
	}
	GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
	while ((name = g_dir_read_name(dir)))
		if (fits(name))
			g_ptr_array_add(names, g_strdup(name));
	g_ptr_array_sort(names, compare_names);
	return names;
}

static struct vms_call_graph *read_graph(const char *directory, GError **error)
{
	g_autoptr(GPtrArray) files = list_files(directory, is_data_file, error);
	g_autoptr(vms_call_graph) graph = vms_call_graph_new();
	for (guint i = 0; files && i < files->len; i++)
		if (!add_stream(graph, directory, g_ptr_array_index(files, i), error))
			return NULL;
	if (files && graph->functions->len == 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "%s has no calls: give the directory that \"vmscope calls\" has "
			    "written",
			    directory);
	return files && graph->functions->len ? g_steal_pointer(&graph) : NULL;
}

static struct vms_trace_names *read_names(const char *directory, GError **error)
{
	g_autoptr(GPtrArray) maps = list_files(directory, is_map, error);
	if (!maps)
		return NULL;
	if (maps->len != 1) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s has %u maps (sid-*.map); a trace of vmscope has one", directory,
			    maps->len);
		return NULL;
	}
	g_autofree char *map = read_text(directory, g_ptr_array_index(maps, 0), error);
	if (!map)
		return NULL;
	g_autoptr(vms_trace_names) names = vms_trace_names_new();
	vms_trace_names_add_map(names, map);
	g_autoptr(GPtrArray) images = vms_trace_names_images(names);
	for (guint i = 0; i < images->len; i++) {
		const char *image = g_ptr_array_index(images, i);
		g_autofree char *file = g_strconcat(image, ".sym", NULL);
		g_autofree char *text = read_text(directory, file, NULL); /* it may have none */
		if (text)
			vms_trace_names_add_symbols(names, image, text);
	}
	return g_steal_pointer(&names);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* A name is written once; later it is called by its number. */
struct writer {
	GString *out;
	const struct vms_call_graph *graph;
	GHashTable *images;    /* number by name */
	const char **image_of; /* by function; NULL: not known */
	char **name_of;	       /* by function; NULL: it has been written */
};

static void put_image(struct writer *writer, const char *key, const char *image)
{
	if (!image)
		image = UNKNOWN;
	gpointer number = g_hash_table_lookup(writer->images, image);
	if (number) {
		g_string_append_printf(writer->out, "%s=(%u)\n", key, GPOINTER_TO_UINT(number));
		return;
	}
	number = GUINT_TO_POINTER(g_hash_table_size(writer->images) + 1);
	g_hash_table_insert(writer->images, g_strdup(image), number);
	g_string_append_printf(writer->out, "%s=(%u) %s\n", key, GPOINTER_TO_UINT(number), image);
}

/* Says which function the next lines are about, by the keys of its image, file and name. */
static void put_function(struct writer *writer, uint32_t index, const char *const keys[3])
{
	g_autofree char *name = g_steal_pointer(&writer->name_of[index]);
	put_image(writer, keys[0], writer->image_of[index]);
	g_string_append_printf(writer->out, "%s=" UNKNOWN "\n", keys[1]); /* no source is known */
	g_string_append_printf(writer->out, "%s=(%" PRIu32 ")%s%s\n", keys[2], index + 1,
			       name ? " " : "", name ? name : "");
}

static int compare_edges(const void *a, const void *b)
{
	const struct vms_call_edge *x = a, *y = b;
	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static void put_edge(struct writer *writer, const struct vms_call_edge *edge)
{
	static const char *const keys[] = { "cob", "cfi", "cfn" };
	put_function(writer, edge->callee, keys);
	g_string_append_printf(writer->out, "calls=%" PRIu64 " 0\n0 %" PRIu64 " %" PRIu64 "\n",
			       edge->calls, edge->total_ns, edge->total_calls);
}

static void put_graph(struct writer *writer)
{
	static const char *const keys[] = { "ob", "fl", "fn" };
	const GArray *functions = writer->graph->functions, *edges = writer->graph->edges;
	uint64_t ns = 0, calls = 0;
	guint edge = 0;
	g_string_append(writer->out, "# callgrind format\nversion: 1\ncreator: vmscope " VMS_VERSION
				     "\npositions: line\nevents: ns Calls\n");
	for (uint32_t i = 0; i < functions->len; i++) {
		const struct vms_called *function = &g_array_index(functions, struct vms_called, i);
		g_string_append_c(writer->out, '\n');
		put_function(writer, i, keys);
		g_string_append_printf(writer->out, "0 %" PRIu64 " %" PRIu64 "\n",
				       function->self_ns, function->calls);
		ns += function->self_ns;
		calls += function->calls;
		for (; edge < edges->len; edge++) {
			const struct vms_call_edge *next =
				&g_array_index(edges, struct vms_call_edge, edge);
			if (next->caller != i)
				break;
			put_edge(writer, next);
		}
	}
	g_string_append_printf(writer->out, "\ntotals: %" PRIu64 " %" PRIu64 "\n", ns, calls);
}

bool vms_calls_write_callgrind(const char *directory, GString *out, GError **error)
{
	g_autoptr(vms_call_graph) graph = read_graph(directory, error);
	g_autoptr(vms_trace_names) names = graph ? read_names(directory, error) : NULL;
	if (!names)
		return false;
	g_array_sort(graph->edges, compare_edges);
	g_autoptr(GHashTable) images =
		g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	const guint n = graph->functions->len;
	g_autofree const char **image_of = g_new(const char *, n);
	g_autofree char **name_of = g_new(char *, n);
	for (guint i = 0; i < n; i++)
		name_of[i] = vms_trace_names_find(
			names, g_array_index(graph->functions, struct vms_called, i).address,
			&image_of[i]);
	struct writer writer = { out, graph, images, image_of, name_of };
	put_graph(&writer); /* every function, so it takes all names */
	return true;
}
