/* Kernels that use the process that a native firmware runs in, for tests/firmware/test_leftovers.py. */
#define _GNU_SOURCE
#include "okk.h"

#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KERNEL(NAME) \
    void NAME(const void *args); OKKERNEL_FUNC_REGISTER(NAME) \
    void NAME(const void *args)
static volatile int sink;
static volatile float third = 3.0f;

KERNEL(fine) { *(int *)okk_global_mem_addr(*(const unsigned long long *)args) = 7; }
KERNEL(computes) { *(float *)okk_global_mem_addr(*(const unsigned long long *)args) = 1.0f / third; }

static void *waits_forever(void *argument) { for (;;) pause(); return argument; }
static void *ends(void *argument) { return argument; }
static void *crashes(void *argument) { usleep(200000); *(volatile int *)0 = 1; return argument; }
KERNEL(leaves_a_thread) { pthread_t t; pthread_create(&t, NULL, waits_forever, NULL); }
KERNEL(leaves_a_thread_that_crashes) { pthread_t t; pthread_create(&t, NULL, crashes, NULL); }
KERNEL(joins_a_thread) { pthread_t t; pthread_create(&t, NULL, ends, NULL); pthread_join(t, NULL); }
KERNEL(leaves_files) { sink = open("/dev/null", O_RDONLY) + open("/dev/zero", O_RDONLY); }
KERNEL(opens_and_closes) { close(open("/dev/null", O_RDONLY)); }
KERNEL(closes_files) { for (int i = 3; i < 64; i++) close(i); }
KERNEL(closes_all_files) { for (int i = 0; i < 1024; i++) close(i); }
KERNEL(closes_standard_files) { for (int i = 0; i < 3; i++) close(i); }
KERNEL(forks) { sink = fork(); }
KERNEL(forks_and_waits) { if (fork() == 0) _exit(0); wait(NULL); }
KERNEL(starts_a_program) { if (fork() == 0) { execl("/bin/sleep", "sleep", "1000", NULL); _exit(1); } }
KERNEL(leaves_a_timer) { alarm(1); }
KERNEL(leaves_another_timer) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &(struct itimerspec){.it_value = {0, 50000000}}, NULL);
}
static void ignores(int number) { sink = number; }
KERNEL(handles_a_signal) { signal(SIGUSR1, ignores); }
KERNEL(goes_elsewhere) { sink = chdir("/"); umask(0); }
KERNEL(speaks_otherwise) { sink = setlocale(LC_ALL, "C.UTF-8") == NULL && uselocale(newlocale(LC_ALL_MASK, "C", NULL)) == NULL; }
KERNEL(sets_variables) { setenv("ONE_MORE", "1", 1); }
KERNEL(removes_variables) { unsetenv("PATH"); }
KERNEL(limits_its_files) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
}
KERNEL(turns_its_output_away) { int file = open("/dev/null", O_WRONLY); dup2(file, 1); close(file); }
KERNEL(closes_its_input) { close(0); }
KERNEL(rounds_up) { fesetround(FE_UPWARD); }
KERNEL(traps) { feenableexcept(FE_ALL_EXCEPT); }
KERNEL(flushes) {
#if defined __x86_64__
    __asm__ volatile("ldmxcsr %0" : : "m"((unsigned){0x9FC0}));
#endif
}
KERNEL(turns_copies_round) {
#if defined __x86_64__
    __asm__ volatile("std");
#endif
}
KERNEL(blocks_signals) { sigset_t all; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, NULL); }
KERNEL(ignores_crashes) { signal(SIGSEGV, SIG_IGN); signal(SIGABRT, SIG_IGN); }
KERNEL(null_pointer) { *(volatile int *)0 = 1; /* null_pointer */ }
KERNEL(writes_into_files) { for (int i = 3; i < 64; i++) sink = (int)write(i, "some text that nobody expects, and more of it", 45); }
KERNEL(reads_from_files) { static char text[64]; for (int i = 3; i < 8; i++) sink = fcntl(i, F_SETFL, O_NONBLOCK) + (int)read(i, text, 64); }
KERNEL(unmaps) { munmap((void *)((size_t)&sink & ~0xFFFul), 4096); sink = 1; /* unmaps */ }
KERNEL(over_globals) { memset((void *)(size_t)&sink, 0x41, 1 << 20); sink = 1; }
KERNEL(exits) { exit(0); }
KERNEL(kills_itself) { kill(getpid(), SIGKILL); }
KERNEL(stops_itself) { raise(SIGSTOP); }
KERNEL(many_processes) { for (int i = 0; i < 3; i++) if (fork() == 0) for (;;) sink++; for (;;) sink++; /* many_processes */ }
KERNEL(limits_memory) { signal(SIGXCPU, SIG_IGN); sink = nice(5); }
