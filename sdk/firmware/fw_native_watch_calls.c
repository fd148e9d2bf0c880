/* What the instrumentation of ThreadSanitizer calls, of gcc and of clang: names and arguments are LLVM's
 * (compiler-rt, lib/tsan), whose interface gcc shares. Kernels have the controller for themselves, so atomic
 * operations are plain ones here.
 */
#include <string.h>

#include "fw_native_watch.h"

#pragma GCC visibility push(hidden)

#define ACCESS(NAME, BYTES, WRITE)                                                                            \
    void __tsan_##NAME(void *at);                                                                             \
    void __tsan_##NAME(void *at) { FW_WATCHED(at, BYTES, WRITE); }

#define ACCESSES(BYTES)                                                                                       \
    ACCESS(read##BYTES, BYTES, false)                                                                         \
    ACCESS(write##BYTES, BYTES, true)                                                                         \
    ACCESS(unaligned_read##BYTES, BYTES, false)                                                               \
    ACCESS(unaligned_write##BYTES, BYTES, true)                                                               \
    ACCESS(volatile_read##BYTES, BYTES, false)                                                                \
    ACCESS(volatile_write##BYTES, BYTES, true)                                                                \
    ACCESS(unaligned_volatile_read##BYTES, BYTES, false)                                                      \
    ACCESS(unaligned_volatile_write##BYTES, BYTES, true)

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes) { FW_WATCHED_RANGE(at, bytes, false); }
void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes) { FW_WATCHED_RANGE(at, bytes, true); }

void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    FW_WATCHED_RANGE(from, bytes, false);
    FW_WATCHED_RANGE(to, bytes, true);
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    FW_WATCHED_RANGE(from, bytes, false);
    FW_WATCHED_RANGE(to, bytes, true);
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *start, int value, size_t bytes);
void *__tsan_memset(void *start, int value, size_t bytes) {
    FW_WATCHED_RANGE(start, bytes, true);
    return memset(start, value, bytes);
}

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *site);
void __tsan_func_entry(void *site) { (void)site; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

#define CHANGE(BITS, TYPE, NAME, ...)                                                                         \
    TYPE __tsan_atomic##BITS##_##NAME(volatile TYPE *at, TYPE value, int order);                              \
    TYPE __tsan_atomic##BITS##_##NAME(volatile TYPE *at, TYPE value, int order) {                             \
        (void)order;                                                                                          \
        FW_WATCHED((const void *)at, sizeof *at, false);                                                      \
        FW_WATCHED((const void *)at, sizeof *at, true);                                                       \
        TYPE before = *at;                                                                                    \
        *at = (TYPE)(__VA_ARGS__);                                                                            \
        return before;                                                                                        \
    }

#define EXCHANGE(BITS, TYPE, NAME)                                                                            \
    int __tsan_atomic##BITS##_##NAME(volatile TYPE *at, TYPE *expected, TYPE value, int order, int failed);   \
    int __tsan_atomic##BITS##_##NAME(volatile TYPE *at, TYPE *expected, TYPE value, int order, int failed) {  \
        (void)order, (void)failed;                                                                            \
        FW_WATCHED((const void *)at, sizeof *at, false);                                                      \
        TYPE before = *at;                                                                                    \
        if (before == *expected) {                                                                            \
            FW_WATCHED((const void *)at, sizeof *at, true);                                                   \
            *at = value;                                                                                      \
            return 1;                                                                                         \
        }                                                                                                     \
        *expected = before;                                                                                   \
        return 0;                                                                                             \
    }

#define ATOMIC(BITS, TYPE)                                                                                    \
    TYPE __tsan_atomic##BITS##_load(const volatile TYPE *at, int order);                                      \
    TYPE __tsan_atomic##BITS##_load(const volatile TYPE *at, int order) {                                     \
        (void)order;                                                                                          \
        FW_WATCHED((const void *)at, sizeof *at, false);                                                      \
        return *at;                                                                                           \
    }                                                                                                         \
    void __tsan_atomic##BITS##_store(volatile TYPE *at, TYPE value, int order);                               \
    void __tsan_atomic##BITS##_store(volatile TYPE *at, TYPE value, int order) {                              \
        (void)order;                                                                                          \
        FW_WATCHED((const void *)at, sizeof *at, true);                                                       \
        *at = value;                                                                                          \
    }                                                                                                         \
    CHANGE(BITS, TYPE, exchange, value)                                                                       \
    CHANGE(BITS, TYPE, fetch_add, before + value)                                                             \
    CHANGE(BITS, TYPE, fetch_sub, before - value)                                                             \
    CHANGE(BITS, TYPE, fetch_and, before &value)                                                              \
    CHANGE(BITS, TYPE, fetch_or, before | value)                                                              \
    CHANGE(BITS, TYPE, fetch_xor, before ^ value)                                                             \
    CHANGE(BITS, TYPE, fetch_nand, ~(before & value))                                                         \
    EXCHANGE(BITS, TYPE, compare_exchange_strong)                                                             \
    EXCHANGE(BITS, TYPE, compare_exchange_weak)                                                               \
    TYPE __tsan_atomic##BITS##_compare_exchange_val(volatile TYPE *at, TYPE expected, TYPE value, int order,  \
                                                    int failed);                                              \
    TYPE __tsan_atomic##BITS##_compare_exchange_val(volatile TYPE *at, TYPE expected, TYPE value, int order,  \
                                                    int failed) {                                             \
        (void)order, (void)failed;                                                                            \
        FW_WATCHED((const void *)at, sizeof *at, false);                                                      \
        TYPE before = *at;                                                                                    \
        if (before == expected) {                                                                             \
            FW_WATCHED((const void *)at, sizeof *at, true);                                                   \
            *at = value;                                                                                      \
        }                                                                                                     \
        return before;                                                                                        \
    }

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
#if defined __SIZEOF_INT128__
__extension__ typedef unsigned __int128 uint128;
ATOMIC(128, uint128)
#endif

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) { (void)order; }
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

#pragma GCC visibility pop
