#include <stddef.h>
#ifndef TPULAYER_SCAN_STDIO_H
#define TPULAYER_SCAN_STDIO_H
typedef struct tpulayer_scan_file FILE;
#endif
