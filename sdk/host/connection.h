/* A Python process of the toolkit that works for a C library, and requests to it over a socket. Both sides
 * must agree on the two heads below; the other one is firmware_sim/device/host_server.py. A reply's text is a
 * message and goes to stderr. No locks here: one thread at a time uses a connection.
 */
#ifndef TPULAYER_CONNECTION_H_
#define TPULAYER_CONNECTION_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bmlib_runtime.h"

#define CONNECTION_PROTOCOL 6 /* PROTOCOL of host_server.py */

typedef struct {
    uint32_t op, text_bytes;
    uint64_t a, b, c;
    uint64_t data_bytes;
} request_head;

typedef struct {
    int32_t status;
    uint32_t text_bytes;
    uint64_t value, data_bytes;
} reply_head;

/* Behind every head but the first, which says the version and is the same in all of them: what the device has executed
 * so far, and its modelled time. */
typedef struct {
    uint64_t commands, cycles;
} reply_executed;

typedef struct {
    int fd;
    pid_t pid;
    char name[24];        /* what the process stands for in messages: "device 0" */
    unsigned int started; /* requests without a reply that may lie before the next one */
    int ended;            /* the process is gone, or was stopped */
    long limit;           /* s to wait for an answer; 0: the usual ones */
    int greeted;          /* the first reply has come */
    reply_executed executed; /* of the newest reply */
} connection;

typedef struct {
    const char *library;  /* begins what is printed, "bmlib" when NULL */
    const char *function; /* of the caller's library */
    request_head head;
    bool launches;        /* counts as one in the profile */
    const char *text;     /* or NULL */
    const void *data;     /* head.data_bytes of it */
    uint64_t *value;      /* of the reply, or NULL */
    void *out;            /* room for the reply's data */
    size_t capacity;
    char **taken;         /* or: gets the reply's data from malloc, of any size */
    size_t *taken_bytes;
    size_t *came;         /* or NULL: bytes of the reply's data in `out`, also where the call failed because checks
                             found something once all was done */
} question;

/* Start the process: `main` of a Python module, with the socket, `number` and `more_fd` (a descriptor that it
 * inherits, or -1) as arguments. Before any request the
 * caller reads its first reply, whose value is the protocol's version. 0 or an errno value, with a message. */
int connection_start(connection *c, const char *module, int number, int more_fd);
/* Ends the process, which holds nothing that needs tidying up. */
void connection_close(connection *c);
bm_status_t connection_send(connection *c, const question *q);
/* Prints the reply's text; its status, or what kept it from coming. */
bm_status_t connection_reply(connection *c, const question *q);
bm_status_t connection_ask(connection *c, const question *q);

#endif
