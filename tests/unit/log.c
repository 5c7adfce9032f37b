/* SPDX-License-Identifier: MIT */
/* Messages reach the handler in their order, and nobody waits for a handler that blocks. */
#include <vmscope/log.h>

struct reader {
	GMutex lock;
	GCond changed;
	gboolean blocked;   /* the handler waits until it is not */
	gboolean is_inside; /* the handler is called */
	GPtrArray *seen;    /* char * */
	GThread *thread;    /* that called it */
};

static void read_message(enum vms_log_level level, const char *message, void *data)
{
	struct reader *reader = data;
	g_mutex_lock(&reader->lock);
	reader->is_inside = TRUE;
	reader->thread = g_thread_self();
	g_cond_broadcast(&reader->changed);
	while (reader->blocked)
		g_cond_wait(&reader->changed, &reader->lock);
	g_ptr_array_add(reader->seen, g_strdup_printf("%d %s", (int)level, message));
	reader->is_inside = FALSE;
	g_mutex_unlock(&reader->lock);
}

static void set_up(struct reader *reader, gconstpointer data G_GNUC_UNUSED)
{
	g_mutex_init(&reader->lock);
	g_cond_init(&reader->changed);
	reader->seen = g_ptr_array_new_with_free_func(g_free);
	vms_log_set_handler(read_message, reader, VMS_LOG_INFO);
}

static void tear_down(struct reader *reader, gconstpointer data G_GNUC_UNUSED)
{
	vms_log_set_handler(NULL, NULL, VMS_LOG_INFO);
	g_ptr_array_unref(reader->seen);
	g_mutex_clear(&reader->lock);
	g_cond_clear(&reader->changed);
}

static void set_blocked(struct reader *reader, gboolean blocked)
{
	g_mutex_lock(&reader->lock);
	reader->blocked = blocked;
	g_cond_broadcast(&reader->changed);
	g_mutex_unlock(&reader->lock);
}

static const char *seen(const struct reader *reader, guint i)
{
	g_assert_cmpuint(i, <, reader->seen->len);
	return reader->seen->pdata[i];
}

static void test_order(struct reader *reader, gconstpointer data G_GNUC_UNUSED)
{
	vms_log(VMS_LOG_INFO, "%s", "first");
	vms_log(VMS_LOG_DEBUG, "not wanted");
	vms_log(VMS_LOG_WARNING, "second %d", 2);
	vms_log_flush();
	g_assert_cmpuint(reader->seen->len, ==, 2);
	g_assert_cmpstr(seen(reader, 0), ==, "1 first");
	g_assert_cmpstr(seen(reader, 1), ==, "0 second 2");
	g_assert_true(reader->thread != g_thread_self());
}

/* What was logged before goes to the handler of then. */
static void test_change(struct reader *reader, gconstpointer data G_GNUC_UNUSED)
{
	vms_log(VMS_LOG_WARNING, "kept");
	vms_log_set_handler(NULL, NULL, VMS_LOG_DEBUG);
	vms_log(VMS_LOG_WARNING, "dropped");
	vms_log_flush();
	vms_log_set_handler(read_message, reader, VMS_LOG_DEBUG);
	vms_log(VMS_LOG_DEBUG, "wanted now");
	vms_log_flush();
	g_assert_cmpuint(reader->seen->len, ==, 2);
	g_assert_cmpstr(seen(reader, 0), ==, "0 kept");
	g_assert_cmpstr(seen(reader, 1), ==, "2 wanted now");
}

/* As a terminal does after Ctrl-S. */
static void test_blocked(struct reader *reader, gconstpointer data G_GNUC_UNUSED)
{
	set_blocked(reader, TRUE);
	vms_log(VMS_LOG_WARNING, "taken");
	g_mutex_lock(&reader->lock);
	while (!reader->is_inside)
		g_cond_wait(&reader->changed, &reader->lock);
	g_mutex_unlock(&reader->lock);
	for (unsigned i = 0; i < VMS_LOG_WAITING + 3; i++)
		vms_log(VMS_LOG_INFO, "%u", i);
	set_blocked(reader, FALSE);
	vms_log_flush();
	g_assert_cmpuint(reader->seen->len, ==, 1 + VMS_LOG_WAITING + 1);
	g_assert_cmpstr(seen(reader, 0), ==, "0 taken");
	g_assert_cmpstr(seen(reader, 1), ==, "1 0");
	g_autofree char *last = g_strdup_printf("1 %d", VMS_LOG_WAITING - 1);
	g_assert_cmpstr(seen(reader, VMS_LOG_WAITING), ==, last);
	g_assert_true(
		g_str_has_prefix(seen(reader, VMS_LOG_WAITING + 1), "0 3 messages were lost"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/log/order", struct reader, NULL, set_up, test_order, tear_down);
	g_test_add("/log/change", struct reader, NULL, set_up, test_change, tear_down);
	g_test_add("/log/blocked", struct reader, NULL, set_up, test_blocked, tear_down);
	return g_test_run();
}
