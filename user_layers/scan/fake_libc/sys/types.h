#include <stddef.h>
#ifndef TPULAYER_SCAN_SYS_TYPES_H
#define TPULAYER_SCAN_SYS_TYPES_H
typedef long ssize_t;
typedef long off_t;
#endif
