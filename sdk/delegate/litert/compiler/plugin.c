/* libLiteRtCompilerPlugin_TpuLayer.so: LiteRT asks which operations a BM1684 computes, and has them compiled.
 *
 * Both answers come from the toolkit's own compiler, in a Python process that lives as long as the plugin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "operations.h"
#include "settings.h"
#include "tpulayer_compiler.h"
#include "tpulayer_delegate.h"

enum { HARDWARE_NPU = 4, NAME_BYTES = 32 };

static const char SOC_MODEL[] = "BM1684";

typedef struct {
    const litert_compiler *c;
    settings told;
    int calls;       /* there is a part that the model's author gave to the TPU (odml.npu_call) */
    size_t selected; /* operations */
} plugin;

/* One program; the partitions in it are its entries. */
typedef struct {
    void *program;
    size_t bytes;
    char (*names)[NAME_BYTES];
    size_t num;
} result;

LITERT_EXPORT litert_status LiteRtGetCompilerPluginVersion(litert_version *version) {
    if (version == NULL) return LITERT_BAD_ARGUMENT;
    *version = (litert_version){0, 1, 0};
    return LITERT_OK;
}

LITERT_EXPORT const char *LiteRtGetCompilerPluginSocManufacturer(void) { return "TpuLayer"; }

LITERT_EXPORT litert_status LiteRtGetCompilerPluginSupportedHardware(litert_handle handle, int *hardware) {
    if (handle == NULL || hardware == NULL) return LITERT_BAD_ARGUMENT;
    *hardware = HARDWARE_NPU;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetNumCompilerPluginSupportedSocModels(litert_handle handle, size_t *num) {
    if (handle == NULL || num == NULL) return LITERT_BAD_ARGUMENT;
    *num = 1;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetCompilerPluginSupportedSocModel(litert_handle handle, size_t index,
                                                                     const char **name) {
    if (handle == NULL || name == NULL) return LITERT_BAD_ARGUMENT;
    if (index > 0) return LITERT_UNSUPPORTED;
    *name = SOC_MODEL;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetCompilerPluginSDKVersion(litert_handle handle, const char **version) {
    if (handle == NULL || version == NULL) return LITERT_BAD_ARGUMENT;
    *version = tpld_version();
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtCreateCompilerPlugin(const litert_compiler *c, litert_handle *made,
                                                       litert_handle environment, litert_handle options) {
    (void)environment;
    if (c == NULL || made == NULL) return LITERT_BAD_ARGUMENT;
    if (c->abi.struct_size < sizeof *c) {
        fprintf(stderr, "tpulayer: LiteRT: its table has %u bytes, %zu are needed: use ai-edge-litert 2.2 or newer\n",
                c->abi.struct_size, sizeof *c);
        return LITERT_WRONG_VERSION;
    }
    settings told;
    litert_status status = settings_read(c, options, &told);
    if (status != LITERT_OK) return status;
    plugin *p = calloc(1, sizeof *p);
    if (p == NULL) return LITERT_NO_MEMORY;
    *p = (plugin){.c = c, .told = told};
    *made = p;
    return LITERT_OK;
}

LITERT_EXPORT void LiteRtDestroyCompilerPlugin(litert_handle handle) { free(handle); }

LITERT_EXPORT litert_status LiteRtCompilerPluginRegisterAllTransformations(litert_handle handle, void **list,
                                                                           size_t *num) {
    (void)handle;
    *list = NULL;
    *num = 0;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtCompilerPluginCheckCompilerCompatibility(litert_version version, litert_handle handle,
                                                                           litert_handle environment,
                                                                           litert_handle options,
                                                                           const char *soc_model) {
    (void)handle;
    (void)environment;
    (void)options;
    if (version.major != 0) return LITERT_WRONG_VERSION;
    if (soc_model == NULL || *soc_model == 0 || strcmp(soc_model, SOC_MODEL) == 0) return LITERT_OK;
    fprintf(stderr, "tpulayer: LiteRT: there is no model %s, only %s\n", soc_model, SOC_MODEL);
    return LITERT_UNSUPPORTED;
}

static litert_status ask(const char *what, const bytes *json, const bytes *data, void **reply, size_t *size) {
    int status = tpld_ask_compiler(json->data, data->data, data->size, reply, size);
    if (status == TPLD_OK) return LITERT_OK;
    fprintf(stderr, "tpulayer: LiteRT: %s: %s\n", what, tpld_last_error());
    return LITERT_COMPILATION;
}

static void begin_request(bytes *json, const char *what, const settings *told) {
    char text[96];
    snprintf(text, sizeof text, "{\"ask\": \"%s\", \"opt\": %u, \"what\": \"TFLite\", \"models\": [", what, told->opt);
    bytes_text(json, text);
}

/* With the zero that ends the text; most: operations in a partition, 0 for any number. */
static void end_request(bytes *json, size_t most) {
    char number[48];
    snprintf(number, sizeof number, "], \"most\": %zu}", most);
    bytes_text(json, number);
    bytes_add(json, "", 1);
}

/* Whether the subgraph has a part that the model's author gave to the TPU: LiteRT has it compiled as it is. */
static int has_call(const plugin *p, litert_handle subgraph) {
    size_t count = 0;
    if (p->c->get_num_subgraph_ops(subgraph, &count) != LITERT_OK) return 0;
    for (size_t i = 0; i < count; i++) {
        litert_handle op = NULL;
        const char *name = NULL;
        int code = -1;
        if (p->c->get_subgraph_op(subgraph, i, &op) != LITERT_OK || p->c->get_op_code(op, &code) != LITERT_OK) continue;
        if (code != OPERATION_COMPOSITE || p->c->get_composite_name(op, &name) != LITERT_OK || name == NULL) continue;
        if (strcmp(name, "odml.npu_call") == 0) return 1;
    }
    return 0;
}

/* Push the operations that the reply puts into pieces; each piece becomes a partition of its own. */
static litert_status push(plugin *p, litert_handle subgraph, litert_handle list, const char *reply, size_t size) {
    size_t count = 0;
    const char *end = reply + size;
    litert_status status = p->c->get_num_subgraph_ops(subgraph, &count);
    for (size_t i = 0; i < count && status == LITERT_OK; i++) {
        const char *text = reply;
        const char *zero = memchr(text, 0, (size_t)(end - text));
        litert_handle op = NULL;
        if (zero == NULL) return LITERT_FAILURE; /* an answer about another subgraph */
        reply = zero + 1;
        if (*text == '-') continue; /* and why not */
        status = p->c->get_subgraph_op(subgraph, i, &op);
        if (status == LITERT_OK) status = p->c->push_op(list, op, strtoul(text, NULL, 10));
        p->selected++;
    }
    return status;
}

LITERT_EXPORT litert_status LiteRtCompilerPluginPartition(litert_handle handle, const char *soc_model,
                                                          litert_handle subgraph, litert_handle list) {
    plugin *p = handle;
    (void)soc_model;
    if (p == NULL || subgraph == NULL || list == NULL) return LITERT_BAD_ARGUMENT;
    /* LiteRT 2.3 counts these parts first when it has partitions compiled and last when it calls them: others beside
     * them would be taken for them. */
    if (has_call(p, subgraph)) p->calls = 1;
    if (p->calls) return LITERT_OK;
    bytes json = {0}, data = {0};
    void *reply = NULL;
    size_t size = 0;
    begin_request(&json, "divide", &p->told);
    litert_status status = message_add_model(p->c, subgraph, "model", &json, &data);
    end_request(&json, p->told.operations);
    if (status == LITERT_OK) status = json.no_memory ? LITERT_NO_MEMORY : ask("partition", &json, &data, &reply, &size);
    if (status == LITERT_OK) status = push(p, subgraph, list, reply, size);
    bytes_free(&json);
    bytes_free(&data);
    free(reply);
    return status;
}

LITERT_EXPORT void LiteRtDestroyCompiledResult(litert_handle handle) {
    result *r = handle;
    if (r == NULL) return;
    free(r->program);
    free(r->names);
    free(r);
}

static litert_status add_models(const plugin *p, litert_handle model, const result *r, bytes *json, bytes *data) {
    litert_status status = LITERT_OK;
    for (size_t i = 0; i < r->num && status == LITERT_OK; i++) {
        litert_handle subgraph = NULL;
        snprintf(r->names[i], NAME_BYTES, "partition_%zu", i);
        if (i > 0) bytes_text(json, ", ");
        status = p->c->get_model_subgraph(model, i, &subgraph);
        if (status == LITERT_OK) status = message_add_model(p->c, subgraph, r->names[i], json, data);
    }
    return status;
}

LITERT_EXPORT litert_status LiteRtCompilerPluginCompile(litert_handle handle, const char *soc_model,
                                                        litert_handle model, litert_handle *made) {
    const plugin *p = handle;
    (void)soc_model;
    if (p == NULL || model == NULL || made == NULL) return LITERT_BAD_ARGUMENT;
    if (p->calls && p->selected > 0) {
        fprintf(stderr, "tpulayer: LiteRT: odml.npu_call is in a later subgraph than other operations for the TPU, and "
                        "LiteRT would mix them up\n");
        return LITERT_UNSUPPORTED;
    }
    result *r = calloc(1, sizeof *r);
    if (r == NULL) return LITERT_NO_MEMORY;
    litert_status status = p->c->get_num_model_subgraphs(model, &r->num);
    if (status == LITERT_OK && (r->names = calloc(r->num + 1, NAME_BYTES)) == NULL) status = LITERT_NO_MEMORY;
    bytes json = {0}, data = {0};
    begin_request(&json, "compile", &p->told);
    if (status == LITERT_OK) status = add_models(p, model, r, &json, &data);
    end_request(&json, 0);
    if (status == LITERT_OK)
        status = json.no_memory ? LITERT_NO_MEMORY : ask("compile", &json, &data, &r->program, &r->bytes);
    bytes_free(&json);
    bytes_free(&data);
    if (status != LITERT_OK) {
        LiteRtDestroyCompiledResult(r);
        return status;
    }
    *made = r;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtCompiledResultNumByteCodeModules(litert_handle handle, size_t *num) {
    if (num == NULL) return LITERT_BAD_ARGUMENT;
    *num = handle == NULL ? 0 : 1; /* LiteRT asks without a result where nothing was selected */
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetCompiledResultByteCode(litert_handle handle, size_t index, const void **data,
                                                            size_t *size) {
    const result *r = handle;
    if (r == NULL || data == NULL || size == NULL) return LITERT_BAD_ARGUMENT;
    if (index > 0) return LITERT_INDEX;
    *data = r->program;
    *size = r->bytes;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetNumCompiledResultCalls(litert_handle handle, size_t *num) {
    if (num == NULL) return LITERT_BAD_ARGUMENT;
    *num = handle == NULL ? 0 : ((const result *)handle)->num;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetCompiledResultCallInfo(litert_handle handle, size_t index, const void **info,
                                                            size_t *size, size_t *bytecode) {
    const result *r = handle;
    if (r == NULL || info == NULL || size == NULL || bytecode == NULL) return LITERT_BAD_ARGUMENT;
    if (index >= r->num) return LITERT_INDEX;
    *info = r->names[index];
    *size = strlen(r->names[index]);
    *bytecode = 0;
    return LITERT_OK;
}
