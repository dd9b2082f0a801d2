#include "runtime/train/outputs.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/bundle/safetensors.h"
#include "runtime/data/dataset.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

SafetensorsTensor to_write(const std::string& name, const Value& value) {
  const at::Tensor tensor = on_host(value);
  return {name, value->spec(), [tensor]() -> Result<std::span<const std::byte>> {
            return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
          }};
}

/// Formats ranges as `0-4,8-12`.
std::string print_ranges(const std::vector<ir::SampleRange>& ranges) {
  std::string text;
  for (const ir::SampleRange& range : ranges) {
    fmt::format_to(std::back_inserter(text), "{}{}-{}", text.empty() ? "" : ",", range.first, range.last);
  }
  return text;
}

Result<std::vector<ir::SampleRange>> parse_ranges(const std::string& text, const Location& where) {
  std::vector<ir::SampleRange> ranges;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    ir::SampleRange range;
    const auto first = std::from_chars(at, end, range.first);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-')
      return error(where, "is not a list of samples");
    const auto last = std::from_chars(first.ptr + 1, end, range.last);
    if (last.ec != std::errc() || range.empty()) return error(where, "is not a list of samples");
    ranges.push_back(range);
    at = last.ptr == end ? end : last.ptr + 1;
  }
  return ranges;
}

}  // namespace

SampleAxis Outputs::axis_of(const std::string& name) const {
  const ir::BatchLayout& layout = plan_.graph.type(plan_.graph.find(name)).batch;
  if (!layout.has_batch()) return {0, 1, 1};  // undivided batch: SampleFile has checked that axis 0 counts samples
  return {layout.axis, layout.outer.evaluate(symbols_).value_or(1), layout.inner.evaluate(symbols_).value_or(1)};
}

Value Outputs::joined(const std::string& name, const std::vector<Piece>& pieces) const {
  Values values;
  for (const Piece& piece : pieces) values.push_back(piece.value);
  return values.size() == 1 ? values[0] : values[0]->joined(values, axis_of(name));
}

void Outputs::add_pieces(const std::string& name, const std::vector<ir::SampleRange>& ranges, const Value& value,
                         uint64_t first) {
  std::vector<Piece>& pieces = pieces_[name];
  if (ranges.empty()) {
    if (pieces.empty()) pieces.push_back({{}, value});  // the same in every mini-batch
    return;
  }
  int64_t before = 0;
  for (const ir::SampleRange& range : ranges) {
    const ir::SampleRange within{before, before + range.size()};
    const auto offset = static_cast<int64_t>(first);
    pieces.push_back({{range.first + offset, range.last + offset},
                      ranges.size() == 1 ? value : value->samples(axis_of(name), within)});
    before = within.last;
  }
}

void Outputs::add(const StepResult& result, uint64_t first) {
  const bool fixed = plan_.graph.batch_symbol().empty();
  for (const auto& [name, value] : result.outputs) {
    const auto known = result.output_samples.find(name);
    std::vector<ir::SampleRange> ranges;
    if (fixed) ranges = {{0, result.samples}};
    if (known != result.output_samples.end()) ranges = known->second;
    add_pieces(name, ranges, value, first);
  }
}

Result<void> Outputs::write_part(const std::string& path) const {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata;
  for (const auto& [name, pieces] : pieces_) {
    tensors.push_back(to_write("x/" + name, joined(name, pieces)));
    std::vector<ir::SampleRange> ranges;
    for (const Piece& piece : pieces) {
      if (!piece.samples.empty()) ranges.push_back(piece.samples);
    }
    metadata[name] = print_ranges(ranges);
  }
  return write_safetensors(path, std::move(tensors), metadata);
}

Result<void> Outputs::add_part(const std::string& path) {
  RANNC_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  RANNC_ASSIGN(const Batch values, read_batch(path));
  for (const auto& [name, value] : values) {
    const auto ranges = file.metadata().find(name);
    const Location where{path, 0, 0, name};
    if (ranges == file.metadata().end() || !plan_.graph.find(name).valid())
      return error(where, "is not part of an output");
    RANNC_ASSIGN(const auto samples, parse_ranges(ranges->second, where));
    add_pieces(name, samples, value, 0);
  }
  return {};
}

std::map<std::string, Value> Outputs::whole(uint64_t samples) const {
  std::map<std::string, Value> outputs;
  for (const auto& [name, unordered] : pieces_) {
    std::vector<Piece> pieces = unordered;
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.samples.first < b.samples.first; });
    int64_t next = 0;
    for (const Piece& piece : pieces) {
      RANNC_CHECK(piece.samples.empty() || piece.samples.first == next)
          << "output " << name << " goes on at sample " << piece.samples.first << ", not at " << next;
      next = piece.samples.last;
    }
    RANNC_CHECK(next == 0 || next == static_cast<int64_t>(samples)) << "output " << name << " ends at sample " << next;
    outputs.emplace(name, joined(name, pieces));
  }
  for (const ValueId id : plan_.graph.outputs()) {
    RANNC_CHECK(outputs.contains(std::string(plan_.graph.value(id).name))) << "every output comes out of a stage";
  }
  return outputs;
}

Result<void> Outputs::write(const std::string& path, uint64_t samples,
                            const std::map<std::string, std::string>& metadata) const {
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, value] : whole(samples)) tensors.push_back(to_write(name, value));
  return write_safetensors(path, std::move(tensors), metadata);
}

}  // namespace rannc::runtime
