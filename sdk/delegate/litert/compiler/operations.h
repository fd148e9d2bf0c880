/* What LiteRT's operations are called, and their options. */
#ifndef TPULAYER_LITERT_OPERATIONS_H_
#define TPULAYER_LITERT_OPERATIONS_H_

#include "litert_compiler.h"

enum { OPERATION_DEQUANTIZE = 6, OPERATION_CUSTOM = 32, OPERATION_COMPOSITE = 206 };

/* TFLite's name of an operation; NULL for a code that it had not when this was written. */
const char *operation_kind(int code);

typedef void (*option_visit)(void *with, const char *name, const char *number);
/* Visit the options that decide what an operation computes, as numbers in text. */
void operation_options(const litert_compiler *c, litert_handle op, int code, option_visit visit, void *with);

#endif
