/* The message loop: one request in, one reply out. Whatever goes wrong below ends here with a status
 * and a text; nothing of the request is left behind.
 */
#include <string.h>

#include "fw_heap.h"
#include "fw_internal.h"

/* A request being read and its reply being written. Parts of a payload begin at multiples of 8. */
typedef struct {
    const uint8_t *payload;
    uint32_t payload_bytes, read;
    uint8_t *reply; /* the reply's payload */
    uint32_t capacity, written;
    fw_request head;
} message;

static uint32_t aligned8(uint32_t n) { return (n + 7u) & ~7u; }

static const void *take(message *m, uint64_t bytes, const char *what) {
    if (bytes == 0) return m->payload + m->read;
    uint32_t at = aligned8(m->read);
    if (at > m->payload_bytes || bytes > m->payload_bytes - at)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the request ends inside its %s: %llu bytes at %u of %u", what,
                (unsigned long long)bytes, (unsigned)at, (unsigned)m->payload_bytes);
    m->read = at + (uint32_t)bytes;
    return m->payload + at;
}

static void take_end(const message *m) {
    if (m->payload_bytes > aligned8(m->read))
        fw_fail(FW_STATUS_BAD_MESSAGE, "the request has %u bytes behind its last part",
                (unsigned)(m->payload_bytes - m->read));
}

/* Room for bytes in the reply. unaligned: directly behind the last part. */
static uint8_t *put(message *m, uint64_t bytes, bool unaligned) {
    uint32_t at = unaligned ? m->written : aligned8(m->written);
    if (at > m->capacity || bytes > m->capacity - at)
        fw_fail(FW_STATUS_NO_MEMORY, "the reply does not fit into its %u bytes", (unsigned)m->capacity);
    memset(m->reply + m->written, 0, at - m->written);
    m->written = at + (uint32_t)bytes;
    return m->reply + at;
}

/* ---- the requests ---- */

static void op_query(message *m) {
    take_end(m);
    fw_info info = {FW_ABI_VERSION, fw_layer_count(), fw_kernel_count(), 0};
    memcpy(put(m, sizeof info, false), &info, sizeof info);
    for (uint32_t i = 0; i < fw_layer_count(); i++) {
        const tpu_layer_entry_t *layer = fw_layer_at(i);
        fw_layer_info record = {.op_type = layer->op_type, .param_bytes = layer->param_size,
                                .param_hash = layer->param_hash};
        fw_text(record.name, sizeof record.name, "%s", layer->name);
        memcpy(put(m, sizeof record, false), &record, sizeof record);
    }
    for (uint32_t i = 0; i < fw_kernel_count(); i++) {
        const char *name = fw_kernel_name(i);
        memcpy(put(m, strlen(name) + 1, true), name, strlen(name) + 1);
    }
    *put(m, 1, true) = 0;
}

static void op_launch(message *m) {
    fw_launch head;
    memcpy(&head, take(m, sizeof head, "launch header"), sizeof head);
    if (memchr(head.name, 0, sizeof head.name) == NULL)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the kernel's name has more than %d characters", FW_NAME_BYTES);
    const void *sent = take(m, head.arg_bytes, "kernel arguments");
    take_end(m);
    okk_kernel_func_t kernel = fw_kernel_find(head.name);
    if (kernel == NULL)
        fw_fail(FW_STATUS_NO_KERNEL,
                "this firmware has no kernel %s; OKKERNEL_FUNC_REGISTER(%s) in a source that is built makes it known",
                head.name, head.name);
    void *args = fw_platform_arguments(head.arg_bytes);
    if (args == NULL) args = fw_scratch(head.arg_bytes);
    memcpy(args, sent, head.arg_bytes);
    fw.scope = FW_SCOPE_KERNEL;
    fw_set_activity("kernel %s", head.name);
    kernel(args);
    fw_heap_check();
    if (fw.parallel)
        fw_fail(FW_STATUS_ASSERT, "kernel %s returned inside a parallel section%s", head.name, fw_opened());
    fw.api = NULL; /* no call of the kernel's is meant from here on */
    fw.site = NULL;
    fw_flush(FW_FLUSH_END);
}

static void op_shape(message *m) {
    fw_layer_call head;
    memcpy(&head, take(m, sizeof head, "layer call"), sizeof head);
    if (head.in_num > FW_MAX_TENSORS || head.out_num > FW_MAX_TENSORS)
        fw_fail(FW_STATUS_BAD_MESSAGE, "a layer call with %u inputs and %u outputs; at most %d each",
                (unsigned)head.in_num, (unsigned)head.out_num, FW_MAX_TENSORS);
    const uint8_t *tensors = take(m, (uint64_t)head.in_num * sizeof(fw_tensor), "inputs");
    const void *sent = take(m, head.param_bytes, "parameters");
    const uint8_t *host = take(m, head.host_bytes, "host data");
    if (head.scale_num != 0 && head.scale_num != head.out_num)
        fw_fail(FW_STATUS_BAD_MESSAGE, "a layer call with %u outputs and scales of %u", (unsigned)head.out_num,
                (unsigned)head.scale_num);
    const uint8_t *scales = take(m, (uint64_t)head.scale_num * sizeof(float), "scales");
    take_end(m);
    void *param = fw_scratch(head.param_bytes);
    memcpy(param, sent, head.param_bytes);

    tpu_tensor_t in[FW_MAX_TENSORS] = {{0}}, out[FW_MAX_TENSORS]; /* a layer may look at more than it got */
    for (uint32_t i = 0; i < head.in_num; i++) {
        fw_tensor t;
        memcpy(&t, tensors + i * sizeof t, sizeof t);
        fw_tensor_import(&t, &in[i], host, head.host_bytes, "input", i);
    }
    fw_tensor_prepare(out, head.out_num);
    for (uint32_t i = 0; i < head.scale_num; i++) memcpy(&out[i].scale, scales + i * sizeof(float), sizeof(float));

    char label[FW_LABEL_BYTES];
    fw_layer_label(label, NULL, head.op_type);
    fw_layer_args args = {.label = label, .op_type = head.op_type, .param = param,
                          .param_bytes = (int)head.param_bytes, .in = in, .in_num = (int)head.in_num, .out = out,
                          .out_num = (int)head.out_num};
    fw_layer_run(FW_CALL_SHAPE, &args);

    uint8_t *replied = put(m, (uint64_t)head.out_num * sizeof(fw_tensor), false);
    uint32_t host_at = 0;
    for (uint32_t i = 0; i < head.out_num; i++) {
        fw_tensor t;
        fw_tensor_complete(&out[i], label, i);
        fw_tensor_export(&out[i], &t);
        if (out[i].host_data != NULL) {
            t.host_offset = host_at;
            host_at += 4u * (uint32_t)out[i].elem_num;
        }
        memcpy(replied + i * sizeof t, &t, sizeof t);
    }
    put(m, 0, false);
    for (uint32_t i = 0; i < head.out_num; i++)
        if (out[i].host_data != NULL)
            memcpy(put(m, 4u * (uint32_t)out[i].elem_num, true), out[i].host_data, 4u * (size_t)out[i].elem_num);
}

static void op_program(message *m) {
    fw_run head;
    memcpy(&head, take(m, sizeof head, "run header"), sizeof head);
    if (head.in_num > FW_MAX_TENSORS || head.out_num > FW_MAX_TENSORS)
        fw_fail(FW_STATUS_BAD_MESSAGE, "a run with %u inputs and %u outputs; at most %d each", (unsigned)head.in_num,
                (unsigned)head.out_num, FW_MAX_TENSORS);
    const uint8_t *inputs = take(m, (uint64_t)head.in_num * sizeof(fw_tensor), "inputs");
    const uint8_t *outputs = take(m, (uint64_t)head.out_num * sizeof(fw_tensor), "outputs");
    const uint8_t *sent;
    if (head.program_addr == 0) {
        sent = take(m, head.program_bytes, "program");
    } else {
        sent = fw_ddr_pointer(head.program_addr, head.program_bytes);
        if (sent == NULL)
            fw_fail(FW_STATUS_BAD_MESSAGE, "the program, %u bytes at 0x%llx, is not inside DDR",
                    (unsigned)head.program_bytes, (unsigned long long)head.program_addr);
    }
    take_end(m);
    /* A copy: layers may not change the program under our feet, and its parts get aligned. */
    uint8_t *program = fw_scratch(head.program_bytes);
    memcpy(program, sent, head.program_bytes);

    tpu_tensor_t in[FW_MAX_TENSORS], out[FW_MAX_TENSORS];
    for (uint32_t i = 0; i < head.in_num + head.out_num; i++) {
        bool input = i < head.in_num;
        uint32_t index = input ? i : i - head.in_num;
        fw_tensor t;
        memcpy(&t, (input ? inputs : outputs) + index * sizeof t, sizeof t);
        fw_tensor_import(&t, input ? &in[index] : &out[index], NULL, 0, input ? "net input" : "net output", index);
    }
    fw.scope = FW_SCOPE_GLOBAL;
    fw_program_run(program, head.program_bytes, &head, in, out);
    if (fw.parallel) fw_fail(FW_STATUS_BAD_MESSAGE, "the program ends inside a parallel section");
    fw_flush(FW_FLUSH_END);

    uint8_t *replied = put(m, (uint64_t)head.out_num * sizeof(fw_tensor), false);
    for (uint32_t i = 0; i < head.out_num; i++) {
        fw_tensor t;
        fw_tensor_export(&out[i], &t);
        memcpy(replied + i * sizeof t, &t, sizeof t);
    }
}

static void op_streams(message *m) {
    fw_streams head;
    memcpy(&head, take(m, sizeof head, "streams header"), sizeof head);
    const uint8_t *groups = take(m, (uint64_t)head.group_count * sizeof(fw_group), "groups");
    take_end(m);
    if (fw.recording) fw_fail(FW_STATUS_BAD_MESSAGE, "command streams cannot be recorded");
    for (uint32_t i = 0; i < head.group_count; i++) {
        fw_group group;
        memcpy(&group, groups + (size_t)i * sizeof group, sizeof group);
        if (fw.platform->run_group(&group) < 0)
            fw_fail(BM_LAYER_RUNTIME_ERROR, "the device refused command group %u", (unsigned)i);
    }
}

static void serve(void *argument) {
    message *m = argument;
    if (m->payload_bytes != m->head.bytes)
        fw_fail(FW_STATUS_BAD_MESSAGE, "the request announces %u bytes and has %u", (unsigned)m->head.bytes,
                (unsigned)m->payload_bytes);
    if (m->head.flags & ~(FW_FLAG_RECORD | FW_FLAG_CALLS))
        fw_fail(FW_STATUS_BAD_MESSAGE, "unknown request flags 0x%x", (unsigned)m->head.flags);
    fw.recording = (m->head.flags & FW_FLAG_RECORD) != 0;
    fw.announces = (m->head.flags & FW_FLAG_CALLS) != 0;
    switch (m->head.op) {
    case FW_OP_QUERY: op_query(m); return;
    case FW_OP_LAUNCH: op_launch(m); return;
    case FW_OP_SHAPE: op_shape(m); return;
    case FW_OP_PROGRAM: op_program(m); return;
    case FW_OP_STREAMS: op_streams(m); return;
    default: fw_fail(FW_STATUS_BAD_MESSAGE, "unknown request %u", (unsigned)m->head.op);
    }
}

static void tell_left(void) {
    const char *left = fw_platform_left(), *activity = fw.platform->activity;
    if (left == NULL) return;
    fw.layer = NULL; /* the activity names it */
    fw_enter(NULL, NULL);
    fw_warn("%s left %s; this was cleared", activity == NULL || activity[0] == 0 ? "the request" : activity, left);
}

/* ---- the entries ---- */

int32_t fw_boot(const fw_platform *platform) {
    if (platform == NULL || platform->abi_version != FW_ABI_VERSION || platform->capacity == 0) return -1;
    fw.platform = platform;
    if (platform->newest != NULL) fw.newest = platform->newest;
    fw_platform_boot(fw_kernel_code());
    const char *mistake = fw_kernel_registration_error();
    if (mistake == NULL) return 0;
    OKKERNEL_LOG("%s\n", mistake);
    return -1;
}

uint32_t fw_handle(const uint8_t *request, uint32_t bytes, uint8_t *reply, uint32_t capacity) {
    static message m; /* outlives the unwinding */
    fw_reply head = {0, 0};
    if (capacity < sizeof head) return 0;
    fw_streams_reset();
    fw_warnings_reset();
    fw.scope = FW_SCOPE_KERNEL;
    fw.layer = NULL;
    fw.recording = false;
    fw.status = 0;
    memset(&m, 0, sizeof m);
    m.reply = reply + sizeof head;
    m.capacity = capacity - (uint32_t)sizeof head;
    bool served = false;
    if (fw.platform == NULL) {
        fw.status = FW_STATUS_BAD_MESSAGE;
        fw_text(fw.error, sizeof fw.error, "the firmware has not booted");
    } else if (bytes < sizeof m.head) {
        fw.status = FW_STATUS_BAD_MESSAGE;
        fw_text(fw.error, sizeof fw.error, "a request of %u bytes has no header", (unsigned)bytes);
    } else {
        memcpy(&m.head, request, sizeof m.head);
        m.payload = request + sizeof m.head;
        m.payload_bytes = bytes - (uint32_t)sizeof m.head;
        served = fw_platform_try(serve, &m);
        tell_left();
    }
    if (!served) {
        uint32_t length = (uint32_t)strlen(fw.error);
        m.written = length < m.capacity ? length : m.capacity;
        memcpy(m.reply, fw.error, m.written);
        fw_streams_reset(); /* what was not handed over is dropped */
    }
    fw_scratch_release();
    head.status = served ? 0 : fw.status;
    head.bytes = m.written;
    memcpy(reply, &head, sizeof head);
    uint32_t end = (uint32_t)sizeof head + m.written;
    return end + fw_warnings_put(reply + end, capacity - end);
}
