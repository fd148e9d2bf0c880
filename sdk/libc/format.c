/* printf's conversions, into a sink. Numbers become a sign or prefix, zeros and digits; only the digits
 * need memory, so any width and precision is possible.
 */
#include <limits.h>
#include <string.h>

#include "libc_internal.h"

enum { LIMIT = 1 << 27 }; /* of width and precision: far more than any text holds */

typedef struct {
    _Bool minus, plus, space, alternate, zero;
    int width, precision; /* precision -1: not given */
    char length;          /* 'H' for hh, 'q' for ll, 0 for none */
} spec;

/* ---- the sink ---- */

void fw_sink_put(fw_sink *sink, const char *text, size_t bytes) {
    sink->total += bytes;
    while (bytes != 0) {
        size_t room = sink->capacity - sink->used;
        if (room == 0) {
            if (sink->full == NULL) return;
            sink->full(sink);
            continue;
        }
        size_t piece = bytes < room ? bytes : room;
        memcpy(sink->text + sink->used, text, piece);
        sink->used += piece;
        text += piece;
        bytes -= piece;
    }
}

void fw_sink_pad(fw_sink *sink, char character, size_t count) {
    char piece[16];
    memset(piece, character, sizeof piece);
    for (; count != 0 && (sink->full != NULL || sink->used < sink->capacity);) {
        size_t n = count < sizeof piece ? count : sizeof piece;
        fw_sink_put(sink, piece, n);
        count -= n;
    }
    sink->total += count;
}

/* ---- integers and text ---- */

/* The sign or prefix, zeros and then the digits, all within the width. */
static void put_number(fw_sink *sink, const spec *s, const char *prefix, size_t zeros, const char *digits,
                       size_t count) {
    size_t before = strlen(prefix), length = before + zeros + count;
    size_t pad = (size_t)s->width > length ? (size_t)s->width - length : 0;
    if (!s->minus && !s->zero) fw_sink_pad(sink, ' ', pad);
    fw_sink_put(sink, prefix, before);
    fw_sink_pad(sink, '0', !s->minus && s->zero ? zeros + pad : zeros);
    fw_sink_put(sink, digits, count);
    if (s->minus) fw_sink_pad(sink, ' ', pad);
}

static const char *sign_of(const spec *s, _Bool negative) {
    return negative ? "-" : s->plus ? "+" : s->space ? " " : "";
}

static void put_integer(fw_sink *sink, spec *s, uintmax_t value, const char *sign, char conversion) {
    static const char symbols[] = "0123456789abcdef0123456789ABCDEF";
    const char *symbol = symbols + (conversion == 'X' ? 16 : 0);
    char digits[sizeof value * 3];
    size_t at = sizeof digits;
    const char *prefix = sign;
    uintmax_t rest = value;
    if (conversion == 'd' || conversion == 'u') {
        for (; rest > UINT32_MAX; rest /= 10) digits[--at] = symbol[rest % 10];
        for (uint32_t low = (uint32_t)rest; low != 0; low /= 10) digits[--at] = symbol[low % 10];
    } else {
        unsigned shift = conversion == 'o' ? 3 : 4;
        for (; rest != 0; rest >>= shift) digits[--at] = symbol[rest & ((1u << shift) - 1)];
    }
    size_t count = sizeof digits - at, zeros = 0;
    size_t least = s->precision < 0 ? 1 : (size_t)s->precision;
    if (count < least) zeros = least - count;
    if (s->precision >= 0) s->zero = 0;
    if (s->alternate && conversion == 'o' && zeros == 0 && (count == 0 || digits[at] != '0')) zeros = 1;
    if (s->alternate && value != 0 && conversion == 'x') prefix = "0x";
    if (s->alternate && value != 0 && conversion == 'X') prefix = "0X";
    put_number(sink, s, prefix, zeros, digits + at, count);
}

static void put_text(fw_sink *sink, spec *s, const char *text, size_t bytes) {
    s->zero = 0;
    put_number(sink, s, "", 0, text, bytes);
}

static void put_string(fw_sink *sink, spec *s, const char *text) {
    if (text == NULL) text = s->precision < 0 || s->precision >= 6 ? "(null)" : "";
    size_t bytes = 0, limit = s->precision < 0 ? SIZE_MAX : (size_t)s->precision;
    while (bytes < limit && text[bytes] != '\0') bytes++;
    put_text(sink, s, text, bytes);
}

/* ---- floating point ---- */

/* The digits [from, to) of the number; those that it does not have are zeros. */
static void put_digits(fw_sink *sink, const fw_decimal *d, int from, int to) {
    if (from < 0) {
        int zeros = to < 0 ? to - from : -from;
        fw_sink_pad(sink, '0', (size_t)zeros);
        from += zeros;
    }
    int have = to < d->count ? to : d->count;
    if (from < have) {
        fw_sink_put(sink, d->digit + from, (size_t)(have - from));
        from = have;
    }
    if (from < to) fw_sink_pad(sink, '0', (size_t)(to - from));
}

/* "e+05": at least two digits. */
static int exponent_text(char text[8], int exponent, char e) {
    int at = 0, size = exponent < 0 ? -exponent : exponent;
    text[at++] = e;
    text[at++] = exponent < 0 ? '-' : '+';
    if (size >= 100) text[at++] = (char)('0' + size / 100);
    text[at++] = (char)('0' + size / 10 % 10);
    text[at++] = (char)('0' + size % 10);
    return at;
}

static void put_float(fw_sink *sink, spec *s, double value, char conversion) {
    _Bool upper = conversion == 'F' || conversion == 'E' || conversion == 'G';
    const char *sign = sign_of(s, __builtin_signbit(value) != 0);
    if (value != value || value - value != 0) {
        const char *name = value != value ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf";
        s->zero = 0;
        put_number(sink, s, sign, 0, name, 3);
        return;
    }
    fw_decimal d;
    int precision = s->precision < 0 ? 6 : s->precision;
    _Bool scientific = conversion == 'e' || conversion == 'E';
    if (conversion == 'g' || conversion == 'G') {
        if (precision == 0) precision = 1;
        fw_decimal_digits(&d, value, precision, 0);
        scientific = d.point - 1 < -4 || d.point - 1 >= precision;
        if (!s->alternate) { /* zeros at the end go */
            while (d.count > 0 && d.digit[d.count - 1] == '0') d.count--;
            int most = d.count > 0 ? d.count : 1;
            precision = scientific || most > d.point ? most : d.point;
        }
        precision -= scientific ? 1 : d.point;
    } else if (scientific) {
        fw_decimal_digits(&d, value, precision + 1, 0);
    } else {
        fw_decimal_digits(&d, value, precision, 1);
    }
    char exponent[8];
    int exponent_bytes = scientific ? exponent_text(exponent, d.point - 1, upper ? 'E' : 'e') : 0;
    int whole = scientific ? 1 : d.point > 0 ? d.point : 1; /* digits before the point */
    int first = scientific || d.point > 0 ? 0 : d.point - 1;
    _Bool dot = precision > 0 || s->alternate;
    size_t length = strlen(sign) + (size_t)whole + dot + (size_t)precision + (size_t)exponent_bytes;
    size_t pad = (size_t)s->width > length ? (size_t)s->width - length : 0;
    if (!s->minus && !s->zero) fw_sink_pad(sink, ' ', pad);
    fw_sink_put(sink, sign, strlen(sign));
    if (!s->minus && s->zero) fw_sink_pad(sink, '0', pad);
    put_digits(sink, &d, first, first + whole);
    if (dot) fw_sink_put(sink, ".", 1);
    put_digits(sink, &d, first + whole, first + whole + precision);
    fw_sink_put(sink, exponent, (size_t)exponent_bytes);
    if (s->minus) fw_sink_pad(sink, ' ', pad);
}

/* ---- the format ---- */

static const char *parse_int(const char *at, int *value) {
    unsigned n = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        n = n * 10 + (unsigned)(*at - '0');
        if (n > LIMIT) n = LIMIT + 1;
    }
    *value = (int)n;
    return at;
}

static const char *parse_flags(const char *at, spec *s) {
    for (;; at++) {
        if (*at == '-')
            s->minus = 1;
        else if (*at == '+')
            s->plus = 1;
        else if (*at == ' ')
            s->space = 1;
        else if (*at == '#')
            s->alternate = 1;
        else if (*at == '0')
            s->zero = 1;
        else
            return at;
    }
}

static const char *parse_length(const char *at, spec *s) {
    s->length = 0;
    if (*at == 'h' || *at == 'l') {
        s->length = *at++;
        if (*at != s->length) return at;
        s->length = *at == 'h' ? 'H' : 'q';
        return at + 1;
    }
    if (*at == 'j' || *at == 'z' || *at == 't' || *at == 'L') s->length = *at++;
    return at;
}

/* va_list may be an array, which a function cannot get a pointer to; in a struct it can. */
typedef struct {
    va_list list;
} arguments_of;

static intmax_t signed_argument(arguments_of *a, char length) {
    switch (length) {
    case 'H': return (signed char)va_arg(a->list, int);
    case 'h': return (short)va_arg(a->list, int);
    case 'l': return va_arg(a->list, long);
    case 'q': return va_arg(a->list, long long);
    case 'j': return va_arg(a->list, intmax_t);
    case 'z':
    case 't': return va_arg(a->list, ptrdiff_t);
    default: return va_arg(a->list, int);
    }
}

static uintmax_t unsigned_argument(arguments_of *a, char length) {
    switch (length) {
    case 'H': return (unsigned char)va_arg(a->list, int);
    case 'h': return (unsigned short)va_arg(a->list, int);
    case 'l': return va_arg(a->list, unsigned long);
    case 'q': return va_arg(a->list, unsigned long long);
    case 'j': return va_arg(a->list, uintmax_t);
    case 'z':
    case 't': return va_arg(a->list, size_t);
    default: return va_arg(a->list, unsigned);
    }
}

/* False: no conversion of ours. */
static _Bool convert(fw_sink *sink, spec *s, char conversion, arguments_of *a) {
    switch (conversion) {
    case 'd':
    case 'i': {
        intmax_t value = signed_argument(a, s->length);
        uintmax_t size = value < 0 ? 0 - (uintmax_t)value : (uintmax_t)value;
        put_integer(sink, s, size, sign_of(s, value < 0), 'd');
        return 1;
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o': put_integer(sink, s, unsigned_argument(a, s->length), "", conversion); return 1;
    case 'p': {
        uintptr_t value = (uintptr_t)va_arg(a->list, void *);
        s->alternate = 1;
        if (value == 0)
            put_text(sink, s, "(nil)", 5);
        else
            put_integer(sink, s, value, "", 'x');
        return 1;
    }
    case 'c': {
        char character = (char)va_arg(a->list, int);
        put_text(sink, s, &character, 1);
        return 1;
    }
    case 's': put_string(sink, s, va_arg(a->list, const char *)); return 1;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G': {
        double value = s->length == 'L' ? (double)va_arg(a->list, long double) : va_arg(a->list, double);
        put_float(sink, s, value, conversion);
        return 1;
    }
    case 'n': (void)va_arg(a->list, void *); return 1;
    case '%': fw_sink_put(sink, "%", 1); return 1;
    default: return 0;
    }
}

_Bool fw_format_to(fw_sink *sink, const char *format, va_list arguments) {
    arguments_of a;
    _Bool fits = 1;
    va_copy(a.list, arguments);
    while (*format != '\0') {
        const char *start = format;
        while (*format != '\0' && *format != '%') format++;
        fw_sink_put(sink, start, (size_t)(format - start));
        if (*format == '\0') break;
        start = format;
        spec s = {.precision = -1};
        format = parse_flags(format + 1, &s);
        if (*format == '*') {
            format++;
            s.width = va_arg(a.list, int);
            if (s.width < 0) s.minus = 1;
            if (s.width < 0) s.width = s.width < -LIMIT ? LIMIT + 1 : -s.width;
        } else {
            format = parse_int(format, &s.width);
        }
        if (*format == '.' && format[1] == '*') {
            format += 2;
            s.precision = va_arg(a.list, int);
        } else if (*format == '.') {
            format = parse_int(format + 1, &s.precision);
        }
        if (s.width > LIMIT || s.precision > LIMIT) {
            fits = 0;
            break;
        }
        format = parse_length(format, &s);
        if (!convert(sink, &s, *format, &a)) { /* the types of what follows are not known */
            fw_sink_put(sink, start, strlen(start));
            break;
        }
        format++;
    }
    va_end(a.list);
    return fits && sink->total <= INT_MAX;
}

int fw_format(char *text, size_t capacity, const char *format, va_list arguments) {
    fw_sink sink = {.text = text, .capacity = capacity != 0 ? capacity - 1 : 0};
    _Bool fits = fw_format_to(&sink, format, arguments);
    if (capacity != 0) text[sink.used] = '\0';
    return fits ? (int)sink.total : -1;
}
