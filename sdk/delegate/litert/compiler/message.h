/* A LiteRT subgraph as the message that user_layers.tflite.message reads: a head, JSON, and the data of constants. */
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

/* The whole message: 8 bytes with the length of the JSON, the JSON, the constants. name: of the partition. */
litert_status message_of(const litert_compiler *c, litert_handle subgraph, const char *name, bytes *made);

#endif
