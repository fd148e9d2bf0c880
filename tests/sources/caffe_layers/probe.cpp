// Layers that try everything that imp_bmnetu.h offers, and every way to fail.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "imp_bmnetu.h"

struct probe_param {
    int top_k, kind, on, rules;
    float scale;
    int sizes[3];
};

// Reads fields of all kinds and adds two layers with a constant of its own between them.
class ProbeLayer : public imp_bmnetu::Layer {
    void add() override {
        probe_param p = {};
        p.top_k = get_int("probe_param.top_k");
        p.kind = get_enum("probe_param.kind", {"MAX", "MIN"}, 1);
        p.on = get_bool("probe_param.on", true);
        p.rules = count("probe_param.rule");
        p.scale = get_float("probe_param.scale", 0.5f);
        std::vector<int> sizes = get_ints("probe_param.size");
        for (size_t i = 0; i < sizes.size() && i < 3; i++) p.sizes[i] = sizes[i];
        std::string words = get_string("probe_param.label", "none");
        for (int i = 0; i < p.rules; i++) words += "/" + get_string("probe_param.rule[" + std::to_string(i) + "].word");
        for (const std::string &tag : get_strings("tag")) words += "+" + tag;
        for (float x : get_floats("probe_param.ratio")) p.scale += x;
        if (has("probe_param.refuse")) error("refused: " + words + " " + std::to_string(get_int("probe_param.refuse")));
        std::vector<float> sums;
        for (int i = 0; i < weight_num(); i++) {
            int size = 1;
            for (int extent : weight_shape(i)) size *= extent;
            float sum = 0;
            for (int j = 0; j < size; j++) sum += weight(i)[j];
            sums.push_back(sum);
        }
        std::vector<std::string> inputs = {bottom(0)};
        if (!sums.empty()) {
            add_const(name() + "/sums", {static_cast<int>(sums.size())}, sums.data());
            inputs.push_back(name() + "/sums");
        }
        std::string middle = name() + "/" + words;
        add_tpu_layer(inputs, {middle}, 7, &p, sizeof p);
        std::vector<int> extents = shape(0);
        if (has("probe_param.lie")) extents[0] += get_int("probe_param.lie");
        const char *names[] = {bottom_.c_str()}, *tops[] = {top_.c_str()};
        bottom_ = bottom(bottom_num() - 1), top_ = top(0);
        names[0] = bottom_.c_str(), tops[0] = top_.c_str();
        const int *shapes[] = {extents.data()};
        int dims[] = {static_cast<int>(extents.size())}, dtypes[] = {get_int("probe_param.dtype", 0)};
        add_tpu_layer(compiler(), 1, names, shapes, dims, dtypes, 1, tops, shapes, dims, dtypes, 8, nullptr, 0);
    }
    std::string bottom_, top_;
};
IMP_BMNETU_LAYER("Probe", ProbeLayer)

// Fails in the way that its field says.
class FailLayer : public imp_bmnetu::Layer {
    void add() override {
        std::string how = get_string("how");
        if (how == "throw") throw std::runtime_error("thrown text");
        if (how == "throw int") throw 5;
        if (how == "abort") abort();
        if (how == "null") *static_cast<volatile int *>(nullptr) = 1;
        if (how == "loop")
            for (volatile int i = 0; i == 0;) {
            }
        if (how == "exit") exit(3);
        if (how == "bottom") bottom(1);
        if (how == "blob") weight(0);
        if (how == "path") get_int("a..b");
        if (how == "index") get_int("list[2].x");
        if (how == "missing") get_float("mising");
        if (how == "swallow") {
            try {
                get_int("how");
            } catch (...) {
            }
        }
        if (how == "print") printf("printed for %s\n", top(0).c_str());
        if (how == "null param") add_tpu_layer({bottom(0)}, {top(0)}, 7, nullptr, 8);
        if (how == "const") add_const("c", {2, 0}, nullptr);
    }
};
IMP_BMNETU_LAYER("Fail", FailLayer)
