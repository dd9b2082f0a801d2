#include "tools/run/step_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/base/replacement.h"

namespace rannc::tools {

namespace {

constexpr const char* kStep = "step";

/// Returns the number of bytes of the complete lines up to step `done`. A last line without a newline was left by a
/// killed run.
Result<uint64_t> bytes_until(const std::string& path, uint64_t done) {
  std::ifstream file(path);
  std::string line;
  uint64_t kept = 0;
  for (uint32_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains(kStep) || !object[kStep].is_number_unsigned())
      return error({path, number, 0, {}},
                   fmt::format("expected a JSON object with a number '{}', found '{}'", kStep, line.substr(0, 60)));
    if (object[kStep].get<uint64_t>() > done) break;
    kept += line.size() + 1;
  }
  if (!line.empty() && file.eof() && !line.starts_with('{'))
    return error({path, 0, 0, {}}, fmt::format("expected JSON objects, found '{}'", line.substr(0, 60)));
  return kept;
}

}  // namespace

std::vector<std::pair<std::string, double>> measurements(const StepFacts& facts) {
  const double rate = 1 / std::max(facts.seconds, 1e-9);
  std::vector<std::pair<std::string, double>> all = {{"loss", facts.loss},
                                                     {"learning_rate", facts.learning_rate},
                                                     {"seconds", facts.seconds},
                                                     {"samples_per_second", rate * static_cast<double>(facts.samples)}};
  if (facts.epoch) all.insert(all.begin(), {"epoch", *facts.epoch});
  if (facts.tokens > 0) all.emplace_back("tokens_per_second", rate * static_cast<double>(facts.tokens));
  if (facts.gradient_norm > 0) all.emplace_back("gradient_norm", facts.gradient_norm);
  if (!facts.validation) return all;
  all.emplace_back("validation_loss", facts.validation->loss);
  if (facts.validation->accuracy) all.emplace_back("validation_accuracy", *facts.validation->accuracy);
  return all;
}

Result<StepLog> StepLog::open(const std::string& path, uint64_t done) {
  StepLog log(path);
  std::error_code failed;
  if (is_stream(path)) {
    // starts with this run
  } else if (done > 0 && std::filesystem::exists(path, failed)) {
    RANNC_ASSIGN(const uint64_t kept, bytes_until(path, done));
    std::filesystem::resize_file(path, kept, failed);
    if (failed) return error({path, 0, 0, {}}, "cannot be truncated: " + failed.message());
  } else {
    RANNC_TRY(write_file(path, ""));
  }
  log.file_.open(path, std::ios::app);
  if (!log.file_) return error({path, 0, 0, {}}, std::string("cannot be written: ") + std::strerror(errno));
  return log;
}

Result<void> StepLog::add(const StepFacts& facts) {
  nlohmann::ordered_json line = {{kStep, facts.done}};
  for (const auto& [name, value] : measurements(facts)) line[name] = value;
  if (facts.validation && !facts.validation->metrics.empty()) line["validation_metrics"] = facts.validation->metrics;
  file_ << line.dump() << '\n' << std::flush;
  if (!file_) return error({path_, 0, 0, {}}, std::string("cannot be written: ") + std::strerror(errno));
  return {};
}

}  // namespace rannc::tools
