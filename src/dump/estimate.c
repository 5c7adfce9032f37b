/* SPDX-License-Identifier: MIT */
#include "dump/estimate.h"
#include "base/clock.h"
#include "dump/memory_units.h"
#include <string.h>

/* How many units are examined, evenly spread over the memory. */
#define UNITS_EXAMINED UINT64_C(1024)
/* How much of them is read, for how long, and how much at once. A gdb stub reads slowly. */
#define READ_MAX   (UINT64_C(32) << 20)
#define READ_NS	   (UINT64_C(20) * 1000 * 1000)
#define READ_PIECE (UINT64_C(64) << 10)
/* A copy may use 1/SHARE of the available memory. */
#define SHARE 4

struct survey {
	struct vms_machine *source;
	uint8_t *piece;		/* READ_PIECE bytes */
	uint64_t seen, present; /* bytes that were examined; those of them that may be used */
	uint64_t read, read_ns; /* bytes that were read, and the time for that */
};

static void time_read(struct survey *survey, uint64_t pa, uint64_t end)
{
	while (pa < end && survey->read < READ_MAX && survey->read_ns < READ_NS) {
		uint64_t begin_ns = vms_clock_now_ns(), size = MIN(end - pa, READ_PIECE);
		vms_machine_read_phys(survey->source, pa, survey->piece, size);
		survey->read_ns += vms_clock_now_ns() - begin_ns;
		survey->read += size;
		pa += size;
	}
}

static void survey_unit(struct survey *survey, const struct vms_dump_unit *unit)
{
	uint64_t pa = unit->pa, end = unit->pa + unit->size, begin, stop;
	while (vms_machine_next_data(survey->source, pa, end, &begin, &stop)) {
		time_read(survey, begin, stop);
		survey->present += stop - begin;
		pa = stop;
	}
	survey->seen += unit->size;
}

void vms_dump_estimate(const struct vms_dump_state *state, unsigned workers,
		       struct vms_dump_estimate *ret)
{
	g_autofree uint8_t *piece = g_malloc(READ_PIECE);
	struct survey survey = { .source = state->source, .piece = piece };
	struct vms_dump_units units;
	vms_dump_units_init(&units, state);
	uint64_t n = vms_dump_units_count(&units), n_examined = MIN(n, UNITS_EXAMINED);
	for (uint64_t i = 0; i < n_examined; i++) {
		struct vms_dump_unit unit;
		vms_dump_units_get(&units, (uint64_t)((double)i / (double)n_examined * (double)n),
				   &unit);
		survey_unit(&survey, &unit);
	}
	vms_dump_units_clear(&units);
	ret->bytes = (uint64_t)((double)survey.present / (double)MAX(survey.seen, 1) *
				(double)state->bytes);
	ret->hold_ns = survey.read ? (double)ret->bytes / (double)survey.read *
					     (double)survey.read_ns / workers
				   : 0;
}

/* ---- memory of the host ----------------------------------------------- */

/* Reads the number that follows a word in a file. Returns `none` if there is no number. */
static uint64_t read_number(const char *path, const char *word, uint64_t none)
{
	g_autofree char *text = NULL;
	if (!g_file_get_contents(path, &text, NULL, NULL))
		return none;
	const char *at = strstr(text, word);
	char *end;
	if (!at)
		return none;
	at += strlen(word);
	uint64_t number = g_ascii_strtoull(at, &end, 10);
	return end == at ? none : number; /* "max" is no number */
}

/*
 * Returns how many bytes this process may still use under the limits of its control groups (version
 * 2). UINT64_MAX if there is no limit.
 */
static uint64_t find_group_memory(void)
{
	static const char root[] = "/sys/fs/cgroup";
	g_autofree char *text = NULL;
	uint64_t left = UINT64_MAX;
	if (!g_file_get_contents("/proc/self/cgroup", &text, NULL, NULL) ||
	    !g_str_has_prefix(text, "0::"))
		return left;
	text[strcspn(text, "\n")] = '\0';
	g_autofree char *path = g_strconcat(root, text + strlen("0::"), NULL);
	for (char *end; (end = strrchr(path, '/')) >= path + strlen(root); *end = '\0') {
		g_autofree char *max_path = g_strconcat(path, "/memory.max", NULL);
		g_autofree char *used_path = g_strconcat(path, "/memory.current", NULL);
		uint64_t max = read_number(max_path, "", UINT64_MAX);
		uint64_t used = read_number(used_path, "", 0);
		if (max != UINT64_MAX)
			left = MIN(left, max > used ? max - used : 0);
	}
	return left;
}

uint64_t vms_dump_spare_memory(void)
{
	uint64_t available = read_number("/proc/meminfo", "MemAvailable:", 0) * 1024;
	return MIN(available, find_group_memory()) / SHARE;
}
