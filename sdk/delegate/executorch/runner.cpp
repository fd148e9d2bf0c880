/* Runs a .pte file with ExecuTorch's own Module and no Python: tpulayer_et_run FILE.pte BACKEND.so INPUT.bin... OUTPUT
 * Inputs are files of the bytes of each tensor, as the method's; outputs are written to OUTPUT.0, OUTPUT.1, ... */
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using executorch::aten::SizesType;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

namespace {

int complain(const std::string &text) {
    std::fprintf(stderr, "error: %s\n", text.c_str());
    return 1;
}

} // namespace

int main(int count, char **words) {
    if (count < 4)
        return complain("usage: tpulayer_et_run FILE.pte BACKEND.so INPUT.bin... OUTPUT"), 2;
    if (dlopen(words[2], RTLD_NOW | RTLD_GLOBAL) == nullptr)
        return complain(dlerror()), 3;
    Module module(words[1]);
    const auto meta = module.method_meta("forward");
    if (!meta.ok())
        return complain(std::string(words[1]) + " is no program that this ExecuTorch runs");
    const size_t given = static_cast<size_t>(count - 4);
    if (meta->num_inputs() != given)
        return complain("the program has " + std::to_string(meta->num_inputs()) + " inputs");
    std::vector<std::vector<char>> data(given);
    std::vector<TensorPtr> tensors;
    std::vector<EValue> values;
    for (size_t i = 0; i < given; ++i) {
        const auto info = meta->input_tensor_meta(i);
        if (!info.ok())
            return complain("input " + std::to_string(i) + " is no tensor");
        std::ifstream file(words[3 + i], std::ios::binary);
        data[i].assign(std::istreambuf_iterator<char>(file), {});
        if (data[i].size() != info->nbytes())
            return complain(std::string(words[3 + i]) + " has " + std::to_string(data[i].size()) + " bytes, the input " +
                            std::to_string(info->nbytes()));
        std::vector<SizesType> sizes(info->sizes().begin(), info->sizes().end());
        tensors.push_back(executorch::extension::from_blob(data[i].data(), sizes, info->scalar_type()));
        values.emplace_back(*tensors.back());
    }
    const auto result = module.forward(values);
    if (!result.ok())
        return complain("the program failed with ExecuTorch's error " +
                        std::to_string(static_cast<int>(result.error())));
    for (size_t i = 0; i < result->size(); ++i) {
        if (!result->at(i).isTensor())
            continue;
        const auto tensor = result->at(i).toTensor();
        std::ofstream file(words[count - 1] + ("." + std::to_string(i)), std::ios::binary);
        file.write(static_cast<const char *>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
        if (!file)
            return complain(std::string(words[count - 1]) + " cannot be written");
    }
    return 0;
}
