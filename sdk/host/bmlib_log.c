/* Messages: all of this library go through the program's callback, or to stderr as they are. */
#define _GNU_SOURCE
#include "bmlib_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*log_callback)(const char *tag, int level, const char *fmt, va_list args);

static int log_level = BMLIB_LOG_INFO;

static void to_stderr(const char *tag, int level, const char *fmt, va_list args) {
    (void)tag;
    if (level <= log_level) vfprintf(stderr, fmt, args); /* in one piece, also among several threads */
}

static log_callback callback = to_stderr;

void bmlib_log(const char *tag, int level, const char *fmt, ...) {
    va_list args;
    if (fmt == NULL) return;
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
