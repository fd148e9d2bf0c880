/* The Python process that compiles: asked which operations have layers, and for the bytes of a partition. */
#ifndef TPULAYER_LITERT_PROCESS_H_
#define TPULAYER_LITERT_PROCESS_H_

#include "message.h"

typedef struct process process;

/* Started with the first question. NULL when there is no memory. */
process *process_new(void);
void process_end(process *p);

/* One byte for each operation of the message: 1 where it becomes TPU layers. To be freed with free(). */
litert_status process_select(process *p, const bytes *message, char **chosen, size_t *num);
/* The bytes of a program with the one partition of the message. To be freed with free(). */
litert_status process_compile(process *p, const bytes *message, char **program, size_t *size);

#endif
