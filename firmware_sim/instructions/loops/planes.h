/* Planes laid out for a window; see firmware_sim.instructions.window. */
#ifndef TPULAYER_PLANES_H
#define TPULAYER_PLANES_H

#include "loops.h"

/* How a plane is laid out. row_step, step: strides of rows and elements; whole: the elements of a row stay
 * neighbours; one: those of all rows do. row_from, column_from: the rows and columns that are needed; row_at,
 * column_at: their places in a plane of `plane` elements. */
typedef struct {
    int64_t row_step, step, whole, one;
    const int64_t *row_from, *row_at, *column_from, *column_at;
    int64_t h, w, plane;
} tl_layout;

/* From arguments: how (its first four), row_from, row_at, column_from, column_at. */
TL_INLINE tl_layout tl_layout_of(const tl_arg *a, int64_t plane) {
    const int64_t *how = a[0].data;
    return (tl_layout){how[0],    how[1],    how[2],    how[3],        a[1].data,     a[2].data,
                       a[3].data, a[4].data, a[2].shape[0], a[4].shape[0], plane};
}

/* One plane, which begins at words[at], into `to`; what is not needed of it holds `fill`. */
void tl_lay_plane(const float *words, int64_t at, const tl_layout *l, float fill, float *to);

#endif
