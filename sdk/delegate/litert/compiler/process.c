#define _GNU_SOURCE
#include "process.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bmlib_internal.h"

/* Requests of user_layers/delegates/serve.py. */
enum { OP_SELECT = 128, OP_COMPILE };

static const char LIBRARY[] = "tpulayer: LiteRT", FRAMEWORK[] = "TFLite";

struct process {
    connection server;
    int is_started;
    pthread_mutex_t lock;
};

/* What connection.c says goes to stderr, in one piece each. */
void bmlib_say(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    fprintf(stderr, "%s\n", text == NULL ? "out of memory" : text);
    free(text);
}

process *process_new(void) {
    process *p = calloc(1, sizeof *p);
    if (p != NULL) pthread_mutex_init(&p->lock, NULL);
    return p;
}

void process_end(process *p) {
    if (p == NULL) return;
    if (p->is_started) connection_close(&p->server);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static bm_status_t start(process *p) {
    if (p->is_started && !p->server.ended) return BM_SUCCESS;
    if (p->is_started) connection_close(&p->server); /* it was stopped, or has crashed: the next question starts anew */
    p->is_started = 0;
    p->server = (connection){0};
    snprintf(p->server.name, sizeof p->server.name, "the compiler");
    if (connection_start(&p->server, "user_layers.delegates.serve", 0, -1) != 0) return BM_ERR_FAILURE;
    p->is_started = 1;
    uint64_t protocol = 0;
    question hello = {.library = LIBRARY, .function = "start", .value = &protocol};
    bm_status_t status = connection_reply(&p->server, &hello);
    if (status != BM_SUCCESS || protocol == CONNECTION_PROTOCOL) return status;
    bmlib_say("%s: the plugin and the toolkit it starts are of different versions; set up again", LIBRARY);
    return BM_ERR_FAILURE;
}

static litert_status ask(process *p, uint32_t op, const bytes *message, char **taken, size_t *size) {
    pthread_mutex_lock(&p->lock);
    bm_status_t status = start(p);
    if (status == BM_SUCCESS) {
        question q = {.library = LIBRARY,
                      .function = op == OP_SELECT ? "Partition" : "Compile",
                      .head = {.op = op, .data_bytes = message->size},
                      .text = FRAMEWORK,
                      .data = message->data,
                      .taken = taken,
                      .taken_bytes = size};
        status = connection_ask(&p->server, &q);
    }
    pthread_mutex_unlock(&p->lock);
    return status == BM_SUCCESS ? LITERT_OK : op == OP_SELECT ? LITERT_FAILURE : LITERT_COMPILATION;
}

litert_status process_select(process *p, const bytes *message, char **chosen, size_t *num) {
    return ask(p, OP_SELECT, message, chosen, num);
}

litert_status process_compile(process *p, const bytes *message, char **program, size_t *size) {
    return ask(p, OP_COMPILE, message, program, size);
}
