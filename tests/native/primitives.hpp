// Shared by the programs on the primitive API: creates the primitive of a case, with memory layout
// `any` and the first implementation. Tokens of a case: op (conv, deconv), dir (fwd, bwd_d, bwd_w),
// bias, g, mb, ic, oc, src, dst (spatial sizes), kernel, strides, dilations, pads_begin, pads_end,
// data (ncx, nxc), weights (oix, xio, iox, xoi), dt.
#pragma once

#include <numeric>

#include "cases.hpp"

namespace native {

using dnnl::memory;

inline const dnnl::engine &engine() {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
}

inline dnnl::stream &stream() {
    static dnnl::stream in_order(engine());
    return in_order;
}

// Returns the strides of a dense tensor whose axes have this order in memory, outermost first.
inline memory::dims strides_in_order(const memory::dims &shape, const std::vector<size_t> &order) {
    memory::dims strides(shape.size());
    int64_t stride = 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
        strides[*axis] = stride;
        stride *= shape[*axis];
    }
    return strides;
}

// Inserts the spatial axes, the last ones of every oneDNN tensor, at position `at` of the memory
// order of the other axes.
inline std::vector<size_t> with_spatial(std::vector<size_t> others, size_t at, size_t rank) {
    std::vector<size_t> spatial(rank - others.size());
    std::iota(spatial.begin(), spatial.end(), others.size());
    others.insert(others.begin() + at, spatial.begin(), spatial.end());
    return others;
}

struct Problem {
    memory::desc src, weights, bias, dst;
    memory::dims strides, dilations, pads_begin, pads_end;

    explicit Problem(const Case &task)
        : strides(task.list("strides"))
        , dilations(task.list("dilations"))
        , pads_begin(task.list("pads_begin"))
        , pads_end(task.list("pads_end")) {
        const auto type = data_type(task);
        src = activations(task, "ic", "src");
        dst = activations(task, "oc", "dst");
        weights = user_weights(task);
        if (task.number("bias")) bias = memory::desc({task.number("oc")}, type, memory::dims {1});
        // In the file a dense kernel has dilation 1, in oneDNN 0.
        for (auto &dilation : dilations)
            dilation -= 1;
    }

private:
    static memory::desc activations(
            const Case &task, const std::string &channels, const std::string &spatial) {
        memory::dims shape = {task.number("mb"), task.number(channels)};
        for (auto size : task.list(spatial))
            shape.push_back(size);
        const bool channels_last = task.text("data") == "nxc";
        const auto order = with_spatial({0, 1}, channels_last ? 1 : 2, shape.size());
        return {shape, data_type(task), strides_in_order(shape, order)};
    }

    static memory::desc user_weights(const Case &task) {
        const int64_t groups = task.number("g");
        memory::dims shape = {groups, task.number("oc") / groups, task.number("ic") / groups};
        for (auto size : task.list("kernel"))
            shape.push_back(size);
        const size_t rank = shape.size();
        // Axes: 0 groups, 1 output channels of a group, 2 input channels of a group.
        const std::map<std::string, std::vector<size_t>> orders = {
                {"oix", with_spatial({0, 1, 2}, 3, rank)},
                {"xio", with_spatial({2, 0, 1}, 0, rank)},
                {"iox", with_spatial({0, 2, 1}, 3, rank)},
                {"xoi", with_spatial({1, 0, 2}, 0, rank)},
        };
        auto strides = strides_in_order(shape, orders.at(task.text("weights")));
        if (groups == 1) {
            shape.erase(shape.begin());
            strides.erase(strides.begin());
        }
        return {shape, data_type(task), strides};
    }
};

inline memory::desc any_layout(const memory::desc &desc) {
    return {desc.get_dims(), desc.get_data_type(), memory::format_tag::any};
}

// An argument of a primitive: its oneDNN index, the user's layout and the primitive's layout.
struct Tensor {
    int argument;
    memory::desc user, internal;
};

// A primitive, its implementation's name, and its tensors in the order of the case.
struct Plan {
    dnnl::primitive primitive;
    std::string implementation;
    std::vector<Tensor> sources, results;
};

template <typename Forward, typename BackwardData, typename BackwardWeights>
Plan plan_direction(const Case &task, dnnl::algorithm algorithm) {
    const Problem user(task);
    const auto src = any_layout(user.src), weights = any_layout(user.weights);
    const auto dst = any_layout(user.dst);
    const bool with_bias = task.number("bias") != 0;
    const typename Forward::primitive_desc forward(engine(), dnnl::prop_kind::forward_training,
            algorithm, src, weights, user.bias, dst, user.strides, user.dilations,
            user.pads_begin, user.pads_end);

    const auto direction = task.text("dir");
    if (direction == "fwd") {
        std::vector<Tensor> sources = {{DNNL_ARG_SRC, user.src, forward.src_desc()},
                {DNNL_ARG_WEIGHTS, user.weights, forward.weights_desc()}};
        if (with_bias) sources.push_back({DNNL_ARG_BIAS, user.bias, forward.bias_desc()});
        return {Forward(forward), forward.impl_info_str(), sources,
                {{DNNL_ARG_DST, user.dst, forward.dst_desc()}}};
    }
    if (direction == "bwd_d") {
        const typename BackwardData::primitive_desc backward(engine(), algorithm, src, weights,
                dst, user.strides, user.dilations, user.pads_begin, user.pads_end, forward);
        return {BackwardData(backward), backward.impl_info_str(),
                {{DNNL_ARG_DIFF_DST, user.dst, backward.diff_dst_desc()},
                        {DNNL_ARG_WEIGHTS, user.weights, backward.weights_desc()}},
                {{DNNL_ARG_DIFF_SRC, user.src, backward.diff_src_desc()}}};
    }
    if (direction != "bwd_w") throw std::invalid_argument("dir: " + direction);
    const typename BackwardWeights::primitive_desc backward(engine(), algorithm, src, weights,
            user.bias, dst, user.strides, user.dilations, user.pads_begin, user.pads_end, forward);
    std::vector<Tensor> results
            = {{DNNL_ARG_DIFF_WEIGHTS, user.weights, backward.diff_weights_desc()}};
    if (with_bias) results.push_back({DNNL_ARG_DIFF_BIAS, user.bias, backward.diff_bias_desc()});
    return {BackwardWeights(backward), backward.impl_info_str(),
            {{DNNL_ARG_SRC, user.src, backward.src_desc()},
                    {DNNL_ARG_DIFF_DST, user.dst, backward.diff_dst_desc()}},
            results};
}

inline Plan plan(const Case &task) {
    if (task.text("op") == "conv") {
        return plan_direction<dnnl::convolution_forward, dnnl::convolution_backward_data,
                dnnl::convolution_backward_weights>(task, dnnl::algorithm::convolution_direct);
    }
    if (task.text("op") != "deconv") throw std::invalid_argument("op: " + task.text("op"));
    return plan_direction<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
            dnnl::deconvolution_backward_weights>(task, dnnl::algorithm::deconvolution_direct);
}

} // namespace native
