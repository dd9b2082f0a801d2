// Finds a C++ compiler for bundles of form native.
#include "tools/compile/native_form.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCompilers[] = {"c++", "g++", "clang++"};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The path of a program; empty if there is none.
std::string program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? fs::absolute(name).string() : "";
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string cache_folder() {
  std::string cache = variable("XDG_CACHE_HOME");
  if (cache.empty() && !variable("HOME").empty()) cache = variable("HOME") + "/.cache";
  return cache.empty() ? "" : cache + "/rannc/native";
}

std::optional<Diagnostic> no_form(const std::string& why, const FormFlags& flags) {
  if (!flags.cxx.empty()) return error({.node = "--cxx"}, why);
  fmt::print(stderr, "note: {}: the bundle has form torchscript\n", why);
  return std::nullopt;
}

}  // namespace

void add_form_flags(CLI::App& app, FormFlags& flags) {
  app.add_option("--form", flags.form,
                 "programs of the stages: torchscript, or native: C++, compiled here into a shared library each")
      ->check(CLI::IsMember({"torchscript", "native"}))
      ->capture_default_str();
  app.add_option("--cxx", flags.cxx, "C++ compiler of --form native (default: c++, g++ or clang++ in the PATH)");
}

Result<std::optional<codegen::NativeForm>> native_form(const FormFlags& flags, const ir::Plan& plan,
                                                       StatusLine& status) {
  using Form = std::optional<codegen::NativeForm>;
  if (flags.form != "native" || plan.functions.empty()) return Form();
  std::string path;
  if (!flags.cxx.empty()) path = program(flags.cxx);
  for (const char* name : kCompilers) {
    if (path.empty() && flags.cxx.empty()) path = program(name);
  }
  if (path.empty()) {
    const std::string why = flags.cxx.empty() ? "no C++ compiler was found (c++, g++, clang++)"
                                              : fmt::format("`{}` is no program in the PATH", flags.cxx);
    if (const auto failed = no_form(why, flags)) return *failed;
    return Form();
  }
  auto compiler = codegen::NativeCompiler::open(path, cache_folder());
  if (!compiler.ok()) {
    if (const auto failed = no_form(compiler.diagnostic().str(), flags)) return *failed;
    return Form();
  }
  const size_t stages = plan.stages.size();
  const auto progress = [&status, stages](size_t done) {
    status.show(fmt::format("compiling stages: {} of {}", done, stages));
  };
  return Form({*std::move(compiler), progress});
}

}  // namespace rannc::tools
