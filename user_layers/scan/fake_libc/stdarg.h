#ifndef TPULAYER_SCAN_STDARG_H
#define TPULAYER_SCAN_STDARG_H
typedef void *va_list;
#endif
