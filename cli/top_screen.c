/* SPDX-License-Identifier: MIT */
#include "top_screen.h"
#include "base/clock.h"
#include "end_signals.h"
#include "terminal_keeper.h"
#include <curses.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#define KEY_NS	     UINT64_C(100000000) /* between two looks at the keyboard */
#define GUESTS_SHOWN 6
#define CTRL_L	     0x0c /* draws all anew, after others have written to the terminal */
/* Columns of cells. */
#define PERCENT_WIDTH	8
#define GUEST_WIDTH	17
#define VCPU_WIDTH	6
#define CONTAINER_WIDTH 24
#define PROCESS_WIDTH	24

struct screen {
	struct top_view view;
	struct top_round *round; /* what is shown; NULL: nothing yet */
	struct top_rows *rows;	 /* of the round by the view */
	guint first;		 /* row at the top */
	bool is_frozen, is_quitting;
	GMutex lock; /* guards the message, which the log's thread sets */
	char *message;
};

/* ---- drawing ---------------------------------------------------------------------------- */

/* Prints as much of a text as `width` columns hold, and fills the rest with blanks. */
static void put_text(int width, const char *text)
{
	const long length = g_utf8_strlen(text, -1);
	g_autofree char *clipped = g_utf8_substring(text, 0, MIN(length, MAX(width, 0)));
	addstr(clipped);
	for (long i = length; i < width; i++)
		addch(' ');
}

static void put_line(int y, const char *text)
{
	move(y, 0);
	put_text(COLS, text);
}

static char *describe_guest(const struct top_guest *guest)
{
	if (!guest->profile)
		return g_strdup_printf("%s: %s", guest->name,
				       guest->obstacle ? guest->obstacle : "not sampled yet");
	return g_strdup_printf("%s: %u vCPU%s, idle %.1f %%, %" G_GUINT64_FORMAT
			       " samples, %" G_GUINT64_FORMAT " missed%s%s",
			       guest->name, guest->vcpus, guest->vcpus == 1 ? "" : "s",
			       guest->samples ? 100.0 * (double)guest->idle / (double)guest->samples
					      : 0,
			       guest->samples, guest->missed, guest->obstacle ? ", " : "",
			       guest->obstacle ? guest->obstacle : "");
}

/* Draws a line for each guest, and returns the number of lines. */
static int draw_guests(const struct screen *screen)
{
	const GPtrArray *guests = screen->round ? screen->round->guests : NULL;
	if (!guests || guests->len == 0) {
		put_line(0, screen->round ? "no guest is there" : "sampling …");
		return 1;
	}
	const guint shown = MIN(guests->len, GUESTS_SHOWN);
	for (guint i = 0; i < shown; i++) {
		g_autofree char *line = describe_guest(g_ptr_array_index(guests, i));
		put_line((int)i, line);
	}
	if (shown == guests->len)
		return (int)shown;
	g_autofree char *rest = g_strdup_printf("and %u more guests", guests->len - shown);
	put_line((int)shown, rest);
	return (int)shown + 1;
}

/* Draws the cells of a line that the view has. */
static void draw_cells(const struct screen *screen, const char *self, const char *total,
		       const struct top_row *row, const char *vcpu)
{
	const unsigned keys = screen->view.keys;
	put_text(PERCENT_WIDTH, self);
	put_text(PERCENT_WIDTH + 1, total);
	if (keys & TOP_BY_GUEST)
		put_text(GUEST_WIDTH, row->guest);
	if (keys & TOP_BY_VCPU)
		put_text(VCPU_WIDTH, vcpu);
	if (keys & TOP_BY_CONTAINER)
		put_text(CONTAINER_WIDTH, row->container ? row->container : "-");
	if (keys & TOP_BY_PROCESS)
		put_text(PROCESS_WIDTH, row->process ? row->process : "-");
	if (!(keys & TOP_BY_FUNCTION))
		return;
	g_autofree char *function = row->module
					    ? g_strdup_printf("%s (%s)", row->function, row->module)
					    : g_strdup(row->function ? row->function : "-");
	put_text(COLS - getcurx(stdscr), function);
}

static void draw_headings(const struct screen *screen, int y)
{
	static const struct top_row headings = { .guest = "GUEST",
						 .container = "CONTAINER",
						 .process = "PROCESS",
						 .function = "FUNCTION" };
	const bool by_total = screen->view.by_total;
	attron(A_REVERSE);
	put_line(y, "");
	move(y, 0);
	draw_cells(screen, by_total ? "  SELF%" : " >SELF%", by_total ? ">TOTAL%" : " TOTAL%",
		   &headings, "VCPU");
	attroff(A_REVERSE);
}

static void draw_row(const struct screen *screen, int y, const struct top_row *row)
{
	char self[32], total[32], vcpu[16];
	g_snprintf(self, sizeof(self), "%7.2f", row->self);
	g_snprintf(total, sizeof(total), "%7.2f", row->total);
	g_snprintf(vcpu, sizeof(vcpu), "%4u", row->vcpu);
	move(y, 0);
	draw_cells(screen, self, total, row, vcpu);
}

static void draw_bottom(struct screen *screen)
{
	g_mutex_lock(&screen->lock);
	g_autofree char *message = g_strdup(screen->message);
	g_mutex_unlock(&screen->lock);
	attron(A_REVERSE);
	put_line(LINES - 1,
		 message ? message
			 : "q quit  s/t sort by self/total  f/p/c/v/g function, process, "
			   "container, vCPU, guest  i idle  space stop");
	attroff(A_REVERSE);
}

static void draw_screen(struct screen *screen)
{
	const guint n = screen->rows ? screen->rows->rows->len : 0;
	erase();
	int y = draw_guests(screen);
	draw_headings(screen, y++);
	for (guint i = screen->first; i < n && y < LINES - 1; i++)
		draw_row(screen, y++, &g_array_index(screen->rows->rows, struct top_row, i));
	draw_bottom(screen);
	refresh();
}

/* ---- what is shown ------------------------------------------------------------------------ */

static void update_rows(struct screen *screen)
{
	g_clear_pointer(&screen->rows, top_rows_free);
	if (screen->round)
		screen->rows = top_rows_new(screen->round, &screen->view);
	const guint n = screen->rows ? screen->rows->rows->len : 0;
	screen->first = MIN(screen->first, n ? n - 1 : 0);
}

static void take_round(struct screen *screen, struct top_rounds *rounds)
{
	struct top_round *round = top_rounds_take(rounds, vms_clock_now_ns() + KEY_NS);
	if (!round || screen->is_frozen) {
		top_round_free(round);
		return;
	}
	top_round_free(screen->round);
	screen->round = round;
	update_rows(screen);
}

/* Adds a key to those that rows stand for, or takes it away; one must stay. */
static void toggle_key(struct screen *screen, enum top_key key)
{
	if (screen->view.keys != (unsigned)key)
		screen->view.keys ^= key;
}

static void scroll_rows(struct screen *screen, int rows)
{
	const int n = screen->rows ? (int)screen->rows->rows->len : 0;
	screen->first = (guint)CLAMP((int)screen->first + rows, 0, MAX(n - 1, 0));
}

static void handle_key(struct screen *screen, int key)
{
	switch (key) {
	case 'q': screen->is_quitting = true; break;
	case 's': screen->view.by_total = false; break;
	case 't': screen->view.by_total = true; break;
	case 'f': toggle_key(screen, TOP_BY_FUNCTION); break;
	case 'p': toggle_key(screen, TOP_BY_PROCESS); break;
	case 'c': toggle_key(screen, TOP_BY_CONTAINER); break;
	case 'v': toggle_key(screen, TOP_BY_VCPU); break;
	case 'g': toggle_key(screen, TOP_BY_GUEST); break;
	case 'i': screen->view.with_idle = !screen->view.with_idle; break;
	case CTRL_L: clearok(curscr, TRUE); break;
	case ' ': screen->is_frozen = !screen->is_frozen; break;
	case KEY_UP: scroll_rows(screen, -1); break;
	case KEY_DOWN: scroll_rows(screen, 1); break;
	case KEY_PPAGE: scroll_rows(screen, -LINES / 2); break;
	case KEY_NPAGE: scroll_rows(screen, LINES / 2); break;
	case KEY_HOME: screen->first = 0; break;
	default: return;
	}
	update_rows(screen);
}

/* ---- the terminal ------------------------------------------------------------------------- */

/* A warning must not be printed over the picture: it becomes the bottom line. */
static void keep_message(enum vms_log_level level, const char *message, void *data)
{
	struct screen *screen = data;
	if (level != VMS_LOG_WARNING)
		return;
	g_mutex_lock(&screen->lock);
	g_free(screen->message);
	screen->message = g_strdup(message);
	g_mutex_unlock(&screen->lock);
}

static void request_quit(void *data)
{
	((struct screen *)data)->is_quitting = true;
}

/* Returns what the terminal takes for a capability of terminfo, or NULL if it has not got it. */
static const char *get_capability(const char *name)
{
	const char *found = tigetstr(name);
	return found == (const char *)-1 ? NULL : found;
}

/*
 * Returns what puts the terminal back as it was, newly allocated, or NULL if the terminal is not
 * known, or cannot place its cursor, as "dumb".
 */
static char *find_restore(void)
{
	static const char *const capabilities[] = { "rmkx", "sgr0", "cnorm", "rmcup" };
	int status;
	if (setupterm(NULL, STDOUT_FILENO, &status) != OK || !get_capability("cup"))
		return NULL;
	GString *text = g_string_new(NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(capabilities); i++) {
		const char *found = get_capability(capabilities[i]);
		if (found)
			g_string_append(text, found);
	}
	return g_string_free(text, FALSE);
}

/* Takes all of the terminal. Returns NULL if it cannot be used. */
static SCREEN *open_terminal(struct terminal_keeper **keeper, GError **error)
{
	g_autofree char *restore = find_restore();
	*keeper = restore ? terminal_keeper_start(restore, error) : NULL;
	SCREEN *terminal = *keeper ? newterm(NULL, stdout, stdin) : NULL;
	if (!terminal && !*error)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot use the terminal \"%s\": --once prints a table",
			    g_getenv("TERM") ? g_getenv("TERM") : "");
	if (!terminal) {
		g_clear_pointer(keeper, terminal_keeper_end);
		return NULL;
	}
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	return terminal;
}

static void show_rounds(struct screen *screen, struct top_rounds *rounds)
{
	while (!screen->is_quitting && !top_rounds_ended(rounds)) {
		int key;
		draw_screen(screen);
		take_round(screen, rounds);
		while ((key = getch()) != ERR)
			handle_key(screen, key);
		while (g_main_context_iteration(NULL, FALSE))
			;
	}
}

bool top_screen_show(struct top_rounds *rounds, struct top_view view, struct vms_budget *budget,
		     GError **error)
{
	struct screen screen = { .view = view };
	struct terminal_keeper *keeper;
	GError *failure = NULL;
	g_mutex_init(&screen.lock);
	struct end_signals signals = { .end = request_quit, .data = &screen, .budget = budget };
	end_signals_watch(&signals);
	SCREEN *terminal = open_terminal(&keeper, &failure);
	if (terminal) {
		vms_log_set_handler(keep_message, &screen, VMS_LOG_WARNING);
		show_rounds(&screen, rounds);
		vms_log_set_handler(NULL, NULL, VMS_LOG_WARNING);
		endwin();
		delscreen(terminal);
		terminal_keeper_end(keeper);
		if (!screen.is_quitting)
			g_set_error_literal(&failure, VMS_ERROR, VMS_ERROR_CLOSED,
					    "the machine has gone");
	}
	end_signals_release(&signals);
	top_rows_free(screen.rows);
	top_round_free(screen.round);
	g_free(screen.message);
	g_mutex_clear(&screen.lock);
	if (!failure)
		return true;
	g_propagate_error(error, failure);
	return false;
}
