#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operations.h"

typedef struct {
    litert_handle *items;
    size_t num, room;
} tensors;

typedef struct {
    const litert_compiler *c;
    tensors known;
    bytes texts; /* the tensors' JSON */
    bytes *data; /* of the constants */
    litert_status status;
} writer;

void bytes_add(bytes *b, const void *data, size_t size) {
    if (b->no_memory || size == 0) return;
    if (b->size + size > b->room) {
        size_t room = (b->size + size) * 2;
        char *grown = realloc(b->data, room);
        if (grown == NULL) {
            b->no_memory = 1;
            return;
        }
        b->data = grown;
        b->room = room;
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

void bytes_text(bytes *b, const char *text) { bytes_add(b, text, strlen(text)); }

void bytes_free(bytes *b) {
    free(b->data);
    *b = (bytes){0};
}

static void add_number(bytes *b, const char *before, long long number) {
    char text[64];
    snprintf(text, sizeof text, "%s%lld", before, number);
    bytes_text(b, text);
}

static void add_quoted(bytes *b, const char *text) {
    bytes_text(b, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at != 0; at++) {
        char escaped[8];
        if (*at == '"' || *at == '\\' || *at < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", *at);
            bytes_text(b, escaped);
        } else {
            bytes_add(b, at, 1);
        }
    }
    bytes_text(b, "\"");
}

/* Data of a constant or of an operation: `[place, bytes]` in the blob, which begins at multiples of 8. */
static void add_blob(writer *w, bytes *texts, const void *data, size_t size) {
    static const char zeros[8];
    bytes_add(w->data, zeros, (8 - w->data->size % 8) % 8);
    add_number(texts, "[", (long long)w->data->size);
    add_number(texts, ", ", (long long)size);
    bytes_text(texts, "]");
    bytes_add(w->data, data, size);
}

static const char *dtype_of(int element) {
    switch (element) {
    case 1: return "float32";
    case 2: return "int32";
    case 3: return "uint8";
    case 4: return "int64";
    case 6: return "bool";
    case 7: return "int16";
    case 9: return "int8";
    case 10: return "float16";
    case 11: return "float64";
    case 13: return "uint64";
    case 16: return "uint32";
    case 17: return "uint16";
    default: return NULL;
    }
}

static size_t elements(const litert_layout *layout) {
    size_t count = 1;
    for (unsigned i = 0; i < layout->rank; i++) count *= layout->dims[i] < 0 ? 0 : (size_t)layout->dims[i];
    return count;
}

/* Type and shape; a tensor that is quantized, without rank or of a shape that changes has no type. */
static litert_status add_type(writer *w, litert_handle tensor, litert_layout *layout, const char **dtype) {
    int kind = 1, quantized = 0;
    litert_ranked type = {0};
    *dtype = NULL;
    litert_status status = w->c->get_tensor_type_id(tensor, &kind);
    if (status == LITERT_OK && kind == 0) status = w->c->get_ranked_tensor_type(tensor, &type);
    if (status == LITERT_OK) status = w->c->get_quantization_type_id(tensor, &quantized);
    if (status != LITERT_OK) return status;
    if (type.layout.rank > LITERT_MAX_RANK) type.layout.rank = 0, kind = 1;
    *layout = type.layout;
    int fixed = kind == 0 && quantized == 0;
    bytes_text(&w->texts, "\"shape\": [");
    for (unsigned i = 0; i < layout->rank; i++) {
        add_number(&w->texts, i == 0 ? "" : ", ", layout->dims[i] < 0 ? 1 : layout->dims[i]);
        fixed = fixed && layout->dims[i] >= 0;
    }
    if (fixed) *dtype = dtype_of(type.element_type);
    bytes_text(&w->texts, "], \"dtype\": ");
    if (*dtype == NULL) {
        bytes_text(&w->texts, "null");
    } else {
        add_quoted(&w->texts, *dtype);
    }
    return LITERT_OK;
}

/* What the integers of a quantized tensor stand for; `many` may point into `one`, so nobody copies it. data: of a
 * constant, else NULL. */
typedef struct {
    const char *dtype;
    litert_layout layout;
    litert_per_tensor one;
    litert_per_channel many;
    const void *data;
    size_t size;
} scales;

/* 0 for a tensor that is not quantized, or in another way. */
static int get_scales(writer *w, litert_handle tensor, scales *found) {
    litert_ranked type = {0};
    litert_handle weights = NULL;
    int kind = 1, quantized = 0;
    *found = (scales){.many = {.num = 1}};
    found->many.scales = &found->one.scale;
    found->many.zero_points = &found->one.zero_point;
    if (w->c->get_tensor_type_id(tensor, &kind) != LITERT_OK || kind != 0) return 0;
    if (w->c->get_ranked_tensor_type(tensor, &type) != LITERT_OK || type.layout.rank > LITERT_MAX_RANK) return 0;
    if (w->c->get_quantization_type_id(tensor, &quantized) != LITERT_OK) return 0;
    if (quantized == LITERT_PER_TENSOR ? w->c->get_per_tensor(tensor, &found->one) != LITERT_OK
                                       : quantized != LITERT_PER_CHANNEL ||
                                             w->c->get_per_channel(tensor, &found->many) != LITERT_OK)
        return 0;
    found->dtype = dtype_of(type.element_type);
    found->layout = type.layout;
    if (w->c->get_tensor_weights(tensor, &weights) == LITERT_OK && weights != NULL &&
        (w->c->get_weights_bytes(weights, &found->data, &found->size) != LITERT_OK || found->size == 0))
        found->data = NULL;
    return found->dtype != NULL && found->many.scales != NULL && found->many.zero_points != NULL;
}

static void add_array(writer *w, bytes *texts, const char *name, const char *dtype, size_t num, const void *data,
                      size_t size) {
    add_quoted(texts, name);
    add_number(texts, ": {\"shape\": [", (long long)num);
    bytes_text(texts, "], \"dtype\": ");
    add_quoted(texts, dtype);
    bytes_text(texts, ", \"data\": ");
    add_blob(w, texts, data, size);
    bytes_text(texts, "}, ");
}

/* Scales, and the elements of a constant: members of an object. */
static void add_scales(writer *w, bytes *texts, const scales *told) {
    const litert_per_channel *many = &told->many;
    add_array(w, texts, "scales", "float32", many->num, many->scales, many->num * sizeof *many->scales);
    add_array(w, texts, "zero_points", "int64", many->num, many->zero_points, many->num * sizeof *many->zero_points);
    add_number(texts, "\"axis\": ", many->axis);
    if (told->data == NULL) return;
    bytes_text(texts, ", \"stored\": {\"shape\": [");
    for (unsigned i = 0; i < told->layout.rank; i++) add_number(texts, i == 0 ? "" : ", ", told->layout.dims[i]);
    bytes_text(texts, "], \"dtype\": ");
    add_quoted(texts, told->dtype);
    bytes_text(texts, ", \"data\": ");
    add_blob(w, texts, told->data, told->size);
    bytes_text(texts, "}");
}

static litert_status add_tensor(writer *w, litert_handle tensor) {
    const char *name = NULL, *dtype = NULL;
    litert_handle weights = NULL;
    litert_layout layout;
    const void *data = NULL;
    size_t size = 0;
    if (w->c->get_tensor_name(tensor, &name) != LITERT_OK || name == NULL) name = "";
    bytes_text(&w->texts, w->known.num > 1 ? ", {\"name\": " : "{\"name\": ");
    add_quoted(&w->texts, name);
    bytes_text(&w->texts, ", ");
    litert_status status = add_type(w, tensor, &layout, &dtype);
    if (status != LITERT_OK) return status;
    bytes_text(&w->texts, ", \"data\": ");
    if (w->c->get_tensor_weights(tensor, &weights) == LITERT_OK && weights != NULL)
        w->c->get_weights_bytes(weights, &data, &size);
    if (dtype != NULL && data != NULL && size > 0 && elements(&layout) > 0) {
        add_blob(w, &w->texts, data, size);
    } else {
        bytes_text(&w->texts, "null");
    }
    scales told;
    if (dtype == NULL && get_scales(w, tensor, &told)) {
        bytes_text(&w->texts, ", \"scaled\": {\"dtype\": ");
        add_quoted(&w->texts, told.dtype);
        bytes_text(&w->texts, ", ");
        add_scales(w, &w->texts, &told);
        bytes_text(&w->texts, "}");
    }
    bytes_text(&w->texts, "}");
    return LITERT_OK;
}

/* The index of a tensor in the message, to which it is added when it is new; -1 for one left out. */
static long long index_of(writer *w, litert_handle tensor) {
    if (tensor == NULL) return -1;
    for (size_t i = w->known.num; i-- > 0;) {
        if (w->known.items[i] == tensor) return (long long)i;
    }
    if (w->known.num == w->known.room) {
        size_t room = w->known.room * 2 + 64;
        litert_handle *grown = realloc(w->known.items, room * sizeof *grown);
        if (grown == NULL) {
            w->status = LITERT_NO_MEMORY;
            return -1;
        }
        w->known.items = grown;
        w->known.room = room;
    }
    w->known.items[w->known.num++] = tensor;
    litert_status status = add_tensor(w, tensor);
    if (status != LITERT_OK) w->status = status;
    return (long long)w->known.num - 1;
}

/* A DEQUANTIZE of a constant: its elements with their scales as attributes, in the place of an input, because the
 * tensor itself is no array of plain numbers. Without any of these 0, and nothing is added. */
static int add_stored(writer *w, bytes *texts, litert_handle op) {
    litert_handle tensor = NULL;
    scales told;
    if (w->c->get_op_input(op, 0, &tensor) != LITERT_OK || tensor == NULL) return 0;
    if (!get_scales(w, tensor, &told) || told.data == NULL) return 0;
    bytes_text(texts, "\"attributes\": {");
    add_scales(w, texts, &told);
    bytes_text(texts, "}, ");
    return 1;
}

typedef litert_status (*get_num)(litert_handle of, size_t *num);
typedef litert_status (*get_tensor)(litert_handle of, size_t index, litert_handle *tensor);

static void add_indices(writer *w, bytes *texts, litert_handle of, get_num count, get_tensor get) {
    size_t num = 0;
    litert_status status = count(of, &num);
    if (status != LITERT_OK) w->status = status;
    bytes_text(texts, "[");
    for (size_t i = 0; i < num && w->status == LITERT_OK; i++) {
        litert_handle tensor = NULL;
        if (get(of, i, &tensor) != LITERT_OK) tensor = NULL;
        add_number(texts, i == 0 ? "" : ", ", index_of(w, tensor));
    }
    bytes_text(texts, "]");
}

typedef struct {
    bytes *texts;
    int count;
} option_list;

static void add_option(void *with, const char *name, const char *number) {
    option_list *list = with;
    if (list->count++ > 0) bytes_text(list->texts, ", ");
    add_quoted(list->texts, name);
    bytes_text(list->texts, ": ");
    bytes_text(list->texts, number);
}

static void add_kind(writer *w, bytes *texts, litert_handle op, int code) {
    const char *name = NULL;
    char unknown[40];
    if (code == OPERATION_CUSTOM) {
        if (w->c->get_custom_code(op, &name) != LITERT_OK || name == NULL) name = "";
        const uint8_t *told = NULL;
        int32_t size = 0;
        if (w->c->get_custom_options(op, &told, &size) != LITERT_OK || told == NULL) size = 0;
        bytes_text(texts, "\"own\": true, \"attributes\": {\"custom_options\": {\"bytes\": ");
        add_blob(w, texts, told, size > 0 ? (size_t)size : 0);
        bytes_text(texts, "}}, ");
    } else if ((name = operation_kind(code)) == NULL) {
        snprintf(unknown, sizeof unknown, "operation %d", code);
        name = unknown;
    }
    bytes_text(texts, "\"kind\": ");
    add_quoted(texts, name);
}

static void add_options(writer *w, bytes *texts, litert_handle op, int code) {
    option_list list = {.texts = texts};
    bytes_text(texts, "\"attributes\": {");
    operation_options(w->c, op, code, add_option, &list);
    bytes_text(texts, "}, ");
}

/* An operation is called as the first tensor that it makes. */
static void add_name(writer *w, bytes *texts, litert_handle op) {
    litert_handle made = NULL;
    const char *name = NULL;
    if (w->c->get_op_output(op, 0, &made) != LITERT_OK || w->c->get_tensor_name(made, &name) != LITERT_OK) name = NULL;
    bytes_text(texts, ", \"name\": ");
    add_quoted(texts, name == NULL ? "" : name);
}

static void add_operation(writer *w, bytes *texts, litert_handle op) {
    int code = -1;
    litert_status status = w->c->get_op_code(op, &code);
    if (status != LITERT_OK) w->status = status;
    bytes_text(texts, "{");
    int stored = code == OPERATION_DEQUANTIZE && add_stored(w, texts, op);
    if (code != OPERATION_CUSTOM && !stored) add_options(w, texts, op, code);
    add_kind(w, texts, op, code);
    add_name(w, texts, op);
    bytes_text(texts, ", \"inputs\": ");
    if (stored) {
        bytes_text(texts, "[]");
    } else {
        add_indices(w, texts, op, w->c->get_num_op_inputs, w->c->get_op_input);
    }
    bytes_text(texts, ", \"outputs\": ");
    add_indices(w, texts, op, w->c->get_num_op_outputs, w->c->get_op_output);
    bytes_text(texts, "}");
}

static void add_operations(writer *w, bytes *texts, litert_handle subgraph) {
    size_t num = 0;
    litert_status status = w->c->get_num_subgraph_ops(subgraph, &num);
    if (status != LITERT_OK) w->status = status;
    for (size_t i = 0; i < num && w->status == LITERT_OK; i++) {
        litert_handle op = NULL;
        status = w->c->get_subgraph_op(subgraph, i, &op);
        if (status != LITERT_OK) {
            w->status = status;
            return;
        }
        if (i > 0) bytes_text(texts, ",\n");
        add_operation(w, texts, op);
    }
}

litert_status message_add_model(const litert_compiler *c, litert_handle subgraph, const char *name, bytes *json,
                                bytes *data) {
    writer w = {.c = c, .data = data};
    bytes_text(json, "{\"name\": ");
    add_quoted(json, name);
    bytes_text(json, ", \"inputs\": ");
    add_indices(&w, json, subgraph, c->get_num_subgraph_inputs, c->get_subgraph_input);
    bytes_text(json, ", \"outputs\": ");
    add_indices(&w, json, subgraph, c->get_num_subgraph_outputs, c->get_subgraph_output);
    bytes_text(json, ",\n\"operations\": [");
    add_operations(&w, json, subgraph);
    bytes_text(json, "],\n\"tensors\": [");
    bytes_add(json, w.texts.data, w.texts.size);
    bytes_text(json, "]}");
    if (json->no_memory || w.texts.no_memory || data->no_memory) w.status = LITERT_NO_MEMORY;
    bytes_free(&w.texts);
    free(w.known.items);
    return w.status;
}
