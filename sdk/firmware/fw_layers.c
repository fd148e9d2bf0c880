/* Calls of layer functions. op_types from FW_BUILTIN_OP_BASE on are the toolkit's layers, all others the
 * user's; either side's entries may be missing from an image, so they are weak.
 */
#include "fw_layers.h"

#include <string.h>

#include "fw_heap.h"
#include "fw_internal.h"

#define WEAK __attribute__((weak))

/* Defined by the generated bmtpu_device_entry.c (the entries are declared in the layer header). */
extern const tpu_layer_entry_t bmtpu_layers[] WEAK;
extern const unsigned int bmtpu_layer_count WEAK;
WEAK int tpu_shape_infer_entry(int, const void *, int, const tpu_tensor_t *, int, tpu_tensor_t *, int);
WEAK int tpu_global_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                    int);
WEAK int tpu_local_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                   int);

/* Defined by the generated bmbuiltin_device_entry.c. */
extern const tpu_layer_entry_t bmbuiltin_layers[] WEAK;
extern const unsigned int bmbuiltin_layer_count WEAK;
WEAK int builtin_shape_infer_entry(int, const void *, int, const tpu_tensor_t *, int, tpu_tensor_t *, int);
WEAK int builtin_global_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64,
                                        tpu_tensor_t *, int);
WEAK int builtin_local_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                       int);

static struct {
    tpu_shape_entry_t shape;
    tpu_calculate_entry_t global, local;
} set_entries;

void set_tpu_entry(tpu_shape_entry_t shape, tpu_calculate_entry_t global, tpu_calculate_entry_t local) {
    set_entries.shape = shape;
    set_entries.global = global;
    set_entries.local = local;
}

uint32_t fw_layer_count(void) { return &bmtpu_layer_count ? bmtpu_layer_count : 0; }

const tpu_layer_entry_t *fw_layer_at(uint32_t index) { return &bmtpu_layers[index]; }

const tpu_layer_entry_t *fw_layer_find(int op_type) {
    bool builtin = op_type >= FW_BUILTIN_OP_BASE;
    uint32_t count = !builtin ? fw_layer_count() : &bmbuiltin_layer_count ? bmbuiltin_layer_count : 0;
    const tpu_layer_entry_t *layers = builtin ? bmbuiltin_layers : bmtpu_layers;
    for (uint32_t i = 0; i < count; i++)
        if (layers[i].op_type == op_type) return &layers[i];
    return NULL;
}

void fw_layer_label(char text[FW_LABEL_BYTES], const char *name, int op_type) {
    const tpu_layer_entry_t *layer = fw_layer_find(op_type);
    bool named = name != NULL && name[0] != '\0';
    if (layer == NULL && !named)
        fw_text(text, FW_LABEL_BYTES, "with op_type %d", op_type);
    else if (layer == NULL || !named)
        fw_text(text, FW_LABEL_BYTES, "%s", named ? name : layer->name);
    else
        fw_text(text, FW_LABEL_BYTES, "%s (%s)", name, layer->name);
}

/* "TPU_CROP (0), TPU_DOUBLE (1)"; what does not fit is counted: "... and 7 more". */
static void list_layers(char *text, size_t capacity) {
    size_t used = 0;
    fw_text(text, capacity, "none");
    for (uint32_t i = 0; i < fw_layer_count(); i++) {
        char next[FW_NAME_BYTES + 32];
        fw_text(next, sizeof next, "%s%s (%d)", i == 0 ? "" : ", ", bmtpu_layers[i].name, bmtpu_layers[i].op_type);
        if (used + strlen(next) + sizeof " and 4294967295 more" > capacity) {
            fw_text(text + used, capacity - used, " and %u more", (unsigned)(fw_layer_count() - i));
            return;
        }
        fw_text(text + used, capacity - used, "%s", next);
        used += strlen(next);
    }
}

void fw_layer_check(const char *label, int op_type, uint32_t param_bytes, uint32_t param_check) {
    const tpu_layer_entry_t *layer = fw_layer_find(op_type);
    if (layer == NULL) {
        char list[256];
        list_layers(list, sizeof list);
        fw_fail(FW_STATUS_LAYER, "layer %s: this firmware has no layer with op_type %d; it has %s", label, op_type, list);
    }
    if (layer->param_size != param_bytes || (uint32_t)layer->param_hash != param_check)
        fw_fail(FW_STATUS_LAYER,
                "layer %s: its parameter struct has changed since the program was compiled; compile it again", label);
}

static tpu_shape_entry_t shape_entry(int op_type) {
    if (op_type >= FW_BUILTIN_OP_BASE) return builtin_shape_infer_entry;
    return set_entries.shape ? set_entries.shape : tpu_shape_infer_entry;
}

static tpu_calculate_entry_t calculate_entry(int op_type, fw_call_kind kind) {
    bool global = kind == FW_CALL_GLOBAL;
    if (op_type >= FW_BUILTIN_OP_BASE)
        return global ? builtin_global_calculate_entry : builtin_local_calculate_entry;
    if (global) return set_entries.global ? set_entries.global : tpu_global_calculate_entry;
    return set_entries.local ? set_entries.local : tpu_local_calculate_entry;
}

static const char *code_name(int code) {
    switch (code) {
    case BM_LAYER_NOT_SUPPORTED: return "BM_LAYER_NOT_SUPPORTED";
    case BM_LAYER_PARAM_INVALID: return "BM_LAYER_PARAM_INVALID";
    case BM_LAYER_RUNTIME_ERROR: return "BM_LAYER_RUNTIME_ERROR";
    default: return "a code of the layer's own";
    }
}

static const char *const kind_names[] = {"shape", "global", "local"};
static const fw_scope kind_scopes[] = {FW_SCOPE_SHAPE, FW_SCOPE_GLOBAL, FW_SCOPE_LOCAL};

void fw_layer_run(fw_call_kind kind, const fw_layer_args *args) {
    tpu_shape_entry_t shape = shape_entry(args->op_type);
    tpu_calculate_entry_t calculate = calculate_entry(args->op_type, kind);
    if (kind == FW_CALL_SHAPE ? shape == NULL : calculate == NULL)
        fw_fail(FW_STATUS_LAYER, "layer %s: this firmware holds no %s layers; build it with the layer's sources",
                args->label, args->op_type >= FW_BUILTIN_OP_BASE ? "built-in" : "user");

    if (args->op_type >= FW_BUILTIN_OP_BASE && fw_layer_find(args->op_type) == NULL)
        fw_fail(FW_STATUS_LAYER,
                "layer %s: this firmware has no built-in layer with op_type %d: it was built with another version of "
                "the toolkit; build it again (build_layers)",
                args->label, args->op_type);

    fw_scope scope = fw.scope;
    const char *layer = fw.layer;
    fw.scope = kind_scopes[kind];
    fw.layer = args->label;
    fw_set_activity("layer %s, %s function", args->label, kind_names[kind]);
    int result = kind == FW_CALL_SHAPE
                     ? shape(args->op_type, args->param, args->param_bytes, args->in, args->in_num, args->out,
                             args->out_num)
                     : calculate(args->op_type, args->param, args->param_bytes, args->in, args->in_num,
                                 args->buffer_addr, args->buffer_bytes, args->out, args->out_num);
    fw_heap_check();
    if (result < 0)
        fw_fail(FW_STATUS_LAYER, "layer %s: %s function returned %d (%s)", args->label, kind_names[kind], result,
                code_name(result));
    fw.scope = scope;
    fw.layer = layer;
}
