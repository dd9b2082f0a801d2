/// Programs and values without a tensor library: numbers that say where they have been.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/execute/executor.h"

namespace rannc::testing {

/// Samples of one number each, along axis 0; or a single number without samples.
class FakeValue final : public runtime::Payload {
 public:
  explicit FakeValue(std::vector<double> numbers, bool scalar = false)
      : numbers_(std::move(numbers)), scalar_(scalar) {}
  const std::vector<double>& numbers() const { return numbers_; }

  runtime::TensorSpec spec() const override {
    return {ir::DType::kF64,
            scalar_ ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(numbers_.size())}};
  }
  runtime::Value plus(const runtime::Payload& other) const override;
  runtime::Value sum(std::span<const runtime::Value> terms) const override;
  runtime::Value samples(const runtime::SampleAxis& axis, ir::SampleRange range) const override;
  runtime::Value joined(std::span<const runtime::Value> parts, const runtime::SampleAxis& axis) const override;
  runtime::Value contiguous() const override;
  runtime::Value elements(int64_t first, int64_t last) const override;
  void overwrite(const runtime::Payload& source) const override;
  runtime::Value zeros() const override;
  double item() const override { return numbers_.at(0); }

 private:
  std::vector<double> numbers_;
  bool scalar_;
};

const std::vector<double>& numbers(const runtime::Value& value);

/// What devices did, in the order in which they did it.
class Log {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Every output is, per sample, the sum of the inputs plus one; a loss numerator is the sum of all of it. The gradient
/// of every input is, per sample, the sum of the output gradients times ten. Each parameter's gradient adds up the
/// output gradients over samples and micro-batches. Those of buckets become final one bucket after the other, in order.
/// `trap` may turn a call into an error. `completes` is called before the gradients of a bucket are added.
class FakeProgram final : public runtime::Program {
 public:
  using Trap = std::function<Result<void>(const char* call, const runtime::At&)>;
  using Completes = std::function<void(const runtime::At&, uint32_t bucket)>;
  FakeProgram(runtime::Signature signature, Log* log, Trap trap, Completes completes = {})
      : signature_(std::move(signature)),
        log_(log),
        trap_(std::move(trap)),
        completes_(std::move(completes)),
        parameters_(signature_.parameters.size(), std::make_shared<FakeValue>(std::vector<double>{0}, true)) {}

  const runtime::Signature& signature() const override { return signature_; }
  void begin_step(const runtime::Carried& carried, runtime::StepKind) override {
    gradients_.resize(signature_.parameters.size());
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (i >= carried.gradients.size() || !carried.gradients[i]) gradients_[i] = 0;
    }
  }
  Result<runtime::Values> forward(const runtime::At& at, runtime::Values inputs, runtime::Held& saved) override;
  Result<void> recompute(const runtime::At& at, runtime::Held& saved) override;
  Result<runtime::Values> backward_input(const runtime::At& at, runtime::Held& saved, runtime::Values output_gradients,
                                         runtime::Held& pending) override;
  Result<void> backward_weight(const runtime::At& at, runtime::Held& saved, runtime::Held& pending) override;
  runtime::Values statistics() override { return {}; }
  void set_statistics(runtime::Values sums) override { EXPECT_TRUE(sums.empty()); }
  Result<void> commit_buffers(uint64_t step) override;
  runtime::Values gradients(std::span<const uint32_t> parameters) override;
  void set_gradients(std::span<const uint32_t> parameters, runtime::Values gradients) override;
  const runtime::Values& parameters() const override { return parameters_; }
  const runtime::Values& buffers() const override { return parameters_; }

  uint32_t marks = UINT32_MAX;  ///< buckets that are reported, as if the end of the step completed the others

 private:
  Result<void> called(const char* call, const runtime::At& at);

  runtime::Signature signature_;
  Log* log_;
  Trap trap_;
  Completes completes_;
  runtime::Values parameters_;
  std::vector<double> gradients_;
};

}  // namespace rannc::testing
