// Variables that programs set for CUDA and NCCL.
#include "tools/common/gpu_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace rannc::tools {
namespace {

using ::testing::HasSubstr;

/// A value; empty if the variable is not set.
std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class GpuEnvironment : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const GpuVariable& variable : gpu_variables()) unsetenv(variable.name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(GpuEnvironment, HasWhatTheRunNeeds) {
  for (const GpuUse use :
       {GpuUse{}, GpuUse{.over_nccl = true}, GpuUse{.on_streams = true}, GpuUse{.deterministic = true}}) {
    SetUp();
    set_gpu_environment(use);
    for (const GpuVariable& variable : gpu_variables())
      EXPECT_EQ(value_of(variable.name), use.*variable.needed_by ? variable.value : "") << variable.name;
  }
}

TEST_F(GpuEnvironment, KeepsWhatTheUserHasSet) {
  for (const GpuVariable& variable : gpu_variables()) setenv(variable.name, "own", 1);
  set_gpu_environment({.over_nccl = true, .on_streams = true, .deterministic = true});
  for (const GpuVariable& variable : gpu_variables()) EXPECT_EQ(value_of(variable.name), "own");
}

TEST_F(GpuEnvironment, IsInTheManual) {
  std::ifstream file(RANNC_SOURCE_DIR "/tools/manual/rannc-run.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const GpuVariable& variable : gpu_variables())
    EXPECT_THAT(text.str(), HasSubstr(std::string("| `") + variable.name + "=" + variable.value + "` |"));
}

}  // namespace
}  // namespace rannc::tools
