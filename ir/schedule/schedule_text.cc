/// Printing and parsing of schedules.
#include <charconv>
#include <optional>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include "ir/schedule/schedule.h"

namespace rannc::ir {
namespace {

void append(std::string& text, const Action& action) {
  auto out = std::back_inserter(text);
  const std::string_view name = letters(action.kind);
  switch (traits(action.kind).scope) {
    case ActionScope::kMicroBatch:
      fmt::format_to(out, "{}{}.{}", name, action.stage.index(), action.micro_batch);
      return;
    case ActionScope::kActivation:
    case ActionScope::kGradient:
      fmt::format_to(out, "{}{}.{}{}d{}", name, uint32_t{action.route}, action.micro_batch,
                     is_send(action.kind) ? '>' : '<', action.peer.index());
      return;
    case ActionScope::kStage:
      fmt::format_to(out, "{}{}", name, action.stage.index());
      if (action.micro_batch > 0) fmt::format_to(out, ".{}", action.micro_batch);
      return;
    case ActionScope::kGroup:
      fmt::format_to(out, "{}{}", name, uint32_t{action.route});
  }
}

bool is_of_micro_batch(ActionKind kind) { return traits(kind).scope == ActionScope::kMicroBatch; }

/// `F, B, I, W or R`: the letters of all kinds that one of the predicates accepts, in their order.
std::string letters_of(std::initializer_list<bool (*)(ActionKind)> predicates) {
  std::vector<std::string_view> names;
  for (const auto& accepts : predicates) {
    for (const ActionTraits& row : kActionTraits) {
      if (accepts(row.kind)) names.push_back(row.letters);
    }
  }
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

/// The stage of a row whose compute actions all name one stage; invalid otherwise.
StageId only_stage(const std::vector<Action>& row) {
  StageId stage;
  for (const Action& action : row) {
    if (!is_compute(action.kind)) continue;
    if (stage.valid() && stage != action.stage) return {};
    stage = action.stage;
  }
  return stage;
}

/// Removes the leading letters of a word and returns the kind that they denote.
std::optional<ActionKind> take_kind(std::string_view& word) {
  size_t length = 0;
  while (length < word.size() && word[length] >= 'A' && word[length] <= 'Z') ++length;
  const std::optional<ActionKind> kind = kind_with(word.substr(0, length));
  if (kind) word.remove_prefix(length);
  return kind;
}

std::optional<uint32_t> take_number(std::string_view& word) {
  uint32_t number = 0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (fault != std::errc{} || end == word.data()) return std::nullopt;
  word.remove_prefix(static_cast<size_t>(end - word.data()));
  return number;
}

bool take(std::string_view& word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return false;
  word.remove_prefix(prefix.size());
  return true;
}

class Parser {
 public:
  Parser(const PipelineShape& shape, const std::string& file) : shape_(shape) { where_.file = file; }

  Result<Schedule> parse(std::string_view text) {
    schedule_.name = "table";
    schedule_.rows.resize(shape_.devices);
    seen_.assign(shape_.devices, false);
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++where_.line;
      line_ = text.substr(0, end);
      RANNC_TRY(parse_line(line_.substr(0, line_.find('#'))));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::move(schedule_);
  }

 private:
  Diagnostic fault(std::string_view at, std::string message) {
    where_.column = static_cast<uint32_t>(at.data() - line_.data()) + 1;
    return error(where_, std::move(message));
  }

  static std::string_view next_word(std::string_view& line) {
    const size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
    line.remove_prefix(begin);
    const std::string_view word = line.substr(0, std::min(line.find_first_of(" \t\r"), line.size()));
    line.remove_prefix(word.size());
    return word;
  }

  Result<void> parse_line(std::string_view line) {
    std::string_view word = next_word(line);
    if (word.empty()) return {};
    if (word == "schedule") return parse_header(line);
    const std::string_view whole = word;
    take(word, "d");
    const auto device = take_number(word);
    if (!device || word != ":") return fault(whole, fmt::format("expected `d<device>:`, found `{}`", whole));
    if (*device >= shape_.devices) {
      return fault(whole, fmt::format("device {} is not one of the {} of the plan", *device, shape_.devices));
    }
    if (seen_[*device]) return fault(whole, fmt::format("device {} has a second row", *device));
    seen_[*device] = true;
    for (word = next_word(line); !word.empty(); word = next_word(line)) {
      RANNC_ASSIGN(const Action action, parse_action(word, DeviceId(*device)));
      schedule_.rows[*device].push_back(action);
      schedule_.lowered = schedule_.lowered || !is_compute(action.kind);
    }
    return {};
  }

  Result<void> parse_header(std::string_view line) {
    schedule_.name = next_word(line);
    if (schedule_.name.empty()) return fault(line, "expected a name after `schedule`");
    for (std::string_view flag = next_word(line); !flag.empty(); flag = next_word(line)) {
      if (flag != "asynchronous" && flag != "lowered") {
        return fault(flag, fmt::format("expected `asynchronous`, `lowered` or nothing, found `{}`", flag));
      }
      (flag == "lowered" ? schedule_.lowered : schedule_.changes_numbers) = true;
    }
    return {};
  }

  Result<Action> parse_action(std::string_view word, DeviceId device) {
    const std::string_view whole = word;
    const auto malformed = [&] {
      return fault(whole, fmt::format("`{}` is no action; expected {} with stage.micro-batch, {} with "
                                      "route.micro-batch and peer, {} with a number",
                                      whole, letters_of({is_of_micro_batch}), letters_of({is_send, is_receive}),
                                      letters_of({is_of_stage, is_of_group})));
    };
    const auto kind = take_kind(word);
    if (!kind) return malformed();
    const auto first = take_number(word);
    if (!first) return malformed();
    if (!has_micro_batch(*kind)) {
      const bool of_bucket = is_of_stage(*kind) && take(word, ".");
      const auto bucket = of_bucket ? take_number(word) : 0;
      if (!bucket || !word.empty()) return malformed();
      return finish_collective(whole, *kind, *first, *bucket, device);
    }
    if (word.empty() && !is_message(*kind)) return finish_short(whole, *kind, *first, device);
    const bool dot = take(word, ".");
    const auto second = take_number(word);
    if (!dot || !second) return malformed();
    if (*second >= shape_.micro_batch_count()) {
      return fault(whole, fmt::format("`{}`: micro-batch {} of {}", whole, *second, shape_.micro_batch_count()));
    }
    if (!is_message(*kind))
      return word.empty() ? finish_compute(whole, *kind, *first, *second) : Result<Action>(malformed());
    if (!take(word, is_send(*kind) ? ">d" : "<d")) return malformed();
    const auto peer = take_number(word);
    if (!peer || !word.empty()) return malformed();
    return finish_transfer(whole, *kind, *first, *second, *peer);
  }

  Result<Action> finish_compute(std::string_view whole, ActionKind kind, uint32_t stage, uint32_t micro_batch) {
    if (stage >= shape_.stages.size()) {
      return fault(whole, fmt::format("`{}`: stage {} of {}", whole, stage, shape_.stages.size()));
    }
    return compute_action(kind, StageId(stage), micro_batch);
  }

  /// Short form `F0`: the stage is the only one of the device.
  Result<Action> finish_short(std::string_view whole, ActionKind kind, uint32_t micro_batch, DeviceId device) {
    StageId only;
    uint32_t count = 0;
    for (size_t s = 0; s < shape_.stages.size(); ++s) {
      for (DeviceId d : shape_.stages[s].devices) {
        if (d == device) only = StageId::from(s), ++count;
      }
    }
    if (count != 1) {
      return fault(whole, fmt::format("`{}` names no stage, but device {} has {}", whole, device.index(), count));
    }
    if (micro_batch >= shape_.micro_batch_count()) {
      return fault(whole, fmt::format("`{}`: micro-batch {} of {}", whole, micro_batch, shape_.micro_batch_count()));
    }
    return compute_action(kind, only, micro_batch);
  }

  Result<Action> finish_collective(std::string_view whole, ActionKind kind, uint32_t number, uint32_t bucket,
                                   DeviceId device) {
    const bool group = is_of_group(kind);
    const size_t limit = group ? shape_.shared.size() : shape_.stages.size();
    if (number >= limit) {
      return fault(whole, fmt::format("`{}`: {} {} of {}", whole, group ? "group" : "stage", number, limit));
    }
    if (!group) {
      const uint32_t count = action_count(shape_.stages[number], kind);
      if (bucket < count) return stage_action(kind, StageId(number), bucket);
      return fault(whole, fmt::format("`{}`: bucket {} of {}", whole, bucket, count));
    }
    const Action action = reduce_shared_action(shape_, number, device);
    if (action.stage.valid()) return action;
    return fault(whole, fmt::format("`{}`: device {} holds no stage of the group", whole, device.index()));
  }

  Result<Action> finish_transfer(std::string_view whole, ActionKind kind, uint32_t route, uint32_t micro_batch,
                                 uint32_t peer) {
    if (route >= shape_.routes.size()) {
      return fault(whole, fmt::format("`{}`: route {} of {}", whole, route, shape_.routes.size()));
    }
    if (peer >= shape_.devices) {
      return fault(whole, fmt::format("`{}`: device {} of {}", whole, peer, shape_.devices));
    }
    return transfer_action(shape_, kind, route, micro_batch, DeviceId(peer));
  }

  const PipelineShape& shape_;
  Location where_;
  std::string_view line_;
  Schedule schedule_;
  std::vector<bool> seen_;
};

}  // namespace

std::string to_string(const Action& action) {
  std::string text;
  append(text, action);
  return text;
}

std::string print_schedule(const Schedule& schedule) {
  std::string text = fmt::format("schedule {}{}{}\n", schedule.name, schedule.changes_numbers ? " asynchronous" : "",
                                 schedule.lowered ? " lowered" : "");
  for (size_t d = 0; d < schedule.rows.size(); ++d) {
    fmt::format_to(std::back_inserter(text), "d{}:", d);
    for (const Action& action : schedule.rows[d]) {
      text += ' ';
      append(text, action);
    }
    text += '\n';
  }
  return text;
}

std::string print_compute_rows(const Schedule& schedule) {
  std::string text;
  auto out = std::back_inserter(text);
  for (size_t d = 0; d < schedule.rows.size(); ++d) {
    fmt::format_to(out, "{}:", d);
    const bool one_stage = only_stage(schedule.rows[d]).valid();
    for (const Action& action : schedule.rows[d]) {
      if (!is_compute(action.kind)) continue;
      if (one_stage) {
        fmt::format_to(out, " {}{}", letters(action.kind), action.micro_batch);
      } else {
        fmt::format_to(out, " {}{}.{}", letters(action.kind), action.stage.index(), action.micro_batch);
      }
    }
    text += '\n';
  }
  return text;
}

Result<Schedule> parse_schedule(std::string_view text, const PipelineShape& shape, const std::string& file) {
  return Parser(shape, file).parse(text);
}

std::string digest(const Schedule& schedule) {
  const std::string text = print_schedule(schedule);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace rannc::ir
