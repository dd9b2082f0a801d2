// The kernel of oneDNN that LibTorch runs for an LSTM of f32 on a CPU: one call per layer and direction.
#include <array>

#include "ir/op/entries/recurrent.h"

namespace rannc::ir::ops::recurrent {

namespace {

// --- memory

// oneDNN pads rows to whole cache lines and avoids row strides that are multiples of 256 numbers.
Dim one_dnn_row(const Dim& width) {
  if (!width.is_constant()) return width;
  const int64_t lines = (width.constant() + 15) / 16 * 16;
  return lines % 256 == 0 ? lines + 16 : lines;
}

Dim rounded_up(const Dim& size, int64_t to) { return floor_div(size + Dim(to - 1), to) * Dim(to); }
Dim exact_row(const Dim& width) {
  const Dim lines = rounded_up(width, 16);
  return lines + Dim(16) * (Dim(1) - min(mod(lines, 256), 1));
}

// Bytes of a page-aligned part of a workspace. A symbolic size gets half a page of padding, the mean.
constexpr int64_t kPage = 4096;
Dim mean_pages(const Dim& bytes) { return bytes.is_constant() ? rounded_up(bytes, kPage) : bytes + Dim(kPage / 2); }
Dim exact_pages(const Dim& bytes) { return rounded_up(bytes, kPage); }

/// How sizes are rounded: as cost models do, linear in symbols, or as oneDNN does.
struct Rounding {
  Dim (*row)(const Dim&);
  Dim (*pages)(const Dim&);
};
constexpr Rounding kMean{one_dnn_row, mean_pages}, kExact{exact_row, exact_pages};

// Workspace of one direction: gates and hidden states per step. Then, for two layers and one additional step, states
// and cells with their gradients; a state row is as wide as the wider of x and the state.
Dim workspace_bytes(const Sizes& sizes, const Rounding& rounding) {
  const Dim number = Dim(4) * sizes.samples, states = Dim(2) * (sizes.steps + Dim(1)) * number;
  const Dim state = rounding.pages(states * rounding.row(max(sizes.features, sizes.hidden)));
  return rounding.pages(sizes.steps * number * rounding.row(sizes.rows)) +
         rounding.pages(sizes.steps * number * rounding.row(sizes.hidden)) + Dim(3) * state +
         Dim(2) * rounding.pages(states * sizes.hidden);
}

// Columns of the weights in oneDNN's layout, twice if their rows are too narrow for it.
Dim packed_columns(const Sizes& sizes) {
  Dim columns = sizes.features + sizes.hidden;
  for (const Dim& width : {sizes.features, sizes.hidden}) {
    if (!(one_dnn_row(width) == width)) columns = columns + one_dnn_row(width);
  }
  return columns;
}

}  // namespace

Dim one_dnn_forward_scratch(const Sizes& sizes) { return Dim(4) * packed_columns(sizes) * sizes.rows; }

// One direction after the other: the weights, the gradients of the gates, and some states. The sizes of the kernels'
// own buffers were measured.
Dim one_dnn_scratch(const Sizes& sizes) {
  const Dim columns = packed_columns(sizes) + sizes.steps * sizes.samples;
  return Dim(4) * (columns * sizes.rows + Dim(7) * sizes.samples * sizes.hidden) + Dim(152) * sizes.hidden + Dim(9000);
}

Dim state_bytes(const TapeCall& call) {
  const Sizes sizes = sizes_of(call.inputs);
  return Dim(sizes.directions) * sizes.samples * sizes.hidden * Dim(byte_size(call.inputs[kSequence]->dtype));
}

Kept whole_x(uint32_t where_wanted) {
  return {.of = Kept::Of::kOperand, .index = kSequence, .where_wanted = where_wanted, .in_one_piece = true};
}

namespace {

// Zeros that are kept instead of absent states and biases. LibTorch makes those of biases as large as the weights.
// `own`: made by the lowering to the kernel, for one direction.
Dim zero_bytes(const TapeCall& call, bool own) {
  const Sizes sizes = sizes_of(call.inputs);
  const Dim directions = sizes.directions;
  Dim bytes = 0;
  if (!has(call.inputs, kHidden) || !has(call.inputs, kCell))
    bytes = own ? sizes.samples * sizes.hidden * Dim(4) : state_bytes(call);
  if (has(call.inputs, kBias)) return bytes;
  return bytes + sizes.rows * Dim(4) * (own ? Dim(1) : directions * (sizes.features + sizes.hidden));
}

}  // namespace

// Keeps all operands and results of each direction, and the workspace.
TapeUse one_dnn_lstm_tape(const TapeCall& call) {
  const Sizes sizes = sizes_of(call.inputs);
  TapeUse use{.keeps = {whole_x(Kept::kAlways)}};
  for (uint32_t operand = kWeight; operand < call.inputs.size(); ++operand)
    if (has(call.inputs, operand)) use.keeps.push_back(kept_operand(operand));
  const Dim directions = sizes.directions;
  use.own_bytes = directions * workspace_bytes(sizes, kMean) + Dim(2) * state_bytes(call);
  if (sizes.directions == 1) {
    use.keeps.push_back(kept_result());
  } else {
    use.own_bytes = use.own_bytes + sizes.steps * state_bytes(call);
  }
  use.own_bytes = use.own_bytes + zero_bytes(call, call.outputs.size() > 3);
  use.workspace_bytes = one_dnn_scratch(sizes);
  return use;
}

// --- workspaces as results

uint32_t one_dnn_workspaces(const TapeCall& call) {
  if (call.device != DeviceType::kCpu) return 0;
  const ValueType &x = *call.inputs[kSequence], &recurrence = *call.inputs[kRecurrence];
  if (x.dtype != DType::kF32 || !x.shape || !recurrence.shape) return 0;
  const Sizes sizes = sizes_of(call.inputs);
  const bool empty = element_count(*x.shape) == Dim(0) || sizes.hidden == Dim(0);
  return empty ? 0 : static_cast<uint32_t>(sizes.directions);
}

Result<void> add_workspaces(const OpCall& call, Types& types) {
  const Attributes none;
  const std::vector<const ValueType*> results;
  const uint32_t found = one_dnn_workspaces({call.op, call.inputs, results, none});
  if (types.size() + found != call.output_count) {
    return error(call.op.name + " of " + std::string(str(types[0].dtype)) + " x " + str(*call.in(kSequence).shape) +
                 " has " + std::to_string(found) + " workspaces, not " +
                 std::to_string(call.output_count - types.size()));
  }
  const Dim bytes = workspace_bytes(sizes_of(call.inputs), kExact);
  types.resize(call.output_count, make_type(DType::kU8, {bytes}));
  return {};
}

// --- lowering

OneDnnLstm::OneDnnLstm(const LowerCall& call, const Places& places) : places_(places) {
  std::array<const ValueType*, kOperands> types{};
  for (uint32_t i = 0; i < kOperands; ++i) types[i] = places[i] == UINT32_MAX ? nullptr : call.inputs[places[i]];
  sizes = sizes_of(types);
}

aten::Value OneDnnLstm::dense(const aten::Value& value) { return calls("aten::contiguous", {value}); }

aten::Value OneDnnLstm::of_direction(const aten::Value& value, int64_t direction) {
  return sizes.directions == 1 ? calls("aten::squeeze.dim", {value, 0})
                               : calls("aten::select.int", {value, 0, direction});
}

aten::Value OneDnnLstm::side(const aten::Value& value, int64_t direction) {
  if (sizes.directions == 1) return value;
  return calls("aten::narrow", {value, 2, Dim(direction) * sizes.hidden, sizes.hidden});
}

aten::Value OneDnnLstm::stacked(const std::vector<aten::Value>& values) {
  if (values.size() == 1) return calls("aten::unsqueeze", {values[0], 0});
  return calls("aten::stack", {values, 0});
}

aten::Value OneDnnLstm::state(uint32_t operand, int64_t direction) {
  if (places_[operand] == UINT32_MAX) {
    if (!zeros_) zeros_ = calls("aten::new_zeros", {x(), Shape{sizes.samples, sizes.hidden}});
    return *zeros_;
  }
  std::optional<aten::Value>& whole = dense_[operand];
  if (!whole) whole = dense(aten::Operand{places_[operand]});
  return of_direction(*whole, direction);
}

aten::Value OneDnnLstm::x() {
  if (!dense_[kSequence]) dense_[kSequence] = dense(aten::Operand{places_[kSequence]});
  return *dense_[kSequence];
}

// Without biases the kernel takes zeros.
std::vector<aten::Argument> OneDnnLstm::operands(int64_t direction) {
  if (!has_biases() && !no_bias_) no_bias_ = calls("aten::new_zeros", {x(), Shape{sizes.rows}});
  std::vector<aten::Argument> arguments = {x()};
  for (const uint32_t operand : {kWeight, kRecurrence, kBias, kRecurrentBias}) {
    const bool given = places_[operand] != UINT32_MAX;
    arguments.emplace_back(given ? of_direction(aten::Operand{places_[operand]}, direction) : *no_bias_);
  }
  for (const uint32_t operand : {kHidden, kCell}) arguments.emplace_back(state(operand, direction));
  return arguments;
}

// The kernel ignores its argument `train`. It returns a workspace in grad mode only.
Result<aten::Lowering> lower_one_dnn_lstm(const LowerCall& call) {
  RANNC_TRY(require_cpu(call, "aten::mkldnn_rnn_layer"));
  OneDnnLstm::Places places;
  for (uint32_t i = 0; i < kOperands; ++i) places[i] = call.has(i) ? i : UINT32_MAX;
  OneDnnLstm lstm(call, places);
  const bool both = lstm.sizes.directions == 2;
  std::array<std::vector<aten::Value>, 4> made;
  for (int64_t direction = 0; direction < lstm.sizes.directions; ++direction) {
    std::vector<aten::Argument> arguments = lstm.operands(direction);
    arguments.insert(arguments.end(),
                     {direction == 1, Shape{}, kLstmMode, lstm.sizes.hidden, 1, lstm.has_biases(), both,
                      /*batch_first=*/false, /*train=*/true});
    const aten::Made results = lstm.calls("aten::mkldnn_rnn_layer", std::move(arguments), 4);
    for (uint32_t i = 0; i < made.size(); ++i) made[i].emplace_back(aten::Made{results.call, i});
  }
  const aten::Value y = both ? aten::Value(lstm.calls("aten::cat", {made[0], -1})) : made[0][0];
  std::vector<aten::Value> results = {y, lstm.stacked(made[1]), lstm.stacked(made[2])};
  results.insert(results.end(), made[3].begin(), made[3].end());
  return std::move(lstm.calls).with(std::move(results));
}

}  // namespace rannc::ir::ops::recurrent
