/* SPDX-License-Identifier: MIT */
/*
 * The part of QEMU's interface for TCG plugins that the agent uses. It is declared here because
 * QEMU's own header is not packaged. VMS_QEMU_API 4 means API 4 to 6 (QEMU 9.2 to 11.0).
 * VMS_QEMU_API 7 means API 7 (from QEMU 11.1 on): its callbacks get user data instead of the
 * plugin's id.
 *
 * Callbacks are declared with QEMU_CALLBACK and registered with QEMU_REGISTER, which hide this
 * difference.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;

#if VMS_QEMU_API >= 7
#define QEMU_CALLBACK(...)		 (__VA_ARGS__, __attribute__((unused)) void *userdata)
#define QEMU_CALLBACK_OF_NOTHING	 (__attribute__((unused)) void *userdata)
#define QEMU_REGISTER(function, id, ...) function((id), __VA_ARGS__, NULL)
#define QEMU_USERDATA			 , void *userdata
#else
#define QEMU_CALLBACK(...)		 (__attribute__((unused)) qemu_plugin_id_t id, __VA_ARGS__)
#define QEMU_CALLBACK_OF_NOTHING	 (__attribute__((unused)) qemu_plugin_id_t id)
#define QEMU_REGISTER(function, id, ...) function((id), __VA_ARGS__)
#define QEMU_USERDATA
#endif

/* What QEMU passes to a plugin that it installs. */
typedef struct {
	const char *target_name; /* "x86_64", "aarch64" */
	struct {
		int min, cur; /* of the interface */
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus, max_vcpus;
	} system;
} qemu_info_t;

extern QEMU_EXPORT int qemu_plugin_version;
/* Returns 0; or another number, and QEMU does not start. */
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				    char **argv);

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct qemu_plugin_scoreboard;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
enum qemu_plugin_cond {
	QEMU_PLUGIN_COND_NEVER,
	QEMU_PLUGIN_COND_ALWAYS,
	QEMU_PLUGIN_COND_EQ,
	QEMU_PLUGIN_COND_NE,
};
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_INLINE_STORE_U64 };

/* A number in a scoreboard, which has an element per vCPU. */
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;

typedef uint32_t qemu_plugin_meminfo_t;
typedef struct {
	enum {
		QEMU_PLUGIN_MEM_VALUE_U8,
		QEMU_PLUGIN_MEM_VALUE_U16,
		QEMU_PLUGIN_MEM_VALUE_U32,
		QEMU_PLUGIN_MEM_VALUE_U64,
		QEMU_PLUGIN_MEM_VALUE_U128,
	} type;
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		struct {
			uint64_t low, high;
		} u128;
	} data;
} qemu_plugin_mem_value;

/* An element of the result of qemu_plugin_get_registers. The array says how large it is. */
typedef struct {
	struct qemu_plugin_register *handle; /* may be NULL: QEMU 11.0 */
	const char *name;
	const char *feature;
} qemu_plugin_reg_descriptor;

typedef void(*qemu_plugin_cb) QEMU_CALLBACK_OF_NOTHING;
typedef void(*qemu_plugin_vcpu_cb) QEMU_CALLBACK(unsigned vcpu);
typedef void(*qemu_plugin_tb_cb) QEMU_CALLBACK(struct qemu_plugin_tb *tb);
/* Callbacks of code get user data in all versions. */
typedef void (*qemu_plugin_vcpu_udata_cb)(unsigned vcpu, void *userdata);
typedef void (*qemu_plugin_mem_cb)(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va,
				   void *userdata);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, qemu_plugin_vcpu_cb QEMU_USERDATA);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t, qemu_plugin_vcpu_cb QEMU_USERDATA);
/* With QEMU's big lock held. */
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t, qemu_plugin_vcpu_cb QEMU_USERDATA);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t, qemu_plugin_vcpu_cb QEMU_USERDATA);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_tb_cb QEMU_USERDATA);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, qemu_plugin_cb QEMU_USERDATA);
/* With the lock held under which scoreboards grow. */
void qemu_plugin_vcpu_for_each(qemu_plugin_id_t, qemu_plugin_vcpu_cb QEMU_USERDATA);
/*
 * Called in a vCPU's callback. `cb` is called when all vCPUs have left the translated code. The
 * code and all callbacks are dropped before.
 */
void qemu_plugin_reset(qemu_plugin_id_t, qemu_plugin_cb QEMU_USERDATA);

/* In a callback of translation. */
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *data, size_t size);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb,
					  enum qemu_plugin_cb_flags, void *userdata);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb,
					       enum qemu_plugin_cb_flags, enum qemu_plugin_cond,
					       qemu_plugin_u64 entry, uint64_t value,
					       void *userdata);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, enum qemu_plugin_op,
						       qemu_plugin_u64 entry, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, qemu_plugin_vcpu_udata_cb,
					    enum qemu_plugin_cb_flags, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *,
							 enum qemu_plugin_op, qemu_plugin_u64 entry,
							 uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cond_cb(struct qemu_plugin_insn *,
						 qemu_plugin_vcpu_udata_cb,
						 enum qemu_plugin_cb_flags, enum qemu_plugin_cond,
						 qemu_plugin_u64 entry, uint64_t value,
						 void *userdata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, qemu_plugin_mem_cb,
				      enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw,
				      void *userdata);
void qemu_plugin_register_vcpu_mem_inline_per_vcpu(struct qemu_plugin_insn *,
						   enum qemu_plugin_mem_rw, enum qemu_plugin_op,
						   qemu_plugin_u64 entry, uint64_t value);
/* Returns the value that was read or written. Called in a callback of memory. */
qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t);

/* In a vCPU's callback. An array of qemu_plugin_reg_descriptor to be freed. */
GArray *qemu_plugin_get_registers(void);
/* Appends the value to `bytes`. Declared without a result, whose type differs between versions. */
void qemu_plugin_read_register(struct qemu_plugin_register *, GByteArray *bytes);
/* Sets the length of `bytes` to `size`, which must not be 0. */
bool qemu_plugin_read_memory_vaddr(uint64_t va, GByteArray *bytes, size_t size);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
/*
 * Returns the element of a vCPU. Elements move when vCPUs are added: then all vCPUs are stopped,
 * and all code is dropped.
 */
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned vcpu);
/* The vCPU must have been initialised. */
void qemu_plugin_u64_set(qemu_plugin_u64, unsigned vcpu, uint64_t value);
uint64_t qemu_plugin_u64_get(qemu_plugin_u64, unsigned vcpu);
