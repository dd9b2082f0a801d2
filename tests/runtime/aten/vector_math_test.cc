// Elementary functions are called by one thread before operators are called by several.
#include "runtime/aten/vector_math.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "runtime/aten/aten_call.h"

namespace rannc::runtime {
namespace {

std::mutex mutex;
std::map<std::string, int> called;

/// What LibTorch calls while `work` runs, on any thread.
template <class Work>
std::map<std::string, int> calls_of(const Work& work) {
  called.clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        const std::lock_guard lock(mutex);
        ++called[function.name()];
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return called;
}

// MKL's first calls by two threads at a time are sometimes inexact (pytorch#188792): 1 of 400 runs of two replicas.
TEST(VectorMath, FunctionsAreCalledOnceBeforeAnyOperator) {
  const auto first = calls_of([] { EXPECT_TRUE(check_call({"aten::relu", {ir::aten::Operand{0}}}).ok()); });
  for (const char* name : {"acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp", "expm1", "lgamma", "log",
                           "log10", "log1p", "log2", "sin", "sqrt", "tan", "tanh", "trunc"})
    EXPECT_EQ(first.count("aten::" + std::string(name)) ? first.at("aten::" + std::string(name)) : 0, 2) << name;
  EXPECT_EQ(calls_of([] { EXPECT_TRUE(check_call({"aten::relu", {ir::aten::Operand{0}}}).ok()); }).size(), 0U);
}

}  // namespace
}  // namespace rannc::runtime
