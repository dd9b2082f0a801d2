// Recurrent layers of the test device, decomposed as on a CPU: LibTorch itself expects fused cells of a device.
#include <ATen/ATen.h>

#include "tests/support/test_device/device_kernels.h"

namespace rannc::testing {
namespace {

/// One direction of one layer.
struct Direction {
  at::Tensor of_input, of_state, input_bias, state_bias;
};

/// Outputs of all steps, and the last states. The kernel of oneDNN knows float32 alone.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_direction(const at::Tensor& input, at::Tensor hidden,
                                                              at::Tensor cell, const Direction& weights,
                                                              bool backwards) {
  std::vector<at::Tensor> steps = at::linear(input, weights.of_input, weights.input_bias).unbind(0);
  if (backwards) std::reverse(steps.begin(), steps.end());
  for (at::Tensor& step : steps) {
    std::vector<at::Tensor> gates =
        at::linear(hidden, weights.of_state, weights.state_bias).add_(step).unsafe_chunk(4, 1);
    cell = (gates[1].sigmoid_() * cell).add_(gates[0].sigmoid_() * gates[2].tanh_());
    step = hidden = gates[3].sigmoid_() * cell.tanh();
  }
  if (backwards) std::reverse(steps.begin(), steps.end());
  return {at::stack(steps, 0), hidden, cell};
}

/// The mode of an LSTM in `aten::mkldnn_rnn_layer`.
constexpr int64_t kLstm = 2;

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& input, at::TensorList states,
                                                    at::TensorList weights, bool biases, int64_t layers, double dropout,
                                                    bool training, bool both_ways, bool batch_first) {
  const at::Tensor hidden = states[0].contiguous(), cells = states[1].contiguous();
  std::vector<at::Tensor> last_hidden, last_cells;
  at::Tensor x = (batch_first ? input.transpose(0, 1) : input).contiguous();
  auto weight = weights.begin();
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (const bool backwards : {false, true}) {
      if (backwards && !both_ways) continue;
      const at::Tensor of_input = *weight++, of_state = *weight++;
      const at::Tensor input_bias = biases ? *weight++ : at::zeros_like(of_input);
      const at::Tensor state_bias = biases ? *weight++ : at::zeros_like(of_state);
      const auto at_direction = static_cast<int64_t>(last_hidden.size());
      if (input.scalar_type() != at::kFloat) {
        const Direction weights{of_input, of_state, biases ? input_bias : at::Tensor(),
                                biases ? state_bias : at::Tensor()};
        const auto [outputs_of_steps, last, cell] =
            lstm_direction(x, hidden[at_direction], cells[at_direction], weights, backwards);
        outputs.push_back(outputs_of_steps);
        last_hidden.push_back(last);
        last_cells.push_back(cell);
        continue;
      }
      auto [output, last, cell, workspace] =
          at::mkldnn_rnn_layer(x, of_input, of_state, input_bias, state_bias, hidden[at_direction], cells[at_direction],
                               backwards, {}, kLstm, hidden.size(2), layers, biases, both_ways, batch_first, training);
      outputs.push_back(output);
      last_hidden.push_back(last);
      last_cells.push_back(cell);
    }
    x = both_ways ? at::cat(outputs, -1) : outputs.front();
    if (dropout != 0 && training && layer + 1 < layers) x = at::dropout(x, dropout, true);
  }
  return {batch_first ? x.transpose(0, 1) : x, at::stack(last_hidden, 0), at::stack(last_cells, 0)};
}

at::Tensor gru_step(const at::Tensor& input, const at::Tensor& state, const Direction& weights) {
  const std::vector<at::Tensor> in = input.unsafe_chunk(3, 1);
  std::vector<at::Tensor> on = at::linear(state, weights.of_state, weights.state_bias).unsafe_chunk(3, 1);
  const at::Tensor reset = on[0].add_(in[0]).sigmoid_(), update = on[1].add_(in[1]).sigmoid_();
  const at::Tensor candidate = in[2].add(on[2].mul_(reset)).tanh_();
  return (state - candidate).mul_(update).add_(candidate);
}

/// Returns the outputs of all steps, in the order of the steps, and the last state.
std::pair<at::Tensor, at::Tensor> gru_direction(const at::Tensor& input, at::Tensor state, const Direction& weights,
                                                bool backwards) {
  std::vector<at::Tensor> steps = at::linear(input, weights.of_input, weights.input_bias).unbind(0);
  if (backwards) std::reverse(steps.begin(), steps.end());
  for (at::Tensor& step : steps) step = state = gru_step(step, state, weights);
  if (backwards) std::reverse(steps.begin(), steps.end());
  return {at::stack(steps, 0), state};
}

std::tuple<at::Tensor, at::Tensor> gru(const at::Tensor& input, const at::Tensor& states, at::TensorList weights,
                                       bool biases, int64_t layers, double dropout, bool training, bool both_ways,
                                       bool batch_first) {
  const std::vector<at::Tensor> state = states.unbind(0);
  std::vector<at::Tensor> last;
  at::Tensor x = batch_first ? input.transpose(0, 1) : input;
  auto weight = weights.begin();
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (const bool backwards : {false, true}) {
      if (backwards && !both_ways) continue;
      Direction of{*weight++, *weight++, {}, {}};
      if (biases) of.input_bias = *weight++;
      if (biases) of.state_bias = *weight++;
      auto [output, end] = gru_direction(x, state[last.size()], of, backwards);
      outputs.push_back(output);
      last.push_back(end);
    }
    x = both_ways ? at::cat(outputs, -1) : outputs.front();
    if (dropout != 0 && training && layer + 1 < layers) x = at::dropout(x, dropout, true);
  }
  return {batch_first ? x.transpose(0, 1) : x, at::stack(last, 0)};
}

}  // namespace

void add_recurrent(torch::Library& library) {
  library.impl("lstm.input", TORCH_FN(lstm));
  library.impl("gru.input", TORCH_FN(gru));
}

}  // namespace rannc::testing
