/* The state of the request being served: errors, scratch memory, command ids and the two arenas that
 * descriptors are written to.
 *
 * Ids (found in the vendor's functional model): every command gets the next number of its engine and
 * waits for the newest number of the other engine; inside a parallel section both engines wait for
 * the numbers at its start, and the other engine's new numbers count from its end on.
 */
#include "fw_internal.h"

#include <string.h>

#include "bm1684_fields.h"
#include "fw_arm.h"
#include "fw_format.h"

static volatile uintptr_t nobody_looks;
fw_state fw = {.newest = &nobody_looks};

/* ---- errors ---- */

void fw_fail(int32_t status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fw_format(fw.error, sizeof fw.error, format, arguments);
    va_end(arguments);
    fw.status = status;
    fw_platform_unwind();
}

/* "crop_1: okk_bdc_add: why [called at 0x...]": the host turns the address into file and line. */
static void tell(char *text, size_t capacity, const char *format, va_list arguments) {
    char why[400], called[40] = "";
    fw_format(why, sizeof why, format, arguments);
    if (fw.site != NULL)
        fw_text(called, sizeof called, " [called at 0x%llx]", (unsigned long long)(uintptr_t)fw.site);
    fw_text(text, capacity, "%s%s%s%s%s%s", fw.layer ? fw.layer : "", fw.layer ? ": " : "", fw.api ? fw.api : "",
            fw.api ? ": " : "", why, called);
}

void fw_refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tell(fw.error, sizeof fw.error, format, arguments);
    va_end(arguments);
    fw.status = FW_STATUS_ASSERT;
    fw_platform_unwind();
}

/* ---- warnings ---- */

enum { WARNINGS = 32, WARNING_BYTES = 320 };

static struct {
    const void *site;
    const char *format;
    uint32_t count;
    char text[WARNING_BYTES];
} warnings[WARNINGS];

static uint32_t warning_count;

static void note_warning(const char *format, va_list arguments) {
    uint32_t i = 0;
    while (i < warning_count && (warnings[i].site != fw.site || warnings[i].format != format)) i++;
    if (i == WARNINGS) return;
    warnings[i].count = i < warning_count ? warnings[i].count + 1 : 1;
    if (i < warning_count) return;
    warning_count++;
    warnings[i].site = fw.site;
    warnings[i].format = format;
    tell(warnings[i].text, WARNING_BYTES, format, arguments);
}

void fw_warn(const char *format, ...) {
    va_list arguments;
    fw_platform_aside(true);
    va_start(arguments, format);
    note_warning(format, arguments);
    va_end(arguments);
    fw_platform_aside(false);
}

void fw_warnings_reset(void) { warning_count = 0; }

uint32_t fw_warnings_put(uint8_t *to, uint32_t capacity) {
    uint32_t used = 0;
    fw_platform_aside(true);
    for (uint32_t i = 0; i < warning_count; i++) {
        char line[WARNING_BYTES + 16];
        fw_text(line, sizeof line, "%u %s\n", (unsigned)warnings[i].count, warnings[i].text);
        uint32_t bytes = (uint32_t)strlen(line);
        if (bytes > capacity - used) break;
        memcpy(to + used, line, bytes);
        used += bytes;
    }
    fw_platform_aside(false);
    return used;
}

void fw_field_overflow(const char *field, uint32_t value, uint32_t max) {
    if (value > 0x7FFFFFFFu) fw_refuse("%d in %s is negative; it counts from 0", (int)value, field);
    fw_refuse("%u in %s is over its limit %u", (unsigned)value, field, (unsigned)max);
}

/* ---- memory ---- */

static size_t scratch_used;

void *fw_scratch(size_t bytes) {
    enum { BETWEEN = 16 }; /* of a block's end and the next one */
    size_t start = scratch_used, room = FW_ARM_SCRATCH_BYTES - start;
    uint8_t *memory = bytes + BETWEEN * 2 < bytes || bytes + BETWEEN * 2 > room ? NULL : fw_platform_scratch(start, bytes);
    if (memory == NULL)
        fw_fail(FW_STATUS_NO_MEMORY, "the controller has %u bytes for one request; %llu more do not fit beside %llu in use",
                (unsigned)FW_ARM_SCRATCH_BYTES, (unsigned long long)bytes, (unsigned long long)start);
    scratch_used = start + (bytes + BETWEEN - 1) / BETWEEN * BETWEEN + BETWEEN;
    return memset(memory, 0, bytes);
}

void fw_scratch_release(void) {
    scratch_used = 0;
    fw_platform_scratch_release();
}

uint8_t *fw_ddr_pointer(uint64_t addr, uint64_t bytes) {
    if (addr < CHIP_DDR_BASE || addr - CHIP_DDR_BASE > fw.platform->ddr_bytes) return NULL;
    uint64_t offset = addr - CHIP_DDR_BASE;
    if (bytes > fw.platform->ddr_bytes - offset) return NULL;
    return fw.platform->ddr + offset;
}

/* ---- command streams ---- */

static void restart_ids(void) {
    fw.bd_id = fw.gdma_id = fw.bd_start = fw.gdma_start = 0;
    fw.restarts++;
}

void fw_streams_reset(void) {
    restart_ids();
    fw.parallel = false;
    fw.check_ids = true;
    fw.bd_pending = fw.gdma_pending = 0;
    fw_enter(NULL, NULL);
}

void fw_flush(uint32_t reason) {
    uint32_t bd = fw.bd_pending, gdma = fw.gdma_pending;
    fw.bd_pending = fw.gdma_pending = 0;
    if (fw.platform->flush(bd, gdma, reason) < 0)
        fw_fail(BM_LAYER_RUNTIME_ERROR, "the device refused the commands that it was given");
    if (reason == FW_FLUSH_FULL || reason == FW_FLUSH_SPLIT) restart_ids();
}

/* A split inside a parallel section is a barrier in it: stricter than asked for, never wrong. */
static void split(void) {
    fw_flush(fw.recording ? FW_FLUSH_SPLIT : FW_FLUSH_FULL);
}

static void check_may_issue(void) {
    if (fw.scope == FW_SCOPE_SHAPE)
        fw_refuse("the shape function of layer %s issues a command; it only computes shapes", fw.layer);
}

void fw_emit_bd(uint32_t *descriptor) {
    check_may_issue();
    if (fw.scope == FW_SCOPE_LOCAL && fw.gathers)
        fw_refuse("the local function of layer %s computes, though it gets its inputs in DDR; it only loads then", fw.layer);
    if (fw.scope == FW_SCOPE_LOCAL && fw.scatters)
        fw_refuse("the local function of layer %s computes, though its output is in DDR; it only stores then", fw.layer);
    if (fw.bd_id >= FW_ID_LIMIT || fw.bd_pending == fw.platform->capacity) split();
    bd_set_cmd_id_tpu(descriptor, ++fw.bd_id);
    bd_set_cmd_id_gdma(descriptor, fw.parallel ? fw.gdma_start : fw.gdma_id);
    memcpy(fw.platform->bd + (size_t)fw.bd_pending * CHIP_DESCRIPTOR_BYTES, descriptor, CHIP_DESCRIPTOR_BYTES);
    fw_platform_issued(true);
    fw.platform->bd_layer[fw.bd_pending] = (uint64_t)(uintptr_t)fw.layer;
    fw.platform->bd_site[fw.bd_pending++] = (uint64_t)(uintptr_t)fw.site;
}

void fw_emit_gdma(uint32_t *descriptor) {
    check_may_issue();
    if (fw.gdma_id >= FW_ID_LIMIT || fw.gdma_pending == fw.platform->capacity) split();
    gdma_set_cmd_id(descriptor, ++fw.gdma_id);
    /* what a local function copies itself is in order with its other commands, section or not */
    bool ordered = !fw.parallel || (fw.scope == FW_SCOPE_LOCAL && !fw.gathers && !fw.apart);
    gdma_set_eng0_sync_id(descriptor, ordered ? fw.bd_id : fw.bd_start);
    if (ordered) fw.gdma_start = fw.gdma_id;
    memcpy(fw.platform->gdma + (size_t)fw.gdma_pending * CHIP_DESCRIPTOR_BYTES, descriptor, CHIP_DESCRIPTOR_BYTES);
    fw_platform_issued(false);
    fw.platform->gdma_layer[fw.gdma_pending] = (uint64_t)(uintptr_t)fw.layer;
    fw.platform->gdma_site[fw.gdma_pending++] = (uint64_t)(uintptr_t)fw.site;
}

const char *fw_opened(void) {
    static char text[64];
    text[0] = 0;
    if (fw.parallel && fw.opened != NULL)
        fw_text(text, sizeof text, "; it was opened [called at 0x%llx]", (unsigned long long)(uintptr_t)fw.opened);
    return text;
}

void fw_parallel_start(void) {
    if (fw.parallel) fw_refuse("a parallel section is already open%s", fw_opened());
    fw.parallel = true;
    fw.opened = NULL;
    fw.bd_start = fw.bd_id;
    fw.gdma_start = fw.gdma_id;
}

void fw_parallel_end(void) {
    if (!fw.parallel) fw_refuse("no parallel section is open");
    fw.parallel = false;
}
