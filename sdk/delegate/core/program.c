/* Programs as user_layers/delegates/program.py writes them, which says what is where. */
#include "core.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "TPLDPRG";
enum { VERSION = 1, MOST_PARTITIONS = 4096, MOST_NAME = 4096, MOST_TENSORS = 4096, MOST_LAYERS = 1 << 20, DYNAMIC = 1 };
static const uint64_t most_elements = (uint64_t)1 << 40;

typedef struct {
    char magic[8];
    uint32_t version, partition_num;
    uint64_t bytes;
    uint32_t crc, zero;
} head;

typedef struct {
    uint32_t flags, name_bytes, input_num, output_num, layer_num, zero;
    uint64_t name_at, tensors_at, layers_at, bmodel_at, bmodel_bytes;
} partition_record;

typedef struct {
    uint64_t name_at;
    uint32_t name_bytes;
    int32_t dtype, held;
    uint32_t rank;
    int32_t place;
    uint32_t zero;
    int64_t shape[TPLD_MAX_RANK];
    int32_t order[TPLD_MAX_RANK];
} tensor_record;

typedef struct {
    uint64_t name_at, cycles, operations_at;
    uint32_t name_bytes, operation_num;
} layer_record;

_Static_assert(sizeof(head) == 32 && sizeof(partition_record) == 64 && sizeof(tensor_record) == 128 &&
                   sizeof(layer_record) == 32,
               "no gaps");

typedef struct {
    const uint8_t *data;
    size_t bytes;
} source;

size_t core_element_bytes(int32_t dtype) {
    switch (dtype) {
    case TPLD_INT8: case TPLD_UINT8: case TPLD_BOOL: return 1;
    case TPLD_FLOAT16: case TPLD_INT16: case TPLD_UINT16: return 2;
    case TPLD_FLOAT32: case TPLD_INT32: case TPLD_UINT32: return 4;
    case TPLD_INT64: return 8;
    default: return 0;
    }
}

void core_set_shape(core_tensor *t, const int64_t *shape) {
    t->now.bytes = core_element_bytes(t->now.dtype);
    for (int i = 0; i < t->now.rank; i++) {
        t->now.shape[i] = shape[i];
        t->now.bytes *= (uint64_t)shape[i];
    }
}

/* ---- reading ---- */

static uint32_t crc_of(const uint8_t *data, size_t bytes) {
    uint32_t table[256], crc = 0xffffffff;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xedb88320 : value >> 1;
        table[i] = value;
    }
    for (size_t i = 0; i < bytes; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return ~crc;
}

static int damaged(const char *what) { return core_fail(TPLD_BAD_PROGRAM, "damaged partitions: %s", what); }

/* The piece, or NULL with a message. */
static const void *piece(source s, uint64_t at, uint64_t count, uint64_t size) {
    if (at <= s.bytes && count <= (s.bytes - at) / size) return s.data + at;
    (void)damaged("something lies beyond their end");
    return NULL;
}

static char *text(source s, uint64_t at, uint32_t bytes) {
    const void *from = bytes <= MOST_NAME ? piece(s, at, bytes, 1) : NULL;
    char *made = from == NULL ? NULL : calloc(1, (size_t)bytes + 1);
    if (made != NULL) memcpy(made, from, bytes);
    else (void)damaged("a name is too long or not there");
    return made;
}

static int check(const void *program, size_t bytes, head *h) {
    if (program == NULL) return core_fail(TPLD_BAD_ARGUMENT, "program is NULL");
    if (bytes < sizeof *h || memcmp(program, magic, sizeof magic) != 0)
        return core_fail(TPLD_BAD_PROGRAM, "this is no compiled partition: its first bytes are others");
    memcpy(h, program, sizeof *h);
    if (h->version != VERSION)
        return core_fail(TPLD_BAD_PROGRAM, "compiled partitions of version %u; this library reads version %d: compile "
                         "the model again", h->version, VERSION);
    if (h->bytes != bytes || h->partition_num > MOST_PARTITIONS ||
        h->partition_num > (bytes - sizeof *h) / sizeof(partition_record) ||
        crc_of((const uint8_t *)program + sizeof *h, bytes - sizeof *h) != h->crc)
        return damaged("their bytes are not those that were compiled");
    return TPLD_OK;
}

static partition_record record(source s, uint32_t index) {
    partition_record r;
    memcpy(&r, s.data + sizeof(head) + index * sizeof r, sizeof r);
    return r;
}

static bool is_order(const tensor_record *r) {
    unsigned seen = 0;
    for (uint32_t i = 0; i < r->rank; i++) {
        if (r->order[i] < 0 || r->order[i] >= (int32_t)r->rank || seen >> r->order[i] & 1) return false;
        seen |= 1u << r->order[i];
    }
    return true;
}

static bool is_held(int32_t dtype, int32_t held) {
    if (dtype == TPLD_INT64) return held == TPLD_INT32;
    if (dtype == TPLD_BOOL) return held == TPLD_FLOAT32;
    return core_element_bytes(dtype) > 0 && held == dtype;
}

static int read_tensor(source s, const void *at, uint32_t index, core_tensor *t) {
    tensor_record r;
    memcpy(&r, (const uint8_t *)at + index * sizeof r, sizeof r);
    if (r.rank > TPLD_MAX_RANK || !is_held(r.dtype, r.held) || !is_order(&r)) return damaged("a tensor is none");
    char *name = text(s, r.name_at, r.name_bytes);
    if (name == NULL) return TPLD_BAD_PROGRAM;
    size_t length = strlen(name) < TPLD_NAME_BYTES ? strlen(name) : TPLD_NAME_BYTES - 1;
    memcpy(t->now.name, name, length);
    free(name);
    t->now.dtype = r.dtype;
    t->now.rank = (int32_t)r.rank;
    t->held = r.held;
    t->place = r.place;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < r.rank; i++) {
        if (r.shape[i] < 0 || r.shape[i] > INT_MAX) return damaged("a tensor has no possible shape");
        if (r.shape[i] > 0 && elements > most_elements / (uint64_t)r.shape[i]) return damaged("a tensor is too large");
        elements *= (uint64_t)r.shape[i];
        t->order[i] = r.order[i];
        t->most[i] = r.shape[i];
    }
    core_set_shape(t, t->most);
    return TPLD_OK;
}

static int read_layer(source s, const void *at, uint32_t index, uint64_t *room, tpld_layer_info *layer) {
    layer_record r;
    memcpy(&r, (const uint8_t *)at + index * sizeof r, sizeof r);
    const void *operations = piece(s, r.operations_at, r.operation_num, sizeof(uint32_t));
    if (operations == NULL) return TPLD_BAD_PROGRAM;
    /* Each has its own, so that all copies together are no larger than the program. */
    uint64_t own = (uint64_t)r.operation_num * sizeof(uint32_t) + r.name_bytes;
    if (own > *room) return damaged("layers share what they have");
    *room -= own;
    uint32_t *copied = malloc(r.operation_num * sizeof *copied + 1);
    layer->operations = copied;
    if (copied == NULL) return core_fail(TPLD_FAILED, "out of memory for a layer");
    memcpy(copied, operations, r.operation_num * sizeof *copied);
    layer->operation_num = r.operation_num;
    layer->cycles = r.cycles;
    layer->name = text(s, r.name_at, r.name_bytes);
    return layer->name == NULL ? TPLD_BAD_PROGRAM : TPLD_OK;
}

static int read_partition(source s, partition_record r, core_program *out) {
    if (r.input_num > MOST_TENSORS || r.output_num > MOST_TENSORS || r.layer_num > MOST_LAYERS)
        return damaged("there are too many tensors or layers");
    uint32_t tensor_num = r.input_num + r.output_num;
    const void *tensors = piece(s, r.tensors_at, tensor_num, sizeof(tensor_record));
    const void *layers = piece(s, r.layers_at, r.layer_num, sizeof(layer_record));
    const void *bmodel = piece(s, r.bmodel_at, r.bmodel_bytes, 1);
    if (tensors == NULL || layers == NULL || bmodel == NULL) return TPLD_BAD_PROGRAM;
    out->name = text(s, r.name_at, r.name_bytes);
    out->tensors = calloc((size_t)tensor_num + 1, sizeof *out->tensors);
    out->layers = calloc((size_t)r.layer_num + 1, sizeof *out->layers);
    out->bmodel = malloc((size_t)r.bmodel_bytes + 1);
    if (out->name == NULL || out->tensors == NULL || out->layers == NULL || out->bmodel == NULL)
        return core_fail(TPLD_FAILED, "out of memory for a partition of %llu bytes",
                         (unsigned long long)r.bmodel_bytes);
    memcpy(out->bmodel, bmodel, (size_t)r.bmodel_bytes);
    out->bmodel_bytes = (size_t)r.bmodel_bytes;
    out->dynamic = (r.flags & DYNAMIC) != 0;
    out->input_num = r.input_num;
    out->output_num = r.output_num;
    out->layer_num = r.layer_num;
    int status = TPLD_OK;
    uint64_t room = s.bytes;
    for (uint32_t i = 0; i < tensor_num && status == TPLD_OK; i++) status = read_tensor(s, tensors, i, &out->tensors[i]);
    for (uint32_t i = 0; i < r.layer_num && status == TPLD_OK; i++)
        status = read_layer(s, layers, i, &room, &out->layers[i]);
    return status;
}

/* ---- what others ask ---- */

void core_free_program(core_program *p) {
    for (uint32_t i = 0; p->layers != NULL && i < p->layer_num; i++) {
        free((char *)p->layers[i].name);
        free((uint32_t *)p->layers[i].operations);
    }
    free(p->layers);
    free(p->tensors);
    free(p->bmodel);
    free(p->name);
    memset(p, 0, sizeof *p);
}

int core_read_program(const void *program, size_t bytes, const char *name, core_program *out) {
    memset(out, 0, sizeof *out);
    head h;
    int status = check(program, bytes, &h);
    if (status != TPLD_OK) return status;
    if (name == NULL && h.partition_num != 1)
        return core_fail(TPLD_BAD_ARGUMENT, "the program has %u partitions, and none is named", h.partition_num);
    source s = {program, bytes};
    for (uint32_t i = 0; i < h.partition_num; i++) {
        partition_record r = record(s, i);
        char *own = text(s, r.name_at, r.name_bytes);
        if (own == NULL) return TPLD_BAD_PROGRAM;
        bool is_it = name == NULL || strcmp(own, name) == 0;
        free(own);
        if (!is_it) continue;
        status = read_partition(s, r, out);
        if (status != TPLD_OK) core_free_program(out);
        return status;
    }
    return core_fail(TPLD_BAD_ARGUMENT, "the program has no partition '%s'", name);
}

int tpld_program_num(const void *program, size_t bytes, int *num) {
    if (num == NULL) return core_fail(TPLD_BAD_ARGUMENT, "num is NULL");
    head h;
    int status = check(program, bytes, &h);
    if (status == TPLD_OK) *num = (int)h.partition_num;
    return status;
}

int tpld_program_name(const void *program, size_t bytes, int index, char **name) {
    if (name == NULL) return core_fail(TPLD_BAD_ARGUMENT, "name is NULL");
    head h;
    int status = check(program, bytes, &h);
    if (status != TPLD_OK) return status;
    if (index < 0 || (uint32_t)index >= h.partition_num)
        return core_fail(TPLD_BAD_ARGUMENT, "there is no partition %d; the program has %u, counted from 0", index,
                         h.partition_num);
    source s = {program, bytes};
    partition_record r = record(s, (uint32_t)index);
    *name = text(s, r.name_at, r.name_bytes);
    return *name == NULL ? TPLD_BAD_PROGRAM : TPLD_OK;
}
