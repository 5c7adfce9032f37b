/* SPDX-License-Identifier: MIT */
#include "jailed_command.h"
#include "base/outfile.h"
#include "base/text.h"
#include "commands.h"
#include "symbol/mapped_file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REQUEST_KIND 0x100
#define REQUEST_TYPE "(aayaay)" /* words of the command, files */
/* Status, error, loss, what is printed, outputs with their numbers, what is served. */
#define ANSWER_TYPE "(i" ERROR_TYPE ERROR_TYPE "aya(uay)ay)"
#define ERROR_TYPE  "(uiay)"

enum error_kind { NO_ERROR, OF_VMSCOPE, OF_USAGE };

/* A command in a jail. */
struct jailed {
	char **files; /* as the user names them */
	int *fds;     /* of these */
	struct vms_jail_work *work;
	GVariantBuilder outputs;
	GString *served;
};

/* ---- both sides -------------------------------------------------------- */

static GVariant *pack_text(const char *text, size_t size)
{
	return g_variant_new_fixed_array(G_VARIANT_TYPE_BYTE, text, size, 1);
}

static GVariant *pack_error(const GError *error)
{
	const enum error_kind kind = !error			  ? NO_ERROR
				     : error->domain == VMS_ERROR ? OF_VMSCOPE
								  : OF_USAGE;
	return g_variant_new("(ui^ay)", kind, error ? error->code : 0, error ? error->message : "");
}

/* Takes the value. The text is not trusted. */
static GError *unpack_error(GVariant *value)
{
	guint kind;
	gint code;
	g_autofree char *message = NULL;
	g_variant_get(value, "(ui^ay)", &kind, &code, &message);
	g_variant_unref(value);
	vms_text_clean(message);
	if (kind == OF_USAGE)
		return g_error_new_literal(G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
	const bool is_known = code >= 0 && code <= VMS_ERROR_BUDGET;
	return kind == OF_VMSCOPE
		       ? g_error_new_literal(VMS_ERROR, is_known ? code : VMS_ERROR_MALFORMED,
					     message)
		       : NULL;
}

/* Takes the value. Returns a new text. */
static GString *unpack_text(GVariant *value)
{
	gsize size;
	const char *bytes = g_variant_get_fixed_array(value, &size, 1);
	GString *text = g_string_new_len(bytes, (gssize)size);
	g_variant_unref(value);
	return text;
}

int jailed_command_open(const struct session *session, const char *path, GError **error)
{
	const struct jailed *jailed = session->jailed;
	int fd = -1;
	for (size_t i = 0; jailed && jailed->files[i] && fd < 0; i++)
		if (strcmp(jailed->files[i], path) == 0)
			fd = fcntl(jailed->fds[i], F_DUPFD_CLOEXEC, 0);
	if (!jailed)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const int number = jailed ? EPERM : errno;
	if (fd < 0)
		g_set_error(error, VMS_ERROR,
			    number == ENOENT   ? VMS_ERROR_NOT_FOUND
			    : number == EACCES ? VMS_ERROR_PERMISSION
					       : VMS_ERROR_IO,
			    "cannot read %s: %s", path, g_strerror(number));
	return fd;
}

int jailed_command_open_mapped(const struct session *session, const char *path,
			       const char *build_id)
{
	if (!session->jailed)
		return vms_mapped_file_open(path, build_id, session->budget);
	g_autofree char *name = g_strdup_printf("%s %s", build_id, path);
	return vms_jail_open(session->jailed->work, name);
}

GString *jailed_command_served(const struct session *session)
{
	return session->jailed->served;
}

bool jailed_command_write(struct session *session, const char *path, const GString *text,
			  GError **error)
{
	guint number = 0;
	if (!session->jailed) {
		g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
		return file && vms_outfile_write(file, text->str, text->len, error) &&
		       vms_outfile_commit(file, error);
	}
	while (strcmp(session->outputs[number], path) != 0)
		number++;
	g_variant_builder_add(&session->jailed->outputs, "(u@ay)", number,
			      pack_text(text->str, text->len));
	return true;
}

/* ---- in the jail ------------------------------------------------------- */

static GVariant *run_inside(struct session *session, char **words)
{
	struct jailed *jailed = session->jailed;
	g_autoptr(GError) error = NULL;
	int argc = (int)g_strv_length(words);
	jailed->served = g_string_new(NULL);
	g_variant_builder_init(&jailed->outputs, G_VARIANT_TYPE("a(uay)"));
	if (session->command->run(session, argc, words, &error))
		session_note_cuts(session);
	const GString *out = session->out;
	return g_variant_new("(i@" ERROR_TYPE "@" ERROR_TYPE "@aya(uay)@ay)", session->status,
			     pack_error(error), pack_error(session->loss),
			     pack_text(out ? out->str : "", out ? out->len : 0), &jailed->outputs,
			     pack_text(jailed->served->str, jailed->served->len));
}

static void append_answer(struct vms_jail_work *work, GVariant *answer)
{
	g_variant_ref_sink(answer);
	g_byte_array_append(work->answer, g_variant_get_data(answer),
			    (guint)g_variant_get_size(answer));
	g_variant_unref(answer);
}

static bool serve_command(void *state, struct vms_jail_work *work, GError **error)
{
	g_autoptr(GBytes) bytes = g_bytes_new_static(work->bytes.data, work->bytes.size);
	g_autoptr(GVariant) request =
		g_variant_new_from_bytes(G_VARIANT_TYPE(REQUEST_TYPE), bytes, FALSE);
	g_auto(GStrv) words = NULL, files = NULL;
	(void)state;
	g_variant_get(request, "(^aay^aay)", &words, &files);
	if (g_strv_length(words) == 0 || g_strv_length(files) != work->n_fds) {
		g_set_error_literal(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
				    "a command in a jail lacks its words or its files");
		return false;
	}
	struct jailed jailed = { .files = files, .fds = work->fds, .work = work };
	struct session session = { .command = find_command(words[0]),
				   .jailed = &jailed,
				   .budget = vms_budget_ref(work->budget) };
	/* GOption removes words from the list that it parses. */
	g_autofree char **parsed = g_memdup2(words, (g_strv_length(words) + 1) * sizeof(*words));
	append_answer(work, run_inside(&session, parsed));
	g_string_free(jailed.served, TRUE);
	session_clear(&session);
	return true;
}

const struct vms_jail_service jailed_command_service = {
	.name = "command",
	.first_kind = REQUEST_KIND,
	.last_kind = REQUEST_KIND,
	.serve = serve_command,
};

/* ---- outside ----------------------------------------------------------- */

bool jailed_command_is_due(const struct session *session)
{
	return !session->jailed && vms_budget_jail(session->budget);
}

/* Opens all files. Returns their sizes together. */
static bool open_files(const struct session *session, const char *const *files, size_t n, int *fds,
		       uint64_t *size, GError **error)
{
	for (size_t i = 0; i < n; i++) {
		struct stat status;
		fds[i] = jailed_command_open(session, files[i], error);
		if (fds[i] < 0)
			return false;
		if (fstat(fds[i], &status) == 0 && S_ISREG(status.st_mode))
			*size += (uint64_t)status.st_size;
	}
	return true;
}

/* Makes a budget that grows with what the user wants to be read. */
static struct vms_budget *make_budget(const struct session *session, uint64_t size)
{
	const uint64_t ns = vms_budget_left(session->budget, VMS_BUDGET_STEPS) * VMS_BUDGET_STEP_NS;
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns =
			ns + (uint64_t)((double)size / (1 << 30) * VMS_BUDGET_RECORDING_NS_PER_GIB),
		.bytes = vms_budget_left(session->budget, VMS_BUDGET_BYTES) +
			 size * VMS_BUDGET_RECORDING_BYTES_PER_BYTE,
		.items = vms_budget_left(session->budget, VMS_BUDGET_ITEMS) + size,
		.printed = vms_budget_left(session->budget, VMS_BUDGET_PRINTED) + size,
		.jail = vms_budget_jail(session->budget),
	};
	return vms_budget_new(&options, NULL);
}

/* Returns the words of the request and the names of its files. */
static GVariant *make_request(const struct session *session, const char *const *files, size_t n)
{
	GVariantBuilder names;
	g_variant_builder_init(&names, G_VARIANT_TYPE("aay"));
	for (size_t i = 0; i < n; i++)
		g_variant_builder_add(&names, "^ay", files[i]);
	return g_variant_ref_sink(
		g_variant_new("(^aay@aay)", session->words, g_variant_builder_end(&names)));
}

/* Writes what the command has given back for each of its outputs. Takes the value. */
static bool write_outputs(struct session *session, GVariant *outputs, GError **error)
{
	const guint n = session->outputs ? g_strv_length(session->outputs) : 0;
	bool done = true;
	GVariantIter iter;
	guint number;
	GVariant *value;
	g_variant_iter_init(&iter, outputs);
	while (done && g_variant_iter_next(&iter, "(u@ay)", &number, &value)) {
		GString *text = unpack_text(value);
		done = number < n &&
		       jailed_command_write(session, session->outputs[number], text, error);
		g_string_free(text, TRUE);
	}
	g_variant_unref(outputs);
	return done;
}

/* Does with the answer what the command would have done outside. */
static bool take_answer(struct session *session, const GByteArray *answer, GString **served,
			GError **error)
{
	g_autoptr(GBytes) bytes = g_bytes_new_static(answer->data, answer->len);
	g_autoptr(GVariant) value =
		g_variant_new_from_bytes(G_VARIANT_TYPE(ANSWER_TYPE), bytes, FALSE);
	GVariant *failure, *loss, *printed, *outputs, *page;
	g_variant_ref_sink(value);
	g_variant_get(value, "(i@" ERROR_TYPE "@" ERROR_TYPE "@ay@a(uay)@ay)", &session->status,
		      &failure, &loss, &printed, &outputs, &page);
	g_autoptr(GString) shown = unpack_text(printed);
	g_autoptr(GString) text = unpack_text(page);
	GError *failed = unpack_error(failure);
	session->loss = unpack_error(loss);
	session->status = session->status != 0;
	g_string_append_len(session->out, shown->str, (gssize)shown->len);
	if (served)
		*served = g_steal_pointer(&text);
	const bool is_written = write_outputs(session, outputs, failed ? NULL : error);
	if (failed)
		g_propagate_error(error, failed);
	return !failed && is_written;
}

/* Opens a file that the jail asks for: "BUILD-ID PATH". */
static int open_for_jail(void *data, const char *name)
{
	const char *path = strchr(name, ' ');
	g_autofree char *build_id = path ? g_strndup(name, (gsize)(path - name)) : NULL;
	return path ? vms_mapped_file_open(path + 1, build_id, data) : -1;
}

static bool call_jail(struct session *session, const char *const *files, size_t n, const int *fds,
		      uint64_t size, GByteArray *answer, GError **error)
{
	g_autoptr(vms_budget) budget = make_budget(session, size);
	g_autoptr(GVariant) words = make_request(session, files, n);
	const struct vms_jail_request request = {
		.kind = REQUEST_KIND,
		.bytes = g_variant_get_data(words),
		.size = g_variant_get_size(words),
		.fds = fds,
		.n_fds = n,
		.open = open_for_jail,
		.data = session->budget,
		.budget = budget,
	};
	struct vms_jail *jail = vms_jail_new(budget, files[0]);
	const bool is_served = vms_jail_call(jail, &request, answer, error);
	vms_jail_unref(jail);
	return is_served;
}

bool jailed_command_run(struct session *session, const char *const *files, size_t n,
			GString **served, GError **error)
{
	int fds[VMS_JAIL_FDS];
	uint64_t size = 0;
	memset(fds, 0xff, sizeof(fds));
	g_assert(n <= VMS_JAIL_FDS);
	g_autoptr(GByteArray) answer = g_byte_array_new();
	const bool is_served = open_files(session, files, n, fds, &size, error) &&
			       call_jail(session, files, n, fds, size, answer, error);
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return is_served && take_answer(session, answer, served, error);
}
