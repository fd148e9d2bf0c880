/* What the kernel of TPU_YOLOV3_DETECT_OUT and its descriptor both know: limits, and what lies where in the work
 * buffer in DDR. */
#ifndef YOLOV3_DETECT_OUT_H
#define YOLOV3_DETECT_OUT_H

#define YOLOV3_MAX_HEADS 3
#define YOLOV3_MAX_MASK 9    /* anchors of all heads */
#define YOLOV3_ANCHORS 9     /* in `bias`, each a width and a height */
#define YOLOV3_MAX_WIDTH 2048 /* cells in a row of a head */
#define YOLOV3_ROW 7         /* image, class, score, x, y, width, height */

/* Boxes of one image in a work buffer, by their number: heads one after the other, in each the anchors, rows, columns. */
typedef struct {
    unsigned int score; /* bits of an fp32 number above 0, which are ordered as the numbers are */
    int number;
} yolov3_candidate;

typedef struct {
    int label;
    float left, top, right, bottom, area;
} yolov3_kept;

/* Offsets in bytes, each a multiple of 512. */
typedef struct {
    unsigned long long numbers;    /* of boxes above the threshold, int32, as the engines find them */
    unsigned long long planes;     /* of each head and anchor: scores, x, y, widths, heights of all cells, fp32 */
    unsigned long long candidates; /* to sort, twice as many as there are boxes */
    unsigned long long kept;
    unsigned long long lanes; /* 0, 1 ... 63, fp32 */
    unsigned long long bytes;
} yolov3_buffer;

static inline unsigned long long yolov3_rounded(unsigned long long bytes) { return (bytes + 511) / 512 * 512; }

/* boxes: of one image; most: how many of them can come out. */
static inline yolov3_buffer yolov3_buffer_of(unsigned long long boxes, unsigned long long most) {
    yolov3_buffer b;
    b.numbers = 0;
    b.planes = b.numbers + yolov3_rounded(4 * boxes);
    b.candidates = b.planes + yolov3_rounded(20 * boxes);
    b.kept = b.candidates + yolov3_rounded(2 * sizeof(yolov3_candidate) * boxes);
    b.lanes = b.kept + yolov3_rounded(sizeof(yolov3_kept) * most);
    b.bytes = b.lanes + yolov3_rounded(4 * 64) + 512; /* the offsets count from a multiple of 512 */
    return b;
}

#endif
