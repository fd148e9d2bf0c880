/* check PACK RESULTS [--device N] [--repeat N] [--load-firmware] [--load-firmware-first] [--step-limit S] [--limit S]
 *
 * One process calls the libraries, another watches it: whether it ends, crashes or stops answering, RESULTS/result.json
 * says what was seen and which call was the last one.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define GRACE_SECONDS 5 /* for a killed process to go; one that hangs in a driver may stay */

static const char *const usage =
    "usage: check PACK RESULTS [--device N] [--repeat N] [--load-firmware] [--load-firmware-first]\n"
    "             [--step-limit SECONDS] [--limit SECONDS]\n";

typedef struct {
    const char *name;
    int least, most; /* run.sh says the same */
    int *value;
} number_option;

static bool number_of(const number_option *option, const char *word) {
    char *end = NULL;
    errno = 0;
    long read = word ? strtol(word, &end, 10) : 0;
    if (word && *word != 0 && *end == 0 && errno == 0 && read >= option->least && read <= option->most) {
        *option->value = (int)read;
        return true;
    }
    fprintf(stderr, "error: %s %s: a number from %d to %d is needed\n", option->name, word ? word : "",
            option->least, option->most);
    return false;
}

/* Those behind the folders; false with a message. */
static bool read_options(char **words, int count, check_options *options, int *step_limit, int *limit) {
    const number_option numbers[] = {{"--device", 0, 1023, &options->device},
                                     {"--repeat", 1, MOST_REPEATS, &options->repeats},
                                     {"--step-limit", 1, 86400, step_limit},
                                     {"--limit", 1, 864000, limit}};
    for (int i = 0; i < count; i++) {
        const number_option *found = NULL;
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (strcmp(words[i], numbers[k].name) == 0) found = &numbers[k];
        if (found) {
            i++;
            if (!number_of(found, i < count ? words[i] : NULL)) return false;
        } else if (strcmp(words[i], "--load-firmware") == 0) {
            options->load_firmware = true;
        } else if (strcmp(words[i], "--load-firmware-first") == 0) {
            options->load_firmware = options->load_first = true;
        } else {
            fprintf(stderr, "error: unknown word %s\n%s", words[i], usage);
            return false;
        }
    }
    return true;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number) { interrupted = number; }

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void record_pack(const check_plan *plan, const check_options *options) {
    struct utsname system;
    record_begin("pack");
    record_text("id", plan->id);
    record_text("tool", plan->tool);
    record_int("runs", plan->run_num);
    record_int("repeats", options->repeats);
    record_bool("load_firmware", options->load_firmware);
    record_bool("load_first", options->load_first);
    record_text("firmware_path", getenv("BMRUNTIME_FIRMWARE_PATH")); /* the runtime may load what lies there */
    record_text("machine", uname(&system) == 0 ? system.machine : NULL);
    record_end();
}

/* What compare needs to see that nothing is missing. */
static void record_plan(const check_plan *plan) {
    for (int i = 0; i < plan->run_num; i++) {
        const check_run *run = &plan->runs[i];
        record_begin("planned");
        record_int("run", i);
        record_int("model", run->model);
        record_text("what", run->kind);
        record_text("net", run->net);
        record_int("stage", run->stage);
        record_text("title", run->title);
        record_names("outputs", run->outputs, run->output_num);
        record_end();
    }
}

/* Waits for the child; the way it ended, and its exit code or signal. A child that does nothing new for step_limit
 * seconds, or is not done after limit seconds, is killed. */
static const char *watch(pid_t child, int step_limit, int limit, int *number) {
    double begin = seconds(), last = begin, killed = 0;
    unsigned steps = steps_done();
    const char *reason = NULL;
    for (;;) {
        int status;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            *number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
            if (reason) return reason;
            return WIFSIGNALED(status) ? "signal" : is_complete() ? "finished" : "exit";
        }
        if (ended < 0 && errno != EINTR) return "lost";
        if (killed > 0 && seconds() - killed > GRACE_SECONDS) return reason;
        if (steps_done() != steps) {
            steps = steps_done();
            last = seconds();
        }
        if (!reason && seconds() - last > step_limit) reason = "step limit";
        if (!reason && seconds() - begin > limit) reason = "limit";
        if (!reason && interrupted) reason = "interrupted";
        if (reason && killed == 0) {
            kill(child, SIGKILL);
            killed = seconds();
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs(usage, stderr);
        return USAGE;
    }
    check_options options = {.folder = argv[1], .results = argv[2], .repeats = 5};
    int step_limit = 120, limit = 3600;
    if (!read_options(argv + 3, argc - 3, &options, &step_limit, &limit)) return USAGE;
    check_plan plan;
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/plan.txt", options.folder) >= sizeof path ||
        !pack_file_is_whole(options.folder, "plan.txt") || !plan_read(&plan, path) ||
        !pack_is_whole(options.folder, &plan))
        return ENVIRONMENT;
    if (mkdir(options.results, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "error: cannot make the folder %s: %s\n", options.results, strerror(errno));
        return ENVIRONMENT;
    }
    record_open();
    record_pack(&plan, &options);
    record_plan(&plan);
    fflush(NULL);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], interrupt);
    pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "error: fork: %s\n", strerror(errno));
        return ENVIRONMENT;
    }
    if (child == 0) { /* it ends when the one that watches says so, or is gone */
        for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_IGN);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = check_all(&plan, &options);
        record_complete();
        fflush(NULL);
        _exit(code); /* what the libraries do at the end of a program is no part of the check */
    }
    int number = 0;
    const char *reason = watch(child, step_limit, limit, &number);
    snprintf(path, sizeof path, "%s/result.json", options.results);
    if (!record_write(path, reason, number)) {
        fprintf(stderr, "error: cannot write %s: %s\n", path, strerror(errno));
        return ENVIRONMENT;
    }
    bool finished = strcmp(reason, "finished") == 0;
    printf("%s: %s\n", path, !finished ? reason : has_failed() ? "something differs or failed" : "all bits are equal");
    if (finished && number == ENVIRONMENT) return ENVIRONMENT;
    return finished && !has_failed() ? OK : DIFFERENT;
}
