/* The copy of a host program whose kernels are linked into it. It holds no device and runs no kernel: for each device
 * process that boots it forks once more, tells how that process ended, and ends it with its device process.
 */
#define _GNU_SOURCE
#include "bmlib_program.h"
#include "bmlib_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fw_internal.h"

/* The newest process with kernels. channel: a second descriptor of its socket, which tells when the device process is
 * gone; life: a pipe that it holds open. Both -1 without one. */
typedef struct {
    pid_t pid;
    int channel, life;
} runner;

int program_has_kernels(void) { return fw_kernel_count() > 0; }

static void reap(runner *r, int stop) {
    int status = 0;
    if (r->life < 0) return;
    if (stop) kill(r->pid, SIGKILL);
    while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR) {
    }
    program_message ended = {.kind = FROM_ENDED, .c = (uint32_t)status};
    if (!stop) (void)program_send(r->channel, ended, NULL);
    close(r->channel);
    close(r->life);
    r->channel = r->life = -1;
}

static void close_all(int *fds, int count) {
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

/* 0 at the end of the socket. */
static int receive(int control, program_boot *boot, int fds[PROGRAM_FDS]) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * PROGRAM_FDS)];
    } rights;
    struct iovec piece = {.iov_base = boot, .iov_len = sizeof *boot};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = rights.room,
                             .msg_controllen = sizeof rights.room};
    ssize_t n;
    do n = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (n != (ssize_t)sizeof *boot || head == NULL || head->cmsg_len != CMSG_LEN(sizeof(int) * PROGRAM_FDS)) return 0;
    memcpy(fds, CMSG_DATA(head), sizeof(int) * PROGRAM_FDS);
    return 1;
}

static void begin(runner *r, int control, const program_boot *boot, int fds[PROGRAM_FDS]) {
    int life[2];
    if (pipe(life) != 0) {
        close_all(fds, PROGRAM_FDS);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(control);
        close(life[0]);
        program_run(boot, fds);
    }
    close(life[1]);
    close_all(fds, PROGRAM_FDS - 1);
    if (pid < 0) { /* the device process finds its socket closed */
        close(life[0]);
        close(fds[PROGRAM_FDS - 1]);
        return;
    }
    *r = (runner){.pid = pid, .channel = fds[PROGRAM_FDS - 1], .life = life[0]};
}

__attribute__((noreturn)) static void serve(int control) {
    runner r = {.pid = 0, .channel = -1, .life = -1};
    for (;;) {
        struct pollfd wait[] = {{.fd = control, .events = POLLIN}, {.fd = r.channel}, {.fd = r.life}};
        if (poll(wait, 3, -1) < 0) continue;
        if (wait[2].revents != 0) reap(&r, 0);
        else if (wait[1].revents != 0) reap(&r, 1);
        if (wait[0].revents == 0) continue;
        program_boot boot;
        int fds[PROGRAM_FDS];
        reap(&r, 1);
        if (!receive(control, &boot, fds)) _exit(0);
        begin(&r, control, &boot, fds);
    }
}

/* Nothing of the program goes on in its copy: no descriptors (a pipe would never end for who reads it), no handlers. */
static void detach(int keep) {
    struct rlimit none = {0, 0};
    sigset_t all;
    long most = sysconf(_SC_OPEN_MAX);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    signal(SIGINT, SIG_IGN); /* Ctrl-C belongs to the program, and so does a hangup of its terminal */
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setrlimit(RLIMIT_CORE, &none);
    int highest = most > 0 && most < 65536 ? (int)most : 65536;
    for (int fd = 3; fd < highest; fd++)
        if (fd != keep) close(fd);
}

int program_server_start(void) {
    int fds[2];
    if (fw_kernel_count() == 0) return -1;
    fflush(stdout); /* what is in it would come out once more */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        bmlib_say("bmlib: no socket for the program's kernels: %s", strerror(errno));
        return -2;
    }
    pid_t pid = fork();
    if (pid == 0) { /* once more, so that the program has no child that it does not know */
        pid_t second = fork();
        if (second != 0) _exit(second < 0);
        detach(fds[1]);
        serve(fds[1]);
    }
    int status = pid < 0, got = 0;
    while (pid > 0 && (got = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    close(fds[1]);
    if (pid > 0 && (got < 0 || status == 0)) return fds[0]; /* got < 0: a program that ignores SIGCHLD */
    bmlib_say("bmlib: the process for the program's kernels cannot be started");
    close(fds[0]);
    return -2;
}
