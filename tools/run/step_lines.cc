#include "tools/run/step_lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ir/base/replacement.h"

namespace rannc::tools {

Result<StepLines> StepLines::open(const std::string& path, uint64_t done, const StepLineForm& form) {
  StepLines lines;
  lines.path_ = path;
  std::error_code failed;
  if (is_stream(path)) {
    // starts with this run
  } else if (done > 0 && std::filesystem::exists(path, failed)) {
    RANNC_ASSIGN(const uint64_t kept, lines.bytes_until(done, form));
    std::filesystem::resize_file(path, kept, failed);
    if (failed) return error({path, 0, 0, {}}, "cannot be truncated: " + failed.message());
  } else {
    RANNC_TRY(write_file(path, ""));
  }
  lines.file_.open(path, std::ios::app);
  if (!lines.file_) return lines.unwritable();
  return lines;
}

Result<uint64_t> StepLines::bytes_until(uint64_t done, const StepLineForm& form) const {
  std::ifstream file(path_);
  std::string line;
  uint64_t kept = 0;
  bool cut = false;
  for (uint32_t number = 1; std::getline(file, line); ++number) {
    const bool torn = file.eof();
    const auto steps = torn ? std::nullopt : form.steps_done(line);
    if (!steps && !(torn && form.first_chars.find(line[0]) != std::string_view::npos)) {
      return error({path_, number, 0, {}}, fmt::format("expected {}, found '{}'", form.expected, line.substr(0, 60)));
    }
    cut = cut || torn || *steps > done;
    if (!cut) kept += line.size() + 1;
  }
  return kept;
}

Result<void> StepLines::add(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) return unwritable();
  return {};
}

Diagnostic StepLines::unwritable() const {
  return error({path_, 0, 0, {}}, std::string("cannot be written: ") + std::strerror(errno));
}

}  // namespace rannc::tools
