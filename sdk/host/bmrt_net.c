/* What is known of a net: bm_net_info_t from the bytes that the process sends, and as text. */
#include "bmrt_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 4096 /* inputs, outputs or stages: more is not a net */

typedef struct block {
    struct block *next;
    long long data[];
} block;

struct net {
    bm_net_info_t info;
    block *blocks;
    net *next;
};

const bm_net_info_t *net_info(const net *n) { return &n->info; }
net *net_next(const net *n) { return n->next; }
net **net_next_place(net *n) { return &n->next; }

void net_free(net *n) {
    while (n != NULL && n->blocks != NULL) {
        block *b = n->blocks;
        n->blocks = b->next;
        free(b);
    }
    free(n);
}

/* ---- parsing: after the first thing that does not fit, `bad` is set and everything reads as 0 ---- */

typedef struct {
    const char *at, *end;
    net *n;
    int bad;
} reader;

static void *room(reader *r, size_t count, size_t size) {
    block *b = r->bad ? NULL : calloc(1, sizeof(block) + count * size);
    if (b == NULL) {
        r->bad = 1;
        return NULL;
    }
    b->next = r->n->blocks;
    r->n->blocks = b;
    return b->data;
}

static void take(reader *r, void *out, size_t size) {
    if (r->bad || (size_t)(r->end - r->at) < size) {
        r->bad = 1;
        memset(out, 0, size);
        return;
    }
    memcpy(out, r->at, size);
    r->at += size;
}

static uint32_t number(reader *r) {
    uint32_t value;
    take(r, &value, sizeof value);
    return value;
}

static const char *text(reader *r) {
    uint32_t size = number(r);
    if ((size_t)(r->end - r->at) < size) r->bad = 1;
    char *out = room(r, (size_t)size + 1, 1);
    if (out != NULL) take(r, out, size);
    return out;
}

static int count(reader *r) {
    uint32_t value = number(r);
    if (value > LARGEST) r->bad = 1;
    return r->bad ? 0 : (int)value;
}

typedef struct {
    int n;
    char const **names;
    bm_data_type_t *dtypes;
    float *scales;
    int *zero_points, *devices;
    size_t *bytes;
    uint64_t *addrs;
} tensors;

static tensors take_tensors(reader *r, int n) {
    tensors t = {.n = n};
    t.names = room(r, (size_t)n, sizeof *t.names);
    t.dtypes = room(r, (size_t)n, sizeof *t.dtypes);
    t.scales = room(r, (size_t)n, sizeof *t.scales);
    t.zero_points = room(r, (size_t)n, sizeof *t.zero_points);
    t.devices = room(r, (size_t)n, sizeof *t.devices);
    t.bytes = room(r, (size_t)n, sizeof *t.bytes);
    t.addrs = room(r, (size_t)n, sizeof *t.addrs);
    for (int i = 0; i < n && !r->bad; i++) {
        uint64_t bytes;
        t.names[i] = text(r);
        t.dtypes[i] = (bm_data_type_t)number(r);
        take(r, &t.scales[i], sizeof(float));
        t.zero_points[i] = (int)number(r);
        take(r, &bytes, sizeof bytes);
        t.bytes[i] = (size_t)bytes;
        take(r, &t.addrs[i], sizeof(uint64_t));
    }
    return t;
}

static void take_shapes(reader *r, const tensors *t, bm_shape_t **shapes, bm_device_mem_t **mems) {
    *shapes = room(r, (size_t)t->n, sizeof **shapes);
    *mems = room(r, (size_t)t->n, sizeof **mems);
    for (int i = 0; i < t->n && !r->bad; i++) {
        take(r, &(*shapes)[i], sizeof(bm_shape_t));
        if ((*shapes)[i].num_dims < 0 || (*shapes)[i].num_dims > BM_MAX_DIMS_NUM) r->bad = 1;
        (*mems)[i] = bm_mem_from_device(t->addrs[i], (unsigned int)t->bytes[i]);
    }
}

net *net_parse(const char **at, const char *end) {
    net *n = calloc(1, sizeof *n);
    if (n == NULL) return NULL;
    reader r = {.at = *at, .end = end, .n = n};
    bm_net_info_t *info = &n->info;
    info->name = text(&r);
    info->is_dynamic = number(&r) != 0;
    info->addr_mode = (int32_t)number(&r);
    info->input_num = count(&r);
    info->output_num = count(&r);
    info->stage_num = count(&r);
    info->core_num = 1;
    tensors in = take_tensors(&r, info->input_num), out = take_tensors(&r, info->output_num);
    info->input_names = in.names;
    info->input_dtypes = in.dtypes;
    info->input_scales = in.scales;
    info->input_zero_point = in.zero_points;
    info->input_loc_devices = in.devices;
    info->max_input_bytes = in.bytes;
    info->output_names = out.names;
    info->output_dtypes = out.dtypes;
    info->output_scales = out.scales;
    info->output_zero_point = out.zero_points;
    info->output_loc_devices = out.devices;
    info->max_output_bytes = out.bytes;
    info->stages = room(&r, (size_t)info->stage_num, sizeof *info->stages);
    for (int i = 0; i < info->stage_num && !r.bad; i++) {
        take_shapes(&r, &in, &info->stages[i].input_shapes, &info->stages[i].input_mems);
        take_shapes(&r, &out, &info->stages[i].output_shapes, &info->stages[i].output_mems);
    }
    *at = r.at;
    if (r.bad) {
        net_free(n);
        return NULL;
    }
    return n;
}

/* ---- as text ---- */

static const char *const TYPES[] = {"FLOAT32", "FLOAT16", "INT8",   "UINT8",    "INT16", "UINT16",
                                    "INT32",   "UINT32",  "BFLOAT16", "INT4", "UINT4"};

static void print_tensors(const char *what, int n, char const **names, const bm_data_type_t *dtypes,
                          const float *scales, const int *zero_points, const bm_shape_t *shapes) {
    for (int i = 0; i < n; i++) {
        unsigned int dtype = (unsigned int)dtypes[i];
        printf("    %s %d) '%s' [", what, i, names[i]);
        for (int k = 0; k < shapes[i].num_dims; k++) printf("%s%d", k > 0 ? ", " : "", shapes[i].dims[k]);
        printf("] %s", dtype < sizeof TYPES / sizeof *TYPES ? TYPES[dtype] : "unknown type");
        printf(" scale %g zero_point %d\n", (double)scales[i], zero_points[i]);
    }
}

void bmrt_print_network_info(const bm_net_info_t *net_info) {
    if (net_info == NULL) {
        bmrt_say(__func__, "net_info is NULL");
        return;
    }
    printf("net '%s': %s, inputs %d, outputs %d, stages %d\n", net_info->name,
           net_info->is_dynamic ? "dynamic" : "static", net_info->input_num, net_info->output_num,
           net_info->stage_num);
    for (int s = 0; s < net_info->stage_num; s++) {
        printf("  stage %d\n", s);
        print_tensors("input", net_info->input_num, net_info->input_names, net_info->input_dtypes,
                      net_info->input_scales, net_info->input_zero_point, net_info->stages[s].input_shapes);
        print_tensors("output", net_info->output_num, net_info->output_names, net_info->output_dtypes,
                      net_info->output_scales, net_info->output_zero_point, net_info->stages[s].output_shapes);
    }
}
