/* The firmware that libbmlib.so has in it, with the kernels of the program, in a copy of that program. The chip and
 * its engines are in the device process; this process has the memories mapped and asks for everything else.
 */
#define _GNU_SOURCE
#include "bmlib_program.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fw_message.h"
#include "fw_native.h"

enum { REPLY_BYTES = 4 << 20, PATH_BYTES = 4096, STACK_BYTES = 65536, REQUEST_MOST = 1 << 30 };

static int channel;
static fw_platform platform;

int program_send(int fd, program_message head, const void *data) {
    const char *parts[] = {(const char *)&head, data};
    size_t left[] = {sizeof head, head.data_bytes};
    for (int i = 0; i < 2; i++) {
        while (left[i] > 0) {
            ssize_t n = send(fd, parts[i], left[i], MSG_NOSIGNAL);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return -1;
            parts[i] += n;
            left[i] -= (size_t)n;
        }
    }
    return 0;
}

/* The device process is gone, and with it the reason to be here. */
static void tell(program_message head, const void *data) {
    if (program_send(channel, head, data) != 0) _exit(0);
}

static void take(void *data, size_t bytes) {
    char *at = data;
    while (bytes > 0) {
        ssize_t n = recv(channel, at, bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0);
        at += n;
        bytes -= (size_t)n;
    }
}

static void program_path(char *path) {
    ssize_t n = readlink("/proc/self/exe", path, PATH_BYTES - 1);
    path[n > 0 ? n : 0] = 0;
}

static void tell_site(uint64_t address) {
    char text[2 * PATH_BYTES] = "";
    Dl_info info;
    struct link_map *map = NULL;
    program_message head = {.kind = FROM_SITE, .data_bytes = 2};
    if (dladdr1((const void *)(uintptr_t)address, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map != NULL) {
        if (map->l_name[0] != 0) snprintf(text, PATH_BYTES, "%s", map->l_name);
        else program_path(text);
        size_t used = strlen(text) + 1;
        snprintf(text + used, PATH_BYTES, "%s", info.dli_sname == NULL ? "" : info.dli_sname);
        head.a = map->l_addr;
        head.b = (uint64_t)(uintptr_t)info.dli_saddr;
        head.data_bytes = (uint32_t)(used + strlen(text + used) + 1);
    }
    tell(head, text);
}

/* The next REQUEST or RESULT; questions about addresses are answered on the way. */
static program_message next(void) {
    for (;;) {
        program_message head;
        take(&head, sizeof head);
        if (head.kind == TO_SITE) {
            tell_site(head.a);
        } else if (head.kind == TO_LABEL) {
            const char *label = (const char *)(uintptr_t)head.a;
            tell((program_message){.kind = FROM_LABEL, .data_bytes = (uint32_t)strlen(label)}, label);
        } else {
            return head;
        }
    }
}

/* ---- what the firmware calls ---- */

static int32_t result(void) {
    program_message head = next();
    platform.filtered = head.d;
    return (int32_t)head.c;
}

static int32_t on_flush(uint32_t bd_num, uint32_t gdma_num, uint32_t reason) {
    tell((program_message){.kind = FROM_FLUSH, .a = bd_num, .b = gdma_num, .c = reason}, NULL);
    return result();
}

static int32_t on_group(const fw_group *group) {
    tell((program_message){.kind = FROM_GROUP, .a = group->bd_addr, .b = group->gdma_addr, .c = group->bd_num,
                           .d = group->gdma_num}, NULL);
    return result();
}

static void on_log(const char *text, uint32_t bytes) {
    tell((program_message){.kind = FROM_LOG, .data_bytes = bytes}, text);
}

/* ---- the process ---- */

static uint8_t *mapped(int fd, uint64_t bytes, uint64_t offset) {
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (at == MAP_FAILED) {
        fprintf(stderr, "bmlib: the memories of the device cannot be mapped: %s\n", strerror(errno));
        _exit(1);
    }
    return at;
}

static void prepare(const program_boot *boot, const int fds[PROGRAM_FDS]) {
    uint8_t *memories = mapped(fds[0], boot->bytes, 0);
    for (uint32_t i = 0; i < boot->guards && i < PROGRAM_GUARDS; i++)
        mprotect(memories + boot->guard[i][0], boot->guard[i][1], PROT_NONE);
    uint8_t *ddr = mapped(fds[0], boot->window_bytes + boot->window_guard, boot->bytes);
    mprotect(ddr + boot->window_bytes, boot->window_guard, PROT_NONE);
    mprotect(ddr, boot->reserved, PROT_READ);
    uint8_t *page = mapped(fds[1], boot->page_bytes, 0);
    uint64_t *sites = (uint64_t *)(void *)(memories + boot->sites);
    platform = (fw_platform){
        .abi_version = boot->abi_version,
        .capacity = boot->arena_capacity,
        .bd = memories + boot->bd,
        .gdma = memories + boot->gdma,
        .bd_site = sites,
        .gdma_site = sites + boot->arena_capacity,
        .bd_layer = sites + 2 * (size_t)boot->arena_capacity,
        .gdma_layer = sites + 3 * (size_t)boot->arena_capacity,
        .ddr = ddr,
        .ddr_bytes = boot->window_bytes,
        .local = memories + boot->local,
        .l2 = memories + boot->l2,
        .dtcm = memories + boot->dtcm,
        .flush = on_flush,
        .run_group = on_group,
        .log = on_log,
        .activity = (char *)page + boot->activity,
        .activity_bytes = (uint32_t)boot->activity_bytes,
        .frames = (uint64_t *)(void *)(page + boot->frames),
        .ddr_reserved = boot->reserved,
        .newest = (volatile uintptr_t *)(void *)(page + boot->newest),
    };
    /* crashes are noted also where the kernel used up its stack */
    static char stack[STACK_BYTES];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
}

void program_run(const program_boot *boot, const int fds[PROGRAM_FDS]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = fds[PROGRAM_FDS - 1];
    setvbuf(stdout, NULL, _IOLBF, 0); /* what a kernel printed before it crashed must be seen */
    prepare(boot, fds);
    char path[PATH_BYTES];
    program_path(path);
    int32_t status = fw_boot(&platform);
    tell((program_message){.kind = FROM_BOOTED, .a = (uint64_t)getpid(), .b = fw_native_image(),
                           .c = (uint32_t)status, .data_bytes = (uint32_t)strlen(path)}, path);
    uint8_t *reply = malloc(REPLY_BYTES);
    for (;;) {
        program_message head = next();
        uint8_t *request = head.data_bytes > REQUEST_MOST ? NULL : malloc((size_t)head.data_bytes + 1);
        if (reply == NULL || request == NULL) _exit(1);
        take(request, head.data_bytes);
        uint32_t size = fw_handle(request, head.data_bytes, reply, REPLY_BYTES);
        free(request);
        fflush(stdout);
        tell((program_message){.kind = FROM_REPLY, .data_bytes = size}, reply);
    }
}
