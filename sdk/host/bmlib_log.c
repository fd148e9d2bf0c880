/* Messages: all of this library go through the program's callback, or to stderr as they are. */
#define _GNU_SOURCE
#include "bmlib_emulated.h"
#include "bmlib_internal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*log_callback)(const char *tag, int level, const char *fmt, va_list args);

static int log_level = BMLIB_LOG_INFO;
static __thread bool hushed; /* somebody else tells the errors of this thread */

static void to_stderr(const char *tag, int level, const char *fmt, va_list args) {
    (void)tag;
    if (hushed && level <= BMLIB_LOG_ERROR) return;
    if (level <= log_level) vfprintf(stderr, fmt, args); /* in one piece, also among several threads */
}

static log_callback callback = to_stderr;

enum { LAST_BYTES = 2048 };
static __thread char last[LAST_BYTES];

const char *tpulayer_last_message(void) { return last; }
void tpulayer_forget_message(void) { last[0] = 0; }
void tpulayer_hush(int on) { hushed = on != 0; }

/* Who tells them tells all, so a second one is put behind the first then. */
static void keep(const char *fmt, va_list args) {
    size_t before = hushed ? strlen(last) : 0;
    if (before > 0 && before + 3 < sizeof last) {
        memcpy(last + before, "; ", 3);
        before += 2;
    }
    vsnprintf(last + before, sizeof last - before, fmt, args);
    size_t length = strlen(last);
    if (length > 0 && last[length - 1] == '\n') last[length - 1] = 0;
}

void bmlib_log(const char *tag, int level, const char *fmt, ...) {
    va_list args;
    if (fmt == NULL) return;
    if (level <= BMLIB_LOG_ERROR) {
        va_start(args, fmt);
        keep(fmt, args);
        va_end(args);
    }
    va_start(args, fmt);
    callback(tag == NULL ? "bmlib" : tag, level, fmt, args);
    va_end(args);
}

int bmlib_log_get_level(void) { return log_level; }
void bmlib_log_set_level(int level) { log_level = level; }

void bmlib_log_set_callback(void (*new_callback)(const char *, int, const char *, va_list args)) {
    callback = new_callback == NULL ? to_stderr : new_callback;
}

void bmlib_say(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    bmlib_log("bmlib", BMLIB_LOG_ERROR, "%s\n", text == NULL ? "out of memory" : text);
    free(text);
}

bm_status_t bmlib_refuse(const char *function, const char *why) {
    bmlib_say("bmlib: %s: %s", function, why);
    return BM_ERR_PARAM;
}
