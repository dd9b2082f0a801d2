#include "runtime/bundle/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace rannc::runtime {

namespace {

/// Returns a file in the form in which a bundle records it.
Result<Library> found_at(const std::string& path) {
  std::error_code failed;
  const auto whole = std::filesystem::canonical(path, failed);
  if (failed) return error({.file = path}, "cannot read the library: " + failed.message());
  RANNC_ASSIGN(std::string digest, file_digest(whole.string()));
  return Library{whole.string(), std::move(digest)};
}

Result<void> open(const Library& library) {
  if (dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return {};
  const char* why = dlerror();
  return error({.file = library.path}, fmt::format("cannot load the library: {}", why == nullptr ? "no reason" : why));
}

Diagnostic other_digest(const Library& found, const Library& recorded) {
  return error({.file = found.path}, fmt::format("has digest {}; the bundle was compiled with {} of digest {}",
                                                 found.digest, recorded.path, recorded.digest))
      .note("recompile the model with it, or pass the original file with --load-library");
}

}  // namespace

Result<Library> load_library(const std::string& path) {
  RANNC_ASSIGN(Library library, found_at(path));
  RANNC_TRY(open(library));
  return library;
}

Result<void> load_libraries(const Bundle& bundle, const std::vector<std::string>& given) {
  std::vector<Library> files;
  for (const std::string& path : given) {
    RANNC_ASSIGN(Library file, found_at(path));
    const auto fits = [&](const Library& recorded) { return recorded.digest == file.digest; };
    if (std::none_of(bundle.libraries.begin(), bundle.libraries.end(), fits)) {
      if (bundle.libraries.empty()) return error({.file = path}, "the bundle was compiled without libraries");
      return other_digest(file, bundle.libraries.front());
    }
    files.push_back(std::move(file));
  }
  for (const Library& recorded : bundle.libraries) {
    const auto at =
        std::find_if(files.begin(), files.end(), [&](const Library& file) { return file.digest == recorded.digest; });
    if (at != files.end()) {
      RANNC_TRY(open(*at));
      continue;
    }
    auto found = found_at(recorded.path);
    if (!found.ok()) {
      return std::move(Diagnostic(found.diagnostic()))
          .note("the bundle was compiled with it; if it has moved, pass its new path with --load-library");
    }
    if (found->digest != recorded.digest) return other_digest(*found, recorded);
    RANNC_TRY(open(*found));
  }
  return {};
}

}  // namespace rannc::runtime
