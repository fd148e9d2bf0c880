#define _GNU_SOURCE
#include "bmlib_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toolkit_home.h"

#define LIMIT 600      /* s without an answer; the device stops kernels long before */
#define LAUNCHES 10    /* times the time limit of one launch, where that is longer */
#define FOREVER 1000000 /* s */

extern char **environ;

/* The environment for a child. In a library opened with RTLD_DEEPBIND (LiteRT does it) `environ` is the C library's
 * own, which stays empty where the program has a copy: one at a fixed address, as Debian's python3 is. */
static char **environment(void) {
    void *program = dlopen(NULL, RTLD_LAZY); /* RTLD_DEFAULT would search from here on */
    char ***programs = program != NULL ? (char ***)dlsym(program, "environ") : NULL;
    char **found = programs != NULL && *programs != NULL ? *programs : environ;
    if (program != NULL) dlclose(program);
    return found;
}

static long limit_seconds(const connection *c) {
    if (c->limit > 0) return c->limit;
    const char *text = getenv("TPULAYER_HOST_LIMIT"), *of_launch = getenv("TPULAYER_TIME_LIMIT");
    char *end;
    if (text != NULL && *text != 0) {
        long seconds = strtol(text, &end, 10);
        if (*end == 0 && seconds > 0 && seconds <= FOREVER) return seconds;
    }
    if (of_launch == NULL || *of_launch == 0) return LIMIT;
    double launch = strtod(of_launch, &end);
    if (*end != 0 || launch < 0) return LIMIT;
    if (launch == 0 || launch > FOREVER / LAUNCHES) return FOREVER;
    return launch * LAUNCHES > LIMIT ? (long)(launch * LAUNCHES) : LIMIT;
}

/* Only our own child: a program that ignores SIGCHLD has its children reaped, and the number may be another's
 * then. */
static void stop(connection *c) {
    c->ended = 1;
    if (waitpid(c->pid, NULL, WNOHANG) == 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
}

static const char *library(const question *q) { return q->library == NULL ? "bmlib" : q->library; }

/* Wait until the socket is ready. The limit starts again for every piece that passes. */
static bm_status_t ready(connection *c, const question *q, short events) {
    struct pollfd poller = {.fd = c->fd, .events = events};
    long left = limit_seconds(c) * (1 + (long)c->started); /* all of these may lie before the answer */
    for (; left > 0; left--) {
        int n = poll(&poller, 1, 1000);
        if (n > 0) return BM_SUCCESS;
        if (n < 0 && errno != EINTR) break;
    }
    bmlib_say("%s: %s gave no answer for %ld s and was stopped; TPULAYER_HOST_LIMIT sets another limit", library(q),
              c->name, limit_seconds(c));
    stop(c);
    return BM_ERR_TIMEOUT;
}

static bm_status_t gone(connection *c, const question *q) {
    bmlib_say("%s: %s is gone: its process has ended", library(q), c->name);
    c->ended = 1;
    return BM_ERR_DEVNOTREADY;
}

static bm_status_t write_all(connection *c, const question *q, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        bm_status_t status = ready(c, q, POLLOUT);
        if (status != BM_SUCCESS) return status;
        ssize_t n = send(c->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return gone(c, q);
        at += n;
        size -= (size_t)n;
    }
    return BM_SUCCESS;
}

static bm_status_t read_all(connection *c, const question *q, void *data, size_t size) {
    char *at = data;
    while (size > 0) {
        bm_status_t status = ready(c, q, POLLIN);
        if (status != BM_SUCCESS) return status;
        ssize_t n = recv(c->fd, at, size, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return gone(c, q);
        at += n;
        size -= (size_t)n;
    }
    return BM_SUCCESS;
}

bm_status_t connection_send(connection *c, const question *q) {
    if (c->ended) return gone(c, q);
    request_head head = q->head;
    head.text_bytes = q->text == NULL ? 0 : (uint32_t)strlen(q->text);
    bm_status_t status = write_all(c, q, &head, sizeof head);
    if (status == BM_SUCCESS) status = write_all(c, q, q->text, head.text_bytes);
    if (status == BM_SUCCESS) status = write_all(c, q, q->data, head.data_bytes);
    return status;
}

bm_status_t connection_reply(connection *c, const question *q) {
    reply_head head;
    bm_status_t status = read_all(c, q, &head, sizeof head);
    if (status != BM_SUCCESS) return status;
    if (c->greeted) status = read_all(c, q, &c->executed, sizeof c->executed);
    if (status != BM_SUCCESS) return status;
    c->greeted = 1;
    if (q->taken == NULL && head.data_bytes > q->capacity) return gone(c, q); /* what comes is not a reply */
    char *text = calloc(1, (size_t)head.text_bytes + 1);
    char *taken = q->taken == NULL ? NULL : malloc((size_t)head.data_bytes + 1);
    if (text == NULL || (q->taken != NULL && taken == NULL)) {
        free(text);
        free(taken);
        return gone(c, q);
    }
    status = read_all(c, q, text, head.text_bytes);
    if (status == BM_SUCCESS) status = read_all(c, q, q->taken == NULL ? q->out : taken, head.data_bytes);
    if (status == BM_SUCCESS && q->came != NULL) *q->came = (size_t)head.data_bytes;
    if (status == BM_SUCCESS && head.text_bytes > 0) bmlib_say("%s: %s", library(q), text);
    free(text);
    if (status == BM_SUCCESS) status = (bm_status_t)head.status;
    if (status != BM_SUCCESS) {
        free(taken);
        return status;
    }
    if (q->value != NULL) *q->value = head.value;
    if (q->taken != NULL) {
        *q->taken = taken;
        *q->taken_bytes = (size_t)head.data_bytes;
    }
    return BM_SUCCESS;
}

bm_status_t connection_ask(connection *c, const question *q) {
    bm_status_t status = connection_send(c, q);
    return status == BM_SUCCESS ? connection_reply(c, q) : status;
}

/* Start the process with its end of the socket; 0 or an errno value. */
static int spawn(connection *c, const toolkit_home *home, const char *module, int their_fd, int number, int more_fd) {
    /* -c and not -m: that would look for the standard library in the current folder first */
    const char *boot = "import sys\n"
                       "from importlib import import_module\n"
                       "sys.path[:] = [p for p in [*sys.path, sys.argv[1]] if p]\n"
                       "try: import firmware_sim\n"
                       "except ModuleNotFoundError: sys.exit('bmlib: ' + sys.executable + ' has no tpulayer; '\n"
                       "    'set TPULAYER_PYTHON to the python of one that has')\n"
                       "import_module(sys.argv[2]).main()\n";
    char fd_text[16], number_text[16], more_text[16];
    snprintf(fd_text, sizeof fd_text, "%d", their_fd);
    snprintf(number_text, sizeof number_text, "%d", number);
    snprintf(more_text, sizeof more_text, "%d", more_fd);
    char *argv[] = {(char *)home->python, "-c", (char *)boot, (char *)home->path, (char *)module,
                    fd_text, number_text, more_text, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, their_fd, their_fd); /* keeps it open over exec */
    if (more_fd >= 0) posix_spawn_file_actions_adddup2(&actions, more_fd, more_fd);
    int error = posix_spawnp(&c->pid, home->python, &actions, NULL, argv, environment());
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int connection_start(connection *c, const char *module, int number, int more_fd) {
    toolkit_home home;
    int fds[2], error = toolkit_home_find(&home);
    if (error != 0) return error;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        error = errno;
        free(home.texts);
        return error;
    }
    c->fd = fds[0];
    error = spawn(c, &home, module, fds[1], number, more_fd);
    close(fds[1]);
    if (error != 0) {
        bmlib_say("bmlib: %s cannot be started: %s; set TPULAYER_PYTHON to the toolkit's python", home.python,
                  strerror(error));
        close(fds[0]);
    }
    free(home.texts);
    return error;
}

void connection_close(connection *c) {
    close(c->fd);
    stop(c);
}
