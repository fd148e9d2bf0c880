/* The firmware's formatting, the same text from every build. */
#ifndef FW_FORMAT_H
#define FW_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* As vsnprintf: writes at most `capacity` bytes with the final NUL and returns the length of the whole
 * text; negative when that is more than an int. The conversions are those of include/stdio.h; one that
 * is not known is copied as it stands, with all that follows. */
int fw_format(char *text, size_t capacity, const char *format, va_list arguments);

#endif
