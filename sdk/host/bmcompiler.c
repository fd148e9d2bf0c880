/* The compiler of p_bmcpl is a process running user_layers/bmcompiler/server.py; each call is a message to it, with
 * the function's name and its arguments.
 */
#define _GNU_SOURCE
#include "bmcompiler_internal.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"

#define LIBRARY "bmcompiler"
#define NO_ARRAY 0xFFFFFFFFu
#define LARGEST 0x7FFFFFFF /* numbers in one array */
#define SLACK 0x100000     /* the most by which a message is made larger than it must be */

enum { OP_LIBRARY = 64, OP_CALL, OP_TENSOR_BYTES, OP_MADE_DIMS, OP_GIVEN_SHAPES }; /* server.py */

typedef struct compiler {
    connection server;
    const char *failed; /* the function that did, or NULL */
    struct compiler *next;
} compiler;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list and the count */
static compiler *live;
static int errors;

static void count_error(void) {
    pthread_mutex_lock(&lock);
    errors++;
    pthread_mutex_unlock(&lock);
}

int bmcompiler_errors(void) {
    pthread_mutex_lock(&lock);
    int found = errors;
    pthread_mutex_unlock(&lock);
    return found;
}

static void say(const char *function, const char *what) {
    fprintf(stderr, LIBRARY ": %s: %s\n", function, what);
    count_error();
}

/* ---- messages ---- */

message message_begin(const char *function) { return (message){.function = function}; }

static void put(message *m, const void *data, size_t size) {
    if (m->wrong != NULL) return;
    if (m->size + size > m->room) {
        const size_t needed = m->size + size;
        const size_t room = needed + (needed < SLACK ? needed : SLACK);
        char *larger = realloc(m->data, room);
        if (larger == NULL) {
            m->wrong = "out of memory";
            return;
        }
        m->data = larger;
        m->room = room;
    }
    if (size > 0) memcpy(m->data + m->size, data, size);
    m->size += size;
}

void put_int(message *m, int value) { put(m, &(int32_t){value}, 4); }
void put_float(message *m, float value) { put(m, &value, 4); }

/* The count in front of an array; 0 when there is none to follow. */
static int64_t put_count(message *m, const void *array, int64_t count) {
    if (count > LARGEST) m->wrong = "an array is too large";
    const uint32_t sent = array == NULL ? NO_ARRAY : count < 0 ? 0 : (uint32_t)count;
    put(m, &sent, 4);
    return array == NULL || count < 0 ? 0 : count;
}

void put_bytes(message *m, const void *data, int64_t size) { put(m, data, (size_t)put_count(m, data, size)); }
void put_text(message *m, const char *text) { put_bytes(m, text, text == NULL ? 0 : (int64_t)strlen(text)); }

void put_ints(message *m, const int *values, int64_t count) {
    put(m, values, 4 * (size_t)put_count(m, values, count));
}

void put_floats(message *m, const float *values, int64_t count) {
    put(m, values, 4 * (size_t)put_count(m, values, count));
}

void put_texts(message *m, const char *const *texts, int64_t count) {
    const int64_t n = put_count(m, texts, count);
    for (int64_t i = 0; i < n && m->wrong == NULL; i++) put_text(m, texts[i]);
}

void put_shapes(message *m, const int *const *shapes, const int *dims, int64_t count) {
    const int64_t n = put_count(m, dims == NULL ? NULL : (const void *)shapes, count);
    for (int64_t i = 0; i < n && m->wrong == NULL; i++) put_ints(m, shapes[i], dims[i]);
}

int64_t product_of(message *m, const int64_t *terms, int count, int64_t per) {
    int64_t product = 1;
    for (int i = 0; i < count; i++) {
        if (terms[i] <= 0) return 0;
        if (__builtin_mul_overflow(product, terms[i], &product)) {
            m->wrong = "an array is too large";
            return 0;
        }
    }
    return per < 1 ? 0 : product / per;
}

int64_t extents(const int *shape, int dims, int axis, int number) {
    if (axis < 0) axis += dims;
    if (shape == NULL || axis < 0 || axis >= dims) return number == 0 || dims == 0;
    const int end = number < 0 || number > dims - axis ? dims : axis + number;
    int64_t product = 1;
    for (int d = axis; d < end; d++) {
        if (shape[d] <= 0 || __builtin_mul_overflow(product, (int64_t)shape[d], &product)) return 0;
    }
    return product;
}

const int *first_shape(const int *const *shapes, int count) { return shapes == NULL || count < 1 ? NULL : shapes[0]; }
int first_int(const int *values, int count) { return values == NULL || count < 1 ? 0 : values[0]; }

/* ---- compilers ---- */

/* Takes it out of the list, too, when `remove` is set. */
static compiler *find(void *p_bmcpl, int remove) {
    pthread_mutex_lock(&lock);
    compiler **at = &live;
    while (*at != NULL && *at != p_bmcpl) at = &(*at)->next;
    compiler *found = *at;
    if (found != NULL && remove) *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Ask the process; q has all but the library. Whatever fails makes the compiler one that failed. */
static bm_status_t ask(compiler *c, question q, const char *function) {
    q.library = LIBRARY;
    q.function = function;
    bm_status_t status = connection_ask(&c->server, &q);
    if (status != BM_SUCCESS) {
        count_error();
        if (c->failed == NULL) c->failed = function;
    }
    return status;
}

static int is_text(const message *m) { /* what the library itself found out about the arguments */
    if (m->wrong == NULL) return 1;
    say(m->function, m->wrong);
    return 0;
}

/* The answer to a call: its value and its data. */
static bm_status_t call(compiler *c, message *m, uint64_t *value, char **data, size_t *size) {
    bm_status_t status = BM_ERR_PARAM;
    if (is_text(m)) {
        question q = {.head = {.op = OP_CALL, .data_bytes = m->size}, .text = m->function, .data = m->data,
                      .value = value, .taken = data, .taken_bytes = size};
        status = ask(c, q, m->function);
    } else if (c->failed == NULL) {
        c->failed = m->function;
    }
    free(m->data);
    return status;
}

/* The compiler that a call is for; NULL when it cannot take it, and the message is freed then. */
static compiler *enter(void *p_bmcpl, message *m) {
    compiler *c = find(p_bmcpl, 0);
    if (c == NULL)
        say(m->function, "this is not a p_bmcpl that create_bmcompiler or create_bmcompiler_dir gave and nothing ended");
    else if (c->failed == NULL)
        return c;
    else
        count_error(); /* its first error was told */
    free(m->data);
    return NULL;
}

void put_arrays(message *m, void *p_bmcpl, const char *const *names, float *const *data, int64_t count) {
    compiler *c = find(p_bmcpl, 0);
    const int64_t n = put_count(m, names == NULL ? NULL : (const void *)data, count);
    for (int64_t i = 0; i < n && m->wrong == NULL; i++) {
        uint64_t bytes = 0;
        if (c != NULL && c->failed == NULL && names[i] != NULL && data[i] != NULL) {
            question q = {.head = {.op = OP_TENSOR_BYTES}, .text = names[i], .value = &bytes};
            (void)ask(c, q, m->function); /* a name that is unknown has been told, and call() sees that it failed */
        }
        put_bytes(m, data[i], (int64_t)bytes);
    }
}

/* Into *data: the path of this library; found when it holds `live`. */
static int find_library(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    const uintptr_t address = (uintptr_t)&live;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || address < begin) continue;
        if (address - begin < info->dlpi_phdr[i].p_memsz) *(const char **)data = info->dlpi_name;
    }
    return 0;
}

static void end(compiler *c) {
    connection_close(&c->server);
    free(c);
}

void *message_create(message *m) {
    compiler *c = calloc(1, sizeof *c);
    if (c == NULL) {
        say(m->function, "out of memory");
        free(m->data);
        return NULL;
    }
    snprintf(c->server.name, sizeof c->server.name, "the compiler");
    if (connection_start(&c->server, "user_layers.bmcompiler.server", 0, -1) != 0) { /* it has said why */
        count_error();
        free(m->data);
        free(c);
        return NULL;
    }
    const char *path = "";
    (void)dl_iterate_phdr(find_library, &path);
    uint64_t protocol = 0;
    question hello = {.library = LIBRARY, .function = m->function, .value = &protocol};
    bm_status_t status = connection_reply(&c->server, &hello);
    if (status != BM_SUCCESS) count_error();
    if (status == BM_SUCCESS && protocol != CONNECTION_PROTOCOL) {
        say(m->function, "libbmcompiler.so and the toolkit it starts are of different versions; build_layers again");
        status = BM_ERR_DEVNOTREADY;
    }
    if (status == BM_SUCCESS) status = ask(c, (question){.head = {.op = OP_LIBRARY}, .text = path}, m->function);
    char *data = NULL;
    size_t size = 0;
    if (status == BM_SUCCESS)
        status = call(c, m, NULL, &data, &size);
    else
        free(m->data);
    free(data);
    if (status != BM_SUCCESS) {
        end(c);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    c->next = live;
    live = c;
    pthread_mutex_unlock(&lock);
    return c;
}

int message_value(void *p_bmcpl, message *m) {
    compiler *c = enter(p_bmcpl, m);
    uint64_t value = 0;
    char *data = NULL;
    size_t size = 0;
    if (c == NULL || call(c, m, &value, &data, &size) != BM_SUCCESS) return -1;
    free(data);
    return (int)value;
}

void message_call(void *p_bmcpl, message *m) { (void)message_value(p_bmcpl, m); }

void message_shapes(void *p_bmcpl, const char *function, const int *const *shapes, int count) {
    compiler *c = find(p_bmcpl, 0);
    if (c == NULL || c->failed != NULL) return; /* that has been told */
    char *dims = NULL;
    size_t bytes = 0;
    question q = {.head = {.op = OP_MADE_DIMS}, .text = function, .taken = &dims, .taken_bytes = &bytes};
    if (ask(c, q, function) != BM_SUCCESS) return;
    message m = message_begin(function);
    put_shapes(&m, shapes, (const int *)(void *)dims, bytes == 4 * (size_t)count ? count : 0);
    free(dims);
    if (is_text(&m)) {
        q = (question){.head = {.op = OP_GIVEN_SHAPES, .data_bytes = m.size}, .text = function, .data = m.data};
        (void)ask(c, q, function);
    } else {
        c->failed = function;
    }
    free(m.data);
}

void message_data(void *p_bmcpl, message *m, void **data, unsigned int *size) {
    char *got = NULL;
    size_t bytes = 0;
    compiler *c = find(p_bmcpl, 1);
    if (data != NULL) *data = NULL;
    if (size != NULL) *size = 0;
    if (c == NULL) {
        (void)enter(p_bmcpl, m);
        return;
    }
    if (c->failed != NULL && strcmp(m->function, "delete_bmcompiler") != 0) {
        fprintf(stderr, LIBRARY ": %s: nothing is written, because %s failed\n", m->function, c->failed);
        count_error();
        free(m->data);
    } else if (call(c, m, NULL, &got, &bytes) == BM_SUCCESS && data != NULL && size != NULL) {
        *data = got;
        *size = (unsigned int)bytes;
        got = NULL;
    }
    free(got);
    end(c);
}

void message_end(void *p_bmcpl, message *m) { message_data(p_bmcpl, m, NULL, NULL); }
