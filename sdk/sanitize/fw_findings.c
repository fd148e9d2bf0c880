/* What a firmware built with UndefinedBehaviorSanitizer calls where C leaves the behaviour undefined. The
 * compiler's checks call these functions with the place and the values; they end the request as a failed
 * OKKERNEL_ASSERT does, before the undefined thing happens. One runtime for gcc, clang and zig: the texts are
 * the same, and no library needs to be there.
 *
 * Names and layouts: LLVM's compiler-rt, lib/ubsan, whose interface gcc shares.
 */
#include <string.h>

#include "fw_format.h"
#include "fw_internal.h"

typedef struct {
    const char *file;
    uint32_t line, column;
} place;

typedef struct {
    uint16_t kind, info;
    char name[]; /* with its quotes: 'int' */
} type;

enum { INTEGER = 0, FLOAT = 1 };

/* A value as the checks pass it: itself, or its address when it is wider than a pointer. */
typedef uintptr_t value;

typedef struct { place at; const type *type; } typed;
typedef struct { place at; const type *left, *right; } two_types;
typedef struct { place at; const type *type; uint8_t log_alignment, kind; } mismatch;
typedef struct { place at; uint8_t kind; } builtin_call;
typedef struct { place at, attribute; int32_t index; } argument;
typedef struct { place at, assumption; const type *type; } assumption;

enum { TEXT = 48 };

/* "t.c:3:31: ..."; the kernel API's own code also says who called it. */
static void found(const place *at, const char *format, ...) __attribute__((noreturn, cold, format(printf, 2, 3)));
static void found(const place *at, const char *format, ...) {
    char why[320], called[40] = "";
    va_list arguments;
    va_start(arguments, format);
    fw_format(why, sizeof why, format, arguments);
    va_end(arguments);
    if (strstr(at->file, "sdk/firmware/") != NULL && fw.site != NULL)
        fw_text(called, sizeof called, " [called at 0x%llx]", (unsigned long long)(uintptr_t)fw.site);
    fw_fail(FW_STATUS_ASSERT, "%s%s%s:%u:%u: %s%s", fw.layer ? fw.layer : "", fw.layer ? ": " : "", at->file,
            (unsigned)at->line, (unsigned)at->column, why, called);
}

static unsigned bits_of(const type *t) { return 1u << (t->info >> 1); }
static bool is_signed(const type *t) { return t->kind == INTEGER && (t->info & 1) != 0; }

static int64_t signed_of(const type *t, value v) {
    unsigned bits = bits_of(t);
    if (bits > 8 * sizeof v) return *(const int64_t *)v;
    unsigned unused = 64 - bits;
    return (int64_t)((uint64_t)v << unused) >> unused;
}

static bool negative(const type *t, value v) { return is_signed(t) && signed_of(t, v) < 0; }

static const char *text_of(char text[TEXT], const type *t, value v) {
    if (t->kind == FLOAT) {
        double number = 0;
        float narrow;
        if (t->info == 32) {
            memcpy(&narrow, &v, sizeof narrow);
            number = narrow;
        } else if (t->info == 64) {
            memcpy(&number, &v, sizeof number);
        } else {
            return "a value";
        }
        fw_text(text, TEXT, "%g", number);
    } else if (t->kind != INTEGER || bits_of(t) > 64) {
        return "a value";
    } else if (is_signed(t)) {
        fw_text(text, TEXT, "%lld", (long long)signed_of(t, v));
    } else {
        fw_text(text, TEXT, "%llu", (unsigned long long)v);
    }
    return text;
}

/* Both forms of a check: the one that may go on, which here does not, and the one that may not. */
#define CHECK(NAME, PARAMETERS, ...)                                                                          \
    __attribute__((noreturn, used, visibility("hidden"))) void __ubsan_handle_##NAME PARAMETERS;              \
    __attribute__((noreturn, used, visibility("hidden"))) void __ubsan_handle_##NAME##_abort PARAMETERS;      \
    void __ubsan_handle_##NAME PARAMETERS { __VA_ARGS__ }                                                     \
    void __ubsan_handle_##NAME##_abort PARAMETERS { __VA_ARGS__ }

static void overflow(const typed *d, value a, value b, char operator) __attribute__((noreturn));
static void overflow(const typed *d, value a, value b, char operator) {
    char left[TEXT], right[TEXT];
    found(&d->at, "%s integer overflow: %s %c %s cannot be represented in type %s",
          is_signed(d->type) ? "signed" : "unsigned", text_of(left, d->type, a), operator, text_of(right, d->type, b),
          d->type->name);
}

CHECK(add_overflow, (const typed *d, value a, value b), overflow(d, a, b, '+');)
CHECK(sub_overflow, (const typed *d, value a, value b), overflow(d, a, b, '-');)
CHECK(mul_overflow, (const typed *d, value a, value b), overflow(d, a, b, '*');)

CHECK(negate_overflow, (const typed *d, value a), char text[TEXT];
      found(&d->at, "negation of %s cannot be represented in type %s", text_of(text, d->type, a), d->type->name);)

static void division(const typed *d, value a, value b) __attribute__((noreturn));
static void division(const typed *d, value a, value b) {
    char text[TEXT];
    text_of(text, d->type, a);
    if (negative(d->type, b)) /* -1, the other one that is refused */
        found(&d->at, "division of %s by -1 cannot be represented in type %s", text, d->type->name);
    found(&d->at, "division of %s by zero", text);
}
CHECK(divrem_overflow, (const typed *d, value a, value b), division(d, a, b);)

static void shift(const two_types *d, value a, value b) __attribute__((noreturn));
static void shift(const two_types *d, value a, value b) {
    char left[TEXT], right[TEXT];
    text_of(left, d->left, a);
    text_of(right, d->right, b);
    if (negative(d->right, b)) found(&d->at, "shift exponent %s is negative", right);
    if (b >= bits_of(d->left))
        found(&d->at, "shift exponent %s is too large for the %u bits of type %s", right, bits_of(d->left),
              d->left->name);
    if (negative(d->left, a)) found(&d->at, "left shift of negative value %s", left);
    found(&d->at, "left shift of %s by %s places cannot be represented in type %s", left, right, d->left->name);
}
CHECK(shift_out_of_bounds, (const two_types *d, value a, value b), shift(d, a, b);)

CHECK(out_of_bounds, (const two_types *d, value index), char text[TEXT];
      found(&d->at, "index %s is out of bounds for type %s", text_of(text, d->right, index), d->left->name);)

CHECK(vla_bound_not_positive, (const typed *d, value bound), char text[TEXT];
      found(&d->at, "a variable-length array of %s elements", text_of(text, d->type, bound));)

CHECK(float_cast_overflow, (const two_types *d, value from), char text[TEXT];
      found(&d->at, "%s is outside the range of type %s", text_of(text, d->left, from), d->right->name);)

CHECK(load_invalid_value, (const typed *d, value a), char text[TEXT];
      found(&d->at, "load of value %s, which is not valid for type %s", text_of(text, d->type, a), d->type->name);)

CHECK(invalid_builtin, (const builtin_call *d),
      found(&d->at, "0 is passed to %s, which has no answer for it", d->kind == 0 ? "__builtin_ctz" : "__builtin_clz");)

static void access(const mismatch *d, value pointer) __attribute__((noreturn));
static void access(const mismatch *d, value pointer) {
    static const char *const kinds[] = {"load of", "store to", "reference to", "member access within"};
    const char *what = d->kind < sizeof kinds / sizeof kinds[0] ? kinds[d->kind] : "use of";
    unsigned long long alignment = 1ull << d->log_alignment;
    if (pointer == 0) found(&d->at, "%s null pointer of type %s", what, d->type->name);
    if (pointer % alignment != 0)
        found(&d->at, "%s misaligned address 0x%llx for type %s, which needs a multiple of %llu", what,
              (unsigned long long)pointer, d->type->name, alignment);
    found(&d->at, "%s address 0x%llx, where no whole object of type %s fits", what, (unsigned long long)pointer,
          d->type->name);
}
CHECK(type_mismatch_v1, (const mismatch *d, value pointer), access(d, pointer);)

CHECK(alignment_assumption, (const assumption *d, value pointer, value alignment, value offset),
      found(&d->at, "address 0x%llx is not a multiple of %llu, as the code promises",
            (unsigned long long)(pointer - offset), (unsigned long long)alignment);)

CHECK(pointer_overflow, (const place *at, value base, value result),
      found(at, base == 0 ? "arithmetic on a null pointer: 0x%llx becomes 0x%llx"
                          : "pointer arithmetic runs over: 0x%llx becomes 0x%llx",
            (unsigned long long)base, (unsigned long long)result);)

CHECK(nonnull_arg, (const argument *d), found(&d->at, "NULL is passed as argument %d, which must not be", (int)d->index);)
CHECK(nonnull_return_v1, (const void *d, const place *at), (void)d;
      found(at, "NULL is returned, which this function promises not to");)

CHECK(builtin_unreachable, (const place *at), found(at, "__builtin_unreachable() is reached");)

/* For whoever loads this image: its checks, and the library that must be in the process before it. */
__attribute__((used)) const char fw_sanitized[] = "tpulayer-sanitized:" FW_SANITIZED;
