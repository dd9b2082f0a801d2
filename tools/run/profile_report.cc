#include "tools/run/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using nlohmann::json;

struct TaskRow {
  std::string name;
  double forward = 0, backward = 0, flops = 0;
  double time() const { return forward + backward; }
};

struct Tasks {
  std::vector<TaskRow> rows;  // longest first
  double without_task = 0;    // operators that belong to no task
  double of_all = 0;          // wall time of all devices
  double share(double ns) const { return of_all > 0 ? 100 * ns / of_all : 0; }
};

double part_of(const json& device, std::string_view key) { return device.at("parts").value(std::string(key), 0.0); }

// Shortens a list of fused nodes to the first and the last.
std::string short_name(const std::string& nodes) {
  const size_t first = nodes.find(", "), last = nodes.rfind(", ");
  return first == std::string::npos ? nodes : nodes.substr(0, first) + " … " + nodes.substr(last + 2);
}

// Sums by task, since a task with replicas runs in several processes.
Tasks all_tasks(const json& processes) {
  Tasks found;
  std::map<uint32_t, TaskRow> rows;
  for (const json& process : processes) {
    found.without_task += process.at("without_task_ns").get<double>();
    for (const json& device : process.at("devices")) found.of_all += device.at("wall_ns").get<double>();
    for (const json& task : process.at("tasks")) {
      TaskRow& row = rows[task.at("task")];
      row.name = fmt::format("{} {}", task.at("operator").get<std::string>(), short_name(task.at("name")));
      row.forward += task.at("forward_ns").get<double>();
      row.backward += task.at("backward_ns").get<double>();
      row.flops += task.at("flops").get<double>();
    }
  }
  for (auto& [task, row] : rows) found.rows.push_back(std::move(row));
  std::stable_sort(found.rows.begin(), found.rows.end(),
                   [](const TaskRow& a, const TaskRow& b) { return a.time() > b.time(); });
  return found;
}

std::string rate(double flops, double ns) {
  return flops > 0 && ns > 0 ? fmt::format("{:.1f}", flops / ns) : std::string();
}

// `at 45.1 GFLOP/s, 71 % of a large one`
std::string products_rate(const json& device) {
  const double ns = part_of(device, "products"), full = device.at("products_at_full_rate_ns");
  if (ns <= 0 || full <= 0) return "";
  return fmt::format("at {} GFLOP/s, {:.0f} % of the rate of a large one", rate(device.at("product_flops"), ns),
                     100 * full / ns);
}

std::string allocation_words(const json& device) {
  return fmt::format("{:.0f} times, {}; {:.0f} new pages", device.at("allocations").get<double>(),
                     bytes(device.at("allocated_bytes")), device.at("page_faults").get<double>());
}

std::string beside(const json& device, std::string_view key) {
  if (key == "products") return products_rate(device);
  return key == "allocation" ? allocation_words(device) : "";
}

// The comparison with unprofiled steps shows overhead that the profile cannot see itself.
std::string heading(const json& process, const json& device) {
  const double with = process.at("step_ns"), without = process.at("step_without_profile_ns");
  return fmt::format("device {}: {} a step, mean of {}; {} with this profile, {} without ({:+.1f} %)",
                     device.at("device").get<uint32_t>(), duration(device.at("wall_ns")),
                     process.at("steps").get<uint64_t>(), duration(with), duration(without),
                     without > 0 ? 100 * (with / without - 1) : 0);
}

}  // namespace

std::string profile_text(const json& processes) {
  std::string text;
  for (const json& process : processes) {
    if (process.at("steps").get<uint64_t>() == 0) return "no step was profiled: the run ended too early\n";
    for (const json& device : process.at("devices")) {
      const double wall = device.at("wall_ns");
      text += heading(process, device) + "\n";
      for (const ProfilePart& part : kProfileParts) {
        const double ns = part_of(device, part.key);
        std::string line = fmt::format("  {:<16}{:>10.2f} ms {:>6.1f} %  {}", part.words, ns / 1e6,
                                       wall > 0 ? 100 * ns / wall : 0, beside(device, part.key));
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
      }
    }
  }
  const Tasks tasks = all_tasks(processes);
  text += fmt::format("{:>11} {:>11} {:>8} {:>9}  task, of {}\n", "forward ms", "backward ms", "share", "GFLOP/s",
                      tasks.rows.size());
  for (size_t i = 0; i < std::min(kProfileTasks, tasks.rows.size()); ++i) {
    const TaskRow& row = tasks.rows[i];
    text += fmt::format("{:>11.3f} {:>11.3f} {:>6.1f} % {:>9}  {}\n", row.forward / 1e6, row.backward / 1e6,
                        tasks.share(row.time()), rate(row.flops, row.time()), row.name);
  }
  if (tasks.without_task > 0) {
    text += fmt::format("{:>23.3f} {:>6.1f} % {:>9}  of no task\n", tasks.without_task / 1e6,
                        tasks.share(tasks.without_task), "");
  }
  return text;
}

std::string profile_html(const json& processes, std::string (*escaped)(std::string_view)) {
  std::string page = "<h2>Where a step's time goes</h2>", key = "<p class='key'>";
  for (const ProfilePart& part : kProfileParts)
    key += fmt::format("<span style='border-color:{}'>{}</span>", part.colour, part.words);
  page += key + "</p>";
  for (const json& process : processes) {
    if (process.at("steps").get<uint64_t>() == 0) return page + "<p>No step was profiled: the run ended too early.</p>";
    for (const json& device : process.at("devices")) {
      constexpr double kWidth = 760;
      const double wall = std::max(1.0, device.at("wall_ns").get<double>());
      page += "<p>" + escaped(heading(process, device)) + "</p><svg viewBox='0 0 760 26'>";
      double left = 0;
      for (const ProfilePart& part : kProfileParts) {
        const double width = kWidth * std::max(0.0, part_of(device, part.key)) / wall;
        page += fmt::format(
            "<rect x='{:.2f}' y='2' width='{:.2f}' height='22' fill='{}'><title>{} {}, {:.1f} %{}</title></rect>", left,
            width, part.colour, part.words, duration(part_of(device, part.key)), 100 * part_of(device, part.key) / wall,
            beside(device, part.key).empty() ? "" : ": " + beside(device, part.key));
        left += width;
      }
      page += "</svg><p>products " + products_rate(device) + "; allocation " + allocation_words(device) + "</p>";
    }
  }
  const Tasks tasks = all_tasks(processes);
  page +=
      "<div class='wide'><table><tr><th>forward</th><th>backward</th><th>share</th><th>GFLOP/s</th><th>task</th></tr>";
  for (size_t i = 0; i < std::min(kProfileTasks, tasks.rows.size()); ++i) {
    const TaskRow& row = tasks.rows[i];
    page +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td><td>{}</td></tr>", duration(row.forward),
                    duration(row.backward), tasks.share(row.time()), rate(row.flops, row.time()), escaped(row.name));
  }
  return page + "</table></div>";
}

}  // namespace rannc::tools
