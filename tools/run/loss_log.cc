#include "tools/run/loss_log.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

#include "ir/base/number_range.h"

namespace rannc::tools {

Result<LossLog> LossLog::open(const std::string& path, uint64_t first_step) {
  LossLog log;
  const auto steps_done = [&](const std::string& line) -> std::optional<uint64_t> {
    std::string first, loss;
    char* end = nullptr;
    std::istringstream words(line);
    const bool read = words >> first >> loss && words.eof();
    const auto step = parse_number(first, WholeRange{});
    const double value = read ? std::strtod(loss.c_str(), &end) : 0;
    if (!read || !step || *end != '\0') return std::nullopt;
    if (*step < first_step) log.keep(*step, value);
    return *step + 1;
  };
  RANNC_ASSIGN(log.lines_, StepLines::open(path, first_step, {"a step and its loss", "0123456789", steps_done}));
  if (log.first_ + log.losses_.size() != first_step) log.losses_.clear();  // not consecutive with the next step
  return log;
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
  return lines_.add(fmt::format("{} {:a}", step, loss));
}

}  // namespace rannc::tools
