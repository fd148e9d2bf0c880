/* The firmware's formatting, the same text from every build. */
#ifndef FW_FORMAT_H
#define FW_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* As vsnprintf: writes at most `capacity` bytes with the final NUL and returns the length of the whole
 * text; negative when that is more than an int. The conversions are those of include/stdio.h; one that
 * is not known is copied as it stands, with all that follows. */
int fw_format(char *text, size_t capacity, const char *format, va_list arguments);

/* Where formatted text goes. */
typedef struct fw_sink {
    char *text;
    size_t capacity;
    size_t used;                   /* characters in text */
    size_t total;                  /* characters so far */
    void (*full)(struct fw_sink *); /* empties text; NULL: what does not fit is only counted */
} fw_sink;

/* Formats into the sink; false when the number of characters does not fit in an int. */
_Bool fw_format_to(fw_sink *sink, const char *format, va_list arguments);

#endif
