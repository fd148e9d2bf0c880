/* What the files of this library share. Its functions are hidden: inside a firmware image their names
 * always mean these, whatever else the process has loaded, and nothing outside sees them.
 */
#ifndef FW_LIBC_INTERNAL_H
#define FW_LIBC_INTERNAL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "fw_format.h"

#pragma GCC visibility push(hidden)

/* Compilers recognise the loops of memcpy, memset and strlen and put calls of these functions in their
 * place; not in these functions themselves. */
#if defined __clang__
#define FW_PLAIN_LOOPS __attribute__((no_builtin))
#else
#define FW_PLAIN_LOOPS __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

void fw_sink_put(fw_sink *sink, const char *text, size_t bytes);
void fw_sink_pad(fw_sink *sink, char character, size_t count);

/* A finite number's decimal digits, exactly rounded. */
#define FW_DIGITS 800
typedef struct {
    char digit[FW_DIGITS]; /* '0'..'9', the first not '0' unless the number is 0 */
    int count;             /* of digits; further ones are 0 */
    int point;             /* the number is 0.d0d1d2... * 10**point */
} fw_decimal;

/* |value| rounded (halves to even) to `wanted` digits: counted from the first that is not 0, or behind
 * the decimal point. */
void fw_decimal_digits(fw_decimal *d, double value, int wanted, _Bool behind_point);

#endif
