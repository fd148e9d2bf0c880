/* The record of a check, as JSON in memory that two processes share. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define RECORD_BYTES (32u << 20)
#define STEP_BYTES 512

typedef struct {
    volatile unsigned steps;
    volatile bool failed, complete;
    volatile size_t length; /* of the complete records */
    char step[STEP_BYTES];
    char text[RECORD_BYTES];
} shared_record;

static shared_record *shared;
static size_t at;      /* where the record in progress goes on */
static bool overflown; /* it did not fit; then it is left out */

void record_open(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "error: no memory for the record\n");
        exit(ENVIRONMENT);
    }
}

static void put(const char *text, size_t bytes) {
    if (at + bytes >= RECORD_BYTES) {
        overflown = true;
        return;
    }
    memcpy(shared->text + at, text, bytes);
    at += bytes;
}

static void put_text(const char *text) { put(text, strlen(text)); }

/* Bytes of the character in UTF-8 that begins here; 0 where none does. */
static size_t character_bytes(const unsigned char *c) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* that needs so many bytes */
    if (*c < 0x80) return 1;
    size_t bytes = *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : 2;
    uint32_t code = *c & (0x7fu >> bytes);
    if (*c < 0xc0 || *c > 0xf4) return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least[bytes] || code > 0x10ffff || surrogate ? 0 : bytes;
}

/* What is not UTF-8 (a name that was cut off, a path in another encoding) becomes U+FFFD, byte by byte. */
static void put_string(const char *value) {
    put("\"", 1);
    for (const unsigned char *c = (const unsigned char *)value; *c;) {
        size_t bytes = character_bytes(c);
        char escaped[8];
        if (*c == '"' || *c == '\\') {
            snprintf(escaped, sizeof escaped, "\\%c", *c);
            put_text(escaped);
        } else if (bytes == 0 || *c < 0x20 || *c == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", bytes == 0 ? 0xfffdu : *c);
            put_text(escaped);
        } else {
            put((const char *)c, bytes);
        }
        c += bytes == 0 ? 1 : bytes;
    }
    put("\"", 1);
}

static void put_key(const char *key) {
    put(",", 1);
    put_string(key);
    put(":", 1);
}

void record_begin(const char *kind) {
    at = shared->length;
    overflown = false;
    put_text(at ? ",\n{\"kind\":" : "\n{\"kind\":");
    put_string(kind);
}

void record_text(const char *key, const char *value) {
    put_key(key);
    if (value)
        put_string(value);
    else
        put_text("null");
}

void record_int(const char *key, int64_t value) {
    char text[32];
    put_key(key);
    snprintf(text, sizeof text, "%" PRId64, value);
    put_text(text);
}

void record_real(const char *key, double value) {
    char text[64];
    put_key(key);
    snprintf(text, sizeof text, isfinite(value) ? "%.9g" : "null", value);
    put_text(text);
}

void record_bool(const char *key, bool value) {
    put_key(key);
    put_text(value ? "true" : "false");
}

void record_list(const char *key, const int64_t *values, size_t count) {
    put_key(key);
    put("[", 1);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, i ? ",%" PRId64 : "%" PRId64, values[i]);
        put_text(text);
    }
    put("]", 1);
}

void record_names(const char *key, const check_tensor *tensors, int count) {
    put_key(key);
    put("[", 1);
    for (int i = 0; i < count; i++) {
        if (i) put(",", 1);
        put_string(tensors[i].name);
    }
    put("]", 1);
}

void record_end(void) {
    put("}", 1);
    if (!overflown) shared->length = at;
}

void step(const char *format, ...) {
    va_list more;
    va_start(more, format);
    vsnprintf(shared->step, STEP_BYTES, format, more);
    va_end(more);
    shared->steps++;
}

unsigned steps_done(void) { return shared->steps; }
void record_failed(void) { shared->failed = true; }
bool has_failed(void) { return shared->failed; }
void record_complete(void) { shared->complete = true; }
bool is_complete(void) { return shared->complete; }

bool record_write(const char *path, const char *reason, int number) {
    char part[4096];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part) return false;
    at = shared->length;
    record_begin("end");
    record_text("reason", reason);
    record_int("number", number);
    record_text("step", shared->step);
    record_end();
    FILE *file = fopen(part, "w");
    if (!file) return false;
    fprintf(file, "{\"format\":\"tpulayer result\",\"version\":1,\"records\":[");
    fwrite(shared->text, 1, shared->length, file);
    fprintf(file, "\n]}\n");
    bool good = !ferror(file) && fflush(file) == 0 && fsync(fileno(file)) == 0;
    good = fclose(file) == 0 && good;
    if (good && rename(part, path) == 0) return true;
    unlink(part);
    return false;
}
