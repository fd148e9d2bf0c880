/* The firmware on the ARM926EJ-S controller: start, message ring, engine registers, log, faults. Everything
 * waits for interrupts; nothing here spins.
 */
#include "fw_arm.h"

#include <string.h>

#include "fw_heap.h"
#include "fw_internal.h"

#define ENGINE(base) ((volatile fw_engine_regs *)(uintptr_t)(base))
#define LINK ((volatile fw_link *)(uintptr_t)FW_ARM_LINK)
#define RING ((volatile fw_ring *)(uintptr_t)FW_ARM_RING)

void fw_arm_wait(void);
void fw_arm_fault(uint32_t number, uint32_t pc, uint32_t lr, uint32_t sp) __attribute__((noreturn));
void fw_arm_main(void) __attribute__((noreturn));

static FW_DTCM fw_platform platform;

/* ---- to the outside ---- */

static void call_host(uint32_t command) {
    LINK->command = command;
    while (LINK->command != FW_LINK_NONE) fw_arm_wait();
}

static void send_log(const char *text, uint32_t bytes) {
    while (bytes > 0) {
        uint32_t room = FW_ARM_LOG_BYTES - LINK->log_bytes, n = bytes < room ? bytes : room;
        memcpy((char *)(uintptr_t)FW_ARM_LOG + LINK->log_bytes, text, n);
        LINK->log_bytes += n;
        text += n;
        bytes -= n;
        call_host(FW_LINK_LOG);
    }
}

static void doorbell(uint32_t base, uint64_t address, uint32_t count) {
    volatile fw_engine_regs *engine = ENGINE(base);
    engine->addr_l32 = (uint32_t)address;
    engine->addr_h8 = (uint32_t)(address >> 32);
    engine->count = count;
    engine->start = 1;
}

/* Start both engines and wait until they are done; negative when one refused a command. */
static int32_t run_engines(uint64_t bd, uint32_t bd_num, uint64_t gdma, uint32_t gdma_num, uint32_t reason) {
    doorbell(FW_ARM_BD_REGS, bd, bd_num);
    doorbell(FW_ARM_GDMA_REGS, gdma, gdma_num);
    LINK->reason = reason;
    call_host(FW_LINK_RUN);
    platform.filtered = LINK->filtered;
    return ENGINE(FW_ARM_BD_REGS)->status != 0 || ENGINE(FW_ARM_GDMA_REGS)->status != 0 ? -1 : 0;
}

static int32_t flush(uint32_t bd_num, uint32_t gdma_num, uint32_t reason) {
    const uint64_t ddr = CHIP_DDR_BASE - FW_ARM_WINDOW;
    return run_engines(ddr + FW_ARM_BD_ARENA, bd_num, ddr + FW_ARM_GDMA_ARENA, gdma_num, reason);
}

static int32_t run_group(const fw_group *group) {
    return run_engines(group->bd_addr, group->bd_num, group->gdma_addr, group->gdma_num, FW_ARM_RUN_GROUP);
}

/* ---- faults ---- */

void fw_arm_fault(uint32_t number, uint32_t pc, uint32_t lr, uint32_t sp) {
    uint32_t status, address;
    __asm__ volatile("mrc p15, 0, %0, c5, c0, 0" : "=r"(status));
    __asm__ volatile("mrc p15, 0, %0, c6, c0, 0" : "=r"(address));
    LINK->fault_pc = pc;
    LINK->fault_lr = lr;
    LINK->fault_sp = sp;
    LINK->fault_status = status;
    LINK->fault_address = address;
    LINK->fault = number;
    for (;;) call_host(FW_LINK_FAULT);
}

/* ---- start and messages ---- */

static void serve_ring(void) {
    while (RING->tail != RING->head) {
        volatile fw_ring_slot *slot = &RING->slot[RING->tail % FW_ARM_RING_SLOTS];
        slot->reply_bytes = fw_handle((const uint8_t *)(uintptr_t)slot->request, slot->request_bytes,
                                      (uint8_t *)(uintptr_t)slot->reply, slot->reply_capacity);
        RING->tail++;
    }
}

void fw_arm_main(void) {
    extern void (*const __init_array_start[])(void);
    extern void (*const __init_array_end[])(void);
    extern const char __ddr_code_end[], __own_code_start[], __own_code_end[];
    fw_heap_init((void *)(uintptr_t)FW_ARM_HEAP, FW_ARM_HEAP_BYTES);
    for (void (*const *run)(void) = __init_array_start; run < __init_array_end; run++) (*run)();
    uint64_t *sites = (uint64_t *)(uintptr_t)FW_ARM_SITES;
    platform = (fw_platform){
        .abi_version = FW_ABI_VERSION,
        .capacity = FW_ARM_ARENA_DESCRIPTORS,
        .bd = (uint8_t *)(uintptr_t)FW_ARM_BD_ARENA,
        .gdma = (uint8_t *)(uintptr_t)FW_ARM_GDMA_ARENA,
        .bd_site = sites,
        .gdma_site = sites + FW_ARM_ARENA_DESCRIPTORS,
        .bd_layer = sites + 2 * FW_ARM_ARENA_DESCRIPTORS,
        .gdma_layer = sites + 3 * FW_ARM_ARENA_DESCRIPTORS,
        .ddr = (uint8_t *)(uintptr_t)FW_ARM_WINDOW,
        .ddr_bytes = FW_ARM_WINDOW_BYTES,
        .ddr_reserved = FW_ARM_ARGUMENTS + FW_ARM_ARGUMENTS_BYTES + FW_ARM_GUARD_BYTES - FW_ARM_WINDOW,
        .local = (uint8_t *)(uintptr_t)CHIP_LOCAL_BASE,
        .l2 = (uint8_t *)(uintptr_t)CHIP_L2_BASE,
        .dtcm = (uint8_t *)(uintptr_t)CHIP_DTCM_BASE,
        .flush = flush,
        .run_group = run_group,
        .log = send_log,
        .activity = (char *)(uintptr_t)FW_ARM_ACTIVITY,
        .activity_bytes = FW_ARM_ACTIVITY_BYTES,
        .newest = (volatile uintptr_t *)(uintptr_t)FW_ARM_NEWEST,
    };
    LINK->code_end = (uint32_t)(uintptr_t)__ddr_code_end;
    LINK->own_start = (uint32_t)(uintptr_t)__own_code_start;
    LINK->own_end = (uint32_t)(uintptr_t)__own_code_end;
    RING->magic = FW_ARM_RING_MAGIC;
    RING->slots = FW_ARM_RING_SLOTS;
    RING->head = RING->tail = 0;
    RING->boot_status = fw_boot(&platform);
    for (;;) {
        call_host(FW_LINK_IDLE);
        if (RING->boot_status == 0) serve_ring();
    }
}
