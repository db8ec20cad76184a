// Runs convolutions and deconvolutions of the primitive API with memory layout `any`, the first
// implementation, and reorders from and to the user's layout.

#include <iostream>
#include <unordered_map>

#include "primitives.hpp"

using dnnl::memory;
using native::Case;
using native::engine;
using native::Inputs;
using native::Result;
using native::stream;
using Outcome = std::pair<std::string, std::vector<Result>>;

namespace {

// An argument of a primitive: the user's memory, and the primitive's if its layout differs.
struct Argument {
    memory user, internal;

    explicit Argument(const native::Tensor &tensor)
        : user(tensor.user, engine())
        , internal(tensor.user == tensor.internal ? user : memory(tensor.internal, engine())) {}

    bool reordered() const { return user != internal; }

    void load(const Inputs &inputs, int64_t offset) {
        inputs.copy(offset, user.get_desc().get_size(), user.get_data_handle());
        if (reordered()) dnnl::reorder(user, internal).execute(stream(), user, internal);
    }

    Result result() {
        if (reordered()) dnnl::reorder(internal, user).execute(stream(), internal, user);
        stream().wait();
        const auto *bytes = static_cast<const char *>(user.get_data_handle());
        const size_t size = user.get_desc().get_size();
        const auto element = memory::data_type_size(user.get_desc().get_data_type());
        return {{static_cast<int64_t>(size / element)}, {bytes, bytes + size}};
    }
};

Outcome run_case(const Case &task, const Inputs &inputs) {
    const native::Plan plan = native::plan(task);
    std::unordered_map<int, memory> arguments;
    const auto offsets = task.list("inputs_at");
    if (offsets.size() != plan.sources.size()) throw std::invalid_argument("inputs_at: wrong count");
    for (size_t i = 0; i < offsets.size(); ++i) {
        Argument source(plan.sources[i]);
        source.load(inputs, offsets[i]);
        arguments.emplace(plan.sources[i].argument, source.internal);
    }
    std::vector<Argument> destinations;
    for (const auto &tensor : plan.results) {
        destinations.emplace_back(tensor);
        arguments.emplace(tensor.argument, destinations.back().internal);
    }
    plan.primitive.execute(stream(), arguments);
    Outcome outcome {plan.implementation, {}};
    for (auto &destination : destinations)
        outcome.second.push_back(destination.result());
    return outcome;
}

} // namespace

int main(int argc, char **argv) try {
    native::run_cases(argc, argv, run_case);
    return 0;
} catch (const std::exception &failed) {
    std::cerr << failed.what() << '\n';
    return 1;
}
