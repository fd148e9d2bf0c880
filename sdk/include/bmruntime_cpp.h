/* bmruntime's C++ classes. All code is in this header and calls libbmrt.so and libbmlib.so, so that it fits any
 * compiler's C++ library. A Context or Network that cannot be made throws std::runtime_error; functions return
 * a status, with a message on stderr.
 */
#ifndef BMRUNTIME_CPP_H_
#define BMRUNTIME_CPP_H_

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bmruntime_interface.h"

namespace bmruntime {

class Context;
class Network;
class Tensor;

inline size_t ByteSize(bm_data_type_t type) { return bmrt_data_type_size(type); }
inline size_t ByteSize(const bm_device_mem_t &device_mem) { return bm_mem_get_device_size(device_mem); }
inline size_t ByteSize(const bm_tensor_t &tensor) { return bmrt_tensor_bytesize(&tensor); } /* of its elements */
inline size_t ByteSize(const Tensor &tensor);

inline uint64_t Count(const bm_shape_t &shape) { return bmrt_shape_count(&shape); }
inline uint64_t Count(const bm_tensor_t &tensor) { return bmrt_shape_count(&tensor.shape); }
inline uint64_t Count(const Tensor &tensor);

inline bool IsSameShape(const bm_shape_t &left, const bm_shape_t &right) {
    return bmrt_shape_is_same(&left, &right);
}

/* A device with the nets loaded into it. Lives longer than its Networks. */
class Context {
  public:
    /* On a handle that stays the caller's. */
    explicit Context(bm_handle_t bm_handle) : body_(bmrt_create(bm_handle)), bm_handle_(nullptr) {
        if (body_ == nullptr) throw std::runtime_error("bmruntime::Context: no runtime on this handle");
    }
    /* On a handle of its own. */
    explicit Context(int devid = 0) : body_(nullptr), bm_handle_(nullptr) {
        if (bm_dev_request(&bm_handle_, devid) == BM_SUCCESS) body_ = bmrt_create(bm_handle_);
        if (body_ != nullptr) return;
        if (bm_handle_ != nullptr) bm_dev_free(bm_handle_);
        throw std::runtime_error("bmruntime::Context: no runtime on device " + std::to_string(devid));
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    virtual ~Context() {
        bmrt_destroy(body_);
        if (bm_handle_ != nullptr) bm_dev_free(bm_handle_);
    }

    bm_status_t load_bmodel(const void *bmodel_data, size_t size) {
        return bmrt_load_bmodel_data(body_, bmodel_data, size) ? BM_SUCCESS : BM_ERR_FAILURE;
    }
    bm_status_t load_bmodel(const char *bmodel_file) {
        return bmrt_load_bmodel(body_, bmodel_file) ? BM_SUCCESS : BM_ERR_FAILURE;
    }

    int get_network_number() const { return bmrt_get_network_number(body_); }
    /* Replaces what is in *names; the names are the Context's. */
    void get_network_names(std::vector<const char *> *names) const {
        const char **found = nullptr;
        int count = bmrt_get_network_number(body_); /* nets never become fewer */
        bmrt_get_network_names(body_, &found);
        names->assign(found, found + (found == nullptr ? 0 : count));
        std::free(found);
    }
    /* NULL for a net that is not loaded. */
    const bm_net_info_t *get_network_info(const char *net_name) const {
        return bmrt_get_network_info(body_, net_name);
    }
    bm_handle_t handle() const { return static_cast<bm_handle_t>(bmrt_get_bm_handle(body_)); }
    void trace() const { bmrt_trace(body_); }

  protected:
    void *body_;
    bm_handle_t bm_handle_; /* its own, or NULL */
    friend class Network;
};

/* An input or output of a Network, with device memory; made by it alone. */
class Tensor {
  public:
    /* All ByteSize() bytes, or `size` from `offset` on. */
    bm_status_t CopyTo(void *data) const { return CopyTo(data, ByteSize()); }
    bm_status_t CopyTo(void *data, size_t size, uint64_t offset = 0) const {
        if (!fits(size, offset)) return BM_ERR_PARAM;
        return bm_memcpy_d2s_partial_offset(handle_, data, tensor_->device_mem, static_cast<unsigned int>(size),
                                            static_cast<unsigned int>(offset));
    }
    bm_status_t CopyFrom(const void *data) { return CopyFrom(data, ByteSize()); }
    bm_status_t CopyFrom(const void *data, size_t size, uint64_t offset = 0) {
        if (!fits(size, offset)) return BM_ERR_PARAM;
        return bm_memcpy_s2d_partial_offset(handle_, tensor_->device_mem, const_cast<void *>(data),
                                            static_cast<unsigned int>(size), static_cast<unsigned int>(offset));
    }
    /* Only of a Network without a stage. */
    bm_status_t Reshape(const bm_shape_t &shape) {
        if (Count(shape) == 0) return wrong("Reshape: the shape has no elements", BM_ERR_PARAM);
        if (!can_reshape_) return wrong("Reshape: the Network was made for one stage", BM_ERR_NOFEATURE);
        if (Count(shape) > tensor_->device_mem.size / bmruntime::ByteSize(tensor_->dtype))
            return wrong("Reshape: the shape is larger than the tensor's device memory", BM_ERR_NOMEM);
        tensor_->shape = shape;
        have_reshaped_ = true;
        return BM_SUCCESS;
    }
    size_t ByteSize() const { return bmrt_tensor_bytesize(tensor_); }
    uint64_t num_elements() const { return Count(tensor_->shape); }
    const bm_tensor_t *tensor() const { return tensor_; }
    void set_store_mode(bm_store_mode_t mode) const { tensor_->st_mode = mode; }
    /* Memory of the caller instead of its own. */
    bm_status_t set_device_mem(const bm_device_mem_t &device_mem) {
        if (device_mem.size < ByteSize()) return wrong("set_device_mem: less than the tensor's bytes", BM_ERR_PARAM);
        if (!user_mem_) bm_free_device(handle_, tensor_->device_mem);
        user_mem_ = true;
        tensor_->device_mem = device_mem;
        return BM_SUCCESS;
    }

  protected:
    Tensor(bm_handle_t handle, bm_tensor_t *tensor, bool can_reshape = false)
        : user_mem_(false), handle_(handle), tensor_(tensor), can_reshape_(can_reshape), have_reshaped_(!can_reshape) {}
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    virtual ~Tensor() {
        if (!user_mem_) bm_free_device(handle_, tensor_->device_mem);
    }
    bool ready() { return have_reshaped_; }

    static bm_status_t wrong(const char *what, bm_status_t status) {
        std::fprintf(stderr, "bmrt: Tensor::%s\n", what);
        return status;
    }
    bool fits(size_t size, uint64_t offset) const {
        uint64_t all = ByteSize();
        if (offset <= all && size <= all - offset) return true;
        wrong("CopyTo or CopyFrom: more than the tensor has", BM_ERR_PARAM);
        return false;
    }

    bool user_mem_;
    bm_handle_t handle_;
    bm_tensor_t *tensor_;
    bool can_reshape_;
    bool have_reshaped_;
    friend class Network;
};

inline size_t ByteSize(const Tensor &tensor) { return tensor.ByteSize(); }
inline uint64_t Count(const Tensor &tensor) { return tensor.num_elements(); }

/* A net with inputs and outputs of its own; a net may have several. */
class Network {
  public:
    /* stage_id: the tensors have that stage's shapes, for good. -1: any; each input has to be reshaped before the
     * first Forward. */
    Network(const Context &ctx, const char *net_name, int stage_id = -1)
        : ctx_(&ctx), net_id_(-1), input_tensors_(nullptr), output_tensors_(nullptr),
          info_(ctx.get_network_info(net_name)) {
        if (info_ == nullptr) throw std::runtime_error("bmruntime::Network: no such net");
        if (stage_id < -1 || stage_id >= info_->stage_num) {
            throw std::runtime_error("bmruntime::Network: net '" + std::string(net_name) + "' has no stage " +
                                     std::to_string(stage_id));
        }
        net_id_ = bmrt_get_network_index(ctx.body_, net_name);
        const bm_stage_info_t &stage = info_->stages[stage_id < 0 ? 0 : stage_id];
        try {
            input_tensors_ = make(inputs_, info_->input_num, info_->input_dtypes, stage.input_shapes,
                                  info_->max_input_bytes, stage_id < 0);
            output_tensors_ = make(outputs_, info_->output_num, info_->output_dtypes, stage.output_shapes,
                                   info_->max_output_bytes, stage_id < 0);
        } catch (...) {
            clear();
            throw;
        }
    }
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;
    virtual ~Network() { clear(); }

    /* Runs the net; afterwards the outputs have their shapes. */
    bm_status_t Forward(bool sync = true) const {
        for (size_t i = 0; i < inputs_.size(); i++) {
            if (!inputs_[i]->ready()) {
                std::fprintf(stderr, "bmrt: Network::Forward: input '%s' was not reshaped\n", info_->input_names[i]);
                return BM_ERR_FAILURE;
            }
        }
        if (!bmrt_launch_tensor_ex(ctx_->body_, info_->name, input_tensors_, info_->input_num, output_tensors_,
                                   info_->output_num, true, true))
            return BM_ERR_FAILURE;
        return sync ? bm_thread_sync(ctx_->handle()) : BM_SUCCESS;
    }

    const std::vector<Tensor *> &Inputs() { return inputs_; }
    const std::vector<Tensor *> &Outputs() { return outputs_; }
    /* NULL for a name that the net has not. */
    Tensor *Input(const char *tensor_name) { return find(inputs_, info_->input_names, tensor_name); }
    Tensor *Output(const char *tensor_name) { return find(outputs_, info_->output_names, tensor_name); }
    const bm_net_info_t *info() const { return info_; }

  protected:
    const Context *ctx_;
    int net_id_;
    std::vector<Tensor *> inputs_;
    std::vector<Tensor *> outputs_;
    bm_tensor_t *input_tensors_;
    bm_tensor_t *output_tensors_;
    const bm_net_info_t *info_;

  private:
    bm_tensor_t *make(std::vector<Tensor *> &into, int n, const bm_data_type_t *dtypes, const bm_shape_t *shapes,
                      const size_t *bytes, bool can_reshape) {
        bm_tensor_t *tensors = new bm_tensor_t[static_cast<size_t>(n)]();
        for (int i = 0; i < n; i++) {
            tensors[i].dtype = dtypes[i];
            tensors[i].shape = shapes[i];
            tensors[i].st_mode = BM_STORE_1N;
            size_t size = can_reshape ? bytes[i] : bmrt_tensor_bytesize(&tensors[i]);
            if (bm_malloc_device_byte(ctx_->handle(), &tensors[i].device_mem, static_cast<unsigned int>(size)) !=
                BM_SUCCESS) {
                for (Tensor *t : into) delete t;
                into.clear();
                delete[] tensors;
                throw std::runtime_error("bmruntime::Network: no device memory for its tensors");
            }
            into.push_back(new Tensor(ctx_->handle(), &tensors[i], can_reshape));
        }
        return tensors;
    }
    static Tensor *find(const std::vector<Tensor *> &tensors, const char *const *names, const char *name) {
        for (size_t i = 0; name != nullptr && i < tensors.size(); i++)
            if (std::strcmp(names[i], name) == 0) return tensors[i];
        std::fprintf(stderr, "bmrt: Network: the net has no tensor '%s'\n", name == nullptr ? "" : name);
        return nullptr;
    }
    void clear() {
        for (Tensor *t : inputs_) delete t;
        for (Tensor *t : outputs_) delete t;
        delete[] input_tensors_;
        delete[] output_tensors_;
    }
};

}  // namespace bmruntime
#endif
