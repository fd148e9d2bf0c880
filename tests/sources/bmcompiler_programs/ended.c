/* Compilers leave no process behind; one that hangs is ended. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <unistd.h>

/* Children of this process, zombies too; the last one's number in *pid. */
static int children(pid_t *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "r");
    int count = 0, number;
    while (f != NULL && fscanf(f, "%d", &number) == 1) {
        *pid = number;
        count++;
    }
    if (f != NULL) fclose(f);
    return count;
}

int main(void) {
    pid_t pid = 0;
    fill();
    void *p = create_bmcompiler("BM1684");
    CHECK(p != NULL && children(&pid) == 1);
    add_double(p, "x", "y");
    __bmcompile(p, "net");
    finish_bmcompiler(p);
    CHECK(children(&pid) == 0 && bmcompiler_errors() == 0);
    p = create_bmcompiler("BM1684");
    setenv("TPULAYER_HOST_LIMIT", "2", 1); /* not before: on a busy machine a compiler starts in seconds */
    CHECK(p != NULL && children(&pid) == 1 && kill(pid, SIGSTOP) == 0);
    add_double(p, "x", "y");
    CHECK(bmcompiler_errors() == 1);
    add_double(p, "y", "z");
    finish_bmcompiler(p);
    CHECK(children(&pid) == 0);
    unsetenv("TPULAYER_HOST_LIMIT");
    p = create_bmcompiler("BM1684");
    CHECK(p != NULL && children(&pid) == 1 && kill(pid, SIGKILL) == 0);
    add_double(p, "x", "y");
    finish_bmcompiler(p);
    CHECK(children(&pid) == 0);
    printf("ok\n");
    return 0;
}
