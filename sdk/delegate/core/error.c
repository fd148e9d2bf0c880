/* What went wrong, for each thread. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bmlib_emulated.h"

#pragma weak tpulayer_last_message
#pragma weak tpulayer_forget_message
#pragma weak tpulayer_hush

enum { TEXT_BYTES = 4096 };
static __thread char last[TEXT_BYTES];

int core_fail(int status, const char *format, ...) {
    char text[TEXT_BYTES]; /* an argument may be the text that is there */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(last, text, sizeof last);
    return status;
}

void core_listen(void) {
    if (tpulayer_forget_message != NULL) tpulayer_forget_message();
}

void core_hush(bool on) {
    if (tpulayer_hush != NULL) tpulayer_hush(on);
}

const char *core_heard(const char *otherwise) {
    const char *text = tpulayer_last_message != NULL ? tpulayer_last_message() : "";
    return *text != 0 ? text : otherwise;
}

const char *tpld_last_error(void) { return last; }

const char *tpld_status_text(int status) {
    switch (status) {
    case TPLD_OK: return "ok";
    case TPLD_BAD_ARGUMENT: return "bad argument";
    case TPLD_BAD_PROGRAM: return "damaged or foreign program";
    case TPLD_NO_DEVICE: return "no device or no firmware";
    case TPLD_FAILED: return "the device died or the net failed";
    case TPLD_BAD_SHAPES: return "the net does not take these shapes";
    default: return "unknown status";
    }
}

const char *tpld_version(void) { return TPULAYER_VERSION; }
