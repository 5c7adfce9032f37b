/* SPDX-License-Identifier: MIT */
/*
 * Runs scripts in Lua for the records of a flow.
 *
 * A function that Lua calls can be left by a longjmp at each call of Lua's interface. So it must
 * not own memory there.
 */
#include "flow_script.h"
#include "base/text.h"
#include "flow/probe.h"
#include "flow_output.h"
#include "json_values.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX      10000000	   /* instructions of Lua in one call: about a tenth of a second */
#define STEPS_AT_ONCE  1000	   /* instructions between two checks of the limit */
#define MEMORY_MAX     (64u << 20) /* bytes of a script, and of its output in one call */
#define READ_MAX       (1u << 20)  /* bytes of guest memory at once */
#define TABLES_US      20000	   /* how long a page table register of a vCPU is reused */
#define NAME_MAX_BYTES 512
#define SYMBOLS_MAX    16 /* addresses of one name */

struct flow_script {
	struct session *session;
	lua_State *state;
	size_t allocated;		      /* bytes */
	unsigned steps;			      /* of this call */
	uint64_t begin_ns;		      /* times are relative to it */
	GString *out;			      /* during a call: receives the output */
	const struct vms_flow_record *record; /* the hit; NULL outside of `hit` */
	struct vms_memory *memory;	      /* or NULL */
	unsigned memory_vcpu;		      /* the vCPU of `memory` */
	gint64 memory_us;		      /* when `memory` was made, or could not be made */
};

char *flow_script_explain(void)
{
	return g_strdup(
		"A script is a file in Lua 5.4. It runs in vmscope, after the hit; the guest does "
		"not "
		"wait.\n"
		"Its function hit(h) is called for every hit, finish() at the end. h has sequence, "
		"time_ns,\n"
		"cpu, pid, tid, comm, address, where, after, and values: a table by their names; "
		"of calls also "
		"duration_ns\nand returned, a table of the values at the return. Registers of more "
		"than 64 bits are\nstrings of their bytes: string.unpack(\"<d\", h.values.xmm0).\n"
		"  print(…)         shows a line          show()  shows the hit as usual\n"
		"  u8(A) … u64(A), s8(A) … s64(A), mem(A,N), str(A[,N])\n"
		"                   memory that is there now; nil if it cannot be read\n"
		"  symbol(NAME)     addresses of a symbol; name(A)  what is at an address\n");
}

static struct flow_script *get_script(lua_State *state)
{
	return *(struct flow_script **)lua_getextraspace(state);
}

/* ---- limits -------------------------------------------------------------------------------- */

static void *allocate_memory(void *data, void *block, size_t old_size, size_t size)
{
	struct flow_script *script = data;
	const size_t before = block ? old_size : 0;
	if (size == 0) {
		free(block);
		script->allocated -= before;
		return NULL;
	}
	if (size > before && size - before > MEMORY_MAX - script->allocated)
		return NULL;
	void *grown = realloc(block, size);
	if (grown)
		script->allocated += size - before;
	return grown;
}

/*
 * Ends a call that takes too long. Then each further step fails as well, so that pcall cannot avoid
 * the limit.
 */
static void count_steps(lua_State *state, lua_Debug *where)
{
	struct flow_script *script = get_script(state);
	script->steps += STEPS_AT_ONCE;
	if (script->steps < STEPS_MAX)
		return;
	lua_sethook(state, count_steps, LUA_MASKCOUNT, 1);
	lua_getinfo(state, "Sl", where);
	lua_pushfstring(state, "%s:%d: more than %d steps in one call", where->short_src,
			where->currentline, STEPS_MAX);
	lua_error(state);
}

/* setmetatable(TABLE, METATABLE). Lua counts no steps in finalizers, so there cannot be any. */
static int set_metatable(lua_State *state)
{
	if (lua_istable(state, 2)) {
		lua_pushliteral(state, "__gc");
		if (lua_rawget(state, 2) != LUA_TNIL)
			return luaL_error(state, "a table of a script cannot have __gc");
		lua_pop(state, 1);
	}
	lua_pushvalue(state, lua_upvalueindex(1));
	lua_insert(state, 1);
	lua_call(state, lua_gettop(state) - 1, LUA_MULTRET);
	return lua_gettop(state);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void add_line(const struct flow_script *script, const char *line, size_t size)
{
	g_autofree char *text = g_memdup2(line, size + 1); /* with its final 0 */
	for (char *zero = text; (zero = memchr(zero, 0, (size_t)(text + size - zero)));)
		*zero = '?';
	g_autofree char *clean = vms_text_clean_lines(text);
	if (script->session->json) {
		struct json_object *object = json_object_new_object();
		json_object_object_add(object, "print", json_object_new_string(clean));
		flow_output_object(script->out, object);
	} else {
		g_string_append_printf(script->out, "%s\n", clean);
	}
}

/* print(…): prints its arguments with blanks between them. */
static int print_arguments(lua_State *state)
{
	struct flow_script *script = get_script(state);
	luaL_Buffer line;
	const int n = lua_gettop(state);
	luaL_buffinit(state, &line);
	for (int i = 1; i <= n; i++) {
		if (i > 1)
			luaL_addchar(&line, ' ');
		luaL_tolstring(state, i, NULL);
		luaL_addvalue(&line);
	}
	luaL_pushresult(&line);
	if (script->out->len > MEMORY_MAX)
		return luaL_error(state, "more is printed than %d bytes at once", MEMORY_MAX);
	size_t size;
	const char *text = lua_tolstring(state, -1, &size);
	add_line(script, text, size);
	return 0;
}

static int show_hit(lua_State *state)
{
	struct flow_script *script = get_script(state);
	if (!script->record)
		return luaL_error(state, "there is no hit to show");
	if (script->out->len > MEMORY_MAX)
		return luaL_error(state, "more is printed than %d bytes at once", MEMORY_MAX);
	flow_output_record(script->session, script->record, script->begin_ns, script->out);
	return 0;
}

/* ---- memory and symbols ---------------------------------------------------------------------- */

/* Returns the vCPU whose memory is read: that of the hit. */
static unsigned get_memory_vcpu(const struct flow_script *script)
{
	struct vms_flow_hit hit = { 0 };
	if (script->record)
		vms_flow_record_hit(script->record, &hit);
	return hit.vcpu;
}

/*
 * Returns the memory of the vCPU, by the page tables that it uses now or used TABLES_US ago. To
 * find them the vCPU is held briefly, which is too expensive for every hit. But the page tables of
 * a process that has ended must not be used for long. NULL if the registers cannot be read.
 */
static struct vms_memory *get_memory(struct flow_script *script)
{
	struct vms_machine *machine = script->session->machine;
	const unsigned vcpu = get_memory_vcpu(script);
	const gint64 now_us = g_get_monotonic_time();
	struct vms_regs regs;
	if (!machine || (script->memory_us && vcpu == script->memory_vcpu &&
			 now_us - script->memory_us < TABLES_US))
		return script->memory;
	script->memory_us = now_us;
	script->memory_vcpu = vcpu;
	g_clear_pointer(&script->memory, vms_memory_free);
	if (!vms_machine_hold(machine, (int)vcpu, NULL))
		return NULL;
	const bool done = vms_machine_regs(machine, vcpu, &regs, NULL);
	if (vms_machine_release(machine, (int)vcpu, NULL) && done)
		script->memory = vms_memory_new(machine, &regs);
	return script->memory;
}

/* The result of a function if memory cannot be read. */
static int push_nil(lua_State *state)
{
	lua_pushnil(state);
	return 1;
}

/* u8(A) to s64(A). The upvalues are the size in bytes, and whether the number is signed. */
static int read_number(lua_State *state)
{
	const unsigned size = (unsigned)lua_tointeger(state, lua_upvalueindex(1));
	const bool is_signed = lua_toboolean(state, lua_upvalueindex(2));
	const uint64_t va = (uint64_t)luaL_checkinteger(state, 1);
	struct vms_memory *memory = get_memory(get_script(state));
	const unsigned above = 64 - 8 * size;
	uint64_t number = 0;
	if (!memory || !vms_memory_read(memory, va, &number, size))
		return push_nil(state);
	number = GUINT64_FROM_LE(number) << above;
	lua_pushinteger(state,
			is_signed ? (lua_Integer)number >> above : (lua_Integer)(number >> above));
	return 1;
}

/* mem(A, N): returns N bytes as a string. */
static int read_bytes(lua_State *state)
{
	const uint64_t va = (uint64_t)luaL_checkinteger(state, 1);
	const lua_Integer size = luaL_checkinteger(state, 2);
	luaL_argcheck(state, size > 0 && size <= READ_MAX, 2, "1 to 1048576 bytes can be read");
	struct vms_memory *memory = get_memory(get_script(state));
	luaL_Buffer bytes;
	if (!memory || !vms_memory_read(memory, va, luaL_buffinitsize(state, &bytes, (size_t)size),
					(size_t)size))
		return 0;
	luaL_pushresultsize(&bytes, (size_t)size);
	return 1;
}

/* str(A[, N]): returns the string at A, at most N bytes of it. */
static int read_string(lua_State *state)
{
	char text[4097];
	const uint64_t va = (uint64_t)luaL_checkinteger(state, 1);
	const lua_Integer size = luaL_optinteger(state, 2, 128);
	luaL_argcheck(state, size > 0 && size < (lua_Integer)sizeof(text), 2,
		      "1 to 4096 bytes can be read");
	struct vms_memory *memory = get_memory(get_script(state));
	if (!memory || !vms_memory_read_string(memory, va, text, (size_t)size + 1))
		return push_nil(state);
	lua_pushstring(state, text);
	return 1;
}

struct addresses {
	uint64_t vas[SYMBOLS_MAX];
	int n;
};

static void add_address(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct addresses *addresses = data;
	(void)module;
	for (int i = 0; i < addresses->n; i++)
		if (addresses->vas[i] == symbol->va)
			return;
	if (addresses->n < SYMBOLS_MAX)
		addresses->vas[addresses->n++] = symbol->va;
}

/* symbol(NAME): returns all addresses of a symbol. */
static int find_symbol(lua_State *state)
{
	const char *name = luaL_checkstring(state, 1);
	struct addresses addresses = { .n = 0 };
	if (get_script(state)->session->guest)
		vms_guest_lookup(get_script(state)->session->guest, name, add_address, &addresses);
	luaL_checkstack(state, SYMBOLS_MAX, NULL);
	for (int i = 0; i < addresses.n; i++)
		lua_pushinteger(state, (lua_Integer)addresses.vas[i]);
	return addresses.n;
}

/* Pushes the name of an address of the kernel or of the session's process, or nil. */
static void push_name(lua_State *state, uint64_t va)
{
	struct session *session = get_script(state)->session;
	struct vms_location location;
	char text[NAME_MAX_BYTES];
	if (!session->guest || !session_locate(session, session->process, va, false, &location) ||
	    !location.symbol) {
		lua_pushnil(state);
		return;
	}
	if (location.offset)
		g_snprintf(text, sizeof(text), "%s+0x%" G_GINT64_MODIFIER "x", location.symbol,
			   location.offset);
	else
		g_strlcpy(text, location.symbol, sizeof(text));
	lua_pushstring(state, text);
}

static int name_address(lua_State *state)
{
	push_name(state, (uint64_t)luaL_checkinteger(state, 1));
	return 1;
}

/* ---- functions of scripts ---------------------------------------------------------------------
 */

static void add_memory_functions(lua_State *state)
{
	for (unsigned size = 1; size <= sizeof(uint64_t); size *= 2)
		for (int is_signed = 0; is_signed <= 1; is_signed++) {
			char name[8];
			g_snprintf(name, sizeof(name), "%c%u", is_signed ? 's' : 'u', 8 * size);
			lua_pushinteger(state, size);
			lua_pushboolean(state, is_signed);
			lua_pushcclosure(state, read_number, 2);
			lua_setglobal(state, name);
		}
}

/*
 * Adds our functions, and Lua's own ones except those that access files, processes or Lua's
 * internals.
 */
static void add_functions(lua_State *state)
{
	static const luaL_Reg libraries[] = { { LUA_GNAME, luaopen_base },
					      { LUA_TABLIBNAME, luaopen_table },
					      { LUA_STRLIBNAME, luaopen_string },
					      { LUA_MATHLIBNAME, luaopen_math },
					      { LUA_UTF8LIBNAME, luaopen_utf8 } };
	static const char *const taken_away[] = { "dofile", "loadfile", "load", "collectgarbage" };
	static const luaL_Reg own[] = { { "print", print_arguments }, { "show", show_hit },
					{ "mem", read_bytes },	      { "str", read_string },
					{ "symbol", find_symbol },    { "name", name_address } };
	for (size_t i = 0; i < G_N_ELEMENTS(libraries); i++) {
		luaL_requiref(state, libraries[i].name, libraries[i].func, true);
		lua_pop(state, 1);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(taken_away); i++) {
		lua_pushnil(state);
		lua_setglobal(state, taken_away[i]);
	}
	lua_getglobal(state, LUA_STRLIBNAME);
	lua_pushnil(state);
	lua_setfield(state, -2, "dump");
	lua_pop(state, 1);
	lua_getglobal(state, "setmetatable");
	lua_pushcclosure(state, set_metatable, 1);
	lua_setglobal(state, "setmetatable");
	for (size_t i = 0; i < G_N_ELEMENTS(own); i++)
		lua_register(state, own[i].name, own[i].func);
	add_memory_functions(state);
}

static void set_number(lua_State *state, const char *name, uint64_t number)
{
	lua_pushinteger(state, (lua_Integer)number);
	lua_setfield(state, -2, name);
}

static lua_Integer get_number(const struct vms_flow_value *value, bool is_signed)
{
	uint64_t number = 0;
	memcpy(&number, value->bytes, value->size);
	number = GUINT64_FROM_LE(number);
	const unsigned above = 64 - 8 * (unsigned)value->size;
	return is_signed && above < 64 ? (lua_Integer)(number << above) >> above
				       : (lua_Integer)number;
}

/* Pushes a stack: the names of its frames, innermost first. */
static void push_stack(lua_State *state, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value)
{
	g_autoptr(GString) text = g_string_new(NULL);
	vms_probe_format_value(probe, index, value, text);
	g_auto(GStrv) frames = g_strsplit(text->str, ";", -1);
	lua_createtable(state, (int)g_strv_length(frames), 0);
	for (int i = 0; frames[i]; i++) {
		lua_pushstring(state, frames[i]);
		lua_rawseti(state, -2, i + 1);
	}
}

/*
 * Pushes a value: numbers as such, stacks as tables, all else as strings, as registers of more than
 * 64 bits. False: it has none, nothing is pushed.
 */
static bool push_value(lua_State *state, const struct vms_probe *probe, size_t index,
		       const struct vms_flow_value *value)
{
	const enum vms_entry_kind kind = vms_probe_entry_kind(probe, index);
	const bool is_text = vms_probe_entry_is_text(probe, index);
	double number;
	if ((value->status != VMS_FLOW_KNOWN && value->status != VMS_FLOW_CUT) ||
	    kind == VMS_ENTRY_CALLBACK || kind == VMS_ENTRY_HALT)
		return false;
	if (kind == VMS_ENTRY_STACK)
		push_stack(state, probe, index, value);
	else if (vms_probe_get_float(probe, index, value, &number))
		lua_pushnumber(state, number);
	else if (!is_text && value->size <= sizeof(uint64_t) && kind != VMS_ENTRY_MEMORY &&
		 kind != VMS_ENTRY_BYTES)
		lua_pushinteger(state, get_number(value, vms_probe_is_signed(probe, index)));
	else
		lua_pushlstring(state, value->bytes,
				is_text ? strnlen(value->bytes, value->size) : value->size);
	return true;
}

typedef bool (*get_value)(const struct vms_flow_record *record, size_t index,
			  struct vms_flow_value *ret);

/* Adds values to the table on the top of the stack. */
static void set_values(lua_State *state, const struct vms_flow_record *record,
		       const struct vms_probe *probe, get_value get)
{
	struct vms_flow_value value;
	for (size_t i = 0; probe && get(record, i, &value); i++)
		if (push_value(state, probe, i, &value))
			lua_setfield(state, -2, vms_probe_entry_name(probe, i));
}

static void push_hit(lua_State *state)
{
	const struct flow_script *script = get_script(state);
	const struct vms_flow_record *record = script->record;
	struct vms_flow_hit hit;
	vms_flow_record_hit(record, &hit);
	lua_createtable(state, 0, 10);
	set_number(state, "sequence", hit.sequence);
	set_number(state, "time_ns", hit.time_ns - script->begin_ns);
	set_number(state, "cpu", hit.vcpu);
	set_number(state, "address", hit.va);
	if (hit.has_task) {
		set_number(state, "pid", hit.pid);
		set_number(state, "tid", hit.tid);
		lua_pushstring(state, hit.comm);
		lua_setfield(state, -2, "comm");
	}
	lua_pushboolean(state, hit.is_after);
	lua_setfield(state, -2, "after");
	push_name(state, hit.va);
	lua_setfield(state, -2, "where");
	lua_newtable(state);
	set_values(state, record, vms_flow_record_probe(record), vms_flow_record_value);
	set_values(state, record, vms_flow_record_common(record), vms_flow_record_common_value);
	lua_setfield(state, -2, "values");
	if (!hit.is_call)
		return;
	set_number(state, "duration_ns", hit.duration_ns);
	lua_newtable(state);
	set_values(state, record, vms_flow_record_returned(record), vms_flow_record_returned_value);
	lua_setfield(state, -2, "returned");
}

/* ---- calls --------------------------------------------------------------------------------------
 */

/* Adds the functions, then runs the file on the stack. */
static int run_file(lua_State *state)
{
	add_functions(state);
	const char *path = lua_touserdata(state, 1);
	if (luaL_loadfilex(state, path, "t") != LUA_OK)
		return lua_error(state);
	lua_call(state, 0, 0);
	if (lua_getglobal(state, "hit") != LUA_TFUNCTION)
		return luaL_error(state, "%s defines no function \"hit\"", path);
	return 0;
}

static int call_hit(lua_State *state)
{
	lua_getglobal(state, "hit");
	push_hit(state);
	lua_call(state, 1, 0);
	return 0;
}

static int call_finish(lua_State *state)
{
	if (lua_getglobal(state, "finish") == LUA_TFUNCTION)
		lua_call(state, 0, 0);
	return 0;
}

/* Calls a function with the limits of one call. `argument` may be NULL. */
static bool call_script(struct flow_script *script, lua_CFunction function, const char *argument,
			const struct vms_flow_record *record, GString *out, GError **error)
{
	lua_State *state = script->state;
	script->steps = 0;
	script->out = out;
	script->record = record;
	lua_sethook(state, count_steps, LUA_MASKCOUNT, STEPS_AT_ONCE);
	lua_pushcfunction(state, function);
	lua_pushlightuserdata(state, (void *)argument);
	const int status = lua_pcall(state, 1, 0, 0);
	script->record = NULL;
	if (status == LUA_OK)
		return true;
	const char *why = lua_tostring(state, -1);
	g_autofree char *clean = g_strdup(why ? why : "an error that is not a text");
	vms_text_clean(clean);
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED, "the script failed: %s", clean);
	lua_settop(state, 0);
	return false;
}

struct flow_script *flow_script_load(struct session *session, const char *path, GString *out,
				     GError **error)
{
	g_autoptr(flow_script) script = g_new0(struct flow_script, 1);
	script->session = session;
	script->state = lua_newstate(allocate_memory, script);
	*(struct flow_script **)lua_getextraspace(script->state) = script;
	return call_script(script, run_file, path, NULL, out, error) ? g_steal_pointer(&script)
								     : NULL;
}

void flow_script_begin(struct flow_script *script, uint64_t begin_ns)
{
	script->begin_ns = begin_ns;
}

bool flow_script_hit(struct flow_script *script, const struct vms_flow_record *record, GString *out,
		     GError **error)
{
	return call_script(script, call_hit, NULL, record, out, error);
}

bool flow_script_finish(struct flow_script *script, GString *out, GError **error)
{
	return call_script(script, call_finish, NULL, NULL, out, error);
}

void flow_script_free(struct flow_script *script)
{
	if (!script)
		return;
	if (script->state)
		lua_close(script->state);
	vms_memory_free(script->memory);
	g_free(script);
}
