/* The library is built once for all checkouts and installs with the same sources. Each of them writes its own place
 * into the copies that it gives to programs (user_layers/toolchain/homes.py): behind the mark, its Python, the
 * folder of its packages, and a file with all places that have copies, for when this one is gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bmlib_internal.h"
#include "toolkit_home.h"

enum { PATH_BYTES = 4096, LIST_BYTES = 1 << 20 };

/* volatile: the compiler must not know what is in it. */
static const volatile struct {
    char mark[16];
    char texts[3 * PATH_BYTES];
} place = {"tpulayer home: ", {0}};

static const char *next(const char *text) { return text + strlen(text) + 1; }

static int is_there(const char *python, const char *path) {
    char package[PATH_BYTES + 32];
    snprintf(package, sizeof package, "%s/firmware_sim/__init__.py", path);
    return access(python, X_OK) == 0 && access(package, R_OK) == 0;
}

/* The first place of the file that is still there: pairs of texts, each with its NUL. */
static int other_home(toolkit_home *home, const char *list) {
    FILE *file = *list == 0 ? NULL : fopen(list, "re");
    char *texts = file == NULL ? NULL : calloc(1, LIST_BYTES + 2);
    size_t size = texts == NULL ? 0 : fread(texts, 1, LIST_BYTES, file);
    if (file != NULL) fclose(file);
    for (const char *at = texts; at != NULL && at < texts + size; at = next(next(at))) {
        if (!is_there(at, next(at))) continue;
        bmlib_say("bmlib: the toolkit in %s is gone; the one in %s does its work", home->path, next(at));
        free(home->texts);
        *home = (toolkit_home){.python = at, .path = next(at), .texts = texts};
        return 1;
    }
    free(texts);
    return 0;
}

int toolkit_home_find(toolkit_home *home) {
    char *texts = malloc(sizeof place.texts);
    if (texts == NULL) return ENOMEM;
    for (size_t i = 0; i < sizeof place.texts; i++) texts[i] = place.texts[i];
    *home = (toolkit_home){.python = texts, .path = next(texts), .texts = texts};
    const char *named = getenv("TPULAYER_PYTHON");
    if (named != NULL && *named != 0) home->python = named;
    if (home->python == named || is_there(home->python, home->path) || other_home(home, next(home->path))) return 0;
    if (*home->python == 0)
        bmlib_say("bmlib: this copy of libbmlib.so does not know its toolkit; link with the one that "
                  "`tpulayer host_flags` names, or set TPULAYER_PYTHON to the toolkit's python");
    else
        bmlib_say("bmlib: the toolkit that this program was built with is gone (%s, in %s); set TPULAYER_PYTHON to the "
                  "python of another one", home->python, home->path);
    free(home->texts);
    return ENOENT;
}
