/* add_tpu_layer with every combination of NULL for what is known of outputs: compiled static and dynamic, with data
 * to compare with. */
#include "bmtpu.h"
#include "check.h"

/* given: bit 0 shapes, 1 dims, 2 dtypes. */
static void add(void *p, int given, const char *from, const char *to, const int *extents, const int *dims,
                const int *dtypes) {
    const int four = 4, fp32 = DTYPE_FP32;
    const int *in = shape, *out = extents;
    tpu_double_param_t param = {0};
    add_tpu_layer(p, 1, &from, &in, &four, &fp32, 1, &to, given & 1 ? &out : NULL, given & 2 ? dims : NULL,
                  given & 4 ? dtypes : NULL, TPU_DOUBLE, &param, sizeof param);
}

static void wrong(int given, const int *extents, int dims, int dtype) {
    const int before = bmcompiler_errors();
    void *p = create_bmcompiler_dir("BM1684", "wrong");
    add(p, given, "x", "y", extents, &dims, &dtype);
    CHECK(bmcompiler_errors() == before); /* it is found when the net is compiled */
    __bmcompile(p, "net");
    CHECK(bmcompiler_errors() == before + 1);
    delete_bmcompiler(p);
}

int main(void) {
    char *in[] = {"x"}, *out[] = {"z"};
    float *ins[] = {x}, *outs[] = {y};
    const int four = 4, fp32 = DTYPE_FP32, other[5] = {1, 3, 4, 6, 7}, same[5] = {1, 3, 4, 5, 9};
    fill();
    for (int i = 0; i < 60; i++) y[i] *= 2.0f;
    void *p = create_bmcompiler_dir("BM1684", "nulls");
    for (int given = 0; given < 8; given++) {
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            char name[16];
            snprintf(name, sizeof name, "net_%d_%d", given, dynamic);
            add(p, given, "x", "y", same, &four, &fp32);
            add(p, given, "y", "z", same, &four, &fp32);
            (dynamic ? compile_ir_with_result_check : compile_with_result_check)(p, in, ins, 1, out, outs, 1, name);
        }
    }
    finish_bmcompiler(p);
    CHECK(bmcompiler_errors() == 0);
    const int all = 7;
    for (int alone = 0; alone < 2; alone++) {
        wrong(alone ? 1 : all, other, 4, DTYPE_FP32);
        wrong(alone ? 2 : all, same, 3, DTYPE_FP32);
        wrong(alone ? 4 : all, same, 4, DTYPE_INT8);
    }
    /* A shape that is missing, and none that can be. */
    const char *from = "x", *to = "y";
    const int *given = shape, *none = NULL, *empty = (const int[4]){1, 3, 0, 5};
    tpu_double_param_t param = {0};
    for (int i = 0; i < 2; i++) {
        p = create_bmcompiler_dir("BM1684", "wrong");
        add_tpu_layer(p, 1, &from, &given, &four, &fp32, 1, &to, i ? &empty : &none, NULL, NULL, TPU_DOUBLE, &param,
                      sizeof param);
        __bmcompile(p, "net");
        finish_bmcompiler(p);
    }
    /* A layer whose output nothing needs yet, beside one that is an output already. */
    p = create_bmcompiler_dir("BM1684", "late");
    add(p, 0, "x", "y", NULL, NULL, NULL);
    add_output_layer_v2(p, to);
    add(p, 1, "y", "z", same, NULL, NULL);
    __bmcompile(p, "net");
    finish_bmcompiler(p);
    printf("ok\n");
    return 0;
}
