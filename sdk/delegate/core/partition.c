/* Partitions: each has a runtime with one net on its device's handle, whose memory is mapped where that is possible. */
#define _GNU_SOURCE
#include "core.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bm1684_chip.h"
#include "bmlib_emulated.h"

#pragma weak tpulayer_executed

/* The memory of an input or output of the net. at: mapped, or NULL; staging: where it is not, room to convert in. */
typedef struct {
    bm_device_mem_t memory;
    char *at, *staging;
    size_t bytes;
} room;

enum { SEEN = 16 }; /* sets of shapes whose outputs' shapes are remembered */

struct tpld_partition {
    core_member member; /* first, so that its address is the partition's */
    core_program program;
    core_device *device;
    void *runtime; /* NULL while nothing is loaded */
    room *rooms;   /* of each tensor of the program */
    tpld_counters_info counted;
    int64_t *seen[SEEN]; /* or NULL; TPLD_MAX_RANK extents of each tensor */
    int seen_next;       /* to be replaced */
};

static uint32_t tensor_num(const tpld_partition *p) { return p->program.input_num + p->program.output_num; }
static core_tensor *input(const tpld_partition *p, uint32_t i) { return &p->program.tensors[i]; }
static core_tensor *output(const tpld_partition *p, uint32_t i) { return &p->program.tensors[p->program.input_num + i]; }

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- loading ---- */

static void unload(core_member *m, bool foreign) {
    tpld_partition *p = (tpld_partition *)m;
    for (uint32_t i = 0; i < tensor_num(p); i++) {
        room *r = &p->rooms[i];
        if (r->at != NULL) (void)bm_mem_unmap_device_mem(core_handle(p->device), r->at, (int)r->bytes);
        free(r->staging);
        memset(r, 0, sizeof *r);
    }
    if (p->runtime != NULL && !foreign) bmrt_destroy(p->runtime);
    p->runtime = NULL;
}

/* Whether a tensor of the program is one of the net, in its compiled shape. */
static bool fits(const core_tensor *t, const char *what, int num, const bm_data_type_t *dtypes, const bm_shape_t *shapes) {
    if (t->place < 0) return true;
    bool good = t->place < num && (int32_t)dtypes[t->place] == t->held;
    if (good) {
        const bm_shape_t *shape = &shapes[t->place];
        good = shape->num_dims == (t->now.rank > 0 ? t->now.rank : 1);
        for (int i = 0; i < t->now.rank && good; i++) good = shape->dims[i] == t->most[t->order[i]];
        if (good && t->now.rank == 0) good = shape->dims[0] == 1;
    }
    if (!good) (void)core_fail(TPLD_BAD_PROGRAM, "%s '%s' is not what the net has there", what, t->now.name);
    return good;
}

static bool has_all(const core_tensor *tensors, uint32_t count, int num) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].place >= 0 && tensors[i].place < 64) seen |= (uint64_t)1 << tensors[i].place;
    return num <= 64 && seen == (num == 64 ? ~(uint64_t)0 : ((uint64_t)1 << num) - 1);
}

static int check_net(tpld_partition *p, const bm_net_info_t *info) {
    const core_program *g = &p->program;
    for (uint32_t i = 0; i < g->input_num; i++)
        if (!fits(input(p, i), "input", info->input_num, info->input_dtypes, info->stages[0].input_shapes))
            return TPLD_BAD_PROGRAM;
    for (uint32_t i = 0; i < g->output_num; i++)
        if (!fits(output(p, i), "output", info->output_num, info->output_dtypes, info->stages[0].output_shapes))
            return TPLD_BAD_PROGRAM;
    if (!has_all(g->tensors, g->input_num, info->input_num) ||
        !has_all(g->tensors + g->input_num, g->output_num, info->output_num))
        return core_fail(TPLD_BAD_PROGRAM, "the net has other inputs or outputs than the partition");
    return TPLD_OK;
}

static int make_room(tpld_partition *p, room *r, const core_tensor *t, bm_device_mem_t memory) {
    r->memory = memory;
    r->bytes = bm_mem_get_device_size(memory);
    unsigned long long at;
    /* Cards on PCIe map nothing; there copies go through the driver, from a place of the net's layout. */
    if (bm_mem_mmap_device_mem(core_handle(p->device), &r->memory, &at) == BM_SUCCESS) {
        r->at = (char *)(uintptr_t)at;
    } else if (!core_is_plain(t) && (r->staging = malloc(r->bytes)) == NULL) {
        return core_fail(TPLD_FAILED, "out of memory for '%s'", t->now.name);
    }
    return TPLD_OK;
}

static int load_net(tpld_partition *p) {
    core_listen();
    p->runtime = bmrt_create(core_handle(p->device));
    if (p->runtime == NULL)
        return core_fail(TPLD_FAILED, "device %s", core_heard("cannot be used by libbmrt, which does not say why"));
    const bm_net_info_t *info = NULL;
    if (!bmrt_load_bmodel_data(p->runtime, p->program.bmodel, p->program.bmodel_bytes) ||
        (info = bmrt_get_network_info(p->runtime, p->program.name)) == NULL)
        return core_fail(TPLD_BAD_PROGRAM, "partition '%s' cannot be loaded: %s", p->program.name,
                         core_heard("libbmrt does not say why"));
    if (info->stage_num < 1) return core_fail(TPLD_BAD_PROGRAM, "partition '%s' has no stage", p->program.name);
    int status = check_net(p, info);
    for (uint32_t i = 0; i < tensor_num(p) && status == TPLD_OK; i++) {
        const core_tensor *t = &p->program.tensors[i];
        if (t->place < 0) continue;
        const bm_device_mem_t *memories = i < p->program.input_num ? info->stages[0].input_mems
                                                                   : info->stages[0].output_mems;
        status = make_room(p, &p->rooms[i], t, memories[t->place]);
    }
    return status;
}

/* The device is locked and open. A partition is loaded after this, or not at all. */
static int ensure_loaded(tpld_partition *p) {
    if (p->runtime != NULL) return TPLD_OK;
    int status = load_net(p);
    if (status == TPLD_OK) return TPLD_OK;
    unload(&p->member, false);
    return core_is_alive(p->device) ? status : TPLD_FAILED;
}

static void free_partition(tpld_partition *p) {
    for (int i = 0; i < SEEN; i++) free(p->seen[i]);
    core_free_program(&p->program);
    free(p->rooms);
    free(p);
}

int tpld_load(int dev_id, const void *program, size_t bytes, const char *name, tpld_partition **out) {
    if (out == NULL) return core_fail(TPLD_BAD_ARGUMENT, "out is NULL");
    *out = NULL;
    tpld_partition *p = calloc(1, sizeof *p);
    if (p == NULL) return core_fail(TPLD_FAILED, "out of memory");
    int status = core_read_program(program, bytes, name, &p->program);
    if (status == TPLD_OK && (p->rooms = calloc((size_t)tensor_num(p) + 1, sizeof *p->rooms)) == NULL)
        status = core_fail(TPLD_FAILED, "out of memory");
    if (status == TPLD_OK) status = core_enter(dev_id, &p->device);
    if (status != TPLD_OK) {
        free_partition(p);
        return status;
    }
    p->member.unload = unload;
    core_add(p->device, &p->member); /* so that it is unloaded with the others if the device dies */
    status = ensure_loaded(p);
    if (status != TPLD_OK) core_remove(p->device, &p->member);
    core_leave(p->device);
    if (status == TPLD_OK) *out = p;
    else free_partition(p);
    return status;
}

void tpld_destroy(tpld_partition *p) {
    if (p == NULL) return;
    core_lock(p->device);
    unload(&p->member, !core_is_ours(p->device));
    core_remove(p->device, &p->member);
    core_leave(p->device);
    free_partition(p);
}

/* ---- running ---- */

static bm_shape_t net_shape(const core_tensor *t, const int64_t *shape) {
    bm_shape_t made = {.num_dims = t->now.rank > 0 ? t->now.rank : 1, .dims = {1}};
    for (int i = 0; i < t->now.rank; i++) made.dims[i] = (int)shape[t->order[i]];
    return made;
}

static int copy_in(tpld_partition *p, uint32_t index, const void *buffer) {
    const core_tensor *t = input(p, index);
    room *r = &p->rooms[index];
    char *to = r->at != NULL ? r->at : r->staging;
    if (to != NULL && !core_copy_in(t, buffer, to))
        return core_fail(TPLD_BAD_ARGUMENT, "input '%s' of partition '%s' has values beyond 32 bits", t->now.name,
                         p->program.name);
    bm_handle_t handle = core_handle(p->device);
    bm_status_t status;
    if (r->at != NULL) {
        status = bm_mem_flush_device_mem(handle, &r->memory);
    } else {
        size_t bytes = (size_t)t->now.bytes / core_element_bytes(t->now.dtype) * core_element_bytes(t->held);
        status = bm_memcpy_s2d_partial(handle, r->memory, to != NULL ? to : (void *)buffer, (unsigned)bytes);
    }
    if (status == BM_SUCCESS) return TPLD_OK;
    return core_fail(TPLD_FAILED, "input '%s' cannot be copied: %s", t->now.name, core_heard("the device refuses"));
}

static int copy_out(tpld_partition *p, uint32_t index, void *buffer) {
    const core_tensor *t = output(p, index);
    room *r = &p->rooms[p->program.input_num + index];
    bm_handle_t handle = core_handle(p->device);
    bm_status_t status;
    if (r->at != NULL) {
        status = bm_mem_invalidate_device_mem(handle, &r->memory);
    } else {
        size_t bytes = (size_t)t->now.bytes / core_element_bytes(t->now.dtype) * core_element_bytes(t->held);
        status = bm_memcpy_d2s_partial(handle, r->staging != NULL ? r->staging : buffer, r->memory, (unsigned)bytes);
    }
    if (status != BM_SUCCESS)
        return core_fail(TPLD_FAILED, "output '%s' cannot be copied: %s", t->now.name, core_heard("the device refuses"));
    const char *from = r->at != NULL ? r->at : r->staging;
    if (from != NULL) core_copy_out(t, from, buffer);
    return TPLD_OK;
}

/* Commands and cycles that the device has executed; without the toolkit's library none, and the time of the newest launch. */
static void executed(tpld_partition *p, uint64_t *commands, uint64_t *cycles) {
    *commands = *cycles = 0;
    if (tpulayer_executed != NULL) (void)tpulayer_executed(core_handle(p->device), commands, cycles);
}

static uint64_t cycles_of_launch(tpld_partition *p) {
    unsigned long us = 0;
    if (bm_get_last_api_process_time_us(core_handle(p->device), &us) != BM_SUCCESS) return 0;
    return (uint64_t)us * (CHIP_CLOCK_HZ / 1000000);
}

enum { NET_TENSORS = 64 }; /* more than a net has */

/* Run the net with inputs of their shapes now; made: gets the outputs' shapes, by their places. */
static int launch(tpld_partition *p, const int64_t *const *shapes, bm_shape_t *made) {
    bm_tensor_t inputs[NET_TENSORS], outputs[NET_TENSORS];
    int input_num = 0, output_num = 0;
    memset(inputs, 0, sizeof inputs);
    memset(outputs, 0, sizeof outputs);
    for (uint32_t i = 0; i < p->program.input_num; i++) {
        const core_tensor *t = input(p, i);
        if (t->place < 0) continue;
        inputs[t->place] = (bm_tensor_t){.dtype = (bm_data_type_t)t->held,
                                         .shape = net_shape(t, shapes != NULL ? shapes[i] : t->now.shape),
                                         .device_mem = p->rooms[i].memory};
        if (t->place >= input_num) input_num = t->place + 1;
    }
    for (uint32_t i = 0; i < p->program.output_num; i++) {
        const core_tensor *t = output(p, i);
        if (t->place < 0) continue;
        outputs[t->place].device_mem = p->rooms[p->program.input_num + i].memory;
        if (t->place >= output_num) output_num = t->place + 1;
    }
    uint64_t commands, cycles, commands_after, cycles_after;
    executed(p, &commands, &cycles);
    core_listen();
    /* The vendor's library only starts the net. */
    if (!bmrt_launch_tensor_ex(p->runtime, p->program.name, inputs, input_num, outputs, output_num, true, false) ||
        bm_thread_sync(core_handle(p->device)) != BM_SUCCESS)
        return core_fail(TPLD_FAILED, "partition '%s' failed: %s", p->program.name,
                         core_heard("libbmrt does not say why"));
    executed(p, &commands_after, &cycles_after);
    uint64_t took = tpulayer_executed != NULL ? cycles_after - cycles : cycles_of_launch(p);
    tpld_counters_info *both[] = {&p->counted, core_counted(p->device)};
    for (int i = 0; i < 2; i++) {
        both[i]->commands += commands_after - commands;
        both[i]->cycles += took;
        both[i]->has_commands = tpulayer_executed != NULL;
    }
    for (int i = 0; i < output_num; i++) made[i] = outputs[i].shape;
    return TPLD_OK;
}

static int check_made(tpld_partition *p, const bm_shape_t *made) {
    for (uint32_t i = 0; i < p->program.output_num; i++) {
        const core_tensor *t = output(p, i);
        if (t->place < 0) continue;
        bm_shape_t wanted = net_shape(t, t->now.shape);
        if (!bmrt_shape_is_same(&wanted, &made[t->place]))
            return core_fail(TPLD_FAILED, "output '%s' of partition '%s' has another shape than expected", t->now.name,
                             p->program.name);
    }
    return TPLD_OK;
}

static int run(tpld_partition *p, const void *const *inputs, void *const *outputs, tpld_counters_info *now) {
    bm_shape_t made[NET_TENSORS];
    uint64_t begin = nanoseconds();
    int status = TPLD_OK;
    core_listen();
    for (uint32_t i = 0; i < p->program.input_num && status == TPLD_OK; i++) {
        if (input(p, i)->place < 0) continue;
        status = copy_in(p, i, inputs[i]);
        now->bytes_in += input(p, i)->now.bytes;
    }
    now->copy_wall_ns = nanoseconds() - begin;
    if (status == TPLD_OK) status = launch(p, NULL, made);
    if (status == TPLD_OK) status = check_made(p, made);
    uint64_t middle = nanoseconds();
    for (uint32_t i = 0; i < p->program.output_num && status == TPLD_OK; i++) {
        if (output(p, i)->place < 0) continue;
        status = copy_out(p, i, outputs[i]);
        now->bytes_out += output(p, i)->now.bytes;
    }
    now->copy_wall_ns += nanoseconds() - middle;
    now->wall_ns = nanoseconds() - begin;
    return status;
}

static int check_buffers(const tpld_partition *p, const void *const *inputs, void *const *outputs) {
    if ((inputs == NULL && p->program.input_num > 0) || (outputs == NULL && p->program.output_num > 0))
        return core_fail(TPLD_BAD_ARGUMENT, "inputs or outputs is NULL");
    for (uint32_t i = 0; i < p->program.input_num; i++)
        if (inputs[i] == NULL && input(p, i)->place >= 0)
            return core_fail(TPLD_BAD_ARGUMENT, "the buffer of input '%s' is NULL", input(p, i)->now.name);
    for (uint32_t i = 0; i < p->program.output_num; i++)
        if (outputs[i] == NULL && output(p, i)->place >= 0)
            return core_fail(TPLD_BAD_ARGUMENT, "the buffer of output '%s' is NULL", output(p, i)->now.name);
    return TPLD_OK;
}

static void count(tpld_counters_info *to, const tpld_counters_info *now, int status) {
    to->runs += status == TPLD_OK;
    to->failures += status != TPLD_OK;
    to->bytes_in += now->bytes_in;
    to->bytes_out += now->bytes_out;
    to->wall_ns += now->wall_ns;
    to->copy_wall_ns += now->copy_wall_ns;
}

int tpld_execute(tpld_partition *p, const void *const *inputs, void *const *outputs) {
    if (p == NULL) return core_fail(TPLD_BAD_ARGUMENT, "the partition is NULL");
    int status = check_buffers(p, inputs, outputs);
    if (status == TPLD_OK) status = core_reenter(p->device);
    if (status != TPLD_OK) return status;
    tpld_counters_info now = {0};
    status = ensure_loaded(p);
    if (status == TPLD_OK) {
        status = run(p, inputs, outputs, &now);
        if (status == TPLD_FAILED) (void)core_is_alive(p->device);
    }
    count(&p->counted, &now, status);
    count(core_counted(p->device), &now, status);
    core_leave(p->device);
    return status;
}

/* ---- other shapes ---- */

static int check_shapes(const tpld_partition *p, const int64_t *const *shapes, const int *ranks) {
    for (uint32_t i = 0; i < p->program.input_num; i++) {
        const core_tensor *t = input(p, i);
        if (ranks[i] != t->now.rank)
            return core_fail(TPLD_BAD_SHAPES, "input '%s' of partition '%s' has %d dimensions, given are %d", t->now.name,
                             p->program.name, t->now.rank, ranks[i]);
        for (int k = 0; k < t->now.rank; k++) {
            if (shapes[i][k] == t->most[k]) continue;
            if (p->program.dynamic && shapes[i][k] >= 1 && shapes[i][k] <= t->most[k]) continue;
            return core_fail(TPLD_BAD_SHAPES, "input '%s' of partition '%s' has the extent %lld in dimension %d; it was "
                             "compiled for %s%lld", t->now.name, p->program.name, (long long)shapes[i][k], k,
                             p->program.dynamic ? "at most " : "", (long long)t->most[k]);
        }
    }
    return TPLD_OK;
}

static int zero_inputs(tpld_partition *p) {
    bm_handle_t handle = core_handle(p->device);
    char zero = 0;
    for (uint32_t i = 0; i < p->program.input_num; i++) {
        room *r = &p->rooms[i];
        if (input(p, i)->place < 0) continue;
        if (r->at != NULL) memset(r->at, 0, r->bytes);
        if ((r->at != NULL ? bm_mem_flush_device_mem(handle, &r->memory)
                           : bm_memset_device_ext(handle, &zero, 1, r->memory)) != BM_SUCCESS)
            return core_fail(TPLD_FAILED, "an input cannot be cleared: %s", core_heard("the device refuses"));
    }
    return TPLD_OK;
}

static void take_shapes(tpld_partition *p, const int64_t *const *shapes, const bm_shape_t *made) {
    for (uint32_t i = 0; i < p->program.input_num; i++) core_set_shape(input(p, i), shapes[i]);
    for (uint32_t i = 0; i < p->program.output_num; i++) {
        core_tensor *t = output(p, i);
        int64_t shape[TPLD_MAX_RANK];
        memcpy(shape, t->now.shape, sizeof shape);
        for (int k = 0; k < t->now.rank && t->place >= 0; k++) shape[t->order[k]] = made[t->place].dims[k];
        core_set_shape(t, shape);
    }
}

static const int64_t *find_seen(const tpld_partition *p, const int64_t *const *shapes) {
    for (int k = 0; k < SEEN; k++) {
        bool same = p->seen[k] != NULL;
        for (uint32_t i = 0; i < p->program.input_num && same; i++) {
            size_t bytes = (size_t)input(p, i)->now.rank * sizeof(int64_t);
            same = bytes == 0 || memcmp(p->seen[k] + (size_t)i * TPLD_MAX_RANK, shapes[i], bytes) == 0;
        }
        if (same) return p->seen[k];
    }
    return NULL;
}

/* Remembers the shapes that the tensors have now. */
static void remember(tpld_partition *p) {
    const int64_t *shapes[NET_TENSORS];
    if (p->program.input_num > NET_TENSORS) return;
    for (uint32_t i = 0; i < p->program.input_num; i++) shapes[i] = input(p, i)->now.shape;
    if (find_seen(p, shapes) != NULL) return;
    int64_t *made = calloc((size_t)tensor_num(p) + 1, TPLD_MAX_RANK * sizeof *made);
    if (made == NULL) return;
    for (uint32_t i = 0; i < tensor_num(p); i++)
        memcpy(made + (size_t)i * TPLD_MAX_RANK, p->program.tensors[i].now.shape, TPLD_MAX_RANK * sizeof *made);
    free(p->seen[p->seen_next]);
    p->seen[p->seen_next] = made;
    p->seen_next = (p->seen_next + 1) % SEEN;
}

static int try_shapes(tpld_partition *p, const int64_t *const *shapes) {
    const int64_t *seen = find_seen(p, shapes);
    for (uint32_t i = 0; seen != NULL && i < tensor_num(p); i++)
        core_set_shape(&p->program.tensors[i], seen + (size_t)i * TPLD_MAX_RANK);
    if (seen != NULL) return TPLD_OK;
    bm_shape_t made[NET_TENSORS];
    int status = zero_inputs(p);
    if (status == TPLD_OK) status = launch(p, shapes, made);
    for (uint32_t i = 0; i < p->program.output_num && status == TPLD_OK; i++) {
        const core_tensor *t = output(p, i);
        if (t->place >= 0 && t->now.rank > 0 && made[t->place].num_dims != t->now.rank)
            status = core_fail(TPLD_BAD_SHAPES, "output '%s' has another number of dimensions with these", t->now.name);
    }
    if (status == TPLD_OK) take_shapes(p, shapes, made);
    /* Where the device is well, it is the net that does not take them. */
    return status == TPLD_FAILED && core_is_alive(p->device) ? TPLD_BAD_SHAPES : status;
}

int tpld_resize(tpld_partition *p, const int64_t *const *shapes, const int *ranks) {
    if (p == NULL || ((shapes == NULL || ranks == NULL) && p->program.input_num > 0))
        return core_fail(TPLD_BAD_ARGUMENT, "the partition, shapes or ranks is NULL");
    for (uint32_t i = 0; i < p->program.input_num; i++)
        if (shapes[i] == NULL && ranks[i] > 0) return core_fail(TPLD_BAD_ARGUMENT, "shapes[%u] is NULL", i);
    int status = check_shapes(p, shapes, ranks);
    if (status == TPLD_OK) status = core_reenter(p->device);
    if (status != TPLD_OK) return status;
    bool same = true;
    for (uint32_t i = 0; i < p->program.input_num; i++)
        for (int k = 0; k < input(p, i)->now.rank; k++) same &= shapes[i][k] == input(p, i)->now.shape[k];
    if (!same) remember(p);
    if (!same) status = ensure_loaded(p);
    if (!same && status == TPLD_OK) status = try_shapes(p, shapes);
    core_leave(p->device);
    return status;
}

/* ---- what is known ---- */

const char *tpld_name(const tpld_partition *p) { return p == NULL ? "" : p->program.name; }
int tpld_is_dynamic(const tpld_partition *p) { return p != NULL && p->program.dynamic; }
int tpld_input_num(const tpld_partition *p) { return p == NULL ? -1 : (int)p->program.input_num; }
int tpld_output_num(const tpld_partition *p) { return p == NULL ? -1 : (int)p->program.output_num; }
int tpld_layer_num(const tpld_partition *p) { return p == NULL ? -1 : (int)p->program.layer_num; }

static int tell(const tpld_partition *p, uint32_t first, uint32_t count, int index, tpld_tensor *out) {
    if (out == NULL || index < 0 || (uint32_t)index >= count)
        return core_fail(TPLD_BAD_ARGUMENT, "out is NULL, or there is no tensor %d of %u", index, count);
    core_lock(p->device);
    *out = p->program.tensors[first + (uint32_t)index].now;
    core_leave(p->device);
    return TPLD_OK;
}

int tpld_input(const tpld_partition *p, int index, tpld_tensor *out) {
    if (p == NULL) return core_fail(TPLD_BAD_ARGUMENT, "the partition is NULL");
    return tell(p, 0, p->program.input_num, index, out);
}

int tpld_output(const tpld_partition *p, int index, tpld_tensor *out) {
    if (p == NULL) return core_fail(TPLD_BAD_ARGUMENT, "the partition is NULL");
    return tell(p, p->program.input_num, p->program.output_num, index, out);
}

int tpld_layer(const tpld_partition *p, int index, tpld_layer_info *out) {
    if (p == NULL || out == NULL || index < 0 || (uint32_t)index >= p->program.layer_num)
        return core_fail(TPLD_BAD_ARGUMENT, "the partition or out is NULL, or there is no layer %d", index);
    *out = p->program.layers[index];
    return TPLD_OK;
}

int tpld_counters(const tpld_partition *p, tpld_counters_info *out) {
    if (out == NULL) return core_fail(TPLD_BAD_ARGUMENT, "out is NULL");
    memset(out, 0, sizeof *out);
    if (p == NULL) {
        core_count_all(out);
    } else {
        core_lock(p->device);
        *out = p->counted;
        out->reopened = core_counted(p->device)->reopened;
        core_leave(p->device);
    }
    out->ns = (uint64_t)((double)out->cycles * 1e9 / CHIP_CLOCK_HZ);
    return TPLD_OK;
}
