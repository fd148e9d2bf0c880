/* Loaded in front of the C library: the nth call of one kind fails, counted over all processes of a command.

   TPULAYER_FAULT_PAGE names a file that these processes share. Nothing fails until the command has begun, which
   fault_arm() says: starting an interpreter is not what is tested. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct page {
    char kind[32];
    long nth;              /* 0: only count */
    _Atomic long counted;  /* calls of this kind since the command began */
    _Atomic long armed;
};

static struct page *page;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("TPULAYER_FAULT_PAGE");
    if (name == NULL)
        return;
    long fd = syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    void *at = (void *)syscall(SYS_mmap, NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at != MAP_FAILED)
        page = at;
}

void fault_arm(void)
{
    if (page != NULL)
        page->armed = 1;
}

static int fails(const char *kind, int error)
{
    if (page == NULL || !page->armed || strcmp(page->kind, kind) != 0)
        return 0;
    if (atomic_fetch_add(&page->counted, 1) + 1 != page->nth)
        return 0;
    errno = error;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(kind, error, result, name, parameters, arguments) \
    result name parameters                                      \
    {                                                           \
        if (fails(kind, error))                                 \
            return (result)-1;                                  \
        return NEXT(name) arguments;                            \
    }

WRAP("write", ENOSPC, ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP("rename", EIO, int, rename, (const char *a, const char *b), (a, b))
WRAP("rename", EIO, int, renameat, (int x, const char *a, int y, const char *b), (x, a, y, b))
WRAP("mkdir", ENOSPC, int, mkdir, (const char *a, mode_t mode), (a, mode))
WRAP("link", EMLINK, int, linkat, (int x, const char *a, int y, const char *b, int f), (x, a, y, b, f))
WRAP("unlink", EIO, int, unlink, (const char *a), (a))
WRAP("unlink", EIO, int, unlinkat, (int x, const char *a, int f), (x, a, f))
WRAP("fsync", EIO, int, fsync, (int fd), (fd))
WRAP("truncate", ENOSPC, int, ftruncate, (int fd, off_t size), (fd, size))
WRAP("truncate", ENOSPC, int, ftruncate64, (int fd, off64_t size), (fd, size))
WRAP("memfd", EMFILE, int, memfd_create, (const char *name, unsigned flags), (name, flags))
WRAP("lock", ENOLCK, int, flock, (int fd, int how), (fd, how))
WRAP("fork", EAGAIN, pid_t, fork, (void), ())
WRAP("mmap", ENOMEM, void *, mmap, (void *a, size_t n, int p, int f, int fd, off_t o), (a, n, p, f, fd, o))
WRAP("mmap", ENOMEM, void *, mmap64, (void *a, size_t n, int p, int f, int fd, off64_t o), (a, n, p, f, fd, o))

pid_t vfork(void) /* a function that returns after the child has run on in its frame cannot wrap the real one */
{
    if (fails("fork", EAGAIN))
        return -1;
    return NEXT(fork)();
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    if (fails("fork", EAGAIN))
        return EAGAIN;
    return NEXT(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (fails("thread", EAGAIN))
        return EAGAIN;
    return NEXT(pthread_create)(thread, attributes, start, argument);
}

extern void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
    return fails("malloc", ENOMEM) ? NULL : __libc_malloc(size);
}

#define OPEN(name, parameters, arguments)                          \
    int name parameters                                             \
    {                                                               \
        mode_t mode = 0;                                            \
        if (flags & (O_CREAT | O_TMPFILE)) {                        \
            va_list more;                                           \
            va_start(more, flags);                                  \
            mode = va_arg(more, mode_t);                            \
            va_end(more);                                           \
        }                                                           \
        if (fails((flags & O_CREAT) ? "create" : "open", EMFILE))   \
            return -1;                                              \
        return NEXT(name) arguments;                                \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
