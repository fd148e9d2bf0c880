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
extern const tpu_layer_functions_t bmtpu_functions[] WEAK;
WEAK int tpu_shape_infer_entry(int, const void *, int, const tpu_tensor_t *, int, tpu_tensor_t *, int);
WEAK int tpu_global_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                    int);
WEAK int tpu_local_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                   int);

/* Defined by the generated bmbuiltin_device_entry.c. */
extern const tpu_layer_entry_t bmbuiltin_layers[] WEAK;
extern const unsigned int bmbuiltin_layer_count WEAK;
extern const tpu_layer_functions_t bmbuiltin_functions[] WEAK;
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

/* ---- telling the device of calls ---- */

/* Enough for FW_MAX_TENSORS inputs and outputs of FW_DIMS dimensions. */
enum { CALL_TEXT = 2 * FW_MAX_TENSORS * (24 + 40 + 2 * FW_DIMS * 9) + 256 };
static char call_text[CALL_TEXT];
static size_t call_used;

static void tell_number(uint64_t value) {
    fw_text(call_text + call_used, CALL_TEXT - call_used, "%llx ", (unsigned long long)value);
    call_used += strlen(call_text + call_used);
}

static void tell_tensors(const tpu_tensor_t *tensors, int count) {
    for (int i = 0; i < count; i++) {
        const tpu_tensor_t *t = &tensors[i];
        const bool values = t->ttype == BMNET_NEURON_SHAPE && t->host_data != NULL;
        const unsigned int dims = t->dims < FW_DIMS ? t->dims : FW_DIMS;
        tell_number(t->addr), tell_number(t->ttype), tell_number(t->dtype), tell_number(t->store_mode);
        tell_number(values), tell_number(dims);
        for (unsigned int d = 0; d < dims; d++) tell_number((uint32_t)t->shape[d]);
        for (unsigned int d = 0; d < dims; d++) tell_number((uint32_t)t->slice_shape[d]);
    }
}

static uint64_t function_of(const fw_layer_args *args, bool global) {
    bool builtin = args->op_type >= FW_BUILTIN_OP_BASE;
    const tpu_layer_entry_t *layers = builtin ? bmbuiltin_layers : bmtpu_layers;
    const tpu_layer_functions_t *functions = builtin ? bmbuiltin_functions : bmtpu_functions;
    const tpu_layer_entry_t *layer = fw_layer_find(args->op_type);
    if (layer == NULL || functions == NULL) return 0;
    const tpu_layer_functions_t *found = &functions[layer - layers];
    return (uint64_t)(uintptr_t)(global ? found->global : found->local);
}

/* Hexadecimal numbers: 1 before the call, 2 after it; address of the label; 1 global, 2 local; the function's address;
 * buffer; how many inputs and outputs; of each its address, type, data type, store mode, whether it is given by values,
 * dimensions, shape, extents of the tile. Then ";" and the label. firmware_sim/checks/layer_calls.py reads it. */
static void tell_call(bool ended, bool global, const fw_layer_args *args) {
    if (!fw.announces) return;
    fw_platform_aside(true);
    call_used = 0;
    tell_number(ended ? 2 : 1), tell_number((uintptr_t)args->label), tell_number(global ? 1 : 2);
    tell_number(function_of(args, global)), tell_number(args->buffer_addr), tell_number(args->buffer_bytes);
    tell_number((uint64_t)args->in_num), tell_number((uint64_t)args->out_num);
    tell_tensors(args->in, args->in_num);
    tell_tensors(args->out, args->out_num);
    fw_text(call_text + call_used, CALL_TEXT - call_used, ";%s", args->label);
    const uint64_t text = (uint64_t)(uintptr_t)call_text;
    const int32_t result = fw.platform->flush((uint32_t)text, (uint32_t)(text >> 32), FW_FLUSH_CALL);
    fw_platform_aside(false);
    if (result < 0) fw_fail(BM_LAYER_RUNTIME_ERROR, "the device refused to know of a call");
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
    if (kind != FW_CALL_SHAPE) tell_call(false, kind == FW_CALL_GLOBAL, args);
    int result = kind == FW_CALL_SHAPE
                     ? shape(args->op_type, args->param, args->param_bytes, args->in, args->in_num, args->out,
                             args->out_num)
                     : calculate(args->op_type, args->param, args->param_bytes, args->in, args->in_num,
                                 args->buffer_addr, args->buffer_bytes, args->out, args->out_num);
    fw_heap_check();
    if (result < 0)
        fw_fail(FW_STATUS_LAYER, "layer %s: %s function returned %d (%s)", args->label, kind_names[kind], result,
                code_name(result));
    if (kind != FW_CALL_SHAPE) tell_call(true, kind == FW_CALL_GLOBAL, args);
    fw.scope = scope;
    fw.layer = layer;
}
