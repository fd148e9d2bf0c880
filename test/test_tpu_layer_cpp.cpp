// test_tpu_layer in C++: the demo graph made with bmcompiler's functions, run with bmruntime's, and compared.
// test_tpu_layer_cpp 0: static, into tpulayer_static; 1: dynamic, into tpulayer_dynamic, and for smaller inputs too.
#include "bmcompiler_defs.h"
#include "bmcompiler_if.h"
#include "bmcompiler_op_code.h"
#include "bmruntime_interface.h"
#include "bmtpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

typedef std::vector<float> floats;
typedef std::vector<int> extents;

static const int before[3] = {8, 4, 2}, after[3] = {8, 4, 6};
static const float factor = 1.5f;
static const char *const net_name = "tpulayer";

static extents cropped(const extents &shape) {
    extents result;
    for (int d = 0; d < 3; d++) result.push_back(shape[d] - before[d] - after[d]);
    return result;
}

static int count(const extents &shape) {
    int elements = 1;
    for (int extent : shape) elements *= extent;
    return elements;
}

static floats numbers(const extents &shape, unsigned int seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    floats result(count(shape));
    for (float &x : result) x = normal(random);
    return result;
}

// What the graph computes.
static floats expected(const floats &x, const extents &shape) {
    const extents to = cropped(shape);
    floats y;
    for (int c = 0; c < to[0]; c++)
        for (int h = 0; h < to[1]; h++)
            for (int w = 0; w < to[2]; w++) {
                const int row = (c + before[0]) * shape[1] + h + before[1];
                y.push_back(x[row * shape[2] + w + before[2]] * factor * 2.0f);
            }
    return y;
}

// crop -> expand_dims -> const_binary -> double
static void add_layers(void *compiler, const extents &shape) {
    const extents small = cropped(shape);
    const extents whole = {1, small[0], small[1], small[2]};
    const int types[1] = {DTYPE_FP32};
    const int *in_shapes[1] = {shape.data()}, *out_shapes[1] = {small.data()};
    const int three[1] = {3}, four[1] = {4};
    const char *in[1] = {"x"}, *out[1] = {"cropped"};
    tpu_crop_param_t crop = {};
    for (int d = 0; d < 3; d++) {
        crop.before[d] = before[d];
        crop.after[d] = after[d];
    }
    add_tpu_layer(compiler, 1, in, in_shapes, three, types, 1, out, out_shapes, three, types, TPU_CROP, &crop,
                  sizeof crop);
    add_expand_dims_layer(compiler, "cropped", small.data(), 3, 0, "expanded");
    add_const_binary_layer(compiler, "expanded", whole.data(), 4, factor, "scaled", BINARY_MUL, 0);
    tpu_double_param_t nothing = {};
    in[0] = "scaled";
    out[0] = "y";
    in_shapes[0] = out_shapes[0] = whole.data();
    add_tpu_layer(compiler, 1, in, in_shapes, four, types, 1, out, out_shapes, four, types, TPU_DOUBLE, &nothing,
                  sizeof nothing);
}

static bool compile(const char *folder, bool dynamic, const extents &shape, floats x) {
    void *compiler = create_bmcompiler_dir(ARCH_BM1684, folder);
    if (compiler == nullptr) return false;
    add_layers(compiler, shape);
    floats y = expected(x, shape);
    std::map<std::string, float *> inputs = {{"x", x.data()}}, references = {{"y", y.data()}};
    if (dynamic)
        __compile_ir_with_result_check(compiler, &inputs, &references, net_name);
    else
        __compile_with_result_check(compiler, &inputs, &references, net_name);
    finish_bmcompiler(compiler);
    return bmcompiler_errors() == 0;
}

static bool run(void *runtime, const extents &shape, floats x) {
    bm_shape_t in = {3, {shape[0], shape[1], shape[2]}}, out;
    void *inputs[1] = {x.data()}, *outputs[1] = {nullptr};
    if (!bmrt_launch_data(runtime, net_name, inputs, &in, 1, outputs, &out, 1, false)) return false;
    const floats wanted = expected(x, shape);
    const bool same = bmrt_shape_count(&out) == wanted.size() &&
                      std::memcmp(outputs[0], wanted.data(), wanted.size() * sizeof(float)) == 0;
    std::free(outputs[0]);
    std::printf("x [%d, %d, %d] -> y [%d, %d, %d, %d]: %s\n", shape[0], shape[1], shape[2], out.dims[0], out.dims[1],
                out.dims[2], out.dims[3], same ? "equals the host's bit for bit" : "DIFFERS");
    return same;
}

int main(int argc, char **argv) {
    if (argc != 2 || (std::strcmp(argv[1], "0") != 0 && std::strcmp(argv[1], "1") != 0)) {
        std::fprintf(stderr, "usage: test_tpu_layer_cpp 0|1   (static, dynamic)\n");
        return 2;
    }
    const bool dynamic = argv[1][0] == '1';
    const std::string folder = dynamic ? "tpulayer_dynamic" : "tpulayer_static";
    std::vector<extents> shapes = {{64, 40, 40}};
    if (!compile(folder.c_str(), dynamic, shapes[0], numbers(shapes[0], 1684))) return 1;
    if (dynamic) shapes.insert(shapes.end(), {{64, 33, 21}, {20, 40, 17}, {17, 9, 9}});
    bm_handle_t device;
    if (bm_dev_request(&device, 0) != BM_SUCCESS) return 1;
    void *runtime = bmrt_create(device);
    bool good = runtime != nullptr && bmrt_load_bmodel(runtime, (folder + "/compilation.bmodel").c_str());
    for (size_t i = 0; good && i < shapes.size(); i++) good = run(runtime, shapes[i], numbers(shapes[i], 4861 + i));
    if (runtime != nullptr) bmrt_destroy(runtime);
    bm_dev_free(device);
    return good ? 0 : 1;
}
