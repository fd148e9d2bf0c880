/* How many detections there may be, and the memory to find them: what TPU_DETECTION_OUTPUT's kernel and descriptor share. */
#ifndef BM_LAYER_DETECTION_H
#define BM_LAYER_DETECTION_H

#define BM_DETECTION_SKETCH 28 /* bytes that the controller keeps of a box while it looks for those that overlap */

/* Scores of a class that are looked at; top_k 0: all. */
static inline int bm_candidates_of(int priors, int top_k) { return top_k > 0 && top_k < priors ? top_k : priors; }

/* Detections of an image, before only the best are kept. */
static inline unsigned long long bm_kept_of(int classes, int background, int priors, int top_k) {
    return (unsigned long long)(classes - (background >= 0 ? 1 : 0)) *
           (unsigned long long)bm_candidates_of(priors, top_k);
}

/* The same afterwards; keep_top_k 0: all. */
static inline unsigned long long bm_detections_of(int classes, int background, int priors, int top_k, int keep_top_k) {
    const unsigned long long kept = bm_kept_of(classes, background, priors, top_k);
    return keep_top_k > 0 && (unsigned long long)keep_top_k < kept ? (unsigned long long)keep_top_k : kept;
}

/* Addresses in the buffer. */
typedef struct {
    unsigned long long boxes;    /* [labels, images, priors, 4] decoded */
    unsigned long long found;    /* [images, priors] whether a score is above the threshold */
    unsigned long long heap;     /* 64-bit entries: the candidates of a class */
    unsigned long long best;     /* 64-bit entries: the best detections of an image */
    unsigned long long priors;   /* those of an image that were found */
    unsigned long long kept;     /* priors and ... */
    unsigned long long labels;   /* ... labels of an image's detections */
    unsigned long long sketches; /* of the boxes of a class that are kept, and of the next one */
    unsigned long long end;
} bm_detection_buffer;

static inline bm_detection_buffer bm_detection_buffer_at(unsigned long long addr, int classes, int background,
                                                         int share_location, int top_k, int keep_top_k, int images,
                                                         int priors) {
    const unsigned long long rows = (unsigned long long)images * (unsigned long long)priors;
    const unsigned long long kept = bm_kept_of(classes, background, priors, top_k);
    bm_detection_buffer b;
    b.boxes = addr;
    b.heap = b.boxes + 16 * rows * (unsigned long long)(share_location ? 1 : classes);
    b.best = b.heap + 8 * (unsigned long long)bm_candidates_of(priors, top_k);
    b.found = b.best + 8 * bm_detections_of(classes, background, priors, top_k, keep_top_k);
    b.priors = b.found + 4 * rows;
    b.kept = b.priors + 4 * (unsigned long long)priors;
    b.labels = b.kept + 4 * kept;
    b.sketches = b.labels + 4 * kept;
    b.end = b.sketches + BM_DETECTION_SKETCH * (unsigned long long)bm_candidates_of(priors, top_k);
    return b;
}

#endif
