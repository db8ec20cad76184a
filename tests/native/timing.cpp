// Times convolutions and deconvolutions with memory layout `any`, the first implementation, all
// memory allocated beforehand, and reorders from and to the user's layout in every execution.
//
// The program reads requests from its standard input and answers each with one line of
// tab-separated fields, `ok` and the answer, or `failed`, a status and a message:
//   prepare KEY=VALUE ...   sets the case of the next requests, and answers its implementation
//   run WARM COUNT          seconds of COUNT executions, after WARM that are not timed
//   peak TYPE               floating-point operations per second of a large matrix product
//   bandwidth BYTES         bytes per second, when one half of the bytes is read, the other written
// Before the first request it prints `ok` and oneDNN's version.

#include <algorithm>
#include <chrono>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <unordered_map>

#include "primitives.hpp"

using dnnl::memory;
using native::Case;
using native::engine;
using native::stream;

namespace {

double seconds_of(const std::function<void()> &work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Truncates, since the rounding of random numbers has no influence on the time.
uint16_t as_bf16(float value) {
    return static_cast<uint16_t>(bits_of(value) >> 16);
}

uint16_t as_f16(float value) {
    const uint32_t bits = bits_of(value);
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
    const int exponent = static_cast<int>(bits >> 23 & 0xffu) - 127 + 15;
    if (exponent <= 0) return sign;
    return static_cast<uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ffu));
}

template <typename Element>
void repeat(const std::vector<Element> &block, const memory &target) {
    auto *elements = static_cast<Element *>(target.get_data_handle());
    const size_t count = target.get_desc().get_size() / sizeof(Element);
    for (size_t done = 0; done < count; done += block.size()) {
        std::copy_n(block.begin(), std::min(block.size(), count - done), elements + done);
    }
}

// Fills dense memory with normal numbers. To be fast, it repeats a block of them, whose length is
// prime.
void fill(const memory &target) {
    static const std::vector<float> normal = [] {
        std::vector<float> numbers(1000003);
        std::mt19937 random(0);
        std::normal_distribution<float> distribution;
        for (auto &number : numbers)
            number = distribution(random);
        return numbers;
    }();
    const auto type = target.get_desc().get_data_type();
    if (type == memory::data_type::f32) return repeat(normal, target);
    std::vector<uint16_t> rounded(normal.size());
    std::transform(normal.begin(), normal.end(), rounded.begin(),
            type == memory::data_type::bf16 ? as_bf16 : as_f16);
    repeat(rounded, target);
}

// The user's memory and, if the primitive's layout differs, the primitive's memory and a reorder.
class Argument {
public:
    Argument(const native::Tensor &tensor, bool is_result) : user_(tensor.user, engine()) {
        fill(user_);
        internal_ = user_;
        if (tensor.user == tensor.internal) return;
        internal_ = memory(tensor.internal, engine());
        from_ = is_result ? internal_ : user_;
        to_ = is_result ? user_ : internal_;
        reorder_ = dnnl::reorder(from_, to_);
    }

    const memory &internal() const { return internal_; }

    void convert() {
        if (reorder_) reorder_.execute(stream(), from_, to_);
    }

private:
    memory user_, internal_, from_, to_;
    dnnl::reorder reorder_;
};

class Prepared {
public:
    explicit Prepared(const native::Plan &plan)
        : primitive_(plan.primitive), implementation_(plan.implementation) {
        for (const auto &tensor : plan.sources) {
            sources_.emplace_back(tensor, false);
            arguments_.emplace(tensor.argument, sources_.back().internal());
        }
        for (const auto &tensor : plan.results) {
            results_.emplace_back(tensor, true);
            arguments_.emplace(tensor.argument, results_.back().internal());
        }
    }

    const std::string &implementation() const { return implementation_; }

    void execute() {
        for (auto &source : sources_)
            source.convert();
        primitive_.execute(stream(), arguments_);
        for (auto &result : results_)
            result.convert();
        stream().wait();
    }

private:
    dnnl::primitive primitive_;
    std::string implementation_;
    std::vector<Argument> sources_, results_;
    std::unordered_map<int, memory> arguments_;
};

// Rows and columns of the square matrices whose product measures the peak.
constexpr int64_t side = 2048;

// Seconds of the fastest execution within a time, the one least disturbed by other programs.
double least_seconds(const std::function<void()> &execute, double limit) {
    execute();
    double best = std::numeric_limits<double>::infinity();
    for (double total = 0; total < limit;) {
        const double one = seconds_of(execute);
        best = std::min(best, one);
        total += one;
    }
    return best;
}

double operations_per_second(const std::function<void()> &multiply) {
    return 2.0 * side * side * side / least_seconds(multiply, 1);
}

double peak(memory::data_type type) {
    const memory::desc user({side, side}, type, memory::dims {side, 1});
    if (type == memory::data_type::f32) {
        const memory a(user, engine()), b(user, engine()), c(user, engine());
        fill(a);
        fill(b);
        return operations_per_second([&] {
            dnnl::sgemm('N', 'N', side, side, side, 1, static_cast<float *>(a.get_data_handle()),
                    side, static_cast<float *>(b.get_data_handle()), side, 0,
                    static_cast<float *>(c.get_data_handle()), side);
        });
    }
    const auto any = native::any_layout(user);
    const dnnl::matmul::primitive_desc product(engine(), any, any, any);
    const memory a(product.src_desc(), engine()), b(product.weights_desc(), engine());
    const memory c(product.dst_desc(), engine());
    fill(a);
    fill(b);
    const dnnl::matmul primitive(product);
    return operations_per_second([&] {
        primitive.execute(
                stream(), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
        stream().wait();
    });
}

// Takes the faster of two primitives that do hardly more than to read and write. In the caches that
// is relu, which a minimal build of the library lacks.
double bandwidth(int64_t bytes) {
    constexpr double limit = 0.05;
    const int64_t count = std::max<int64_t>(bytes / 8, 1);
    const memory::desc layout({count}, memory::data_type::f32, memory::dims {1});
    memory from(layout, engine()), to(layout, engine());
    fill(from);
    fill(to);
    const dnnl::reorder copy(from, to);
    double best = least_seconds(
            [&] {
                copy.execute(stream(), from, to);
                stream().wait();
            },
            limit);
    try {
        const dnnl::eltwise_forward relu(
                dnnl::eltwise_forward::primitive_desc(engine(), dnnl::prop_kind::forward_inference,
                        dnnl::algorithm::eltwise_relu, layout, layout));
        const auto execute = [&] {
            relu.execute(stream(), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
            stream().wait();
        };
        best = std::min(best, least_seconds(execute, limit));
    } catch (const dnnl::error &failed) {
        if (failed.status != dnnl_unimplemented) throw;
    }
    return 8.0 * count / best;
}

std::string answer(const std::string &line, std::unique_ptr<Prepared> &prepared) {
    std::istringstream words(line);
    std::string request, type;
    words >> request;
    std::ostringstream text;
    text << std::setprecision(9);
    if (request == "prepare") {
        // Frees the memory of the previous case before this one allocates its own.
        prepared.reset();
        std::string tokens;
        std::getline(words, tokens);
        prepared = std::make_unique<Prepared>(native::plan(Case(tokens)));
        text << prepared->implementation();
    } else if (request == "peak") {
        words >> type;
        text << peak(native::data_type(Case("dt=" + type)));
    } else if (request == "bandwidth") {
        int64_t bytes = 0;
        if (!(words >> bytes)) throw std::invalid_argument(line);
        text << bandwidth(bytes);
    } else if (request == "run" && prepared) {
        int64_t warm = 0, count = 0;
        if (!(words >> warm >> count)) throw std::invalid_argument(line);
        const auto execute = [&] { prepared->execute(); };
        while (warm-- > 0)
            execute();
        for (int64_t i = 0; i < count; ++i)
            text << (i ? " " : "") << seconds_of(execute);
    } else {
        throw std::invalid_argument("no request: " + line);
    }
    return text.str();
}

} // namespace

int main() try {
    const auto *version = dnnl_version();
    std::cout << "ok\toneDNN " << version->major << '.' << version->minor << '.' << version->patch
              << std::endl;
    std::unique_ptr<Prepared> prepared;
    for (std::string line; std::getline(std::cin, line);) {
        try {
            const std::string text = answer(line, prepared);
            std::cout << "ok\t" << text << std::endl;
        } catch (const dnnl::error &failed) {
            std::cout << "failed\t" << dnnl_status2str(failed.status) << '\t' << failed.what()
                      << std::endl;
        } catch (const std::bad_alloc &) {
            std::cout << "failed\tout_of_memory\t" << std::endl;
        }
    }
    return 0;
} catch (const std::exception &failed) {
    std::cerr << failed.what() << '\n';
    return 1;
}
