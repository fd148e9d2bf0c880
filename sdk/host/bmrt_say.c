/* What the parts of libbmrt.so say. */
#include "bmrt_internal.h"

#include <stdarg.h>
#include <stdio.h>

bool bmrt_say(const char *function, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bmlib_log("bmrt", BMLIB_LOG_ERROR, "bmrt: %s: %s\n", function, text);
    return false;
}
