// What the objects of a pickle are as a whole: how they nest, and in the lists of places what they refer to.
#include "frontend/torchscript/internal/archive/check_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "frontend/torchscript/internal/archive/pickle_machine.h"

namespace rannc::frontend::torchscript {

namespace {

class PickleChecker {
 public:
  PickleChecker(const PickledTable& table, const PickleRecord& record, const PickleLimits& limits)
      : table_(table), record_(record), limits_(limits) {}

  Result<void> run() const {
    RANNC_TRY(check_nesting());
    return record_.is_debug ? check_debug(object(table_.root)) : Result<void>();
  }

 private:
  Diagnostic fail(std::string message) const { return error({record_.path, 0, 0, record_.name}, std::move(message)); }
  Diagnostic bad_place() const {
    return fail("a place of the author's code has another form than torch.jit.save writes");
  }
  const Pickled& object(PickleId id) const { return table_.objects[id]; }

  /// Depth and number of the objects in each object. Those that several contain count several times, as importing
  /// visits them so. Places of the author's code are visited once.
  Result<void> check_nesting() const {
    struct Open {
      PickleId id;
      size_t next = 0;
    };
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> state(table_.objects.size(), kNew);
    std::vector<uint32_t> depth(table_.objects.size(), 1);
    std::vector<uint64_t> count(table_.objects.size(), 1);
    std::vector<Open> path{{table_.root}};
    state[table_.root] = kOpen;
    while (!path.empty()) {
      Open& open = path.back();
      const std::vector<PickleId>& parts = object(open.id).parts;
      if (open.next == parts.size()) {
        state[open.id] = kDone;
        path.pop_back();
        continue;
      }
      const PickleId owner = open.id, part = parts[open.next];
      if (state[part] == kOpen) return fail("an object contains itself");
      if (state[part] == kNew) {
        state[part] = kOpen;
        path.push_back({part});
        if (path.size() > kDeepestPickle)
          return fail(fmt::format("objects are nested more than {} deep", kDeepestPickle));
        continue;
      }
      ++open.next;
      depth[owner] = std::max(depth[owner], depth[part] + 1);
      count[owner] += count[part];
      if (depth[owner] > kDeepestPickle)
        return fail(fmt::format("objects are nested more than {} deep", kDeepestPickle));
      if (!record_.is_debug && count[owner] > limits_.most_objects)
        return fail(
            fmt::format("describes more than {} objects, the limit for a file of this size", limits_.most_objects));
    }
    return {};
  }

  /// Places of the author's code: (offset, (source, begin, end), tag) each. A source is a list of lines in a table, or
  /// in older files a text. LibTorch does not check what these tuples have, nor the numbers of the lines.
  Result<void> check_debug(const Pickled& root) const {
    if (root.kind != PickleKind::kTuple || root.parts.empty()) return bad_place();
    const bool has_table = object(root.parts[0]).text == "FORMAT_WITH_STRING_TABLE";
    if (has_table && (root.parts.size() != 3 || object(root.parts[1]).kind != PickleKind::kTuple ||
                      object(root.parts[2]).kind != PickleKind::kTuple))
      return bad_place();
    const std::vector<PickleId> lines = has_table ? object(root.parts[1]).parts : std::vector<PickleId>();
    for (const PickleId line : lines) {
      if (object(line).kind != PickleKind::kText) return bad_place();
    }
    for (const PickleId place : has_table ? object(root.parts[2]).parts : root.parts) {
      const Pickled& parts = object(place);
      if (parts.kind != PickleKind::kTuple || parts.parts.size() < 2 || parts.parts.size() > 3) return bad_place();
      if (!is(parts, 0, PickleKind::kInteger) || !is_range(object(parts.parts[1]), has_table, lines.size()))
        return bad_place();
    }
    return check_sources(lines);
  }

  bool is(const Pickled& tuple, size_t part, PickleKind kind) const {
    return part < tuple.parts.size() && object(tuple.parts[part]).kind == kind;
  }
  /// A source, and where the place begins and ends in it. LibTorch reads them while it writes its messages, where an
  /// exception would end the process.
  bool is_range(const Pickled& range, bool has_table, size_t lines) const {
    if (range.kind != PickleKind::kTuple || range.parts.size() != 3 || !is(range, 0, PickleKind::kTuple) ||
        !is(range, 1, PickleKind::kInteger) || !is(range, 2, PickleKind::kInteger))
      return false;
    const Pickled& source = object(range.parts[0]);
    if (source.parts.size() != 3 || !is(source, 2, PickleKind::kInteger)) return false;
    if (!has_table)
      return is(source, 0, PickleKind::kText) &&
             (is(source, 1, PickleKind::kText) || is(source, 1, PickleKind::kOther));
    const int64_t name = object(source.parts[1]).number;
    if (!is(source, 0, PickleKind::kObject)) return false;
    const Pickled& list = object(source.parts[0]);
    const Pickled& arguments = object(list.parts[0]);
    return list.text.ends_with("\nbuild_intlist") && arguments.parts.size() == 1 &&
           is(arguments, 0, PickleKind::kList) && is(source, 1, PickleKind::kInteger) && name >= 0 &&
           static_cast<uint64_t>(name) < lines;
  }

  Result<void> check_sources(const std::vector<PickleId>& lines) const {
    uint64_t bytes = 0;
    for (const Pickled& list : table_.objects) {
      if (list.kind != PickleKind::kList) continue;
      for (const PickleId part : list.parts) {
        const int64_t line = object(part).number;
        if (object(part).kind != PickleKind::kInteger || line < 0 || static_cast<uint64_t>(line) >= lines.size())
          return fail(fmt::format("refers to line {} of a table of {}", line, lines.size()));
        bytes += object(lines[static_cast<size_t>(line)]).text.size();
      }
    }
    if (bytes > 16 * limits_.most_objects)
      return fail(
          fmt::format("quotes {} bytes of source, more than the limit of {}", bytes, 16 * limits_.most_objects));
    return {};
  }

  const PickledTable& table_;
  const PickleRecord& record_;
  PickleLimits limits_;
};

}  // namespace

Result<void> check_pickle(std::string_view bytes, const PickleRecord& record, const PickleLimits& limits) {
  RANNC_ASSIGN(const PickledTable table, run_pickle(bytes, record, limits));
  return PickleChecker(table, record, limits).run();
}

}  // namespace rannc::frontend::torchscript
