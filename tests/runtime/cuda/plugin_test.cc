// The plug-in for GPUs, opened on any machine.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "runtime/device/devices.h"

namespace rannc::runtime {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kPlugin = RANNC_CUDA_PLUGIN;

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  for (size_t size = 0; (size = fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), size);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

TEST(CudaPlugin, SaysInOneSentenceWhatIsMissing) {
  const auto plugin = open_plugin(kPlugin);
  if (plugin.ok()) {
    EXPECT_GT((*plugin)->count(), 0U);
    EXPECT_FALSE((*plugin)->facts(0).name.empty());
    EXPECT_GT((*plugin)->facts(0).clock_khz, 0U);
    return;
  }
  const std::string& reason = plugin.diagnostic().message;
  EXPECT_THAT(reason, AnyOf(HasSubstr("no NVIDIA driver was found"), HasSubstr("no NVIDIA GPU was found"),
                            HasSubstr("the NVIDIA driver is too old")));
  EXPECT_THAT(reason, Not(HasSubstr("\n")));
}

TEST(CudaPlugin, RefusesAnotherVersion) {
  void* const library = dlopen(kPlugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto open = reinterpret_cast<OpenDevicePlugin>(dlsym(library, kDevicePluginEntry));
  ASSERT_NE(open, nullptr);
  std::array<char, 200> reason{};
  EXPECT_EQ(open(kDevicePluginVersion + 1, reason.data(), reason.size()), nullptr);
  EXPECT_THAT(reason.data(), HasSubstr("another version"));
}

TEST(CudaPlugin, FileThatIsNone) {
  EXPECT_THAT(open_plugin("/nowhere/librannc_cuda.so").diagnostic().message, HasSubstr("/nowhere/librannc_cuda.so"));
  EXPECT_THAT(open_plugin("libm.so.6").diagnostic().message, HasSubstr("libm.so.6 is no plug-in"));
}

// Its own classes, and what a compiler writes for the interfaces that it implements.
TEST(CudaPlugin, HasNoCodeOfRannc) {
  std::istringstream lines(output_of("nm -C --defined-only " + kPlugin));
  int own = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("rannc::");
    if (at == std::string::npos) continue;
    const bool interface = line.find("rannc::runtime::DevicePlugin") == at ||
                           line.find("rannc::runtime::RecordedWork") == at ||
                           line.find("rannc::runtime::DeviceRandom") != std::string::npos;
    const bool is_own = line.find("rannc::cuda::") == at;
    own += is_own ? 1 : 0;
    EXPECT_TRUE(is_own || interface) << line;
  }
  EXPECT_GT(own, 0);
  EXPECT_THAT(output_of("readelf -d " + kPlugin), Not(HasSubstr("librannc_r")));
}

}  // namespace
}  // namespace rannc::runtime
