/* Copies between a framework's buffer and the memory of a net: axes in another order, elements of another type.
 *
 * Both sides are walked in the net's order, in which the net's elements lie one behind the other. Axes that lie behind
 * each other on both sides are taken as one. The two innermost loops go over the last axis of either side, in blocks
 * whose lines stay in the cache.
 */
#include "core.h"

#include <string.h>

enum { BLOCK = 32 };

typedef struct {
    int64_t extent, framework, net; /* steps in elements */
} axis;

/* Axes of a copy from the outermost to the innermost of the net; how many. Without axes: 1 element. */
static int axes_of(const core_tensor *t, axis *axes) {
    int64_t steps[TPLD_MAX_RANK], step = 1;
    for (int i = t->now.rank - 1; i >= 0; i--) {
        steps[i] = step;
        step *= t->now.shape[i];
    }
    int count = 0;
    for (int i = 0; i < t->now.rank; i++) {
        int64_t extent = t->now.shape[t->order[i]], own = steps[t->order[i]];
        if (extent == 1) continue;
        if (count > 0 && axes[count - 1].framework == own * extent) {
            axes[count - 1].extent *= extent;
            axes[count - 1].framework = own;
        } else {
            axes[count++] = (axis){extent, own, 0};
        }
    }
    step = 1;
    for (int i = count - 1; i >= 0; i--) {
        axes[i].net = step;
        step *= axes[i].extent;
    }
    return count;
}

bool core_is_plain(const core_tensor *t) {
    axis axes[TPLD_MAX_RANK];
    int count = axes_of(t, axes);
    return t->held == t->now.dtype && (count == 0 || (count == 1 && axes[0].framework == 1));
}

/* ---- blocks: `from` and `to` with the steps of two axes on each side; false for a value that does not fit ---- */

typedef struct {
    const void *from;
    void *to;
    int64_t from_a, from_b, to_a, to_b, count_a, count_b;
} block;

typedef bool (*copier)(block);

/* A type that may lie at any address, in memory of any type: nobody promises how a framework's buffer is aligned. */
#define ANY(NAME) NAME __attribute__((aligned(1), may_alias))
#define COPIER(NAME, FROM, TO, CONVERTED, FITS)                       \
    typedef FROM ANY(NAME##_from);                                    \
    typedef TO ANY(NAME##_to);                                        \
    static bool NAME(block k) {                                       \
        bool good = true;                                             \
        for (int64_t a = 0; a < k.count_a; a++) {                     \
            const NAME##_from *from = (const NAME##_from *)k.from + a * k.from_a; \
            NAME##_to *to = (NAME##_to *)k.to + a * k.to_a;           \
            for (int64_t b = 0; b < k.count_b; b++) {                 \
                FROM value = from[b * k.from_b];                      \
                good &= (FITS);                                       \
                to[b * k.to_b] = (CONVERTED);                         \
            }                                                         \
        }                                                             \
        return good;                                                  \
    }

COPIER(copy_1, uint8_t, uint8_t, value, true)
COPIER(copy_2, uint16_t, uint16_t, value, true)
COPIER(copy_4, uint32_t, uint32_t, value, true)
COPIER(narrow, int64_t, int32_t, (int32_t)value, value >= INT32_MIN && value <= INT32_MAX)
COPIER(widen, int32_t, int64_t, value, true)
COPIER(from_bool, uint8_t, float, value != 0 ? 1.0f : 0.0f, true)
COPIER(to_bool, float, uint8_t, value != 0.0f, true)

static copier copier_of(const core_tensor *t, bool in) {
    if (t->now.dtype == TPLD_INT64) return in ? narrow : widen;
    if (t->now.dtype == TPLD_BOOL) return in ? from_bool : to_bool;
    size_t size = core_element_bytes(t->now.dtype);
    return size == 1 ? copy_1 : size == 2 ? copy_2 : copy_4;
}

/* ---- the walk ---- */

typedef struct {
    copier copy;
    bool in;
    size_t framework_bytes, net_bytes; /* of an element */
    char *framework, *net;
} sides;

static bool run(const sides *s, int64_t framework, int64_t net, axis a, axis b) {
    char *theirs = s->framework + framework * (int64_t)s->framework_bytes;
    char *ours = s->net + net * (int64_t)s->net_bytes;
    if (s->in) return s->copy((block){theirs, ours, a.framework, b.framework, a.net, b.net, a.extent, b.extent});
    return s->copy((block){ours, theirs, a.net, b.net, a.framework, b.framework, a.extent, b.extent});
}

static bool blocks(const sides *s, int64_t framework, int64_t net, axis a, axis b) {
    if (b.framework == 1 || a.extent == 1) return run(s, framework, net, a, b); /* in one piece on both sides */
    bool good = true;
    for (int64_t i = 0; i < a.extent; i += BLOCK) {
        for (int64_t j = 0; j < b.extent; j += BLOCK) {
            axis part_a = a, part_b = b;
            part_a.extent = a.extent - i < BLOCK ? a.extent - i : BLOCK;
            part_b.extent = b.extent - j < BLOCK ? b.extent - j : BLOCK;
            good &= run(s, framework + i * a.framework + j * b.framework, net + i * a.net + j * b.net, part_a, part_b);
        }
    }
    return good;
}

/* All axes but those of the blocks, which are a and b. */
static bool walk(const sides *s, const axis *axes, int count, int64_t framework, int64_t net, axis a, axis b) {
    if (count == 0) return blocks(s, framework, net, a, b);
    bool good = true;
    for (int64_t i = 0; i < axes->extent; i++)
        good &= walk(s, axes + 1, count - 1, framework + i * axes->framework, net + i * axes->net, a, b);
    return good;
}

static bool copied(const core_tensor *t, sides s) {
    axis axes[TPLD_MAX_RANK], one = {1, 1, 1};
    int count = axes_of(t, axes);
    axis a = one, b = count > 0 ? axes[--count] : one; /* b: the net's last axis */
    int last = -1;
    for (int i = 0; i < count; i++)
        if (last < 0 || axes[i].framework < axes[last].framework) last = i; /* the framework's */
    if (last >= 0) {
        a = axes[last];
        memmove(axes + last, axes + last + 1, (size_t)(count - last - 1) * sizeof *axes);
        count--;
    }
    return walk(&s, axes, count, 0, 0, a, b);
}

static sides sides_of(const core_tensor *t, bool in, char *framework, char *net) {
    return (sides){copier_of(t, in), in, core_element_bytes(t->now.dtype), core_element_bytes(t->held), framework, net};
}

bool core_copy_in(const core_tensor *t, const void *buffer, void *net) {
    if (t->now.bytes == 0) return true;
    if (!core_is_plain(t)) return copied(t, sides_of(t, true, (char *)buffer, net));
    memcpy(net, buffer, (size_t)t->now.bytes);
    return true;
}

void core_copy_out(const core_tensor *t, const void *net, void *buffer) {
    if (t->now.bytes == 0) return;
    if (core_is_plain(t)) memcpy(buffer, net, (size_t)t->now.bytes);
    else (void)copied(t, sides_of(t, false, buffer, (char *)net));
}
