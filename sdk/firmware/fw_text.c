/* Formatted text, for everything that has some. */
#include "fw_format.h"
#include "fw_internal.h"

void fw_text(char *text, size_t capacity, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fw_format(text, capacity, format, arguments);
    va_end(arguments);
}

void fw_set_activity(const char *format, ...) {
    if (fw.platform->activity == NULL || fw.platform->activity_bytes == 0) return;
    va_list arguments;
    va_start(arguments, format);
    fw_format(fw.platform->activity, fw.platform->activity_bytes, format, arguments);
    va_end(arguments);
}
