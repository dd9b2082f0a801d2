#include "partition/model/cut_comments.h"

#include <fmt/format.h>

#include "partition/stages/explain.h"

namespace rannc::partition {
namespace {

/// `4 values cross from @s0, 1536*batch bytes`; of several stages before, all that stage `s` receives.
std::string received(const ir::Plan& plan, StageId stage) {
  size_t values = 0;
  ir::Dim bytes(0);
  for (const ir::Route& route : plan.routes) {
    if (route.to != stage) continue;
    ++values;
    bytes = bytes + route.bytes;
  }
  return fmt::format("receives {} value{}, {} bytes a micro-batch", values, values == 1 ? "" : "s", bytes.str());
}

}  // namespace

std::string with_cut_reasons(const std::string& text, const PlannedModel& planned) {
  const std::vector<std::string> reasons = cut_reasons(planned.problem, planned.stages);
  std::string result;
  size_t done = 0;
  for (size_t s = 1; s < planned.plan.stages.size(); ++s) {
    const size_t line = text.find(fmt::format("\nstage @s{} ", s), done);
    if (line == std::string::npos) continue;
    result += text.substr(done, line + 1 - done);
    result += fmt::format("// @s{} {}", s, received(planned.plan, StageId::from(s)));
    if (s <= reasons.size()) result += "; cut " + reasons[s - 1];
    result += '\n';
    done = line + 1;
  }
  return result + text.substr(done);
}

}  // namespace rannc::partition
