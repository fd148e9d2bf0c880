#ifndef TPULAYER_SCAN_STDDEF_H
#define TPULAYER_SCAN_STDDEF_H
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long wchar_t;
#define NULL ((void *)0)
#endif
