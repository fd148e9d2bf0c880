/* The window of a pool, as the parameters of TPU_POOL and TPU_POOL_INT8 have it; for kernels and descriptors. */
#ifndef BM_LAYER_POOL_WINDOW_H
#define BM_LAYER_POOL_WINDOW_H

/* What the kernel is, whatever the size of the tensor. */
enum {
    POOL_WHOLE_NONE = 0,   /* the window that the other members say */
    POOL_WHOLE_PLANE = 1,
    POOL_WHOLE_COLUMN = 2, /* all rows of each column */
    POOL_WHOLE_ROW = 3     /* all columns of each row */
};

typedef struct {
    int whole; /* POOL_WHOLE_...; but for POOL_WHOLE_NONE the other members do not count */
    int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_bottom, pad_left, pad_right;
    int extra_bottom, extra_right; /* more pads, for last windows that are not complete */
} pool_window;

/* Of a struct of parameters. */
#define POOL_WINDOW_OF(P)                                                                                            \
    {(P)->whole,      (P)->kernel_h, (P)->kernel_w,   (P)->stride_h, (P)->stride_w,  (P)->dilation_h,   (P)->dilation_w, \
     (P)->pad_top, (P)->pad_bottom, (P)->pad_left, (P)->pad_right, (P)->extra_bottom, (P)->extra_right}

#endif
