// Arithmetic of fake values and programs.
#include "tests/runtime/execute/fake_program.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

namespace rannc::testing {

using runtime::At;
using runtime::Held;
using runtime::Value;
using runtime::Values;

namespace {

/// What a fake forward pass keeps: 8 bytes per sample; 1 byte where only inputs are kept.
struct FakeHeld final : runtime::HeldState {
  uint64_t size = 0;
  bool complete = false;
  uint64_t bytes() const override { return size; }
};

double total(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

const std::vector<double>& numbers(const Value& value) { return static_cast<const FakeValue&>(*value).numbers(); }

Value FakeValue::plus(const Payload& other) const {
  std::vector<double> sum = numbers_;
  const auto& terms = static_cast<const FakeValue&>(other).numbers_;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += terms.at(i);
  return std::make_shared<FakeValue>(std::move(sum), scalar_);
}

Value FakeValue::sum(std::span<const Value> terms) const {
  Value total = terms[0];
  for (const Value& term : terms.subspan(1)) total = total->plus(*term);
  return total;
}

Value FakeValue::samples(const runtime::SampleAxis&, ir::SampleRange range) const {
  return std::make_shared<FakeValue>(
      std::vector<double>(numbers_.begin() + range.first, numbers_.begin() + range.last));
}

Value FakeValue::joined(std::span<const Value> parts, const runtime::SampleAxis&) const {
  std::vector<double> all;
  for (const Value& part : parts) all.insert(all.end(), testing::numbers(part).begin(), testing::numbers(part).end());
  return std::make_shared<FakeValue>(std::move(all));
}

Value FakeValue::contiguous() const { return std::make_shared<FakeValue>(numbers_, scalar_); }

// Numbers have no memory that could be shared.
Value FakeValue::elements(int64_t, int64_t) const { throw std::logic_error("the elements of numbers"); }
void FakeValue::overwrite(const Payload&) const { throw std::logic_error("overwrites numbers"); }

Value FakeValue::zeros() const { return std::make_shared<FakeValue>(std::vector<double>(numbers_.size(), 0), scalar_); }

Result<void> FakeProgram::called(const char* call, const At& at) {
  log_->add(fmt::format("{}{}.{}", call, at.stage.index(), at.micro_batch));
  return trap_ ? trap_(call, at) : Result<void>();
}

Result<Values> FakeProgram::forward(const At& at, Values inputs, Held& saved) {
  RANNC_TRY(called("F", at));
  std::vector<double> sums(at.samples, 1);
  for (const Value& input : inputs) {
    for (size_t i = 0; i < at.samples; ++i) sums[i] += numbers(input).at(i);
  }
  if (at.training) {
    auto held = std::make_unique<FakeHeld>();
    held->size = at.recomputed ? 1 : 8 * at.samples;
    held->complete = !at.recomputed;
    saved = std::move(held);
  }
  Values outputs;
  for (const runtime::Port& port : signature_.outputs) {
    const bool scalar = !port.type.batch.has_batch();
    outputs.push_back(std::make_shared<FakeValue>(scalar ? std::vector<double>{total(sums)} : sums, scalar));
  }
  return outputs;
}

Result<void> FakeProgram::recompute(const At& at, Held& saved) {
  RANNC_TRY(called("R", at));
  static_cast<FakeHeld&>(*saved).size = 8 * at.samples;
  static_cast<FakeHeld&>(*saved).complete = true;
  return {};
}

Result<Values> FakeProgram::backward_input(const At& at, Held& saved, Values output_gradients, Held& pending) {
  RANNC_TRY(called("I", at));
  if (!static_cast<FakeHeld&>(*saved).complete) return error("nothing was recomputed");
  std::vector<double> sums(at.samples, 0);
  for (const Value& gradient : output_gradients) {
    if (gradient == nullptr) continue;
    const auto& given = numbers(gradient);
    for (size_t i = 0; i < at.samples; ++i) sums[i] += given.size() == 1 && at.samples != 1 ? given[0] : given.at(i);
  }
  auto held = std::make_unique<FakeHeld>();
  held->size = static_cast<uint64_t>(total(sums));
  pending = std::move(held);
  for (double& sum : sums) sum *= 10;
  Values gradients;
  for (const runtime::Port& port : signature_.inputs) {
    gradients.push_back(port.gradient ? std::make_shared<FakeValue>(sums) : nullptr);
  }
  return gradients;
}

Result<void> FakeProgram::backward_weight(const At& at, Held& saved, Held& pending) {
  RANNC_TRY(called("W", at));
  const auto term = static_cast<double>(pending->bytes());
  std::vector<bool> added(gradients_.size(), false);
  for (uint32_t bucket = 0; bucket < signature_.buckets.size(); ++bucket) {
    if (completes_) completes_(at, bucket);
    for (const uint32_t parameter : signature_.buckets[bucket]) {
      gradients_[parameter] += term;
      added[parameter] = true;
    }
    if (at.marks != nullptr && bucket < marks) (*at.marks)(bucket);
  }
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (!added[i]) gradients_[i] += term;
  }
  saved.reset();
  pending.reset();
  return {};
}

Result<void> FakeProgram::commit_buffers(uint64_t) {
  log_->add(fmt::format("commit{}", signature_.stage.index()));
  return {};
}

Values FakeProgram::gradients(std::span<const uint32_t> parameters) {
  Values values;
  for (uint32_t i : parameters) values.push_back(std::make_shared<FakeValue>(std::vector<double>{gradients_[i]}, true));
  return values;
}

void FakeProgram::set_gradients(std::span<const uint32_t> parameters, Values gradients) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    gradients_[parameters[i]] = gradients[i] == nullptr ? std::nan("") : gradients[i]->item();
  }
}

}  // namespace rannc::testing
