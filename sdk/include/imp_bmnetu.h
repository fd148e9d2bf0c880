// Layers that Caffe does not have, in C++: libimpbmnetu.so, which bmnetu loads.
//
//     #include "bmtpu.h"
//     #include "imp_bmnetu.h"
//
//     class TPUCropLayer : public imp_bmnetu::Layer {
//         void add() override {
//             tpu_crop_param_t param = {};
//             param.top = get_int("crop_param.top", 0);
//             add_tpu_layer({bottom(0)}, {top(0)}, TPU_CROP, &param, sizeof param);
//         }
//     };
//     IMP_BMNETU_LAYER("TPUCrop", TPUCropLayer)
//
// `add` is called for each layer of that type. It reads the layer's fields by name (all that the prototxt has must be
// read), checks them, and adds layers of the TPU that make its tops. Whatever it throws is an error message that names
// the layer. This interface is this toolkit's own; programs for another one have to be carried over.
#ifndef IMP_BMNETU_H
#define IMP_BMNETU_H

#include <stdint.h>

#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#define IMP_BMNETU_VERSION 1

// ---- the boundary: plain C, so that library and toolkit may come from different compilers ----

enum { IMP_BMNETU_MAX_DIMS = 8 };
enum { IMP_BMNETU_INT, IMP_BMNETU_FLOAT, IMP_BMNETU_BOOL, IMP_BMNETU_STRING, IMP_BMNETU_ENUM };

typedef struct {
    const char *name;
    uint32_t dims;
    int32_t shape[IMP_BMNETU_MAX_DIMS];
    const float *data;  // of weights
} imp_bmnetu_tensor;

typedef struct {
    const char *type;
    const char *name;
    uint32_t bottom_num, top_num, weight_num;
    int32_t weights_read;  // set by the library
    const imp_bmnetu_tensor *bottoms;
    const char *const *tops;
    const imp_bmnetu_tensor *weights;
} imp_bmnetu_layer;

typedef struct {
    int64_t integer;  // of an int, a bool, an enum
    double real;
    const char *text;  // of a string; an enum's words, separated by commas, go in here
} imp_bmnetu_value;

typedef struct {
    int32_t input_num;
    const char *const *input_names;
    const int *const *input_shapes;
    const int *input_dims;
    const int *input_dtypes;
    int32_t output_num;
    const char *const *output_names;
    const int *const *output_shapes;
    const int *output_dims;
    const int *output_dtypes;
    int32_t op_type;
    int32_t param_size;
    const void *layer_param;
} imp_bmnetu_call;

// What the library may call inside imp_bmnetu_add. Functions return a negative number after an error, whose text the
// toolkit keeps.
typedef struct {
    void *context;
    int32_t (*count)(void *context, const char *path);
    // The index-th value of a field; index -1: its only one. 0: it is not there, which is an error when required.
    int32_t (*value)(void *context, int32_t kind, const char *path, int32_t index, int32_t required,
                     imp_bmnetu_value *value);
    void (*error)(void *context, const char *text);
    int32_t (*add_const)(void *context, const char *name, uint32_t dims, const int32_t *shape, const float *data);
    int32_t (*add_tpu_layer)(void *context, const imp_bmnetu_call *call);
} imp_bmnetu_host;

// ---- for layers ----

namespace imp_bmnetu {

class Layer {
  public:
    Layer() = default;
    virtual ~Layer() = default;
    Layer(const Layer &) = delete;
    Layer &operator=(const Layer &) = delete;

    // Reads the fields, checks them, adds the layers that make the tops.
    virtual void add() = 0;

  protected:
    // The layer as the prototxt has it; of bottoms and tops the names that tensors have in the graph.
    std::string type() const { return layer_->type; }
    std::string name() const { return layer_->name; }
    int bottom_num() const { return static_cast<int>(layer_->bottom_num); }
    std::string bottom(int index) const {
        check("bottom", index, bottom_num());
        return layer_->bottoms[index].name;
    }
    std::vector<int> shape(int index) const {  // of a bottom, in elements
        check("bottom", index, bottom_num());
        return extents(layer_->bottoms[index]);
    }
    int top_num() const { return static_cast<int>(layer_->top_num); }
    std::string top(int index) const {
        check("top", index, top_num());
        return layer_->tops[index];
    }

    // Its blobs in the caffemodel. Where there are some and nobody asks for them, that is an error.
    int weight_num() const {
        layer_->weights_read = 1;
        return static_cast<int>(layer_->weight_num);
    }
    std::vector<int> weight_shape(int index) const {
        check("blob", index, weight_num());
        return extents(layer_->weights[index]);
    }
    const float *weight(int index) const {
        check("blob", index, weight_num());
        return layer_->weights[index].data;
    }

    // Fields by path: "crop_param.top", "rule[1].word" in the second of several messages. Without a default they must
    // be there. A field that is there more than once is read by get_ints and the like, which give what there is.
    bool has(const std::string &path) const { return count(path) > 0; }
    int count(const std::string &path) const {
        int found = host_->count(host_->context, path.c_str());
        if (found < 0) throw Told();
        return found;
    }
    int get_int(const std::string &path) const { return static_cast<int>(need(IMP_BMNETU_INT, path).integer); }
    int get_int(const std::string &path, int otherwise) const {
        imp_bmnetu_value value = {};
        return find(IMP_BMNETU_INT, path, -1, value) ? static_cast<int>(value.integer) : otherwise;
    }
    float get_float(const std::string &path) const { return static_cast<float>(need(IMP_BMNETU_FLOAT, path).real); }
    float get_float(const std::string &path, float otherwise) const {
        imp_bmnetu_value value = {};
        return find(IMP_BMNETU_FLOAT, path, -1, value) ? static_cast<float>(value.real) : otherwise;
    }
    bool get_bool(const std::string &path) const { return need(IMP_BMNETU_BOOL, path).integer != 0; }
    bool get_bool(const std::string &path, bool otherwise) const {
        imp_bmnetu_value value = {};
        return find(IMP_BMNETU_BOOL, path, -1, value) ? value.integer != 0 : otherwise;
    }
    std::string get_string(const std::string &path) const { return need(IMP_BMNETU_STRING, path).text; }
    std::string get_string(const std::string &path, const std::string &otherwise) const {
        imp_bmnetu_value value = {};
        return find(IMP_BMNETU_STRING, path, -1, value) ? std::string(value.text) : otherwise;
    }
    // The place of a word among those that an enum has, from 0 on.
    int get_enum(const std::string &path, std::initializer_list<const char *> words) const {
        std::string all = joined(words);
        return static_cast<int>(need(IMP_BMNETU_ENUM, path, all.c_str()).integer);
    }
    int get_enum(const std::string &path, std::initializer_list<const char *> words, int otherwise) const {
        std::string all = joined(words);
        imp_bmnetu_value value = {0, 0, all.c_str()};
        return find(IMP_BMNETU_ENUM, path, -1, value) ? static_cast<int>(value.integer) : otherwise;
    }
    std::vector<int> get_ints(const std::string &path) const {
        return all<int>(IMP_BMNETU_INT, path, [](const imp_bmnetu_value &v) { return static_cast<int>(v.integer); });
    }
    std::vector<float> get_floats(const std::string &path) const {
        return all<float>(IMP_BMNETU_FLOAT, path, [](const imp_bmnetu_value &v) { return static_cast<float>(v.real); });
    }
    std::vector<std::string> get_strings(const std::string &path) const {
        return all<std::string>(IMP_BMNETU_STRING, path, [](const imp_bmnetu_value &v) { return std::string(v.text); });
    }

    // Refuses the layer; the message names it.
    [[noreturn]] void error(const std::string &text) const {
        host_->error(host_->context, text.c_str());
        throw Told();
    }

    // A constant of the graph, which layers can then take as an input. The elements are copied.
    void add_const(const std::string &name, const std::vector<int> &shape, const float *data) const {
        std::vector<int32_t> extents(shape.begin(), shape.end());
        uint32_t dims = static_cast<uint32_t>(extents.size());
        if (host_->add_const(host_->context, name.c_str(), dims, extents.data(), data) < 0) throw Told();
    }

    // A layer of the TPU: op_type and the parameter struct are those of bmtpu.h.
    void add_tpu_layer(const std::vector<std::string> &inputs, const std::vector<std::string> &outputs, int op_type,
                       const void *layer_param, int param_size) const {
        std::vector<const char *> from, to;
        for (const std::string &name : inputs) from.push_back(name.c_str());
        for (const std::string &name : outputs) to.push_back(name.c_str());
        add_tpu_layer(compiler(), static_cast<int>(from.size()), from.data(), nullptr, nullptr, nullptr,
                      static_cast<int>(to.size()), to.data(), nullptr, nullptr, nullptr, op_type, layer_param,
                      param_size);
    }
    // The same with the arguments of libbmcompiler.so. Shapes, dims and dtypes may be null: those of inputs are known,
    // and the layer's shape function knows those of outputs. What is given must agree.
    void add_tpu_layer(void * /*p_bmcpl*/, int input_num, const char *const *input_names,
                       const int *const *input_shapes, const int *input_dims, const int *input_dtypes, int output_num,
                       const char *const *output_names, const int *const *output_shapes, const int *output_dims,
                       const int *output_dtypes, int op_type, const void *layer_param, int param_size) const {
        const imp_bmnetu_call call = {input_num,     input_names,  input_shapes,  input_dims, input_dtypes,
                                      output_num,    output_names, output_shapes, output_dims, output_dtypes,
                                      op_type,       param_size,   layer_param};
        if (host_->add_tpu_layer(host_->context, &call) < 0) throw Told();
    }
    // What goes in for p_bmcpl.
    void *compiler() const { return host_->context; }

  public:
    // Thrown after the toolkit was told of an error. It is no std::exception, which layers may catch themselves.
    struct Told {};
    void place(imp_bmnetu_layer *layer, const imp_bmnetu_host *host) {
        layer_ = layer;
        host_ = host;
    }

  private:
    static std::vector<int> extents(const imp_bmnetu_tensor &tensor) {
        return std::vector<int>(tensor.shape, tensor.shape + tensor.dims);
    }
    static std::string joined(std::initializer_list<const char *> words) {
        std::string all;
        for (const char *word : words) all += (all.empty() ? "" : ",") + std::string(word);
        return all;
    }
    void check(const char *what, int index, int number) const {
        if (index < 0 || index >= number)
            error("it has no " + std::string(what) + " " + std::to_string(index) + ", only " + std::to_string(number));
    }
    bool find(int kind, const std::string &path, int index, imp_bmnetu_value &value, int required = 0) const {
        int found = host_->value(host_->context, kind, path.c_str(), index, required, &value);
        if (found < 0) throw Told();
        return found > 0;
    }
    imp_bmnetu_value need(int kind, const std::string &path, const char *words = nullptr) const {
        imp_bmnetu_value value = {0, 0, words};
        find(kind, path, -1, value, 1);
        return value;
    }
    template <typename T, typename Convert>
    std::vector<T> all(int kind, const std::string &path, Convert convert) const {
        std::vector<T> values;
        for (int i = 0, number = count(path); i < number; i++) {
            imp_bmnetu_value value = {};
            find(kind, path, i, value, 1);
            values.push_back(convert(value));
        }
        return values;
    }

    imp_bmnetu_layer *layer_ = nullptr;
    const imp_bmnetu_host *host_ = nullptr;
};

// ---- what the toolkit calls ----

struct Entry {
    const char *type;
    std::string place;
    std::unique_ptr<Layer> (*make)();
};

// Hidden, so that each library has its own.
__attribute__((visibility("hidden"))) inline std::vector<Entry> &entries() {
    static std::vector<Entry> known;
    return known;
}

template <typename T> bool registered(const char *type, const char *file, int line) {
    entries().push_back({type, std::string(file) + ":" + std::to_string(line),
                         []() -> std::unique_ptr<Layer> { return std::unique_ptr<Layer>(new T()); }});
    return true;
}

}  // namespace imp_bmnetu

#define IMP_BMNETU_EXPORT extern "C" __attribute__((visibility("default"), used)) inline

IMP_BMNETU_EXPORT int32_t imp_bmnetu_version() { return IMP_BMNETU_VERSION; }
IMP_BMNETU_EXPORT int32_t imp_bmnetu_count() { return static_cast<int32_t>(imp_bmnetu::entries().size()); }
IMP_BMNETU_EXPORT const char *imp_bmnetu_type(int32_t index) { return imp_bmnetu::entries()[index].type; }
IMP_BMNETU_EXPORT const char *imp_bmnetu_place(int32_t index) { return imp_bmnetu::entries()[index].place.c_str(); }
IMP_BMNETU_EXPORT void imp_bmnetu_add(int32_t index, imp_bmnetu_layer *layer, const imp_bmnetu_host *host) {
    try {
        std::unique_ptr<imp_bmnetu::Layer> made = imp_bmnetu::entries()[index].make();
        made->place(layer, host);
        made->add();
    } catch (const imp_bmnetu::Layer::Told &) {
    } catch (const std::exception &e) {
        host->error(host->context, e.what());
    } catch (...) {
        host->error(host->context, "its add() throws what is no std::exception");
    }
}

// At the end of a layer's .cpp: bmnetu makes a CLASS for each layer of this type.
#define IMP_BMNETU_JOIN_(a, b) a##b
#define IMP_BMNETU_JOIN(a, b) IMP_BMNETU_JOIN_(a, b)
#define IMP_BMNETU_LAYER(TYPE, CLASS)                                                    \
    [[maybe_unused]] static const bool IMP_BMNETU_JOIN(imp_bmnetu_layer_, __COUNTER__) = \
        imp_bmnetu::registered<CLASS>(TYPE, __FILE__, __LINE__);

#endif
