/* A firmware that does and answers what the fuzzer tells it: tests/fuzz/messages.py. The arguments of a launch are
 * the calls to make, six words each, then the reply to give to this and to all later requests. */
#include <stdint.h>
#include <string.h>

#include "fw_message.h"

enum { FLUSH = 1, GROUP = 2, LOG = 3, ANSWER = 4 };

typedef struct {
    uint32_t what, a, b, c, d, e;
} call;

static const fw_platform *platform;
static uint8_t answer[1 << 16];
static uint32_t announced, held;

int32_t fw_boot(const fw_platform *given) {
    platform = given;
    return 0;
}

uint32_t fw_handle(const uint8_t *request, uint32_t bytes, uint8_t *reply, uint32_t capacity) {
    fw_request head;
    memcpy(&head, request, sizeof head);
    const uint8_t *at = request + sizeof head + sizeof(fw_launch), *end = request + bytes;
    while (head.op == FW_OP_LAUNCH && (uint32_t)(end - at) >= sizeof(call)) {
        call c;
        memcpy(&c, at, sizeof c);
        at += sizeof c;
        if (c.what == FLUSH) {
            platform->flush(c.a, c.b, c.c);
        } else if (c.what == GROUP) {
            fw_group group = {c.a | (uint64_t)c.b << 32, c.c | (uint64_t)c.b << 32, c.d, c.e};
            platform->run_group(&group);
        } else if (c.what == LOG) {
            platform->log((const char *)platform->l2, c.a);
        } else if (c.what == ANSWER) {
            announced = c.a;
            held = (uint32_t)(end - at) < sizeof answer ? (uint32_t)(end - at) : (uint32_t)sizeof answer;
            memcpy(answer, at, held);
            break;
        }
    }
    memcpy(reply, answer, held < capacity ? held : capacity);
    return announced;
}
