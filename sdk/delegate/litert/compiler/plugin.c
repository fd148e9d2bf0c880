/* libLiteRtCompilerPlugin_TpuLayer.so: LiteRT asks which operations a BM1684 computes, and has them compiled.
 *
 * Both answers come from the toolkit's own compiler, in a Python process that lives as long as the plugin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "process.h"

enum { HARDWARE_NPU = 4, NAME_BYTES = 32 };

static const char SOC_MODEL[] = "BM1684";

typedef struct {
    const litert_compiler *c;
    process *compiler;
    size_t most; /* operations in a partition; 0: as many as there are */
} plugin;

typedef struct {
    char name[NAME_BYTES];
    char *program;
    size_t size;
} module;

typedef struct {
    module *modules;
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
    *version = TPULAYER_VERSION;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtCreateCompilerPlugin(const litert_compiler *c, litert_handle *made,
                                                       litert_handle environment, litert_handle options) {
    (void)environment;
    (void)options;
    if (c == NULL || made == NULL) return LITERT_BAD_ARGUMENT;
    if (c->abi.struct_size < sizeof *c) {
        fprintf(stderr, "tpulayer: LiteRT: its table has %u bytes, %zu are needed: use ai-edge-litert 2.2 or newer\n",
                c->abi.struct_size, sizeof *c);
        return LITERT_WRONG_VERSION;
    }
    plugin *p = calloc(1, sizeof *p);
    process *compiler = process_new();
    if (p == NULL || compiler == NULL) {
        free(p);
        process_end(compiler);
        return LITERT_NO_MEMORY;
    }
    const char *most = getenv("TPULAYER_LITERT_OPERATIONS");
    *p = (plugin){.c = c, .compiler = compiler, .most = most == NULL ? 0 : strtoul(most, NULL, 10)};
    *made = p;
    return LITERT_OK;
}

LITERT_EXPORT void LiteRtDestroyCompilerPlugin(litert_handle handle) {
    plugin *p = handle;
    if (p == NULL) return;
    process_end(p->compiler);
    free(p);
}

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

/* Push the operations that are chosen; each run of `most` of them becomes a partition of its own. */
static litert_status push(const plugin *p, litert_handle subgraph, litert_handle list, const char *chosen, size_t num) {
    size_t count = 0, found = 0;
    litert_status status = p->c->get_num_subgraph_ops(subgraph, &count);
    if (status == LITERT_OK && count != num) status = LITERT_FAILURE;
    for (size_t i = 0; i < count && status == LITERT_OK; i++) {
        litert_handle op = NULL;
        if (chosen[i] != 1) continue;
        status = p->c->get_subgraph_op(subgraph, i, &op);
        if (status == LITERT_OK) status = p->c->push_op(list, op, p->most == 0 ? 0 : found / p->most);
        found++;
    }
    return status;
}

LITERT_EXPORT litert_status LiteRtCompilerPluginPartition(litert_handle handle, const char *soc_model,
                                                          litert_handle subgraph, litert_handle list) {
    const plugin *p = handle;
    (void)soc_model;
    if (p == NULL || subgraph == NULL || list == NULL) return LITERT_BAD_ARGUMENT;
    bytes message = {0};
    char *chosen = NULL;
    size_t num = 0;
    litert_status status = message_of(p->c, subgraph, "partition", &message);
    if (status == LITERT_OK) status = process_select(p->compiler, &message, &chosen, &num);
    if (status == LITERT_OK) status = push(p, subgraph, list, chosen, num);
    bytes_free(&message);
    free(chosen);
    return status;
}

LITERT_EXPORT void LiteRtDestroyCompiledResult(litert_handle handle) {
    result *r = handle;
    if (r == NULL) return;
    for (size_t i = 0; i < r->num; i++) free(r->modules[i].program);
    free(r->modules);
    free(r);
}

static litert_status compile_one(const plugin *p, litert_handle model, size_t index, module *made) {
    litert_handle subgraph = NULL;
    bytes message = {0};
    snprintf(made->name, sizeof made->name, "partition_%zu", index);
    litert_status status = p->c->get_model_subgraph(model, index, &subgraph);
    if (status == LITERT_OK) status = message_of(p->c, subgraph, made->name, &message);
    if (status == LITERT_OK) status = process_compile(p->compiler, &message, &made->program, &made->size);
    bytes_free(&message);
    return status;
}

LITERT_EXPORT litert_status LiteRtCompilerPluginCompile(litert_handle handle, const char *soc_model,
                                                        litert_handle model, litert_handle *made) {
    const plugin *p = handle;
    size_t num = 0;
    (void)soc_model;
    if (p == NULL || model == NULL || made == NULL) return LITERT_BAD_ARGUMENT;
    litert_status status = p->c->get_num_model_subgraphs(model, &num);
    if (status != LITERT_OK) return status;
    result *r = calloc(1, sizeof *r);
    if (r == NULL) return LITERT_NO_MEMORY;
    r->modules = calloc(num + 1, sizeof *r->modules);
    if (r->modules == NULL) status = LITERT_NO_MEMORY;
    for (size_t i = 0; i < num && status == LITERT_OK; i++) {
        r->num = i + 1;
        status = compile_one(p, model, i, &r->modules[i]);
    }
    if (status != LITERT_OK) {
        LiteRtDestroyCompiledResult(r);
        return status;
    }
    *made = r;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtCompiledResultNumByteCodeModules(litert_handle handle, size_t *num) {
    if (handle == NULL || num == NULL) return LITERT_BAD_ARGUMENT;
    *num = ((const result *)handle)->num;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetCompiledResultByteCode(litert_handle handle, size_t index, const void **data,
                                                            size_t *size) {
    const result *r = handle;
    if (r == NULL || data == NULL || size == NULL) return LITERT_BAD_ARGUMENT;
    if (index >= r->num) return LITERT_INDEX;
    *data = r->modules[index].program;
    *size = r->modules[index].size;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtGetNumCompiledResultCalls(litert_handle handle, size_t *num) {
    return LiteRtCompiledResultNumByteCodeModules(handle, num); /* each module has one entry */
}

LITERT_EXPORT litert_status LiteRtGetCompiledResultCallInfo(litert_handle handle, size_t index, const void **info,
                                                            size_t *size, size_t *bytecode) {
    const result *r = handle;
    if (r == NULL || info == NULL || size == NULL || bytecode == NULL) return LITERT_BAD_ARGUMENT;
    if (index >= r->num) return LITERT_INDEX;
    *info = r->modules[index].name;
    *size = strlen(r->modules[index].name);
    *bytecode = index;
    return LITERT_OK;
}
