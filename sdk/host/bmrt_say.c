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
    fprintf(stderr, "bmrt: %s: %s\n", function, text); /* in one piece, also among several threads */
    return false;
}
