/* Every call here fails in its own way. */
#include "check.h"

int main(void) {
    void *p;
    int n = 0, huge = 2147483647;
#define FAILS(calls) do { p = create_bmcompiler_dir("BM1684", "wrong"); CHECK(p != NULL); { calls } \
    finish_bmcompiler(p); CHECK(bmcompiler_errors() > n); n = bmcompiler_errors(); } while (0)
    CHECK(create_bmcompiler("BM1690") == NULL && create_bmcompiler_dir(NULL, "x") == NULL);
    CHECK(bmcompiler_errors() == 2);
    n = 2;
    FAILS(add_double(p, "x", NULL););
    FAILS(add_identity_layer(p, "x", NULL, 4, "y"););
    FAILS(add_identity_layer(p, "x", shape, -4, "y"););
    FAILS(add_conv_layer(p, shape, 4, "x", shape, 4, "y", "conv", NULL, NULL, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0););
    FAILS(add_conv_layer(p, shape, 4, "x", shape, 4, "y", "conv", x, x, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0););
    FAILS(add_conv_layer(p, shape, 4, "x", shape, 1, "y", "conv", x, x, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0););
    FAILS(add_conv_layer(p, shape, 4, "x", shape, 4, "y", "c", x, x, huge, huge, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0););
    FAILS(add_active_layer(p, shape, 4, "x", shape, 4, "y", ACTIVE_SIN); add_double(p, "y", "z");
          __bmcompile(p, "n"););
    FAILS(add_double(p, "x", "y"););
    FAILS(add_double(p, "x", "y"); add_double(p, "x", "y"););
    FAILS(add_double(p, "x", "y"); __bmcompile(p, "net"); add_double(p, "x", "y");
          __bmcompile(p, "net"););
    char *names[] = {"y"};
    float *data[] = {x};
    FAILS(add_double(p, "x", "y"); compile_with_result_check(p, names, data, 1, names, data, 1, "net"););
    FAILS(add_double(p, "x", "y"); compile_with_result_check(p, names, NULL, 1, names, data, 1, "net"););
    add_double(p, "x", "y");
    add_double(NULL, "x", "y");
    finish_bmcompiler(shape);
    CHECK(bmcompiler_errors() == n + 3);
    void *bytes = p;
    unsigned int size = 1;
    p = create_bmcompiler_dir("BM1684", "wrong");
    finish_bmcompiler_data(p, &bytes, &size);
    CHECK(bytes == NULL && size == 0);
    printf("ok\n");
    return 0;
}
