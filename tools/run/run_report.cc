// Writes a self-contained HTML page with SVG charts, without scripts or other files.
#include "tools/run/run_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "ir/op/op.h"
#include "partition/model/finish_plan.h"
#include "tools/common/units.h"
#include "tools/run/explain_step.h"
#include "tools/run/profile_report.h"
#include "tools/run/run_advice.h"

namespace rannc::tools {

namespace {

using runtime::ActionRecord;
using runtime::PlannedSpan;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view colour(ir::Pass pass) {
  constexpr std::string_view kColours[ir::kPasses] = {"#5b8ff9", "#9270ca", "#f6903d", "#f7c59f"};
  return kColours[static_cast<size_t>(pass)];
}

std::string_view colour(ir::ActionKind kind) {
  if (ir::is_compute(kind)) return colour(ir::first_pass(kind));
  return ir::is_update(kind) ? "#61a861" : "#b8b8b8";
}

constexpr std::string_view kStyle =
    ":root{color-scheme:light dark;--text:#222;--page:#fff;--faint:#555;--line:#ddd;--row:#f3f3f3;--curve:#3b6fd4}"
    "@media(prefers-color-scheme:dark){:root{--text:#ddd;--page:#181a1b;--faint:#aaa;--line:#444;--row:#2b2e30;"
    "--curve:#7aa5ff}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:780px;margin:2em auto;padding:0 1em;color:var(--text);"
    "background:var(--page)}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:1.6em}code{overflow-wrap:anywhere}"
    "svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--faint)}svg text.in{fill:#111}"
    ".grid{stroke:var(--line)}.row{fill:var(--row)}.curve{stroke:var(--curve)}.mark{stroke:var(--faint)}"
    ".wide{overflow-x:auto;margin:.8em 0}table{border-collapse:collapse;width:100%;font-size:13px}"
    "td,th{border-bottom:1px solid var(--line);padding:4px 8px;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}th,td:nth-child(-n+3){white-space:nowrap}.numbers td{white-space:nowrap}"
    ".key span{border-left:14px solid;padding-left:5px;margin-right:12px;display:inline-block}";

std::string losses_svg(const RunFacts& facts) {
  constexpr double kWidth = 720, kHeight = 220, kLeft = 46, kBottom = 24;
  if (facts.losses.empty()) return "<p>No step was run.</p>";
  std::vector<double> all = facts.losses;
  for (const auto& [done, loss] : facts.validation) {
    if (std::isfinite(loss)) all.push_back(loss);
  }
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  const double bottom = std::floor(*low * 2) / 2, top = std::max(std::ceil(*high * 2) / 2, bottom + 0.5);
  const double steps = static_cast<double>(std::max<size_t>(facts.losses.size() - 1, 1));
  const auto x = [&](size_t i) { return kLeft + (kWidth - kLeft - 10) * static_cast<double>(i) / steps; };
  const auto y = [&](double loss) { return 8 + (kHeight - kBottom - 8) * (top - loss) / (top - bottom); };
  std::string svg = fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='loss by step'>", kWidth, kHeight);
  for (int tick = 0; tick <= 4; ++tick) {
    const double loss = bottom + (top - bottom) * tick / 4;
    svg += fmt::format(
        "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' class='grid'/><text x='{}' y='{:.1f}' "
        "text-anchor='end'>{:.2f}</text>",
        kLeft, kWidth - 10, y(loss), y(loss), kLeft - 6, y(loss) + 4, loss);
  }
  if (facts.steps > 0 && facts.steps < facts.losses.size()) {
    const double resumed = x(facts.losses.size() - facts.steps);
    svg += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='8' y2='{1}' class='mark' stroke-dasharray='4 3'/><text x='{2:.1f}' "
        "y='18'>resumed before step {3}</text>",
        resumed, kHeight - kBottom, resumed + 4, facts.first_step + facts.losses.size() - facts.steps + 1);
  }
  svg += "<polyline fill='none' class='curve' stroke-width='2' points='";
  for (size_t i = 0; i < facts.losses.size(); ++i) svg += fmt::format("{:.1f},{:.1f} ", x(i), y(facts.losses[i]));
  svg += "'/>";
  for (const auto& [done, loss] : facts.validation) {
    if (!std::isfinite(loss)) continue;
    svg += fmt::format(
        "<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='#d4553b'><title>validation after step {}: {:.4f}"
        "</title></circle>",
        x(done - 1 - facts.first_step), y(loss), done, loss);
  }
  if (!facts.validation.empty())
    svg += fmt::format("<circle cx='{0}' cy='18' r='3.5' fill='#d4553b'/><text x='{1}' y='22'>validation</text>",
                       kWidth - 90, kWidth - 80);
  svg +=
      fmt::format("<text x='{}' y='{}'>step {}</text><text x='{}' y='{}' text-anchor='end'>step {}</text></svg>", kLeft,
                  kHeight - 6, facts.first_step + 1, kWidth - 10, kHeight - 6, facts.first_step + facts.losses.size());
  return svg;
}

// Draws the spans of one timeline, in ns from its start, on a common scale.
std::string timeline_svg(const std::vector<PlannedSpan>& spans, uint32_t devices, double scale_ns) {
  constexpr double kWidth = 720, kRow = 26, kLeft = 70;
  std::string svg =
      fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='timeline'>", kWidth, devices * kRow + 22);
  const auto x = [&](double ns) { return kLeft + (kWidth - kLeft - 6) * ns / std::max(scale_ns, 1.0); };
  for (uint32_t device = 0; device < devices; ++device) {
    svg += fmt::format("<text x='4' y='{}'>device {}</text><rect x='{}' y='{}' width='{}' height='{}' class='row'/>",
                       device * kRow + 17, device, kLeft, device * kRow + 2, kWidth - kLeft - 6, kRow - 4);
  }
  for (const PlannedSpan& span : spans) {
    if (!ir::is_work(span.action.kind)) continue;
    const double width = std::max(0.6, x(span.end_ns) - x(span.start_ns));
    svg += fmt::format("<rect x='{:.2f}' y='{}' width='{:.2f}' height='{}' fill='{}'><title>{} {} to {}</title></rect>",
                       x(span.start_ns), span.device.index() * kRow + 2, width, kRow - 4, colour(span.action.kind),
                       ir::to_string(span.action), duration(span.start_ns), duration(span.end_ns));
    const std::string label = ir::to_string(span.action);
    if (width > 7 * static_cast<double>(label.size())) {
      svg += fmt::format("<text class='in' x='{:.2f}' y='{}'>{}</text>", x(span.start_ns) + 3,
                         span.device.index() * kRow + 17, label);
    }
  }
  return svg + fmt::format("<text x='{}' y='{}'>0</text><text x='{}' y='{}' text-anchor='end'>{}</text></svg>", kLeft,
                           devices * kRow + 16, kWidth - 6, devices * kRow + 16, duration(scale_ns));
}

// Collects steps by number, each with its first start and last end.
std::map<uint64_t, std::pair<int64_t, int64_t>> step_bounds(const std::vector<ActionRecord>& records) {
  std::map<uint64_t, std::pair<int64_t, int64_t>> bounds;
  for (const ActionRecord& record : records) {
    const auto [entry, fresh] = bounds.try_emplace(record.step, record.start_ns, record.end_ns);
    if (fresh) continue;
    entry->second.first = std::min(entry->second.first, record.start_ns);
    entry->second.second = std::max(entry->second.second, record.end_ns);
  }
  return bounds;
}

/// When an action began to work. A sum works while its device waits for it.
int64_t began(const ActionRecord& record) {
  return record.start_ns + (ir::is_reduction(record.action.kind) ? 0 : record.waited_ns);
}

std::vector<PlannedSpan> last_step(const std::vector<ActionRecord>& records) {
  std::vector<PlannedSpan> spans;
  const auto bounds = step_bounds(records);
  if (bounds.empty()) return spans;
  const auto& [step, times] = *bounds.rbegin();
  for (const ActionRecord& record : records) {
    if (record.step != step) continue;
    spans.push_back({record.device, record.action, static_cast<double>(began(record) - times.first),
                     static_cast<double>(record.end_ns - times.first)});
  }
  return spans;
}

double end_of(const std::vector<PlannedSpan>& spans) {
  double end = 0;
  for (const PlannedSpan& span : spans) end = std::max(end, span.end_ns);
  return end;
}

/// Returns the module whose parameter a task reads: `layer.0.norm` of `layer.0.norm.weight`. Empty if none is known.
std::string module_of(const ir::Graph& graph, TaskId task) {
  for (const ValueId input : graph.inputs(task)) {
    if (!input.valid() || graph.kind(input) != ir::ValueKind::kParameter) continue;
    const std::string name(graph.value(input).name);
    if (const size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) return name.substr(0, dot);
  }
  return {};
}

/// Names the ends of a stage by the first and the last module with parameters, else by tasks.
std::string ends_of(const ir::Graph& graph, const std::vector<TaskId>& tasks) {
  std::string first, last;
  for (const TaskId task : tasks) {
    const std::string module = module_of(graph, task);
    if (first.empty()) first = module;
    if (!module.empty()) last = module;
  }
  if (!first.empty()) return first == last ? first : first + " … " + last;
  const auto name = [&graph](TaskId task) {
    const Location where = graph.location(task);
    return where.node.empty() ? graph.op(task).name : where.node;
  };
  return tasks.empty() ? "" : name(tasks.front()) + " … " + name(tasks.back());
}

std::string cut_table(const ir::Plan& plan) {
  std::string table =
      "<div class='wide'><table><tr><th>stage</th><th>devices</th><th>tasks</th><th>first and last "
      "module</th><th>planned forward</th><th>planned backward</th><th>receives in a micro-batch</th></tr>";
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const ir::Stage& stage = plan.stages[s];
    std::vector<std::string> names, received;
    for (const DeviceId device : stage.devices) names.push_back(plan.devices[device.index()].name);
    for (const ir::Route& route : plan.routes) {
      if (route.to.index() != s) continue;
      const auto amount = route.bytes.evaluate(ir::bindings_of(plan, plan.micro_batches.front()));
      RANNC_CHECK(amount.has_value()) << "a finished plan binds all symbols of its routes";
      received.push_back(
          fmt::format("{} ({})", plan.graph.value(route.value).name, bytes(static_cast<double>(*amount))));
    }
    double forward = 0, backward = 0;
    for (const ir::StageTime& time : plan.stage_times) {
      if (time.stage.index() != s || forward > 0) continue;
      forward = static_cast<double>(time.forward_ns);
      backward = static_cast<double>(time.backward_ns);
    }
    table += fmt::format("<tr><td>{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", s,
                         stage.recompute ? ", recompute" : "", escaped(fmt::format("{}", fmt::join(names, ", "))),
                         stage.tasks.size(), escaped(ends_of(plan.graph, stage.tasks)), duration(forward),
                         duration(backward), escaped(fmt::format("{}", fmt::join(received, ", "))));
  }
  return table + "</table></div>";
}

std::string advice_section(const ir::Plan& plan, const std::vector<ActionRecord>& records, double measured_ns) {
  const auto advice = run_advice(plan, records, measured_ns);
  if (!advice.ok() || advice->bottleneck.empty()) return "";
  std::string section =
      "<h2>Bottleneck</h2><p>" + escaped(advice->bottleneck) +
      "</p><h2>What would help</h2><div class='wide'><table><tr><th>with</th><th>a step would take</th></tr>";
  for (const Remedy& remedy : advice->remedies) {
    section +=
        fmt::format("<tr><td>{}</td><td>{}{}</td></tr>", escaped(remedy.what), duration(remedy.step_ns),
                    measured_ns > 0 ? fmt::format(" ({:+.0f} %)", 100 * (remedy.step_ns / measured_ns - 1)) : "");
  }
  return section + "</table></div>";
}

// Names the computations that begin with a pass: `B backward, I input gradient`.
std::string computations_from(ir::Pass pass) {
  std::vector<std::string> names;
  for (const ir::ActionTraits& row : ir::kActionTraits) {
    if (!ir::is_compute(row.kind) || ir::first_pass(row.kind) != pass) continue;
    names.push_back(fmt::format("{} {}", row.letters, row.words));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Legend of the timelines. Grey between actions is a waiting device.
std::string legend() {
  std::string key = "<p class='key'>";
  const auto entry = [&key](std::string_view fill, std::string_view what) {
    key += fmt::format("<span style='border-color:{}'>{}</span>", fill, what);
  };
  using enum ir::Pass;
  for (const ir::Pass pass : {kForward, kInputGradient, kWeightGradient, kRebuild})
    entry(colour(pass), computations_from(pass));
  entry(colour(ir::ActionKind::kStep), "S, U optimizer");
  entry("#9a9a9a", "grey background: the device waits");
  return key + "</p><p>F1.0 is the forward pass of stage 1 over micro-batch 0.</p>";
}

}  // namespace

Result<std::vector<PlannedSpan>> planned_spans(const ir::Plan& plan) {
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  RANNC_ASSIGN(const partition::Timeline timeline,
               partition::simulate(shape, plan.schedule, partition::compute_costs(plan)));
  std::vector<PlannedSpan> spans;
  for (size_t device = 0; device < plan.schedule.rows.size(); ++device) {
    for (size_t i = 0; i < plan.schedule.rows[device].size(); ++i) {
      const partition::Span& span = timeline.spans[device][i];
      spans.push_back({DeviceId::from(device), plan.schedule.rows[device][i], span.start, span.end});
    }
  }
  return spans;
}

double measured_step_ns(const std::vector<ActionRecord>& records) {
  std::vector<double> durations;
  for (const auto& [step, times] : step_bounds(records))
    durations.push_back(static_cast<double>(times.second - times.first));
  if (durations.empty()) return 0;
  std::sort(durations.begin(), durations.end());
  return durations[durations.size() / 2];
}

std::string run_report(const ir::Plan& plan, const RunFacts& facts, const std::vector<ActionRecord>& records,
                       const std::vector<PlannedSpan>& planned) {
  const std::vector<PlannedSpan> actual = last_step(records);
  const double measured = measured_step_ns(records),
               predicted = static_cast<double>(plan.step_ns) * static_cast<double>(facts.mini_batches);
  const double scale = std::max(end_of(actual), end_of(planned));
  const auto devices = static_cast<uint32_t>(plan.devices.size());
  std::string page = "<!doctype html><html lang='en'><meta charset='utf-8'><title>" + escaped(facts.title) +
                     "</title><style>" + std::string(kStyle) + "</style>";
  page += "<h1>" + escaped(facts.title) + "</h1>";
  page += fmt::format(
      "<p>{} steps in {:.1f} s; {:.1f} samples/s{}; {} stages on {} devices, {} micro-batches, schedule {}, transport "
      "{}.</p>",
      facts.steps, facts.seconds, facts.samples_per_second,
      facts.tokens_per_second > 0 ? fmt::format(", {:.0f} tokens/s", facts.tokens_per_second) : "", plan.stages.size(),
      devices, plan.micro_batches.size(), escaped(plan.schedule.name), escaped(facts.transport));
  if (!facts.command.empty()) page += "<p><code>" + escaped(facts.command) + "</code></p>";
  page += "<h2>Loss</h2>" + losses_svg(facts);
  page +=
      fmt::format("<h2>A step, planned and actual</h2><p>Predicted {}, measured {} (median of the last steps){}.</p>",
                  duration(predicted), duration(measured),
                  measured > 0 && predicted > 0
                      ? fmt::format(": {:+.1f} % against the prediction", (measured / predicted - 1) * 100)
                      : "");
  if (facts.mini_batches > 1)
    page += fmt::format("<p>A step has {} mini-batches; the planned one is of one.</p>", facts.mini_batches);
  page += legend();
  page += "<h3>planned</h3>" + timeline_svg(planned, devices, scale) + "<h3>actual</h3>" +
          timeline_svg(actual, devices, scale);
  if (facts.mini_batches == 1) {
    page += step_html(planned_beside_actual(plan, planned, records));
    page += advice_section(plan, records, measured);
  }
  if (!facts.profile.is_null()) page += profile_html(facts.profile, &escaped);
  page += "<h2>The cut</h2>" + cut_table(plan);
  page += "<h2>Memory</h2>" + memory_table(plan, facts.held);
  if (facts.transport == "nccl") page += "<p>" + nccl_memory_text(plan) + "</p>";
  page += "<h2>Links</h2>" + link_table(plan, facts.links);
  return page + "</html>\n";
}

}  // namespace rannc::tools
