#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *variable;
    size_t at;
    unsigned long most;
} known[] = {
    {"operations", "TPULAYER_LITERT_OPERATIONS", offsetof(settings, operations), 1000000},
    {"opt", "TPULAYER_LITERT_OPT", offsetof(settings, opt), 2},
};
enum { KNOWN = sizeof known / sizeof *known };

/* text: a number, and what may stand behind it on its line. */
static litert_status set(settings *out, size_t k, const char *text) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    end += strspn(end, " \t\r");
    if (end == text || (*end != 0 && *end != '\n' && *end != '#') || strchr(text, '-') != NULL || number > known[k].most) {
        fprintf(stderr, "tpulayer: LiteRT: %s is a number from 0 to %lu, not %.*s\n", known[k].name, known[k].most,
                (int)strcspn(text, "\n"), text);
        return LITERT_BAD_ARGUMENT;
    }
    memcpy((char *)out + known[k].at, &(unsigned){(unsigned)number}, sizeof(unsigned));
    return LITERT_OK;
}

static litert_status read_line(settings *out, const char *line) {
    line += strspn(line, " \t\r");
    if (*line == 0 || *line == '\n' || *line == '#') return LITERT_OK;
    for (size_t k = 0; k < KNOWN; k++) {
        size_t length = strlen(known[k].name);
        if (strncmp(line, known[k].name, length) != 0) continue;
        const char *value = line + length + strspn(line + length, " \t");
        if (*value != '=') continue;
        value++;
        return set(out, k, value + strspn(value, " \t"));
    }
    fprintf(stderr, "tpulayer: LiteRT: the option %.*s is not known; known are operations and opt\n",
            (int)strcspn(line, "\n"), line);
    return LITERT_BAD_ARGUMENT;
}

litert_status settings_read(const litert_compiler *c, litert_handle options, settings *out) {
    *out = (settings){.operations = 0, .opt = 2};
    for (size_t k = 0; k < KNOWN; k++) {
        const char *value = getenv(known[k].variable);
        litert_status status = value == NULL || *value == 0 ? LITERT_OK : set(out, k, value);
        if (status != LITERT_OK) return status;
    }
    litert_handle opaque = NULL;
    void *data = NULL;
    if (options == NULL || c->get_opaque_options(options, &opaque) != LITERT_OK || opaque == NULL) return LITERT_OK;
    if (c->find_opaque_data(opaque, "tpulayer", &data) != LITERT_OK || data == NULL) return LITERT_OK;
    for (const char *line = data; line != NULL;) {
        litert_status status = read_line(out, line);
        if (status != LITERT_OK) return status;
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return LITERT_OK;
}
