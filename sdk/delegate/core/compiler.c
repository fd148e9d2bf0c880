/* The process behind tpld_ask_compiler, by the connection that libbmlib.so has for its own. */
#include "tpulayer_compiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "core.h"

#pragma weak connection_start
#pragma weak connection_ask
#pragma weak connection_reply
#pragma weak connection_close

enum { OP_ASK = 96 }; /* of serve.py */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static connection server;
static pid_t process; /* that started it; 0: none is running */

static void stop(void) {
    if (process == getpid()) connection_close(&server);
    process = 0;
}

static int start(void) {
    if (process == getpid() && !server.ended) return TPLD_OK;
    stop();
    if (connection_start == NULL)
        return core_fail(TPLD_NO_DEVICE, "the libbmlib.so that is linked here starts no compiler: use the toolkit's");
    memset(&server, 0, sizeof server);
    strcpy(server.name, "the compiler");
    core_listen();
    if (connection_start(&server, "user_layers.delegates.serve", 0, -1) != 0)
        return core_fail(TPLD_NO_DEVICE, "the compiler cannot be started: %s", core_heard("its process does not start"));
    process = getpid();
    uint64_t protocol = 0;
    bm_status_t status = connection_reply(&server, &(question){.library = "tpulayer", .value = &protocol});
    if (status == BM_SUCCESS && protocol == CONNECTION_PROTOCOL) return TPLD_OK;
    stop();
    return core_fail(TPLD_NO_DEVICE, "the compiler cannot be started: %s",
                     core_heard(status == BM_SUCCESS ? "it is of another version" : "its process ended"));
}

int tpld_ask_compiler(const char *json, const void *data, size_t bytes, void **reply, size_t *reply_bytes) {
    if (json == NULL || reply == NULL || reply_bytes == NULL || (data == NULL && bytes > 0))
        return core_fail(TPLD_BAD_ARGUMENT, "json, data, reply or reply_bytes is NULL");
    pthread_mutex_lock(&lock);
    core_hush(true);
    int status = start();
    if (status == TPLD_OK) {
        char *made = NULL;
        core_listen();
        bm_status_t found = connection_ask(&server, &(question){.library = "tpulayer",
                                                                .function = __func__,
                                                                .head = {.op = OP_ASK, .data_bytes = bytes},
                                                                .text = json,
                                                                .data = data,
                                                                .taken = &made,
                                                                .taken_bytes = reply_bytes});
        *reply = made;
        if (found != BM_SUCCESS)
            status = core_fail(server.ended ? TPLD_FAILED : TPLD_BAD_PROGRAM, "%s", core_heard("the compiler failed"));
        if (server.ended) stop();
    }
    core_hush(false);
    pthread_mutex_unlock(&lock);
    return status;
}

void tpld_stop_compiler(void) {
    pthread_mutex_lock(&lock);
    if (connection_close != NULL) stop();
    pthread_mutex_unlock(&lock);
}
