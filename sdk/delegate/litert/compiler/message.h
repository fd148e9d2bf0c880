/* LiteRT's subgraphs as models of a request to the compiler (tpulayer_compiler.h): JSON, and the data of constants. */
#ifndef TPULAYER_LITERT_MESSAGE_H_
#define TPULAYER_LITERT_MESSAGE_H_

#include "litert_compiler.h"

typedef struct {
    char *data;
    size_t size, room;
    int no_memory;
} bytes;

void bytes_add(bytes *b, const void *data, size_t size);
void bytes_text(bytes *b, const char *text);
void bytes_free(bytes *b);

/* Add the model of a subgraph, as JSON, and the data of its constants. name: of the partition. */
litert_status message_add_model(const litert_compiler *c, litert_handle subgraph, const char *name, bytes *json,
                                bytes *data);

#endif
