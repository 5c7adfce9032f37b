/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qemu.h"
#include "base/clock.h"
#include "base/text.h"
#include "machine/qemu/hmp.h"
#include <string.h>
#include <vmscope/log.h>

static struct vms_qemu *qemu_of(struct vms_machine *machine)
{
	return (struct vms_qemu *)machine;
}

bool vms_qemu_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (machine->arch != &vms_arch_x86_64)
		return true;
	g_autofree char *text =
		vms_qmp_hmp_vcpu(&qemu->qmp, "info registers", qemu->cpu_index[vcpu], error);
	if (!text)
		return false;
	if (!vms_hmp_parse_x86_64_registers(text, ret) && !qemu->told_registers) {
		qemu->told_registers = true;
		vms_log(VMS_LOG_INFO,
			"%s: segments and debug registers are missing: cannot understand QEMU's "
			"`info registers`",
			machine->info.name);
	}
	return true;
}

static bool fail_text(const struct vms_machine *machine, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "%s: cannot understand what QEMU's monitor tells of registers",
		    machine->info.name);
	return false;
}

bool vms_qemu_monitor_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			   GError **error)
{
	struct vms_qemu *qemu = qemu_of(machine);
	g_autofree char *text =
		vms_qmp_hmp_vcpu(&qemu->qmp, "info registers", qemu->cpu_index[vcpu], error);
	*ret = (struct vms_regs) { 0 };
	if (!text)
		return false;
	return (machine->arch == &vms_arch_x86_64 && vms_hmp_parse_x86_64_registers(text, ret) &&
		vms_hmp_parse_x86_64_general(text, ret)) ||
	       fail_text(machine, error);
}

bool vms_qemu_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			GError **error)
{
	struct vms_qemu *qemu = qemu_of(machine);
	g_autofree char *text =
		vms_qmp_hmp_vcpu(&qemu->qmp, "info registers", qemu->cpu_index[vcpu], error);
	return text && (vms_hmp_parse_x86_64_wide(text, ret) || fail_text(machine, error));
}

bool vms_qemu_read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return vms_ram_read(vms_qemu_ram(qemu_of(machine)), pa, buf, size);
}

size_t vms_qemu_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts, size_t n)
{
	return vms_ram_read_parts(vms_qemu_ram(qemu_of(machine)), parts, n);
}

void vms_qemu_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			uint64_t *stop)
{
	vms_ram_next_data(vms_qemu_ram(qemu_of(machine)), pa, end, begin, stop);
}

/* Takes the run state from the answer of query-status. */
static bool take_state(struct vms_qmp *qmp, struct json_object *status, enum vms_run_state *ret,
		       GError **error)
{
	const char *name = vms_json_string(status, "status");
	if (!name) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "%s: query-status does not tell the status", qmp->stream.peer);
		return false;
	}
	*ret = vms_run_state_parse(name, strlen(name));
	return true;
}

bool vms_qemu_ask_state(struct vms_qemu *qemu, enum vms_run_state *ret, GError **error)
{
	vms_autojson *status = vms_qmp_execute(&qemu->qmp, "query-status", NULL, -1, error);
	return status && take_state(&qemu->qmp, status, ret, error);
}

/* The kind of the first job that is not over, or NULL: a snapshot, a backup, a mirror, a new image.
 */
static const char *find_job(struct json_object *jobs)
{
	size_t n = json_object_is_type(jobs, json_type_array) ? json_object_array_length(jobs) : 0;
	for (size_t i = 0; i < n; i++) {
		struct json_object *job = json_object_array_get_idx(jobs, i);
		const char *status = vms_json_string(job, "status");
		const char *type = vms_json_string(job, "type");
		if (status && type && strcmp(status, "concluded") != 0 &&
		    strcmp(status, "null") != 0)
			return type;
	}
	return NULL;
}

/* Fills in what is under way, by the answer of query-migrate and the kind of a job, or NULL. */
static void take_busy(struct json_object *migrate, const char *job, struct vms_qemu_condition *ret)
{
	const char *migration = vms_json_string(migrate, "status");
	if (migration && vms_migration_is_active(migration))
		g_snprintf(ret->busy, sizeof(ret->busy), "a migration (%s)", migration);
	else if (job)
		g_snprintf(ret->busy, sizeof(ret->busy), "a job on its disks (%s)", job);
	vms_text_clean(ret->busy);
}

bool vms_qemu_ask_condition(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error)
{
	struct vms_qmp_command commands[] = { { .name = "query-status" },
					      { .name = "query-migrate" },
					      { .name = "query-jobs" } };
	uint64_t events = qemu->qmp.jobs;
	bool done = vms_qmp_execute_all(&qemu->qmp, commands, G_N_ELEMENTS(commands), error);
	vms_autojson *status = commands[0].answer, *migrate = commands[1].answer,
		     *jobs = commands[2].answer;
	const char *job = find_job(jobs);
	*ret = (struct vms_qemu_condition) { 0 };
	if (!done || !take_state(&qemu->qmp, status, &ret->state, error))
		return false;
	take_busy(migrate, job, ret);
	qemu->has_no_job = !job;
	qemu->jobs = events;
	return true;
}

/* True if an image of this node holds a snapshot of a machine or of a disk. */
static bool has_node_snapshot(struct json_object *node)
{
	struct json_object *image = NULL, *snapshots = NULL;
	return json_object_object_get_ex(node, "image", &image) &&
	       json_object_object_get_ex(image, "snapshots", &snapshots) &&
	       json_object_is_type(snapshots, json_type_array) &&
	       json_object_array_length(snapshots) > 0;
}

bool vms_qemu_has_snapshot(struct vms_qemu *qemu, bool *ret, GError **error)
{
	struct json_object *arguments = json_object_new_object();
	json_object_object_add(arguments, "flat", json_object_new_boolean(true));
	vms_autojson *nodes =
		vms_qmp_execute(&qemu->qmp, "query-named-block-nodes", arguments, -1, error);
	*ret = false;
	if (!nodes)
		return false;
	size_t n =
		json_object_is_type(nodes, json_type_array) ? json_object_array_length(nodes) : 0;
	for (size_t i = 0; i < n && !*ret; i++)
		*ret = has_node_snapshot(json_object_array_get_idx(nodes, i));
	return true;
}

bool vms_qemu_knows_no_job(struct vms_qemu *qemu)
{
	vms_qmp_poll(&qemu->qmp);
	return qemu->has_no_job && qemu->jobs == qemu->qmp.jobs;
}

/* Asks for a migration alone, of which no event tells. */
static bool ask_migration(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error)
{
	vms_autojson *migrate = vms_qmp_execute(&qemu->qmp, "query-migrate", NULL, -1, error);
	*ret = (struct vms_qemu_condition) { .state = VMS_RUN_RUNNING };
	take_busy(migrate, NULL, ret);
	return migrate;
}

bool vms_qemu_take_migration(struct vms_qemu *qemu, struct vms_qemu_condition *ret)
{
	vms_autojson *migrate = vms_qmp_take_answer(&qemu->qmp);
	take_busy(migrate, NULL, ret);
	return migrate;
}

bool vms_qemu_ask_busy(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error)
{
	return vms_qemu_knows_no_job(qemu) ? ask_migration(qemu, ret, error)
					   : vms_qemu_ask_condition(qemu, ret, error);
}

bool vms_qemu_ask_changes(struct vms_qemu *qemu, struct vms_qemu_condition *ret, GError **error)
{
	return vms_qemu_knows_no_job(qemu) && qemu->qmp.running
		       ? ask_migration(qemu, ret, error)
		       : vms_qemu_ask_condition(qemu, ret, error);
}

bool vms_qemu_cont(struct vms_qemu *qemu, enum vms_run_state state, GError **error)
{
	struct vms_qmp_command commands[] = { { .name = "stop" }, { .name = "cont" } };
	bool sleeps = vms_run_state_release_way(state, false) == VMS_RELEASE_STOP_CONT;
	bool done = vms_qmp_execute_all(&qemu->qmp, sleeps ? commands : commands + 1,
					sleeps ? 2 : 1, error);
	json_object_put(commands[0].answer);
	json_object_put(commands[1].answer);
	return done;
}

char *vms_qemu_pause_reason(struct vms_machine *machine)
{
	enum vms_run_state state;
	if (!vms_qemu_ask_state(qemu_of(machine), &state, NULL) || state == VMS_RUN_RUNNING)
		return NULL;
	return g_strdup_printf("its state is %s: %s", vms_run_state_name(state),
			       vms_run_state_advice(state));
}

/* The pidfd tells the end of a process before its sockets are closed. */
enum vms_machine_end vms_qemu_ended(struct vms_machine *machine)
{
	struct vms_qemu *qemu = qemu_of(machine);
	struct vms_qmp *qmp = &qemu->qmp;
	if (!vms_qmp_poll(qmp) || qmp->has_shut_down ||
	    (qemu->process.pid && !vms_host_identity_is_alive(&qemu->process)))
		return VMS_MACHINE_GONE;
	return VMS_MACHINE_GOES_ON;
}

uint64_t vms_qemu_resets(struct vms_machine *machine)
{
	vms_qmp_poll(&qemu_of(machine)->qmp);
	return qemu_of(machine)->qmp.resets;
}

/* Tries one socket after the other. Each serves one client, and others look for a free one, too. */
static bool connect_to_free(struct vms_qmp *qmp, const char *const *addresses, GError **error)
{
	for (;; addresses++) {
		g_autoptr(GError) failure = NULL;
		qmp->id = vms_clock_now_ns();
		if (vms_stream_connect(&qmp->stream, "QMP socket", *addresses, &failure) &&
		    vms_qmp_open(qmp, &failure))
			return true;
		if (!addresses[1]) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return false;
		}
		vms_qmp_close(qmp);
		*qmp = (struct vms_qmp) { 0 };
	}
}

bool vms_qemu_open(struct vms_qemu *qemu, const char *const *addresses, pid_t pid, GError **error)
{
	qemu->machine.info.pid = pid;
	qemu->machine.items = vms_qemu_items;
	qemu->machine.n_items = vms_qemu_n_items;
	qemu->strings = g_string_chunk_new(1024);
	if (!connect_to_free(&qemu->qmp, addresses, error))
		return false;
	qemu->qmp.stream.give_up_ns = &qemu->machine.give_up_ns;
	if (!vms_qemu_identify(qemu, error))
		return false;
	vms_qemu_open_map(qemu);
	return true;
}

void vms_qemu_close(struct vms_qemu *qemu)
{
	vms_qmp_close(&qemu->qmp);
	vms_qemu_close_map(qemu);
	vms_vcpu_state_free(qemu->vcpu_state);
	g_free(qemu->machine.vcpu_threads);
	g_free(qemu->cpu_index);
	vms_host_identity_close(&qemu->process);
	g_string_chunk_free(qemu->strings);
}
