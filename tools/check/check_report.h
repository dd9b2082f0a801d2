/// Prints and serializes the results of rannc-check.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/model/finish_plan.h"
#include "tools/check/reference.h"

namespace rannc::tools {

/// One way to run a step. All processes list the variants in the same order.
struct CheckVariant {
  std::vector<uint32_t> replicas;  ///< number of devices, by stage
  partition::Reschedule change;
  std::string str() const;
};

/// `never`, `always` or `except-last`.
std::string_view recompute_mode(const partition::Reschedule& change);

nlohmann::json to_json(const CheckResult& result);
CheckResult result_from_json(const nlohmann::json& entry);

/// Prints the runs one by one and counts failures.
class CheckPrinter {
 public:
  explicit CheckPrinter(bool as_json) : json_(as_json) {}

  /// Prints one run. `warnings` are those of the folder's model.
  void line(const std::string& folder, const std::vector<std::string>& warnings, const CheckVariant& variant,
            const std::string& transport, const CheckResult& result);

  /// Prints a summary. Returns an error if a run failed.
  Result<void> end() const;

 private:
  void text_line(const std::string& folder, const CheckVariant& variant, const std::string& transport,
                 const CheckResult& result) const;
  bool json_;
  size_t cases_ = 0, failed_ = 0;
};

}  // namespace rannc::tools
