#include "tools/run/loss_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "ir/base/number_range.h"
#include "ir/base/replacement.h"

namespace rannc::tools {

namespace {

std::string line_of(uint64_t step, double loss) { return fmt::format("{} {:a}\n", step, loss); }

}  // namespace

Result<LossLog> LossLog::open(const std::string& path, uint64_t first_step) {
  LossLog log(path);
  if (!is_stream(path)) {
    std::string kept;
    if (first_step > 0) {
      RANNC_ASSIGN(kept, log.read(first_step));
    }
    RANNC_TRY(write_file(path, kept));
  }
  log.file_.open(path, std::ios::app);
  if (!log.file_) return error({path, 0, 0, {}}, std::string("cannot be written: ") + std::strerror(errno));
  return log;
}

// Returns the lines of earlier steps. A last line without a newline was left by a killed run.
Result<std::string> LossLog::read(uint64_t before) {
  std::string kept;
  std::ifstream file(path_);
  std::string line;
  for (uint32_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    std::string first, loss;
    char* end = nullptr;
    std::istringstream words(line);
    const bool read = words >> first >> loss && words.eof();
    const auto step = parse_number(first, WholeRange{});
    const double value = read ? std::strtod(loss.c_str(), &end) : 0;
    if (!read || !step || *end != '\0') {
      return error({path_, number, 0, {}}, fmt::format("expected a step and its loss, found '{}'", line));
    }
    if (*step >= before) continue;
    keep(*step, value);
    kept += line + '\n';
  }
  if (!losses_.empty() && first_ + losses_.size() != before) losses_.clear();  // not consecutive with the next step
  return kept;
}

void LossLog::keep(uint64_t step, double loss) {
  if (losses_.empty() || step != first_ + losses_.size()) {
    losses_.clear();
    first_ = step;
  }
  losses_.push_back(loss);
}

Result<void> LossLog::add(uint64_t step, double loss) {
  keep(step, loss);
  file_ << line_of(step, loss) << std::flush;
  if (!file_) return error({path_, 0, 0, {}}, std::string("cannot be written: ") + std::strerror(errno));
  return {};
}

}  // namespace rannc::tools
