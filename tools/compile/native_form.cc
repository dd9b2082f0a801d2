// Finds a C++ compiler for bundles of form native.
#include "tools/compile/native_form.h"

#include <fmt/format.h>

#include "codegen/native_compiler.h"
#include "tools/common/environment.h"

namespace rannc::tools {

namespace {

constexpr const char* kCompilers[] = {"c++", "g++", "clang++"};

}  // namespace

Result<FoundCompiler> find_compiler(const std::string& cxx) {
  const Location flag{.node = cxx.empty() ? "" : "--cxx"};
  std::string path;
  if (!cxx.empty()) path = find_program(cxx);
  for (const char* name : kCompilers) {
    if (path.empty() && cxx.empty()) path = find_program(name);
  }
  if (path.empty()) {
    return error(flag, cxx.empty() ? "no C++ compiler was found (c++, g++, clang++)"
                                   : fmt::format("`{}` is no program in the PATH", cxx));
  }
  FoundCompiler found{path, cache_folder("native")};
  const auto opened = codegen::NativeCompiler::open(found.path, found.cache);
  if (opened.ok()) return found;
  return error(flag, fmt::format("{}: {}", opened.diagnostic().where.str(), opened.diagnostic().message));
}

Result<compiler::Programs> programs_of(const FormFlags& flags, bool loops) {
  if (flags.form != compiler::Form::kNative) return compiler::Programs();
  const Result<FoundCompiler> found = find_compiler(flags.cxx);
  if (found.ok()) return compiler::Programs{compiler::Form::kNative, found->path, found->cache, loops};
  if (!flags.cxx.empty()) return found.diagnostic();
  fmt::print(stderr, "note: {}: the bundle has form interpreted\n", found.diagnostic().message);
  return compiler::Programs();
}

}  // namespace rannc::tools
