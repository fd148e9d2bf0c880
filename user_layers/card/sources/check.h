/* check: runs the nets of a pack on a device by the names of bmlib and bmruntime, compares every output bit by bit,
 * and writes what it saw as JSON. It uses nothing that the vendor's public headers do not have; calls that only some
 * versions of the libraries have are looked up by name.
 */
#ifndef TPULAYER_CHECK_H_
#define TPULAYER_CHECK_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bmruntime_interface.h"

enum { OK = 0, DIFFERENT = 1, USAGE = 2, ENVIRONMENT = 3 }; /* exit codes */

/* ---- check_record.c: what was seen so far ----
 * It lies in memory that the supervising process shares, so that it survives whatever happens to the one that calls
 * the libraries. A record is one JSON object; it counts when it is complete.
 */
void record_open(void);           /* before the processes part */
void record_begin(const char *kind);
void record_text(const char *key, const char *value); /* NULL: null */
void record_int(const char *key, int64_t value);
void record_real(const char *key, double value); /* null when it is not finite */
void record_bool(const char *key, bool value);
void record_list(const char *key, const int64_t *values, size_t count);
void record_end(void);
void step(const char *format, ...) __attribute__((format(printf, 1, 2))); /* what is about to be done */
unsigned steps_done(void);
void record_failed(void); /* a difference, or a call that failed */
bool has_failed(void);
void record_complete(void);
bool is_complete(void);
/* All of it, with how it ended: reason as in check.c, number its signal or exit code. false: not written. */
bool record_write(const char *path, const char *reason, int number);

/* ---- check_plan.c: what to run ---- */
typedef struct {
    char *name;
    bm_data_type_t dtype;
    bm_shape_t shape;
    size_t bytes, room; /* of the data; of the device memory it needs */
    char *file;         /* the data: an input, or what the output should be */
    size_t offset;
} check_tensor;

typedef struct {
    char *kind, *net, *title; /* kind: layer, whole or net */
    int model, stage;
    check_tensor *inputs, *outputs;
    int input_num, output_num;
} check_run;

typedef struct {
    char *file;
    bool dynamic; /* it runs on no firmware but the pack's */
} check_model;

typedef struct {
    char *id, *tool; /* of the pack */
    char *tcm, *ddr; /* the firmware's images */
    check_model *models;
    check_run *runs; /* in the order of the models */
    int model_num, run_num;
} check_plan;

/* false, with a message on stderr, when the file cannot be read or is not a plan. */
bool plan_read(check_plan *plan, const char *path);
void record_names(const char *key, const check_tensor *tensors, int count); /* of check_record.c */

/* ---- check_pack.c ---- */
/* Whether a file, and whether all that a plan names, is as it was packed; false with a message on stderr. */
bool pack_file_is_whole(const char *folder, const char *name);
bool pack_is_whole(const char *folder, const check_plan *plan);

/* ---- check_compare.c ---- */
/* Adds to the record in progress how got differs from expected; true: in nothing. poison: the byte that filled the
 * device memory before the run. */
bool compare_outputs(const check_tensor *tensor, const void *expected, const void *got, unsigned char poison);

/* ---- check_sha256.c ---- */
void sha256_text(const void *data, size_t bytes, char text[65]);

/* ---- check_device.c ---- */
void record_libraries(void);
void record_device(bm_handle_t handle);
bool check_memory(bm_handle_t handle);
bool last_time_us(bm_handle_t handle, int64_t *us); /* of the last launch by the device's clock; false: not known */

/* ---- check_run.c ---- */
enum { MOST_REPEATS = 1000 };

typedef struct {
    const char *folder;  /* of the pack, where its files are */
    const char *results; /* where outputs that differ are written */
    int device, repeats;
    bool load_firmware; /* before dynamic models, which are left out otherwise */
    bool load_first;    /* before all models */
} check_options;

int check_all(const check_plan *plan, const check_options *options); /* an exit code */
#endif
