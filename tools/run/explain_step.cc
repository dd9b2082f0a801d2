#include "tools/run/explain_step.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "tools/common/units.h"

namespace rannc::tools {

namespace {

struct Part {
  const char* name;
  double StepParts::*part;
};
constexpr std::array<Part, 5> kParts = {{{"compute", &StepParts::compute},
                                         {"messages", &StepParts::messages},
                                         {"bubble", &StepParts::bubble},
                                         {"slowest", &StepParts::slowest},
                                         {"between", &StepParts::between}}};

std::string ms(double ns) { return fmt::format("{:.3f}", ns / 1e6); }

std::string difference(const ActionRow& row) {
  if (row.planned_ns <= 0 || row.measured_ns <= 0) return "";
  return fmt::format("{:+.1f} %", 100 * (row.measured_ns / row.planned_ns - 1));
}

}  // namespace

std::string step_text(const PlannedBesideActual& step) {
  if (step.steps == 0) return "";
  std::string text = fmt::format("parts of a step, ms: planned / measured (mean of {} steps)\n{:10}", step.steps, "");
  for (const Part& part : kParts) text += fmt::format(" {:>19}", part.name);
  text += fmt::format(" {:>19}\n", "step");
  for (size_t device = 0; device < step.devices.size(); ++device) {
    const auto& [planned, measured] = step.devices[device];
    text += fmt::format("device {:<3}", device);
    for (const Part& part : kParts)
      text += fmt::format(" {:>19}", ms(planned.*part.part) + " / " + ms(measured.*part.part));
    text += fmt::format(" {:>19}\n", ms(planned.total()) + " / " + ms(measured.total()));
  }
  text += "actions, ms: median of the computation planned / measured, and what a device waits before them\n";
  for (const ActionRow& row : step.rows) {
    text += fmt::format("stage {:<4} {:>2} x{:<4} {:>19} {:>9}", row.stage.index(), ir::letters(row.kind), row.count,
                        ms(row.planned_ns) + " / " + ms(row.measured_ns), difference(row));
    text += fmt::format("   messages {}, bubble {}, slowest {}\n", ms(row.parts.messages), ms(row.parts.bubble),
                        ms(row.parts.slowest));
  }
  return text + fmt::format("median difference of an action from the plan: {:.1f} %\n", 100 * step.median_difference);
}

std::string step_actions(const PlannedBesideActual& step) {
  std::string text = "device\taction";
  for (const char* which : {"planned", "measured"}) {
    for (const Part& part : kParts) text += fmt::format("\t{}_{}", which, part.name);
  }
  text += '\n';
  for (const PlannedBesideActual::Action& each : step.actions) {
    text += fmt::format("{}\t{}", each.device.index(), ir::to_string(each.action));
    for (const StepParts* parts : {&each.planned, &each.measured}) {
      for (const Part& part : kParts) text += fmt::format("\t{:.0f}", parts->*part.part);
    }
    text += '\n';
  }
  return text;
}

std::string step_html(const PlannedBesideActual& step) {
  if (step.steps == 0) return "";
  std::string html =
      "<h2>Planned beside measured</h2><p>Means of a step, planned / measured. Messages are those that no computation "
      "hides; the plan prices none. A device waits in a bubble for the work of other stages, and for the slowest "
      "before "
      "a sum and at the end.</p><div class='wide'><table class='numbers'><tr><th>device</th>";
  for (const Part& part : kParts) html += fmt::format("<th>{}</th>", part.name);
  html += "</tr>";
  for (size_t device = 0; device < step.devices.size(); ++device) {
    const auto& [planned, measured] = step.devices[device];
    html += fmt::format("<tr><td>{}</td>", device);
    for (const Part& part : kParts)
      html += fmt::format("<td>{} / {}</td>", duration(planned.*part.part), duration(measured.*part.part));
    html += "</tr>";
  }
  html +=
      "</table></div><div class='wide'><table class='numbers'><tr><th>stage</th><th>action</th><th>a "
      "step</th><th>planned</th>"
      "<th>measured</th><th>difference</th><th>messages</th><th>bubble</th><th>slowest</th></tr>";
  for (const ActionRow& row : step.rows) {
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>", row.stage.index(),
                        ir::letters(row.kind), row.count, duration(row.planned_ns), duration(row.measured_ns),
                        difference(row));
    html += fmt::format("<td>{}</td><td>{}</td><td>{}</td></tr>", duration(row.parts.messages),
                        duration(row.parts.bubble), duration(row.parts.slowest));
  }
  return html + fmt::format("</table></div><p>Median difference of an action from the plan: {:.1f} %.</p>",
                            100 * step.median_difference);
}

}  // namespace rannc::tools
