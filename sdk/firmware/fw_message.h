/* What passes between the runtime and the firmware: requests, replies, and the program format.
 *
 * Everything is little endian with fixed widths and explicit padding, so the 64-bit host and the
 * 32-bit controller see the same bytes. Numbers and structs are in fw_wire.h, made from firmware_sim/wire.py,
 * the other side.
 *
 * A program is a list of steps over a table of tensors. A static compile lets the firmware run one
 * with fixed addresses while the descriptors are recorded; a dynamic net stores one whose tensors
 * get their shapes and addresses in the firmware when it runs.
 */
#ifndef FW_MESSAGE_H
#define FW_MESSAGE_H

#include "bm1684_chip.h"
#include "fw_wire.h"

/* The parts of a payload follow one another in the order listed with FW_OP_*, each at the next multiple of 8
 * from the payload's start (zero bytes between), so that tensors and host data are aligned. */

/* ---- native build only: how the device process and firmware.so call each other ---- */

#define FW_FRAMES 16

enum { FW_FLUSH_POLL = 0, FW_FLUSH_FULL = 1, FW_FLUSH_SPLIT = 2, FW_FLUSH_END = 3, FW_FLUSH_STEP = 4,
       FW_FLUSH_CALL = 6 };
enum { FW_FLUSH_ACCESSES = 5 }; /* the log of accesses is full; no commands are handed over */

/* What the controller's own code does in memory that the engines use too, and who issued commands. */
enum { FW_ACCESSES = 4096, FW_CHAINS = 8192, FW_ARENA = 65536 };
enum { FW_SPACE_LOCAL = 0, FW_SPACE_DDR = 1, FW_SPACE_L2 = 2 };

typedef struct {
    uint64_t offset, bytes; /* in that memory */
    uint32_t bd, gdma;      /* commands that were issued and not handed over yet */
    uint32_t chain;         /* where the code is, as below */
    uint8_t space, write, reserved[2];
} fw_access;

/* on: the device wants to know. Counts and chains are those of one request, but for access_count, which the device
 * sets to 0 when it has taken the log. A chain is the code address
 * behind the call, or the access, and those of the calls around it, innermost first, up to a 0; chain 0 is empty. */
typedef struct {
    uint32_t on, access_count, chain_count, reserved;
    fw_access accesses[FW_ACCESSES];
    uint64_t chains[FW_CHAINS][FW_FRAMES];
    uint32_t bd_chain[FW_ARENA], gdma_chain[FW_ARENA]; /* of each command in the arenas */
} fw_watch;

typedef struct {
    uint32_t abi_version;
    uint32_t capacity;   /* descriptors that each arena holds */
    uint8_t *bd;         /* arenas in shared memory, CHIP_DESCRIPTOR_BYTES per descriptor */
    uint8_t *gdma;
    uint64_t *bd_site;   /* code address that issued each descriptor */
    uint64_t *gdma_site;
    uint8_t *ddr;        /* memories as the native firmware's pointers see them */
    uint64_t ddr_bytes;
    uint8_t *local;
    uint8_t *l2;
    uint8_t *dtcm;
    /* Hands over what the arenas hold and returns when it is done (executed, or recorded). POLL: the
     * kernel waits; FULL: arenas full or ids about to run out in a free kernel; SPLIT: the same while
     * recording, where a new command group begins; END: the request is finished. After FULL and SPLIT ids
     * restart at 0. STEP: after each step of a program (also one that
     * issued nothing): while recording the device knows by it which step a command belongs to; a dynamic one hands
     * nothing over with it, but the next step has a time limit of its own. CALL, only in requests with
     * FW_FLAG_CALLS: a layer's function is about to be called, or has returned, and nothing is handed over;
     * bd_num and gdma_num are the low and high half of the address of a text that says which, with what (fw_layers.c),
     * and which may change when the call returns. Returns 0, or negative when
     * the device refuses (the text is the device's own). */
    int32_t (*flush)(uint32_t bd_num, uint32_t gdma_num, uint32_t reason);
    int32_t (*run_group)(const fw_group *group); /* starts both engines on streams in DDR and waits */
    void (*log)(const char *text, uint32_t bytes);
    /* What runs now, for the report when it never comes back: the device process reads this text after a
     * crash. The firmware writes it, NUL-terminated and cut to activity_bytes, before it calls any code
     * that is not its own: a phrase that begins an English sentence, such as "kernel plus_one" or
     * "layer crop_1 (TPU_CROP), global function". Restoring the previous phrase after the call is not
     * needed: the device process sets one for the whole request before fw_handle. Plain stores, no flush.
     * activity may be NULL (then activity_bytes is 0). */
    char *activity;
    uint32_t activity_bytes;
    uint32_t filtered; /* words that the newest masked copy kept; the device sets it in flush */
    /* Which layer of a net issued each descriptor: address of its NUL-terminated label, which lives until
     * the request ends, or 0 outside layers. */
    uint64_t *bd_layer;
    uint64_t *gdma_layer;
    /* FW_FRAMES numbers, all 0 until the image crashes: the return addresses on the stack then, innermost
     * first, counted from where the image was loaded (those of other images are senseless). The first is
     * that of the crash itself, plus 1. frames may be NULL. */
    uint64_t *frames;
    /* Bytes at the start of ddr that only the firmware itself writes. */
    uint64_t ddr_reserved;
    /* The code address of the newest call of the kernel API, for reports of an end whose place is not known
     * otherwise. May be NULL. */
    volatile uintptr_t *newest;
    /* May be NULL. */
    fw_watch *watch;
} fw_platform;

/* Exported by firmware.so. fw_handle runs one request and returns the bytes of the reply: fw_reply, its payload
 * and, up to the end, the warnings of fw_warn as lines "COUNT TEXT". */
int32_t fw_boot(const fw_platform *platform);
uint32_t fw_handle(const uint8_t *request, uint32_t bytes, uint8_t *reply, uint32_t capacity);

#endif
