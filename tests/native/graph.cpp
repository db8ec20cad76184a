// Runs single operations of the Graph API, given by their documented attributes. Tokens of a case:
// kind, the attributes' names, input0, input1 (shapes), output (shape; inferred if left out), dt.

#include <iostream>

#include "cases.hpp"
#include "oneapi/dnnl/dnnl_graph.hpp"

namespace graph = dnnl::graph;
using graph::logical_tensor;
using native::Case;
using native::Inputs;
using native::Result;
using Outcome = std::pair<std::string, std::vector<Result>>;

namespace {

const dnnl::engine &engine() {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
}

dnnl::stream &stream() {
    static dnnl::stream in_order(engine());
    return in_order;
}

const std::map<std::string, graph::op::kind> kinds = {
        {"Convolution", graph::op::kind::Convolution},
        {"ConvolutionBackwardData", graph::op::kind::ConvolutionBackwardData},
        {"ConvolutionBackwardWeights", graph::op::kind::ConvolutionBackwardWeights},
        {"ConvTranspose", graph::op::kind::ConvTranspose},
        {"ConvTransposeBackwardData", graph::op::kind::ConvTransposeBackwardData},
        {"ConvTransposeBackwardWeights", graph::op::kind::ConvTransposeBackwardWeights},
};

const std::map<std::string, graph::op::attr> list_attributes = {
        {"strides", graph::op::attr::strides},
        {"pads_begin", graph::op::attr::pads_begin},
        {"pads_end", graph::op::attr::pads_end},
        {"dilations", graph::op::attr::dilations},
        {"output_padding", graph::op::attr::output_padding},
        {"dst_shape", graph::op::attr::dst_shape},
        {"weights_shape", graph::op::attr::weights_shape},
};

const std::map<std::string, graph::op::attr> text_attributes = {
        {"auto_pad", graph::op::attr::auto_pad},
        {"data_format", graph::op::attr::data_format},
        {"weights_format", graph::op::attr::weights_format},
};

// An attribute that the case leaves out keeps oneDNN's default.
void set_attributes(graph::op &operation, const Case &task) {
    for (const auto &[name, attribute] : list_attributes) {
        if (task.has(name)) operation.set_attr<std::vector<int64_t>>(attribute, task.list(name));
    }
    for (const auto &[name, attribute] : text_attributes) {
        if (task.has(name)) operation.set_attr<std::string>(attribute, task.text(name));
    }
    if (task.has("groups")) {
        operation.set_attr<int64_t>(graph::op::attr::groups, task.number("groups"));
    }
}

logical_tensor::dims dense_strides(const logical_tensor::dims &shape) {
    logical_tensor::dims strides(shape.size(), 1);
    for (size_t axis = shape.size() - 1; axis > 0; --axis) {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    return strides;
}

Outcome run_case(const Case &task, const Inputs &inputs) {
    const auto type = static_cast<logical_tensor::data_type>(native::data_type(task));
    const auto offsets = task.list("inputs_at");
    std::vector<logical_tensor> sources;
    for (size_t i = 0; i < offsets.size(); ++i) {
        const auto shape = task.list("input" + std::to_string(i));
        sources.emplace_back(i, type, shape, dense_strides(shape));
    }
    // Without a shape of the result, oneDNN infers it from the attributes.
    const auto strided = logical_tensor::layout_type::strided;
    const auto rank = static_cast<int32_t>(task.list("input0").size());
    const logical_tensor wanted = task.has("output")
            ? logical_tensor(offsets.size(), type, task.list("output"), strided)
            : logical_tensor(offsets.size(), type, rank, strided);

    graph::op operation(0, kinds.at(task.text("kind")), sources, {wanted}, "operation");
    set_attributes(operation, task);
    graph::graph single(dnnl::engine::kind::cpu);
    single.add_op(operation);
    single.finalize();
    const auto partitions = single.get_partitions();
    if (partitions.size() != 1 || !partitions[0].is_supported()) {
        throw dnnl::error(dnnl_unimplemented, "the partition is not supported");
    }

    auto compiled = partitions[0].compile(sources, {wanted}, engine());
    const auto destination = compiled.query_logical_tensor(wanted.get_id());
    if (destination.get_strides() != dense_strides(destination.get_dims())) {
        throw std::runtime_error("native chose a result that is not dense");
    }
    std::vector<graph::tensor> arguments;
    std::vector<std::vector<char>> buffers;
    for (size_t i = 0; i < sources.size(); ++i) {
        buffers.emplace_back(sources[i].get_mem_size());
        inputs.copy(offsets[i], buffers[i].size(), buffers[i].data());
        arguments.emplace_back(sources[i], engine(), buffers[i].data());
    }
    Result result {destination.get_dims(), std::vector<char>(destination.get_mem_size())};
    const graph::tensor output(destination, engine(), result.bytes.data());
    compiled.execute(stream(), arguments, {output});
    stream().wait();
    return {"", {result}};
}

} // namespace

int main(int argc, char **argv) try {
    native::run_cases(argc, argv, run_case);
    return 0;
} catch (const std::exception &failed) {
    std::cerr << failed.what() << '\n';
    return 1;
}
