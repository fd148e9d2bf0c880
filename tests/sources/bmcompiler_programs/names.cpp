/* The namespace of newer headers, default arguments, and data by name. */
#include "check.h"

using namespace bmcompiler;
int main() {
    fill();
    const char *const names[] = {"fixed", "free"};
    void *p = bmcompiler::create_bmcompiler_dir(ARCH_BM1684, "cpp");
    std::map<std::string, float *> in, refs;
    in["x"] = x;
    refs["y"] = y;
    float mean[3] = {0, 0, 0}, variance[3] = {1, 1, 1};
    for (int i = 0; i < 2; i++) {
        add_batchnorm_layer(p, shape, 4, "x", shape, 4, "same", "bn", mean, variance, 1, 0, 0);
        add_binary_layer(p, "same", shape, 0, 0, "same", shape, 0, 0, 4, "y", BINARY_ADD);
        (i == 0 ? __compile_with_result_check : __compile_ir_with_result_check)(p, &in, &refs, names[i]);
    }
    add_double(p, "x", "y");
    __bmcompile(p, "doubled");
    finish_bmcompiler(p);
    return bmcompiler_errors();
}
