/* Nets with data to compare with, in a folder and in memory; two compilers at the same time. */
#include "check.h"

int main(void) {
    char *in[] = {"x"}, *out[] = {"y"};
    float *ins[] = {x}, *outs[] = {y};
    fill();
    void *p = create_bmcompiler("BM1684");
    CHECK(p != NULL);
    CHECK(get_max_layer_id(p) == -1);
    add_double(p, "x", "y");
    CHECK(get_max_layer_id(p) == 0);
    compile_with_result_check(p, in, ins, 1, out, outs, 1, "fixed");
    add_double(p, "x", "y");
    compile_ir_with_result_check(p, in, ins, 1, out, outs, 1, "free");
    finish_bmcompiler(p);
    p = create_bmcompiler_dir("BM1684", "unused");
    void *q = create_bmcompiler_dir("BM1684", "unused");
    CHECK(p != NULL && q != NULL && p != q);
    add_double(q, "x", "y");
    delete_bmcompiler(q);
    add_double(p, "x", "y");
    __bmcompile_ir(p, "net");
    void *data = NULL;
    unsigned int size = 0;
    finish_bmcompiler_data(p, &data, &size);
    CHECK(data != NULL && size > 1000);
    FILE *f = fopen("got.bmodel", "wb");
    CHECK(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    free(data);
    printf("ok %d\n", bmcompiler_errors());
    return 0;
}
