#include "tools/run/step_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rannc::tools {

namespace {

constexpr const char* kStep = "step";

std::optional<uint64_t> steps_done(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto step = object.is_object() ? object.find(kStep) : object.end();
  return step != object.end() && step->is_number_unsigned() ? std::optional(step->get<uint64_t>()) : std::nullopt;
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
  StepLog log;
  RANNC_ASSIGN(log.lines_, StepLines::open(path, done, {"a JSON object with a number 'step'", "{", steps_done}));
  return log;
}

Result<void> StepLog::add(const StepFacts& facts) {
  nlohmann::ordered_json line = {{kStep, facts.done}};
  for (const auto& [name, value] : measurements(facts)) line[name] = value;
  if (!facts.metrics.empty()) line["metrics"] = facts.metrics;
  if (facts.validation && !facts.validation->metrics.empty()) line["validation_metrics"] = facts.validation->metrics;
  return lines_.add(line.dump());
}

}  // namespace rannc::tools
