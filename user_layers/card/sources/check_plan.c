/* Reads plan.txt: one line each, words between tabs, numbers in decimal.
 *
 *   tpulayer-plan 1 ID TOOL
 *   firmware TCM DDR
 *   model FILE DYNAMIC                DYNAMIC: 1 when it runs on no firmware but this one, else 0
 *   run KIND NET STAGE TITLE          of the last model
 *   in NAME DTYPE SHAPE BYTES ROOM FILE OFFSET      SHAPE: 1x3x4; of the last run
 *   out NAME DTYPE SHAPE BYTES ROOM FILE OFFSET
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define WORDS 8
#define MOST_BYTES (1u << 31)

static int number_of_line;

static bool wrong(const char *what) {
    fprintf(stderr, "error: plan.txt, line %d: %s; the pack is damaged: copy it again\n", number_of_line, what);
    return false;
}

static char *copied(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy) return strcpy(copy, text);
    fprintf(stderr, "error: out of memory\n");
    exit(ENVIRONMENT);
}

/* One more element behind the `count` of an array. */
static void *longer(void *array, int count, size_t element) {
    char *grown = realloc(array, ((size_t)count + 1) * element);
    if (!grown) {
        fprintf(stderr, "error: out of memory\n");
        exit(ENVIRONMENT);
    }
    memset(grown + (size_t)count * element, 0, element);
    return grown;
}

static bool read_number(const char *word, long most, long *value) {
    char *end;
    errno = 0;
    *value = strtol(word, &end, 10);
    return *word != 0 && *end == 0 && errno == 0 && *value >= 0 && *value <= most;
}

static bool read_shape(char *word, bm_shape_t *shape) {
    shape->num_dims = 0;
    for (char *part = strtok(word, "x"); part; part = strtok(NULL, "x")) {
        long extent;
        if (shape->num_dims == BM_MAX_DIMS_NUM || !read_number(part, INT_MAX, &extent) || extent == 0) return false;
        shape->dims[shape->num_dims++] = (int)extent;
    }
    return shape->num_dims > 0;
}

/* A path inside the pack. */
static bool is_inside(const char *path) { return *path != 0 && *path != '/' && !strstr(path, ".."); }

static bool add_tensor(check_plan *plan, char **word, int words) {
    if (words != 8) return wrong("a tensor has eight words");
    if (plan->run_num == 0) return wrong("a tensor without a run");
    check_run *run = &plan->runs[plan->run_num - 1];
    bool in = strcmp(word[0], "in") == 0;
    check_tensor **list = in ? &run->inputs : &run->outputs;
    int *count = in ? &run->input_num : &run->output_num;
    *list = longer(*list, *count, sizeof **list);
    check_tensor *tensor = &(*list)[(*count)++];
    long dtype, bytes, room, offset;
    if (!read_number(word[2], BM_UINT32, &dtype)) return wrong("no such element type");
    if (!read_shape(word[3], &tensor->shape)) return wrong("no such shape");
    if (!read_number(word[4], MOST_BYTES, &bytes) || !read_number(word[5], MOST_BYTES, &room) || room < bytes ||
        !read_number(word[7], LONG_MAX, &offset))
        return wrong("no such size");
    uint64_t elements = 1, element = (uint64_t[]){4, 2, 1, 1, 2, 2, 4, 4}[dtype];
    for (int i = 0; i < tensor->shape.num_dims && elements <= MOST_BYTES; i++)
        elements *= (unsigned)tensor->shape.dims[i];
    if (elements * element != (uint64_t)bytes) return wrong("the size is not that of the shape");
    if (!is_inside(word[6])) return wrong("a file outside the pack");
    tensor->name = copied(word[1]);
    tensor->dtype = (bm_data_type_t)dtype;
    tensor->bytes = (size_t)bytes;
    tensor->room = (size_t)room;
    tensor->file = copied(word[6]);
    tensor->offset = (size_t)offset;
    return true;
}

static bool add_run(check_plan *plan, char **word, int words) {
    long stage;
    if (words != 5 || !read_number(word[3], INT_MAX, &stage)) return wrong("not a run");
    if (plan->model_num == 0) return wrong("a run without a model");
    plan->runs = longer(plan->runs, plan->run_num, sizeof *plan->runs);
    check_run *run = &plan->runs[plan->run_num++];
    run->model = plan->model_num - 1;
    run->kind = copied(word[1]);
    run->net = copied(word[2]);
    run->stage = (int)stage;
    run->title = copied(word[4]);
    return true;
}

static bool add_line(check_plan *plan, char **word, int words) {
    if (strcmp(word[0], "in") == 0 || strcmp(word[0], "out") == 0) return add_tensor(plan, word, words);
    if (strcmp(word[0], "run") == 0) return add_run(plan, word, words);
    if (words == 3 && strcmp(word[0], "firmware") == 0 && is_inside(word[1]) && is_inside(word[2])) {
        plan->tcm = copied(word[1]);
        plan->ddr = copied(word[2]);
        return true;
    }
    if (words == 3 && strcmp(word[0], "model") == 0 && is_inside(word[1])) {
        plan->models = longer(plan->models, plan->model_num, sizeof *plan->models);
        plan->models[plan->model_num].file = copied(word[1]);
        plan->models[plan->model_num++].dynamic = strcmp(word[2], "1") == 0;
        return true;
    }
    return wrong("not understood");
}

bool plan_read(check_plan *plan, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "error: cannot read %s: %s\n", path, strerror(errno));
        return false;
    }
    static char line[16384];
    bool good = true;
    memset(plan, 0, sizeof *plan);
    for (number_of_line = 1; good && fgets(line, sizeof line, file); number_of_line++) {
        char *end = strchr(line, '\n'), *word[WORDS];
        int words = 0;
        if (!end) {
            good = wrong("it does not end");
            break;
        }
        *end = 0;
        for (char *next = line; next && words < WORDS; words++) {
            word[words] = next;
            next = strchr(next, '\t');
            if (next) *next++ = 0;
        }
        if (number_of_line == 1) {
            good = words == 4 && strcmp(word[0], "tpulayer-plan") == 0;
            if (!good || strcmp(word[1], "1") != 0) good = wrong("not a plan of version 1");
            if (good) {
                plan->id = copied(word[2]);
                plan->tool = copied(word[3]);
            }
        } else {
            good = add_line(plan, word, words);
        }
    }
    fclose(file);
    return good && (plan->run_num > 0 || wrong("there is nothing to run"));
}
