/* How models are compiled: TPULAYER_LITERT_* of the environment, and LiteRT's opaque options called "tpulayer". */
#ifndef TPULAYER_LITERT_SETTINGS_H_
#define TPULAYER_LITERT_SETTINGS_H_

#include "litert_compiler.h"

typedef struct {
    unsigned operations; /* the most in a partition; 0: as many as there are */
    unsigned opt;        /* level of optimization, 0 to 2 */
} settings;

/* Read both; the options win. They are lines `name = number`, ended by a 0. LITERT_BAD_ARGUMENT, with a line on stderr,
 * for any other text. */
litert_status settings_read(const litert_compiler *c, litert_handle options, settings *out);

#endif
