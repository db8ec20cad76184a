// Shared by the native comparison programs: reads cases and raw inputs, reports results.
//
// A program is called as: program CASES INPUTS OUTPUTS REPORT
//   CASES    a line for each case: tokens key=value, with lists such as 1,2,3
//   INPUTS   the raw bytes of all tensors; a case has the byte offsets of its own
//   OUTPUTS  the raw bytes of all results, concatenated
//   REPORT   a line for each case, tab-separated: status, detail, shape and byte offset by result
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_debug.h"

namespace native {

using dims = std::vector<int64_t>;

class Case {
public:
    explicit Case(const std::string &line) {
        std::istringstream tokens(line);
        for (std::string token; tokens >> token;) {
            const auto equals = token.find('=');
            if (equals == std::string::npos) {
                throw std::invalid_argument("not key=value: " + token);
            }
            values_[token.substr(0, equals)] = token.substr(equals + 1);
        }
    }

    bool has(const std::string &key) const { return values_.count(key) != 0; }

    const std::string &text(const std::string &key) const {
        const auto found = values_.find(key);
        if (found == values_.end()) throw std::invalid_argument("the case has no " + key);
        return found->second;
    }

    int64_t number(const std::string &key) const { return std::stoll(text(key)); }

    dims list(const std::string &key) const {
        dims numbers;
        std::istringstream items(text(key));
        for (std::string item; std::getline(items, item, ',');) {
            numbers.push_back(std::stoll(item));
        }
        return numbers;
    }

private:
    std::map<std::string, std::string> values_;
};

class Inputs {
public:
    explicit Inputs(const std::string &path) {
        std::ifstream file(path, std::ios::binary);
        if (!file) throw std::invalid_argument("cannot read " + path);
        bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }

    void copy(int64_t offset, size_t size, void *to) const {
        if (offset < 0 || offset + size > bytes_.size()) {
            throw std::out_of_range("an input ends behind the end of the input file");
        }
        std::memcpy(to, bytes_.data() + offset, size);
    }

private:
    std::vector<char> bytes_;
};

struct Result {
    dims shape;
    std::vector<char> bytes;
};

// Every line is flushed: if a case kills the process, the number of lines tells which case.
class Report {
public:
    Report(const std::string &outputs_path, const std::string &report_path)
        : outputs_(outputs_path, std::ios::binary), report_(report_path) {
        if (!outputs_ || !report_) throw std::invalid_argument("cannot write the results");
    }

    void success(const std::string &detail, const std::vector<Result> &results) {
        report_ << "success\t" << detail;
        for (const auto &result : results) {
            report_ << '\t';
            for (size_t axis = 0; axis < result.shape.size(); ++axis) {
                report_ << (axis ? "," : "") << result.shape[axis];
            }
            report_ << '\t' << written_;
            outputs_.write(result.bytes.data(), static_cast<std::streamsize>(result.bytes.size()));
            written_ += result.bytes.size();
        }
        outputs_.flush();
        report_ << std::endl;
    }

    void failure(const std::string &status, const std::string &detail) {
        report_ << status << '\t' << detail << std::endl;
    }

private:
    std::ofstream outputs_;
    std::ofstream report_;
    size_t written_ = 0;
};

inline dnnl::memory::data_type data_type(const Case &task) {
    static const std::map<std::string, dnnl::memory::data_type> types = {
            {"f32", dnnl::memory::data_type::f32},
            {"bf16", dnnl::memory::data_type::bf16},
            {"f16", dnnl::memory::data_type::f16},
    };
    return types.at(task.text("dt"));
}

// Calls `run(task, inputs)`, which returns the detail and the results, for every line of CASES. An
// error of oneDNN is that case's outcome; any other error means a wrong file and ends the program.
template <typename Run>
void run_cases(int argc, char **argv, Run run) {
    if (argc != 5) throw std::invalid_argument("usage: program CASES INPUTS OUTPUTS REPORT");
    std::ifstream cases(argv[1]);
    if (!cases) throw std::invalid_argument(std::string("cannot read ") + argv[1]);
    const Inputs inputs(argv[2]);
    Report report(argv[3], argv[4]);
    for (std::string line; std::getline(cases, line);) {
        try {
            const std::pair<std::string, std::vector<Result>> outcome = run(Case(line), inputs);
            report.success(outcome.first, outcome.second);
        } catch (const dnnl::error &failed) {
            report.failure(dnnl_status2str(failed.status), failed.what());
        }
    }
}

} // namespace native
