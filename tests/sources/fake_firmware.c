/* A firmware of its own for tests/firmware/test_device.py: every request is a small "kernel", good or bad. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fw_message.h"

#define AT(field) offsetof(fw_platform, field)
const uint32_t platform_layout[] = {
    AT(abi_version), AT(capacity), AT(bd),        AT(gdma), AT(bd_site),  AT(gdma_site),
    AT(ddr),         AT(ddr_bytes), AT(local),    AT(l2),   AT(dtcm),     AT(flush),
    AT(run_group),   AT(log),      AT(activity),  AT(activity_bytes), AT(filtered),
    AT(bd_layer),    AT(gdma_layer), AT(frames),  AT(ddr_reserved), AT(newest),
    AT(watch),
    sizeof(fw_platform),
};

static const fw_platform *P;
static uint32_t bd, gdma;

#ifdef FAST_MATH
#include <xmmintrin.h>
__attribute__((constructor)) static void like_crtfastmath(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
#endif

int32_t fw_boot(const fw_platform *platform) {
#ifdef BOOT_CODE
    return BOOT_CODE;
#endif
#ifdef BOOT_CRASH
    *(volatile int *)8 = 1;
#endif
    if (platform->abi_version != FW_ABI_VERSION) return -1;
    P = platform;
    return 0;
}

static int32_t flush(uint32_t reason) {
    int32_t status = P->flush(bd, gdma, reason);
    bd = gdma = 0;
    return status;
}

__attribute__((noinline)) void issue_bd(uint32_t command, uint32_t a, uint32_t b) {
    uint32_t *w = (uint32_t *)(P->bd + (size_t)bd * CHIP_DESCRIPTOR_BYTES);
    memset(w, 0, CHIP_DESCRIPTOR_BYTES);
    w[0] = command, w[1] = a, w[2] = b;
    P->bd_site[bd++] = (uint64_t)(uintptr_t)&issue_bd + 1;
}

static void issue_gdma(uint32_t command, uint32_t a, uint32_t b) {
    uint32_t *w = (uint32_t *)(P->gdma + (size_t)gdma * CHIP_DESCRIPTOR_BYTES);
    memset(w, 0, CHIP_DESCRIPTOR_BYTES);
    w[0] = command, w[1] = a, w[2] = b;
    P->gdma_site[gdma++] = 0;
}

static volatile int sink, zero;

__attribute__((noinline)) static int deep(int n) {
    volatile char frame[4096];
    memset((void *)frame, n, sizeof frame);
    return deep(n + 1) + frame[n & 4095];
}

static int32_t kernel(const char *name, const uint32_t *arg, char *text) {
#define IS(s) (strcmp(name, s) == 0)
    if (IS("store")) {
        issue_bd(1, arg[0], arg[1]);
        return flush(FW_FLUSH_POLL);
    }
    if (IS("store_pointer")) memcpy(P->ddr + arg[0], &arg[1], 4);
    if (IS("store_unpolled")) issue_bd(1, arg[0], arg[1]);
    if (IS("empty")) return 0;
    if (IS("segv")) *(volatile int *)0 = 1;
    if (IS("past_l2")) memset(P->l2 + (4 << 20) - 1, 1, 2);
    if (IS("past_ddr")) P->ddr[P->ddr_bytes] = 1;
    if (IS("abort")) abort();
    if (IS("exit")) exit(3);
    if (IS("div")) sink = sink / zero;
    if (IS("trap")) __builtin_trap();
    if (IS("stack")) sink = deep(0);
    if (IS("spin"))
        for (;;) sink++;
    if (IS("sleep"))
        for (;;) usleep(100000);
    if (IS("stream"))
        for (;;) {
            issue_bd(0, 0, 0);
            if (bd == 1000) flush(FW_FLUSH_FULL); /* and never looks at the answer */
        }
    if (IS("poll_forever"))
        for (;;) flush(FW_FLUSH_POLL);
    if (IS("too_many")) bd = 70000;
    if (IS("refuse")) {
        issue_bd(1, 0, 1);
        issue_bd(2, 0, 0);
        return flush(FW_FLUSH_POLL);
    }
    if (IS("bug")) {
        issue_bd(3, 0, 0);
        return flush(FW_FLUSH_POLL);
    }
    if (IS("engine_time")) {
        issue_bd(4, 0, arg[0]);
        return flush(FW_FLUSH_POLL);
    }
    if (IS("denormal")) {
        issue_bd(5, arg[0], 0);
        return flush(FW_FLUSH_POLL);
    }
    if (IS("many")) {
        for (uint32_t i = 0; i < arg[0]; i++) {
            if (bd == P->capacity) flush(FW_FLUSH_FULL);
            issue_bd(0, i, 0);
        }
        return flush(FW_FLUSH_POLL);
    }
    if (IS("log")) {
        P->log("first", 5);
        P->log("sec\nond and more", 7);
    }
    if (IS("printf")) printf("printed by a kernel\n");
    if (IS("log_forever"))
        for (;;) P->log("again", 5);
    if (IS("fail")) {
        strcpy(text, "text of the firmware");
        return FW_STATUS_ASSERT;
    }
    if (IS("fail_at")) {
        sprintf(text, "okk_x: wrong [called at 0x%llx]", (unsigned long long)(uintptr_t)&issue_bd + 4);
        return FW_STATUS_ASSERT;
    }
    if (IS("fail_silent")) return -77;
    if (IS("activity")) {
        snprintf(P->activity, P->activity_bytes, "layer deep_inside (TPU_X), global function");
        abort();
    }
    if (IS("long_activity")) {
        memset(P->activity, 'x', P->activity_bytes);
        abort();
    }
    if (IS("mess_up")) memset(P->ddr + arg[0], 0x5a, arg[1]);
    return 0;
}

#ifndef QUERY_CUT
#define QUERY_CUT 0 /* bytes missing at the end of its answer */
#endif

/* QUERY answers two layers and two kernels; STREAMS runs the groups; SHAPE returns the inputs' shapes reversed as outputs;
 * PROGRAM records or runs BDs. */
uint32_t fw_handle(const uint8_t *request, uint32_t bytes, uint8_t *reply, uint32_t capacity) {
    const fw_request *head = (const fw_request *)request;
    const uint8_t *body = request + sizeof *head;
    fw_reply *out = (fw_reply *)reply;
    uint8_t *answer = reply + sizeof *out;
    char text[512] = "";
    (void)capacity;
    bd = gdma = 0;
    out->status = 0;
    out->bytes = 0;
    if (bytes != sizeof *head + head->bytes) out->status = FW_STATUS_BAD_MESSAGE;
    if (head->op == FW_OP_QUERY) {
        struct {
            fw_info info;
            fw_layer_info layers[2];
            char kernels[9];
        } all = {{FW_ABI_VERSION, 2, 2, 0},
                 {{0, 8, 0x123456789abcdef0ull, "TPU_ONE"}, {7, 0, 1, "TPU_TWO"}},
                 "one\0two\0"};
        memcpy(answer, &all, sizeof all);
        out->bytes = sizeof all.info + sizeof all.layers + sizeof all.kernels - QUERY_CUT;
    } else if (head->op == FW_OP_LAUNCH) {
        const fw_launch *launch = (const fw_launch *)body;
        if (strcmp(launch->name, "no_reply") == 0) return 0;
        if (strcmp(launch->name, "long_reply") == 0) {
            out->bytes = 1 << 20;
            return 100;
        }
        out->status = kernel(launch->name, (const uint32_t *)(body + sizeof *launch), text);
        if (out->status >= 0 && (bd || gdma)) out->status = flush(FW_FLUSH_END);
    } else if (head->op == FW_OP_SHAPE) {
        const fw_layer_call *call = (const fw_layer_call *)body;
        const fw_tensor *in = (const fw_tensor *)(call + 1);
        const uint8_t *param = (const uint8_t *)(in + call->in_num);
        const int32_t *host = (const int32_t *)(param + ((call->param_bytes + 7) & ~7u));
        fw_tensor *t = (fw_tensor *)answer;
        int32_t sum = 0;
        for (uint32_t i = 0; i < call->host_bytes / 4; i++) sum += host[i];
        for (uint32_t i = 0; i < call->out_num; i++) {
            t[i] = in[i % call->in_num];
            t[i].shape[0] = sum, t[i].shape[1] = param[0];
            t[i].host_offset = i == 0 ? 0 : FW_NONE;
            t[i].elem_num = i == 0 ? 2 : 0;
        }
        int32_t values[2] = {-7, call->op_type};
        memcpy(t + call->out_num, values, 8);
        out->bytes = call->out_num * sizeof(fw_tensor) + 8;
    } else if (head->op == FW_OP_STREAMS) {
        const fw_streams *s = (const fw_streams *)body;
        const fw_group *g = (const fw_group *)(s + 1);
        for (uint32_t i = 0; i < s->group_count && out->status == 0; i++) out->status = P->run_group(&g[i]);
    } else if (head->op == FW_OP_PROGRAM) {
        const fw_run *run = (const fw_run *)body;
        if (run->mode == FW_MODE_FIXED) {
            const fw_program *program = (const fw_program *)(run + 1);
            if (program->magic != FW_PROGRAM_MAGIC || !(head->flags & FW_FLAG_RECORD)) out->status = -100;
            if (program->step_count == 2) /* a program that cannot be recorded */
                P->run_group(&(fw_group){0});
            issue_bd(1, 1, 1), issue_gdma(1, 2, 2);
            flush(FW_FLUSH_POLL);
            issue_bd(1, 3, 3);
            flush(FW_FLUSH_STEP);
            flush(FW_FLUSH_SPLIT);
            issue_bd(1, 4, 4);
            flush(FW_FLUSH_STEP);
            flush(FW_FLUSH_STEP);
            flush(FW_FLUSH_END);
        } else {
            const fw_tensor *in = (const fw_tensor *)(run + 1);
            memcpy(answer, in + run->in_num, run->out_num * sizeof *in);
            ((fw_tensor *)answer)->shape[0] = (int32_t)run->neuron_bytes;
            ((fw_tensor *)answer)->addr = run->program_addr + run->program_bytes + run->neuron_addr + run->coeff_addr;
            out->bytes = run->out_num * sizeof *in;
        }
    }
    if (out->status < 0) {
        out->bytes = (uint32_t)strlen(text) + 1;
        memcpy(answer, text, out->bytes);
    }
    return sizeof *out + out->bytes;
}
