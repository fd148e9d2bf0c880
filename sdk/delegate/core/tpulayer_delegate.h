/* Compiled partitions of other frameworks' models on a BM1684: what the delegates for LiteRT, ExecuTorch and MindSpore
 * Lite have in common. Link with -ltpulayer_delegate. It stands on the public functions of libbmrt and libbmlib.
 *
 * A program is what user_layers.delegates.program.pack made: one or more partitions, each a net and how its inputs
 * and outputs lie in the framework's buffers. The partitions of a process share one handle for each device, which is
 * opened with the first and stays open. Every function may be called from several threads; a device runs one partition
 * after the other. Functions return a tpld_status; what went wrong is then in tpld_last_error().
 */
#ifndef TPULAYER_DELEGATE_H_
#define TPULAYER_DELEGATE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    TPLD_OK = 0,
    TPLD_BAD_ARGUMENT = 1, /* a NULL, an index, a value that the device cannot hold */
    TPLD_BAD_PROGRAM = 2,  /* damaged, of another version, or with layers that the firmware has not */
    TPLD_NO_DEVICE = 3,    /* no such device, or no firmware for it */
    TPLD_FAILED = 4,       /* the device died or the net failed; the next call works again */
    TPLD_BAD_SHAPES = 5    /* the net does not take inputs of these shapes */
} tpld_status;

/* Types of elements in the framework's buffers. Up to TPLD_UINT32 they are those of bm_data_type_t. */
typedef enum {
    TPLD_FLOAT32 = 0,
    TPLD_FLOAT16 = 1,
    TPLD_INT8 = 2,
    TPLD_UINT8 = 3,
    TPLD_INT16 = 4,
    TPLD_UINT16 = 5,
    TPLD_INT32 = 6,
    TPLD_UINT32 = 7,
    TPLD_INT64 = 64, /* the net holds 32 bits */
    TPLD_BOOL = 65   /* a byte, 0 or 1; the net holds float32 */
} tpld_dtype;

#define TPLD_NAME_BYTES 128
#define TPLD_MAX_RANK 8

/* One input or output as the framework's buffer has it: shape and order of axes are the framework's, elements lie as in
 * C without gaps, and bytes is the size of all. A longer name is cut. */
typedef struct {
    char name[TPLD_NAME_BYTES];
    int32_t dtype; /* tpld_dtype */
    int32_t rank;
    int64_t shape[TPLD_MAX_RANK];
    uint64_t bytes;
} tpld_tensor;

/* One layer of a net by the chip's model. operations: indices in the model that was compiled; both it and the name's
 * memory belong to the partition. cycles: of CLOCK_HZ (550 MHz), the share of the net's modelled time; of a dynamic net
 * that for the largest shapes. */
typedef struct {
    const char *name;
    uint64_t cycles;
    const uint32_t *operations;
    uint32_t operation_num;
} tpld_layer_info;

/* Since the partition was loaded, or the device opened. The modelled time is the device's; commands is 0 where the
 * library below counts none (a card's), and has_commands then too. */
typedef struct {
    uint64_t runs;         /* that succeeded */
    uint64_t failures;     /* that were begun and failed */
    uint64_t bytes_in;     /* from the framework's buffers */
    uint64_t bytes_out;    /* into them */
    uint64_t commands;     /* executed by the device's engines */
    uint64_t cycles;       /* modelled */
    uint64_t ns;           /* the same time */
    uint64_t wall_ns;      /* of this machine, inside tpld_execute */
    uint64_t copy_wall_ns; /* of that, copying between the framework's buffers and the device's memory */
    uint32_t has_commands;
    uint32_t reopened; /* times that the device was opened anew because it had died */
} tpld_counters_info;

typedef struct tpld_partition tpld_partition;

/* Whether there is such a device and firmware for it; opens it. */
int tpld_open_device(int dev_id);
/* Gives the device back; TPLD_BAD_ARGUMENT while partitions are loaded on it. Not needed before a process ends. */
int tpld_close_device(int dev_id);

/* How many partitions a program has, and the name of one (to be freed with free()). */
int tpld_program_num(const void *program, size_t bytes, int *num);
int tpld_program_name(const void *program, size_t bytes, int index, char **name);

/* Load a partition onto a device; name: NULL for the only one. The program may be freed when this returns. */
int tpld_load(int dev_id, const void *program, size_t bytes, const char *name, tpld_partition **out);
/* NULL is allowed. No other call may use the partition any more. */
void tpld_destroy(tpld_partition *p);

const char *tpld_name(const tpld_partition *p);
int tpld_is_dynamic(const tpld_partition *p); /* 1 if tpld_resize may change shapes */
int tpld_input_num(const tpld_partition *p);  /* -1 for NULL */
int tpld_output_num(const tpld_partition *p);
int tpld_input(const tpld_partition *p, int index, tpld_tensor *out); /* with its shape as it is now */
int tpld_output(const tpld_partition *p, int index, tpld_tensor *out);

/* Run once. inputs, outputs: for each tensor the framework's buffer of tpld_tensor.bytes. An input without elements, or
 * one that the net does not read, may be NULL. */
int tpld_execute(tpld_partition *p, const void *const *inputs, void *const *outputs);

/* Shapes of all inputs from now on, in the framework's order. Of a dynamic net, up to those it was compiled for; the
 * outputs' shapes are known after it, found by running the net on zeros when these shapes come first (the 16 newest are
 * remembered). Nothing changes when it fails. */
int tpld_resize(tpld_partition *p, const int64_t *const *shapes, const int *ranks);

/* Of one partition; of all devices of this process together for NULL. */
int tpld_counters(const tpld_partition *p, tpld_counters_info *out);

int tpld_layer_num(const tpld_partition *p); /* in the order in which they run */
int tpld_layer(const tpld_partition *p, int index, tpld_layer_info *out);

/* Of the newest call of this thread that failed; "" before one did. Valid until the thread's next call. */
const char *tpld_last_error(void);
const char *tpld_status_text(int status);
const char *tpld_version(void);

#ifdef __cplusplus
}
#endif
#endif
