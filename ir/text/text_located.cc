// Finds the statement that a message is about. Verifier messages spell names as text IR does, so a statement is found
// by the beginning of its line, without a table of positions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/internal/text_writer.h"
#include "ir/text/text.h"

namespace rannc::ir {

namespace {

// A name in a message, as prefixes of the lines that may define it.
struct Mention {
  std::vector<std::string> fronts;
  std::string inside;  // or a fragment of a task's line: `%y: `
};

std::string_view digits(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

// The name at the beginning of a message, if any.
Mention mentioned(std::string_view rest) {
  const auto numbered = [&](std::string_view sigil) {
    return rest.starts_with(sigil) ? digits(rest.substr(sigil.size())) : std::string_view();
  };
  if (const auto n = numbered("#"); !n.empty()) return {{fmt::format("#{} ", n)}, {}};
  if (const auto n = numbered("@s"); !n.empty()) return {{fmt::format("stage @s{} ", n)}, {}};
  if (const auto n = numbered("route "); !n.empty()) return {{fmt::format("route {} ", n)}, {}};
  if (const auto n = numbered("block b"); !n.empty()) return {{fmt::format("block b{} ", n)}, {}};
  if (const auto n = numbered("device d"); !n.empty()) return {{fmt::format("device d{} ", n)}, {}};
  if (const auto n = numbered("device "); !n.empty()) return {{fmt::format("d{}:", n)}, {}};
  if (rest.starts_with("micro-batch") || rest.starts_with("mini-batch")) return {{"training ", "inference "}, {}};
  if (rest.starts_with("optimizer ")) return {{"optimizer "}, {}};
  if (rest.starts_with("group '")) return {{fmt::format("group \"{}", rest.substr(7, rest.find('\'', 7) - 7))}, {}};
  if (rest.starts_with("lower bound")) return {{"step_ns "}, {}};
  if (rest.starts_with("digest")) return {{"digests "}, {}};
  if (!rest.starts_with('%')) return {};
  const std::string_view name = bare_name_prefix(rest.substr(1));
  return name.empty() ? Mention{} : Mention{{}, fmt::format("%{}: ", name)};
}

std::optional<Location> find(const Mention& mention, std::string_view text, const std::string& file) {
  for (uint32_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    for (const std::string& front : mention.fronts) {
      if (line.starts_with(front)) return Location{file, number, 1, {}};
    }
    const size_t inside = mention.inside.empty() ? std::string_view::npos : line.find(mention.inside);
    if (inside != std::string_view::npos) return Location{file, number, static_cast<uint32_t>(inside + 1), {}};
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

// The place of the first name in a message that the text defines.
std::optional<Location> place_of(std::string_view message, std::string_view text, const std::string& file) {
  for (size_t at = 0; at < message.size(); ++at) {
    if (at != 0 && is_word_char(message[at - 1])) continue;
    const Mention mention = mentioned(message.substr(at));
    if (mention.fronts.empty() && mention.inside.empty()) continue;
    if (auto place = find(mention, text, file)) return place;
  }
  return std::nullopt;
}

}  // namespace

Diagnostic located(Diagnostic found, std::string_view text, const std::string& file) {
  for (Note& note : found.notes) {
    if (!(note.where == Location{})) continue;
    if (auto place = place_of(note.message, text, file)) note.where = *std::move(place);
  }
  const auto place = place_of(found.message, text, file);
  if (found.where == Location{}) {
    found.where = place ? *place : Location{file, 0, 0, {}};
  } else if (place && found.where.file != file) {
    found.notes.insert(found.notes.begin(), Note{*place, "written here"});
  }
  return found;
}

}  // namespace rannc::ir
