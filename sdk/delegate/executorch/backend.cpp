/* The BM1684 as a backend of ExecuTorch: loads what user_layers/executorch/backend.py compiled and runs it with the
 * tensors of the runtime. Registers itself when the library is loaded. */
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "tpulayer_delegate.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

/* One loaded partition, and room for the addresses of a call. */
struct Partition {
    tpld_partition *net = nullptr;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    std::vector<tpld_tensor> tensors; /* as they are now: inputs, then outputs */
};

Error error_of(int status) {
    switch (status) {
    case TPLD_OK: return Error::Ok;
    case TPLD_BAD_ARGUMENT: return Error::InvalidArgument;
    case TPLD_BAD_PROGRAM: return Error::DelegateInvalidCompatibility;
    case TPLD_NO_DEVICE: return Error::NotFound;
    case TPLD_BAD_SHAPES: return Error::InvalidArgument;
    default: return Error::Internal;
    }
}

/* The runtime's log cuts a message after some 250 bytes: a reason is told line by line, long lines in pieces. */
Error failed(const char *what, int status) {
    const size_t most = 160;
    const std::string text = tpld_last_error();
    ET_LOG(Error, "TpuLayerBackend: %s:", what);
    for (size_t at = 0; at < text.size();) {
        const size_t count = std::min({text.find('\n', at) - at, text.size() - at, most});
        ET_LOG(Error, "  %s", text.substr(at, count).c_str());
        at += count;
        at += at < text.size() && text[at] == '\n';
    }
    return error_of(status);
}

/* The layer whose code crashed, by the reason of what failed just now; -1 for none. A name that several layers have is
 * followed by # and a number here, which the device does not know. */
int crashed_layer(const tpld_partition *net) {
    const std::string text = tpld_last_error();
    if (text.find(" crashed") == std::string::npos)
        return -1;
    for (int i = 0; i < tpld_layer_num(net); ++i) {
        tpld_layer_info layer;
        if (tpld_layer(net, i, &layer) != TPLD_OK)
            break;
        std::string name = layer.name;
        const size_t mark = name.rfind('#');
        if (mark != std::string::npos && name.find_first_not_of("0123456789", mark + 1) == std::string::npos)
            name.resize(mark);
        if (text.find("layer " + name + " (") != std::string::npos)
            return i;
    }
    return -1;
}

/* A partition failed when it ran. devtools.Inspector sees the layer that crashed, with the reason as its metadata. */
Error failed_running(EventTracer *tracer, const tpld_partition *net, const char *what, int status) {
    const int index = crashed_layer(net);
    tpld_layer_info layer;
    if (index >= 0 && tracer != nullptr && tpld_layer(net, index, &layer) == TPLD_OK) {
        const char *text = tpld_last_error();
        const et_timestamp_t now = executorch::runtime::pal_current_ticks();
        executorch::runtime::event_tracer_log_profiling_delegate(
            tracer, layer.name, executorch::runtime::kUnsetDelegateDebugIntId, now, now, text, std::strlen(text));
    }
    const Error error = failed(what, status);
    return index >= 0 ? Error::Internal : error; /* also where it ran to find the shapes of outputs */
}

/* The type of the runtime's elements that is this tpld_dtype; Undefined for none. */
ScalarType type_of(int32_t dtype) {
    switch (dtype) {
    case TPLD_FLOAT32: return ScalarType::Float;
    case TPLD_FLOAT16: return ScalarType::Half;
    case TPLD_INT8: return ScalarType::Char;
    case TPLD_UINT8: return ScalarType::Byte;
    case TPLD_INT16: return ScalarType::Short;
    case TPLD_INT32: return ScalarType::Int;
    case TPLD_INT64: return ScalarType::Long;
    case TPLD_BOOL: return ScalarType::Bool;
    default: return ScalarType::Undefined;
    }
}

int device_of(ArrayRef<CompileSpec> specs) {
    int number = 0;
    for (const CompileSpec &spec : specs) {
        if (std::strcmp(spec.key, "device") != 0)
            continue;
        const char *text = static_cast<const char *>(spec.value.buffer);
        for (size_t i = 0; i < spec.value.nbytes && text[i] >= '0' && text[i] <= '9' && number < 1000; ++i)
            number = number * 10 + (text[i] - '0');
    }
    return number;
}

bool has_shape(const Tensor &tensor, const tpld_tensor &known) {
    if (tensor.dim() != known.rank)
        return false;
    for (int32_t axis = 0; axis < known.rank; ++axis)
        if (tensor.size(axis) != known.shape[axis])
            return false;
    return true;
}

Error read_tensors(Partition &part) {
    const size_t ins = part.inputs.size();
    for (size_t i = 0; i < part.tensors.size(); ++i) {
        const int status = i < ins ? tpld_input(part.net, static_cast<int>(i), &part.tensors[i])
                                   : tpld_output(part.net, static_cast<int>(i - ins), &part.tensors[i]);
        if (status != TPLD_OK)
            return failed("a tensor cannot be asked for", status);
    }
    return Error::Ok;
}

/* The runtime's tensor fits the net's in type and in the order of its elements. */
Error check(const Tensor &tensor, const tpld_tensor &known) {
    if (tensor.scalar_type() != type_of(known.dtype)) {
        ET_LOG(Error, "TpuLayerBackend: %s has another type of elements than was compiled", known.name);
        return Error::InvalidArgument;
    }
    if (!executorch::runtime::tensor_is_default_dim_order(tensor)) {
        ET_LOG(Error, "TpuLayerBackend: the axes of %s do not lie in their order in memory", known.name);
        return Error::InvalidArgument;
    }
    return Error::Ok;
}

/* Make the net take inputs of these shapes. */
Error resize_net(EventTracer *tracer, Partition &part, const std::vector<const Tensor *> &given) {
    std::vector<std::vector<int64_t>> shapes;
    std::vector<const int64_t *> places;
    std::vector<int> ranks;
    for (const Tensor *tensor : given) {
        shapes.emplace_back(tensor->sizes().begin(), tensor->sizes().end());
        ranks.push_back(static_cast<int>(tensor->dim()));
    }
    for (const std::vector<int64_t> &shape : shapes)
        places.push_back(shape.data());
    const int status = tpld_resize(part.net, places.data(), ranks.data());
    return status == TPLD_OK ? read_tensors(part) : failed_running(tracer, part.net, "shapes of inputs", status);
}

Error resize_output(Tensor &tensor, const tpld_tensor &known) {
    if (has_shape(tensor, known))
        return Error::Ok;
    std::vector<SizesType> sizes(known.shape, known.shape + known.rank);
    return executorch::runtime::resize_tensor(tensor, {sizes.data(), sizes.size()});
}

/* Every layer's modelled time, one after the other up to now, for devtools.Inspector. */
void tell_times(EventTracer *tracer, const Partition &part) {
    if (tracer == nullptr)
        return;
    const uint64_t clock_hz = 550000000;
    const int count = tpld_layer_num(part.net);
    const auto ratio = executorch::runtime::pal_ticks_to_ns_multiplier();
    std::vector<tpld_layer_info> layers(static_cast<size_t>(count));
    std::vector<et_timestamp_t> took(layers.size());
    et_timestamp_t now = executorch::runtime::pal_current_ticks();
    for (size_t i = 0; i < layers.size(); ++i) {
        if (tpld_layer(part.net, static_cast<int>(i), &layers[i]) != TPLD_OK)
            return;
        took[i] = layers[i].cycles * 1000000000u / clock_hz * ratio.denominator / ratio.numerator;
        now -= took[i];
    }
    for (size_t i = 0; i < layers.size(); ++i) {
        executorch::runtime::event_tracer_log_profiling_delegate(
            tracer, layers[i].name, executorch::runtime::kUnsetDelegateDebugIntId, now, now + took[i]);
        now += took[i];
    }
}

class TpuLayerBackend final : public executorch::runtime::BackendInterface {
  public:
    bool is_available() const override { return tpld_open_device(0) == TPLD_OK; }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec> specs) const override {
        void *room = context.get_runtime_allocator()->allocate(sizeof(Partition), alignof(Partition));
        if (room == nullptr)
            return Error::MemoryAllocationFailed;
        tpld_partition *net = nullptr;
        const int status = tpld_load(device_of(specs), processed->data(), processed->size(), nullptr, &net);
        processed->Free();
        if (status != TPLD_OK)
            return failed("a partition cannot be loaded", status);
        Partition *part = new (room) Partition;
        part->net = net;
        part->inputs.resize(static_cast<size_t>(tpld_input_num(net)));
        part->outputs.resize(static_cast<size_t>(tpld_output_num(net)));
        part->tensors.resize(part->inputs.size() + part->outputs.size());
        const Error known = read_tensors(*part);
        if (known != Error::Ok) {
            destroy(part);
            return known;
        }
        return part;
    }

    Error execute(BackendExecutionContext &context, DelegateHandle *handle, Span<EValue *> args) const override {
        Partition &part = *static_cast<Partition *>(handle);
        const size_t ins = part.inputs.size();
        std::vector<const Tensor *> given;
        std::vector<Tensor *> made;
        bool fits = true;
        for (EValue *value : args) { /* extents that are free come as numbers between the tensors */
            if (!value->isTensor())
                continue;
            const size_t index = given.size() + made.size();
            if (index >= part.tensors.size()) {
                ET_LOG(Error, "TpuLayerBackend: more tensors are given than the %zu of the partition",
                       part.tensors.size());
                return Error::InvalidArgument;
            }
            Tensor &tensor = value->toTensor();
            const Error error = check(tensor, part.tensors[index]);
            if (error != Error::Ok)
                return error;
            if (index < ins) {
                fits = fits && has_shape(tensor, part.tensors[index]);
                given.push_back(&tensor);
            } else {
                made.push_back(&tensor);
            }
        }
        if (given.size() + made.size() != part.tensors.size()) {
            ET_LOG(Error, "TpuLayerBackend: %zu tensors are given, the partition has %zu",
                   given.size() + made.size(), part.tensors.size());
            return Error::InvalidArgument;
        }
        if (!fits) {
            const Error error = resize_net(context.event_tracer(), part, given);
            if (error != Error::Ok)
                return error;
        }
        for (size_t i = 0; i < given.size(); ++i)
            part.inputs[i] = given[i]->const_data_ptr();
        for (size_t i = 0; i < made.size(); ++i) {
            const Error error = resize_output(*made[i], part.tensors[ins + i]);
            if (error != Error::Ok)
                return error;
            part.outputs[i] = made[i]->mutable_data_ptr();
        }
        const int status = tpld_execute(part.net, part.inputs.data(), part.outputs.data());
        if (status != TPLD_OK)
            return failed_running(context.event_tracer(), part.net, "a partition failed", status);
        tell_times(context.event_tracer(), part);
        return Error::Ok;
    }

    void destroy(DelegateHandle *handle) const override {
        if (handle == nullptr)
            return;
        Partition *part = static_cast<Partition *>(handle);
        tpld_destroy(part->net);
        part->~Partition();
    }
};

TpuLayerBackend backend;
const Error registered = executorch::runtime::register_backend({"TpuLayerBackend", &backend});

} // namespace

/* 0 where the runtime has taken the backend: it has room for few. */
extern "C" __attribute__((visibility("default"))) int tpulayer_executorch_registered() {
    return static_cast<int>(registered);
}
