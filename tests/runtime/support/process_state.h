/// What a library may have changed in the process of somebody else.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace rannc::testing {

/// Settings of the process and of the calling thread by name, as text.
using ProcessState = std::map<std::string, std::string>;

inline void add_torch_state(ProcessState& state) {
  const at::Context& context = at::globalContext();
  const auto add = [&](const char* name, auto value) { state[name] = fmt::format("{}", value); };
  add("deterministic algorithms", context.deterministicAlgorithms());
  add("deterministic algorithms only warn", context.deterministicAlgorithmsWarnOnly());
  add("deterministic fill", context.deterministicFillUninitializedMemory());
  add("deterministic cuDNN", context.deterministicCuDNN());
  add("deterministic oneDNN", context.deterministicMkldnn());
  add("benchmark cuDNN", context.benchmarkCuDNN());
  add("cuDNN", context.userEnabledCuDNN());
  add("oneDNN", context.userEnabledMkldnn());
  add("NNPACK", context.userEnabledNNPACK());
  add("flash attention", context.userEnabledFlashSDP());
  add("efficient attention", context.userEnabledMemEfficientSDP());
  add("mathematical attention", context.userEnabledMathSDP());
  add("TF32 of cuBLAS", context.allowTF32CuBLAS());
  add("TF32 of cuDNN", context.allowTF32CuDNN());
  add("precision of products", static_cast<int>(context.float32MatmulPrecision()));
  for (const auto backend : {at::Float32Backend::CUDA, at::Float32Backend::MKLDNN}) {
    for (const auto op : {at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL}) {
      state[fmt::format("precision {} {}", static_cast<int>(backend), static_cast<int>(op))] =
          fmt::format("{}", static_cast<int>(context.float32Precision(backend, op)));
    }
  }
  add("sums of float16 products", static_cast<int>(context.allowFP16ReductionCuBLAS()));
  add("sums of bfloat16 products", static_cast<int>(context.allowBF16ReductionCuBLAS()));
  add("default type", static_cast<int>(c10::get_default_dtype_as_scalartype()));
  add("allocator", reinterpret_cast<uintptr_t>(c10::GetCPUAllocator()));
  add("threads between operators", at::get_num_interop_threads());
  at::Generator random = at::detail::getDefaultCPUGenerator();
  const at::Tensor numbers = random.get_state();
  state["random numbers"] = std::string(static_cast<const char*>(numbers.const_data_ptr()), numbers.nbytes());
}

/// Of the calling thread, and what a new thread begins with.
inline void add_thread_state(ProcessState& state) {
  const auto add = [&](const char* name, auto value) { state[name] = fmt::format("{}", value); };
  add("threads per operator", at::get_num_threads());
  std::thread([&] { add("threads per operator of new threads", at::get_num_threads()); }).join();
  add("grad mode", c10::GradMode::is_enabled());
  add("inference mode", c10::InferenceMode::is_enabled());
  add("autocast", at::autocast::is_autocast_enabled(at::kCPU));
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  add("included dispatch keys", keys.included_.raw_repr());
  add("excluded dispatch keys", keys.excluded_.raw_repr());
  add("rounding", std::fegetround());
  volatile float least = 1e-39F;
  add("denormal numbers", least * 1.5F != 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  std::vector<int> signals;
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&blocked, number) == 1) signals.push_back(number);
  }
  add("blocked signals", fmt::format("{}", fmt::join(signals, " ")));
}

inline void add_system_state(ProcessState& state) {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    state[fmt::format("signal {}", number)] =
        fmt::format("{} {}", reinterpret_cast<uintptr_t>(action.sa_handler), action.sa_flags);
  }
  std::set<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace(*each);
  state["environment"] = fmt::format("{}", fmt::join(variables, "\n"));
  state["locale"] = std::setlocale(LC_ALL, nullptr);
  state["folder"] = std::filesystem::current_path();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  state["mask of files"] = fmt::format("{}", mask);
  for (const auto resource : {RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_STACK}) {
    rlimit limit = {};
    getrlimit(resource, &limit);
    state[fmt::format("limit {}", static_cast<int>(resource))] = fmt::format("{} {}", limit.rlim_cur, limit.rlim_max);
  }
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  state["open files"] = fmt::format("{}", entries("/proc/self/fd"));
  state["threads"] = fmt::format("{}", entries("/proc/self/task"));
}

inline ProcessState process_state() {
  ProcessState state;
  add_torch_state(state);
  add_thread_state(state);
  add_system_state(state);
  return state;
}

/// Names of what differs, with both values unless they are long.
inline std::vector<std::string> differences(const ProcessState& before, const ProcessState& after) {
  std::vector<std::string> found;
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    if (old != before.end() && old->second == value) continue;
    const std::string from = old == before.end() ? "none" : old->second;
    found.push_back(from.size() + value.size() < 100 ? fmt::format("{}: {} -> {}", name, from, value) : name);
  }
  return found;
}

/// Names of what has changed for good. A thread that was joined is listed for some time.
inline std::vector<std::string> changes_since(const ProcessState& before) {
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);;) {
    const std::vector<std::string> found = differences(before, process_state());
    if (found.empty() || std::chrono::steady_clock::now() > end) return found;
    std::this_thread::yield();
  }
}

}  // namespace rannc::testing
