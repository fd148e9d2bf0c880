/* Whether the files of the pack are as they were packed: each has its line in SHA256SUMS. Otherwise a copy that went
 * wrong would be taken for a layer that does. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define SUMS "SHA256SUMS"
#define DIGITS 64 /* of a hash, in hexadecimal; two more characters follow, then the file's name */
#define LINE_BYTES (DIGITS + 2 + 4096)

static bool damaged(const char *folder, const char *name, const char *why) {
    fprintf(stderr, "error: %s/%s %s; the pack is damaged: copy it again\n", folder, name, why);
    return false;
}

static FILE *opened(const char *folder, const char *name) {
    char path[4096];
    errno = ENAMETOOLONG;
    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path ? fopen(path, "rb") : NULL;
}

/* The hash that a file should have. */
static bool listed(const char *folder, const char *name, char hash[DIGITS + 1]) {
    static char line[LINE_BYTES];
    FILE *file = opened(folder, SUMS);
    if (!file) return damaged(folder, SUMS, strerror(errno));
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        found = strlen(line) > DIGITS + 2 && strcmp(line + DIGITS + 2, name) == 0;
    }
    fclose(file);
    if (!found) return damaged(folder, name, "is not listed in " SUMS);
    memcpy(hash, line, DIGITS);
    hash[DIGITS] = 0;
    return true;
}

/* Mapped, because nets may be larger than the memory that is free. */
static bool hash_of(FILE *file, char hash[DIGITS + 1]) {
    struct stat about;
    void *data = NULL;
    if (fstat(fileno(file), &about) != 0) return false;
    size_t bytes = (size_t)about.st_size;
    if (bytes > 0) data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    if (data == MAP_FAILED) return false;
    sha256_text(data, bytes, hash);
    if (data) munmap(data, bytes);
    return true;
}

bool pack_file_is_whole(const char *folder, const char *name) {
    char expected[DIGITS + 1], got[DIGITS + 1];
    if (!listed(folder, name, expected)) return false;
    FILE *file = opened(folder, name);
    if (!file) return damaged(folder, name, strerror(errno));
    bool read = hash_of(file, got);
    int reason = errno;
    fclose(file);
    if (!read) return damaged(folder, name, strerror(reason));
    return strcmp(expected, got) == 0 || damaged(folder, name, "is not as it was packed");
}

bool pack_is_whole(const char *folder, const check_plan *plan) {
    const char *last = "";
    for (int i = 0; i < plan->model_num; i++)
        if (!pack_file_is_whole(folder, plan->models[i].file)) return false;
    if (plan->tcm && !(pack_file_is_whole(folder, plan->tcm) && pack_file_is_whole(folder, plan->ddr))) return false;
    for (int i = 0; i < plan->run_num; i++)
        for (int k = 0; k < plan->runs[i].input_num + plan->runs[i].output_num; k++) {
            const check_run *run = &plan->runs[i];
            const char *file = k < run->input_num ? run->inputs[k].file : run->outputs[k - run->input_num].file;
            if (strcmp(file, last) == 0) continue; /* all data lie in one */
            if (!pack_file_is_whole(folder, file)) return false;
            last = file;
        }
    return true;
}
