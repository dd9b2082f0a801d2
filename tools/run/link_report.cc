#include "tools/run/link_report.h"

#include <fmt/format.h>

#include <sstream>

namespace rannc::tools {

LinkTraffic since(const LinkTraffic& before, LinkTraffic now) {
  for (auto& [link, bytes] : now) {
    if (const auto found = before.find(link); found != before.end()) bytes = bytes - found->second;
  }
  return now;
}

std::string link_table(const ir::Plan& plan, const LinkTraffic& measured) {
  struct Row {
    uint64_t planned = 0;
    runtime::SentBytes sent;
  };
  std::map<ir::Link, Row> rows;
  for (const auto& [link, bytes] : ir::link_bytes(plan)) rows[link].planned = bytes;
  for (const auto& [link, sent] : measured) rows[link].sent = sent;
  if (rows.empty()) return "<p>No bytes are sent.</p>";
  std::string table =
      "<div class='wide'><table><tr><th>link</th><th>planned bytes a step</th><th>measured</th><th>of sums over "
      "devices</th></tr>";
  for (const auto& [link, row] : rows) {
    table +=
        fmt::format("<tr><td>device {} to {}</td><td>{}</td>", link.first.index(), link.second.index(), row.planned);
    table += measured.empty() ? "<td></td><td></td></tr>"
                              : fmt::format("<td>{}</td><td>{}</td></tr>", row.sent.messages, row.sent.sums);
  }
  return table + "</table></div>";
}

std::string print_traffic(const LinkTraffic& traffic) {
  std::string text;
  for (const auto& [link, bytes] : traffic) {
    text += fmt::format("{} {} {} {}\n", link.first.index(), link.second.index(), bytes.messages, bytes.sums);
  }
  return text;
}

Result<LinkTraffic> parse_traffic(const std::string& text, const std::string& path) {
  LinkTraffic traffic;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    uint32_t from = 0, to = 0;
    runtime::SentBytes bytes;
    if (!(words >> from >> to >> bytes.messages >> bytes.sums))
      return error({path, 0, 0, {}}, "is not a worker's record of sent bytes");
    traffic[{DeviceId(from), DeviceId(to)}] = bytes;
  }
  return traffic;
}

}  // namespace rannc::tools
