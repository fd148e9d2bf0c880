/* Kernels that are linked into the host program itself. bmlib_server.c forks the program before the device opens;
 * the copy makes one more of itself for each device process, which then runs kernels (bmlib_kernels.c). The other
 * side of both sockets is firmware_sim/firmware/hosted.py, where the structs below have twins.
 */
#ifndef TPULAYER_BMLIB_PROGRAM_H_
#define TPULAYER_BMLIB_PROGRAM_H_

#include <stdint.h>
#include <sys/types.h>

enum { PROGRAM_GUARDS = 8, PROGRAM_FDS = 3 };

/* What a device process sends when it boots, with three descriptors: the chip's memories, the page that it shares
 * with its own parent, and one end of a socket for messages. Offsets count from the start of those files. */
typedef struct {
    uint32_t abi_version, arena_capacity, guards, window_guard;
    uint64_t bytes; /* of the memories up to DDR, which begins there */
    uint64_t local, l2, dtcm, bd, gdma, sites, window_bytes;
    uint64_t guard[PROGRAM_GUARDS][2]; /* start, bytes: made inaccessible */
    uint64_t page_bytes, activity, activity_bytes, frames, newest;
    uint64_t reserved; /* bytes at the start of DDR that are for reading only */
} program_boot;

/* Each message is a head and data_bytes of data. From the device process: REQUEST (one of fw_message.h), RESULT (the
 * answer to FLUSH and GROUP: c the status, d the filtered words), SITE and LABEL (a: an address). From the kernels'
 * side: BOOTED (a the process, b where the image with its kernels was loaded, c fw_boot's result, data the program's path), FLUSH (a, b, c as in fw_platform), GROUP
 * (a, b addresses, c, d numbers), LOG and REPLY (data), SITE (a: where the image was loaded, b: the symbol's address,
 * data: the image's path, 0, the symbol), LABEL (data); ENDED (c: the status of waitpid) after its process. */
enum { TO_REQUEST = 1, TO_RESULT, TO_SITE, TO_LABEL };
enum { FROM_BOOTED = 1, FROM_FLUSH, FROM_GROUP, FROM_LOG, FROM_REPLY, FROM_SITE, FROM_LABEL, FROM_ENDED };

typedef struct {
    uint32_t kind, data_bytes;
    uint64_t a, b;
    uint32_t c, d;
} program_message;

/* Where there are such kernels: a process that serves boots until every other end of the socket is closed. Its end
 * for the device's side, which is not inherited; -1 without kernels; -2 when it cannot be started, with a message. */
int program_server_start(void);
int program_has_kernels(void);

/* All of it, or -1. */
int program_send(int fd, program_message head, const void *data);
/* In a process of its own: boots the firmware that libbmlib.so has in it, with the program's kernels, and serves. */
void program_run(const program_boot *boot, const int fds[PROGRAM_FDS]) __attribute__((noreturn));

#endif
