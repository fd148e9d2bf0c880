/* Calls of layer functions. op_types from FW_BUILTIN_OP_BASE on are the toolkit's layers, all others the
 * user's; either side's entries may be missing from an image, so they are weak.
 */
#include "fw_layers.h"

#include "fw_internal.h"

#define WEAK __attribute__((weak))

/* Defined by the generated bmtpu_device_entry.c (the entries are declared in the layer header). */
extern const unsigned int bmtpu_layer_count WEAK;
extern const unsigned long long bmtpu_layers_hash WEAK;
WEAK int tpu_shape_infer_entry(int, const void *, int, const tpu_tensor_t *, int, tpu_tensor_t *, int);
WEAK int tpu_global_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                    int);
WEAK int tpu_local_calculate_entry(int, const void *, int, const tpu_tensor_t *, int, u64, u64, tpu_tensor_t *,
                                   int);

/* Defined by the generated bmbuiltin_device_entry.c. */
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

uint64_t fw_layers_hash(void) { return &bmtpu_layers_hash ? bmtpu_layers_hash : 0; }

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

void fw_layer_run(fw_call_kind kind, const fw_layer_args *a) {
    char name[128];
    if (a->name != NULL && a->name[0] != '\0')
        fw_text(name, sizeof name, "%s", a->name);
    else
        fw_text(name, sizeof name, "with op_type %d", a->op_type);
    tpu_shape_entry_t shape = shape_entry(a->op_type);
    tpu_calculate_entry_t calculate = calculate_entry(a->op_type, kind);
    if (kind == FW_CALL_SHAPE ? shape == NULL : calculate == NULL)
        fw_fail(FW_STATUS_LAYER, "layer %s: this firmware holds no %s layers; build it with the layer's sources",
                name, a->op_type >= FW_BUILTIN_OP_BASE ? "built-in" : "user");

    fw_scope scope = fw.scope;
    const char *layer = fw.layer;
    fw.scope = kind_scopes[kind];
    fw.layer = name;
    fw_set_activity("layer %s, %s function", name, kind_names[kind]);
    int result = kind == FW_CALL_SHAPE
                     ? shape(a->op_type, a->param, a->param_bytes, a->in, a->in_num, a->out, a->out_num)
                     : calculate(a->op_type, a->param, a->param_bytes, a->in, a->in_num, a->buffer_addr,
                                 a->buffer_bytes, a->out, a->out_num);
    if (result < 0)
        fw_fail(FW_STATUS_LAYER, "layer %s: %s function returned %d (%s)", name, kind_names[kind], result,
                code_name(result));
    fw.scope = scope;
    fw.layer = layer;
}
