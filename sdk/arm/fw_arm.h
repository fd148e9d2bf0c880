/* The controller's side of the chip: memory map, engine registers, the message ring and what the host
 * reads after a fault. firmware_sim/arm/layout.py is the other side; a test compares the numbers.
 *
 * Bases of memories and engines are the chip's. The registers behind the engines' bases and everything
 * in the link block are this project's own.
 */
#ifndef FW_ARM_H
#define FW_ARM_H

#define FW_ARM_ITCM 0x00000000
#define FW_ARM_ITCM_BYTES 0x80000
#define FW_ARM_DTCM 0x02000000
#define FW_ARM_STACK_BYTES 0x17C00 /* from DTCM's start */
#define FW_ARM_GDMA_REGS 0x58000000
#define FW_ARM_BD_REGS 0x58001000
#define FW_ARM_NEWEST 0x5800F000 /* the newest call of the kernel API, for the same report */
#define FW_ARM_ACTIVITY 0x5800F040 /* what runs now, for the report when it never comes back */
#define FW_ARM_ACTIVITY_BYTES 512
#define FW_ARM_LINK 0x5800F400
#define FW_ARM_WINDOW 0x80000000 /* DDR as the controller sees it, from DDR's start */
#define FW_ARM_WINDOW_BYTES 0x80000000

/* Inside the window, below what programs of the runtime use (0x5100000). */
#define FW_ARM_CODE_BYTES 0x1000000 /* firmware_ddr.bin, and data without initial values */
#define FW_ARM_RING 0x81000000
#define FW_ARM_LOG 0x81010000
#define FW_ARM_LOG_BYTES 0x10000
#define FW_ARM_MESSAGES 0x81100000 /* requests and replies; the ring says where exactly */
#define FW_ARM_MESSAGES_BYTES 0xF00000
#define FW_ARM_BD_ARENA 0x82000000
#define FW_ARM_GDMA_ARENA 0x82800000
#define FW_ARM_ARENA_DESCRIPTORS 0x10000
#define FW_ARM_SITES 0x83000000 /* four arrays of 64-bit numbers: bd_site, gdma_site, bd_layer, gdma_layer */
#define FW_ARM_SCRATCH 0x83200000 /* memory of one request */
#define FW_ARM_SCRATCH_BYTES 0x1000000
#define FW_ARM_HEAP 0x84200000 /* malloc */
#define FW_ARM_HEAP_BYTES 0xE00000
#define FW_ARM_ARGUMENTS 0x85000000 /* a kernel's arguments, at its end: a page that is not there follows */
#define FW_ARM_ARGUMENTS_BYTES 0xFF000
#define FW_ARM_GUARD_BYTES 0x1000

#define FW_ARM_RING_MAGIC 0x474E5246 /* "FRNG" */
#define FW_ARM_RING_SLOTS 16

#define FW_ARM_HEADER_TCM 0x40 /* offset of the header in firmware_tcm.bin; in firmware_ddr.bin it is 0 */
#define FW_ARM_HEADER_BYTES 64

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Data without initial values, in DTCM. */
#define FW_DTCM __attribute__((section(".dtcm")))

/* The registers of one engine. A stream of `count` descriptors starts at the 40-bit address; writing 1
 * to `start` rings the doorbell. The engine clears start when it has done all, and sets done_id. */
typedef struct {
    uint32_t addr_l32, addr_h8, count, start, done_id, status;
} fw_engine_regs;

/* Head and tail count messages and never wrap back; slot = number % FW_ARM_RING_SLOTS. The host writes a
 * slot, then head, and raises the interrupt; the firmware answers in order and counts tail up. */
typedef struct {
    uint32_t request, request_bytes; /* an address in the controller's view */
    uint32_t reply, reply_capacity, reply_bytes;
    uint32_t reserved[3];
} fw_ring_slot;

typedef struct {
    uint32_t magic, slots, head, tail;
    int32_t boot_status; /* of fw_boot */
    uint32_t reserved[3];
    fw_ring_slot slot[FW_ARM_RING_SLOTS];
} fw_ring;

/* Why the controller waits for an interrupt. */
enum { FW_LINK_NONE = 0, FW_LINK_IDLE = 1, FW_LINK_RUN = 2, FW_LINK_LOG = 3, FW_LINK_FAULT = 4 };

/* The link block: written before the controller waits, for whoever looks at it from outside. */
typedef struct {
    uint32_t command;
    uint32_t reason;    /* of FW_LINK_RUN: FW_FLUSH_*, or FW_ARM_RUN_GROUP */
    uint32_t filtered;  /* words that the newest masked copy kept; the engine sets it */
    uint32_t log_bytes; /* in the log buffer */
    uint32_t fault;     /* number of the exception, 0 none: 1 undefined instruction, 2 software
                           interrupt, 3 prefetch abort, 4 data abort, 6 interrupt, 7 fast interrupt */
    uint32_t fault_pc, fault_status, fault_address, fault_lr, fault_sp;
    /* Set before fw_boot: what lies in the window up to here nobody writes, and what lies from the
     * ring to scratch memory is written from these code addresses only. */
    uint32_t code_end, own_start, own_end;
    uint32_t aside; /* not 0 while instructions run that are not the kernel's, and are not counted */
} fw_link;

#define FW_ARM_RUN_GROUP 0x100 /* streams of a bmodel instead of the arenas */

#endif
#endif
