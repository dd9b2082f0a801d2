#include "runtime/train/gradient_norms.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "ir/plan/step_copies.h"
#include "runtime/internal/share_exchange.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

// Elements per row. LibTorch sums the squares of a row in the row's type in one pass over memory. Rows are short, and
// their norms are squared and added in double precision.
constexpr int64_t kRow = 4096;

// A scalar on the device of the gradient.
at::Tensor sum_of_squares(const at::Tensor& flat) {
  const int64_t rows = flat.numel() / kRow, in_rows = rows * kRow;
  const auto squares = [](const at::Tensor& norms) { return norms.to(at::kDouble).square_().sum(); };
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  if (rows > 0) {
    const at::Tensor table = in_rows == flat.numel() ? flat : flat.narrow(0, 0, in_rows);
    sum += squares(at::linalg_vector_norm(table.view({rows, kRow}), 2, at::IntArrayRef{1}));
  }
  if (in_rows < flat.numel()) sum += squares(at::linalg_vector_norm(flat.narrow(0, in_rows, flat.numel() - in_rows)));
  return sum;
}

// Works in slices, because double precision needs more memory.
at::Tensor sum_of_wide_squares(const at::Tensor& flat) {
  const int64_t slice = ir::step_copy_bytes(flat.is_cuda() ? ir::DeviceType::kCuda : ir::DeviceType::kCpu) /
                        static_cast<int64_t>(sizeof(double));
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  for (int64_t first = 0; first < flat.numel(); first += slice)
    sum += sum_of_squares(flat.narrow(0, first, std::min(slice, flat.numel() - first)).to(at::kDouble));
  return sum;
}

// Reads scalars of one device with one wait.
std::vector<double> on_host(const std::vector<at::Tensor>& scalars) {
  if (scalars.empty()) return {};
  const at::Tensor numbers = at::stack(scalars).cpu();
  const auto* const first = numbers.const_data_ptr<double>();
  return {first, first + numbers.numel()};
}

}  // namespace

std::vector<double> squared_norms(Program& program, std::span<const ir::ParameterSlice> slices) {
  // Between these bounds float32 is accurate enough. Beyond them, squares may underflow or overflow.
  constexpr double kLeast = 1e-24, kMost = 1e38;
  const c10::NoGradGuard no_grad;
  std::vector<uint32_t> parameters;
  for (const ir::ParameterSlice& slice : slices) parameters.push_back(slice.parameter);
  const Values gradients = program.gradients(parameters);
  const c10::InferenceMode views_are_cheap;
  const auto is_half = [](const at::Tensor& flat) {
    return flat.scalar_type() != at::kFloat && flat.scalar_type() != at::kDouble;
  };
  std::vector<at::Tensor> parts, sums;
  for (size_t i = 0; i < slices.size(); ++i) {
    const at::Tensor flat = to_tensor(gradients[i]).contiguous().view(-1);
    parts.push_back(flat.narrow(0, slices[i].first, slices[i].size()));
    sums.push_back(is_half(flat) ? sum_of_wide_squares(parts[i]) : sum_of_squares(parts[i]));
  }
  std::vector<double> squares = on_host(sums);
  for (size_t i = 0; i < squares.size(); ++i) {
    const bool exact = squares[i] > kLeast && squares[i] < kMost;
    if (exact || parts[i].scalar_type() != at::kFloat) continue;
    squares[i] = on_host({sum_of_wide_squares(parts[i])})[0];
  }
  return squares;
}

std::vector<double> squared_norms(Program& program, std::span<const uint32_t> parameters) {
  const std::vector<int64_t> elements = parameter_elements(program);
  std::vector<ir::ParameterSlice> whole;
  for (const uint32_t parameter : parameters) whole.push_back({parameter, 0, elements[parameter]});
  return squared_norms(program, whole);
}

double clip_scale(double norm, double limit) { return std::min(1.0, limit / (norm + 1e-6)); }

}  // namespace rannc::runtime
