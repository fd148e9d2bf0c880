/* Formats of the fixed-width integers. */
#ifndef FW_LIBC_INTTYPES_H
#define FW_LIBC_INTTYPES_H

#include <stdint.h>

/* 64 bits are long where a long has them. */
#if __SIZEOF_LONG__ == 8
#define FW_PRI_64 "l"
#define FW_PRI_PTR "l"
#else
#define FW_PRI_64 "ll"
#define FW_PRI_PTR ""
#endif

#define PRId8 "d"
#define PRId16 "d"
#define PRId32 "d"
#define PRId64 FW_PRI_64 "d"
#define PRIdMAX FW_PRI_64 "d"
#define PRIdPTR FW_PRI_PTR "d"
#define PRIi8 "i"
#define PRIi16 "i"
#define PRIi32 "i"
#define PRIi64 FW_PRI_64 "i"
#define PRIiMAX FW_PRI_64 "i"
#define PRIiPTR FW_PRI_PTR "i"
#define PRIu8 "u"
#define PRIu16 "u"
#define PRIu32 "u"
#define PRIu64 FW_PRI_64 "u"
#define PRIuMAX FW_PRI_64 "u"
#define PRIuPTR FW_PRI_PTR "u"
#define PRIo8 "o"
#define PRIo16 "o"
#define PRIo32 "o"
#define PRIo64 FW_PRI_64 "o"
#define PRIoMAX FW_PRI_64 "o"
#define PRIoPTR FW_PRI_PTR "o"
#define PRIx8 "x"
#define PRIx16 "x"
#define PRIx32 "x"
#define PRIx64 FW_PRI_64 "x"
#define PRIxMAX FW_PRI_64 "x"
#define PRIxPTR FW_PRI_PTR "x"
#define PRIX8 "X"
#define PRIX16 "X"
#define PRIX32 "X"
#define PRIX64 FW_PRI_64 "X"
#define PRIXMAX FW_PRI_64 "X"
#define PRIXPTR FW_PRI_PTR "X"

#endif
