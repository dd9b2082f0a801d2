// Calls the C++ compiler and keeps its results in a cache.
#include "codegen/native_compiler.h"

#define XXH_INLINE_ALL
#include <ATen/ops/add_ops.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <thread>

#include "codegen/internal/native_headers.h"
#include "ir/base/replacement.h"
#include "ir/base/subprocess.h"
#include "runtime/native/stage.h"

namespace rannc::codegen {

namespace {

namespace fs = std::filesystem;

constexpr size_t kShownLines = 12;  // of a compiler's messages

// Functions only call kernels; optimizing them more takes twice as long.
constexpr const char* kFunctionFlags[] = {"-std=c++20", "-Og", "-fPIC", "-w", "-fvisibility=hidden"};
// Loops round as written, so that all instruction sets give the same bits.
constexpr const char* kLoopFlags[] = {
    "-std=c++20",        "-O3", "-fPIC", "-w", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math"};
struct Variant {
  const char* name;
  const char* flags[4] = {};
  std::vector<std::string> all() const {
    std::vector<std::string> texts;
    std::copy_if(std::begin(flags), std::end(flags), std::back_inserter(texts),
                 [](const char* flag) { return flag != nullptr; });
    return texts;
  }
};
constexpr Variant kVariants[] = {
    {"baseline"}, {"avx2", {"-mavx2"}}, {"avx512", {"-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"}}};

std::string first_lines(const std::string& text, size_t count) {
  size_t end = 0;
  for (size_t i = 0; i < count && end < text.size(); ++i) end = std::min(text.find('\n', end), text.size() - 1) + 1;
  std::string lines = text.substr(0, end);
  while (!lines.empty() && lines.back() == '\n') lines.pop_back();
  return lines;
}

/// The include folder of the LibTorch that this process runs.
Result<std::string> torch_headers() {
  Dl_info library{};
  const auto symbol = reinterpret_cast<const void*>(&at::_ops::add_Tensor::call);
  if (dladdr(symbol, &library) == 0 || library.dli_fname == nullptr) return error("LibTorch's library is not found");
  std::error_code failed;
  const fs::path path = fs::canonical(library.dli_fname, failed).parent_path().parent_path() / "include";
  if (fs::exists(path / "ATen/ops/add_ops.h", failed)) return path.string();
  return error({.file = path.string()}, "LibTorch's headers are not there; they are needed to compile stages");
}

/// A folder that is removed with the object.
class Scratch {
 public:
  static Result<Scratch> create() {
    std::error_code failed;
    std::string name = (fs::temp_directory_path(failed) / "rannc-native-XXXXXX").string();
    if (failed || mkdtemp(name.data()) == nullptr) return error({.file = name}, "cannot be created");
    return Scratch(name);
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<void> copy(const std::string& from, const std::string& to) {
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (failed) return error({.file = to}, "cannot be written: " + failed.message());
  return {};
}

/// Runs a compiler.
Result<void> call(std::vector<std::string> command, const std::vector<std::string>& flags,
                  const std::vector<std::string>& more, const std::string& messages) {
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), more.begin(), more.end());
  RANNC_ASSIGN(const Ended ended, run_program(command, messages));
  if (ended.status == 0) return {};
  return error({.file = command[0]},
               fmt::format("failed with status {}:\n{}", ended.status, first_lines(ended.output, kShownLines)));
}

}  // namespace

Result<NativeCompiler> NativeCompiler::open(const std::string& path, std::string cache) {
  NativeCompiler compiler;
  compiler.path_ = path;
  compiler.cache_ = std::move(cache);
  RANNC_ASSIGN(compiler.torch_headers_, torch_headers());
  RANNC_ASSIGN(const Scratch scratch, Scratch::create());
  RANNC_ASSIGN(const Ended ended, run_program({path, "--version"}, scratch.path() + "/version"));
  if (ended.status != 0) return error({.file = path}, "does not report its version: it is no C++ compiler");
  compiler.version_ = first_lines(ended.output, 1);
  compiler.function_flags_.assign(std::begin(kFunctionFlags), std::end(kFunctionFlags));
  // LibTorch's threads are GCC's. The code is not linked against a second OpenMP: it finds LibTorch's.
  if (compiler.version_.find("clang") == std::string::npos) compiler.function_flags_.emplace_back("-fopenmp");
  if (!compiler.cache_.empty()) {
    std::error_code failed;
    fs::create_directories(compiler.cache_, failed);
    if (failed) return error({.file = compiler.cache_}, "cannot be created: " + failed.message());
  }
  return compiler;
}

std::vector<std::string> NativeCompiler::flags() const {
  std::vector<std::string> all = function_flags_;
  all.insert(all.end(), std::begin(kLoopFlags), std::end(kLoopFlags));
  for (const Variant& variant : kVariants) {
    all.emplace_back(variant.name);
    for (std::string& flag : variant.all()) all.push_back(std::move(flag));
  }
  return all;
}

runtime::Compilation NativeCompiler::compilation(bool loops) const {
  runtime::Compilation made{.compiler = path_,
                            .compiler_version = version_,
                            .function_flags = function_flags_,
                            .loop_flags = {},
                            .instruction_sets = {},
                            .interface_version = native::kInterfaceVersion,
                            .torch_version = TORCH_VERSION};
  if (!loops) return made;
  made.loop_flags.assign(std::begin(kLoopFlags), std::end(kLoopFlags));
  for (const Variant& variant : kVariants) made.instruction_sets.push_back({variant.name, variant.all()});
  return made;
}

Result<void> NativeCompiler::compile(const std::string& source, const std::string& output) const {
  RANNC_ASSIGN(std::string key, read_file(source));
  for (const NativeHeader& header : native_headers()) key += fmt::format("\n// {}\n{}", header.name, header.text);
  key += fmt::format("\n{}\n{}\n{}\n{}", fmt::join(flags(), " "), path_, version_, TORCH_VERSION);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  const std::string cached = fmt::format("{}/{:016x}{:016x}.so", cache_, hash.high64, hash.low64);
  std::error_code ignored;
  if (!cache_.empty() && fs::exists(cached, ignored)) return copy(cached, output);
  RANNC_ASSIGN(const Scratch scratch, Scratch::create());
  RANNC_TRY(run(source, output, scratch.path()));
  if (cache_.empty()) return {};
  Replacement kept(cached);
  RANNC_TRY(copy(output, kept.temporary()));
  return kept.commit();
}

Result<void> NativeCompiler::run(const std::string& source, const std::string& output,
                                 const std::string& scratch) const {
  for (const NativeHeader& header : native_headers()) {
    const fs::path path = fs::path(scratch) / header.name;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    RANNC_TRY(write_file(path.string(), header.text));
  }
  RANNC_ASSIGN(const std::string text, read_file(source));
  const bool loops = text.find("#ifdef RANNC_LOOPS") != std::string::npos;
  std::vector<std::string> link = {path_, "-shared", "-o", output, scratch + "/functions.o"};
  // The functions take about as long as the loops of all instruction sets, so they are compiled beside each other.
  Result<void> compiled;
  std::thread functions([&] {
    compiled =
        call({path_}, function_flags_,
             {"-I", scratch, "-isystem", torch_headers_, "-c", "-x", "c++", source, "-o", scratch + "/functions.o"},
             scratch + "/functions.txt");
  });
  Result<void> others;
  for (const Variant& variant : kVariants) {
    if (!loops || !others.ok()) break;
    const std::string object = fmt::format("{}/{}.o", scratch, variant.name);
    std::vector<std::string> flags = {"-DRANNC_LOOPS", "-I", scratch, "-c", "-x", "c++", source, "-o", object};
    for (std::string& flag : variant.all()) flags.push_back(std::move(flag));
    others = call({path_}, {std::begin(kLoopFlags), std::end(kLoopFlags)}, flags,
                  fmt::format("{}/{}.txt", scratch, variant.name));
    link.push_back(object);
  }
  functions.join();
  RANNC_TRY(std::move(compiled));
  RANNC_TRY(std::move(others));
  return call({}, {}, link, scratch + "/link.txt");
}

}  // namespace rannc::codegen
