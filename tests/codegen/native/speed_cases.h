/// Pairs of a loop and the operator of LibTorch that computes the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/codegen/native/kernels.h"

namespace rannc::native_kernels {

struct SpeedCase {
  std::string name;
  std::function<void()> library;
  std::function<void(const Kernels&)> loop;
};

/// Cases over `rows` x `columns` floats, a multiple of 16 columns. Sets LibTorch to one thread.
std::vector<SpeedCase> speed_cases(std::int64_t rows, std::int64_t columns);

}  // namespace rannc::native_kernels
