// Programs: writes in place, views, structure, state, and what is refused.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "frontend/torchscript/import.h"
#include "ir/graph/assumptions.h"
#include "ir/op/op.h"
#include "tests/frontend/torchscript/program.h"

namespace rannc::test {
namespace {

std::vector<at::Tensor> inputs() {
  at::manual_seed(11);
  return {at::randn({3, 4, 6}, at::kDouble), at::randn({3, 4, 6}, at::kDouble)};
}

struct Program {
  const char *name, *source;
};
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

class Programs : public testing::TestWithParam<Program> {};

TEST_P(Programs, EqualLibTorchs) {
  SavedModule module(GetParam().source);
  EXPECT_EQ(difference(module, inputs()), "");
}

constexpr Program kInPlace[] = {
    {"Add", "def forward(self, x, y):\n  a = x + 1\n  a.add_(y)\n  return a * 2\n"},
    {"SeenByAnotherName", "def forward(self, x, y):\n  a = x + 1\n  b = a\n  a.mul_(y)\n  return b\n"},
    {"RowWritten", "def forward(self, x, y):\n  a = x + 1\n  a[:, 1].mul_(3)\n  return a\n"},
    {"SliceWritten", "def forward(self, x, y):\n  a = x + 1\n  a[:, 1:3] = y[:, :2]\n  return a\n"},
    {"SliceFilled", "def forward(self, x, y):\n  a = x * y\n  a[:, :, 2:] = 0.5\n  return a\n"},
    {"ViewReadAfterwards", "def forward(self, x, y):\n  a = x + 1\n  row = a[:, 2]\n  a.add_(y)\n  return row * 2\n"},
    {"ViewReadBefore",
     "def forward(self, x, y):\n  a = x + 1\n  row = a[:, 2] * 2\n  a.add_(y)\n  return row + a[:, 0]\n"},
    {"OneViewThroughAnother",
     "def forward(self, x, y):\n  a = x + 1\n  t = a.transpose(1, 2)\n  v = a.view(-1, 24)\n  t.mul_(2)\n  return v\n"},
    {"ViewOfView",
     "def forward(self, x, y):\n  a = x + 1\n  a.transpose(1, 2)[:, 3:5].unsqueeze(1).add_(1)\n  return a\n"},
    {"PartsOfSplit",
     "def forward(self, x, y):\n  a = x + 1\n  b, c = a.split([1, 3], 1)\n  c.mul_(y[:, :3])\n  b.neg_()\n  return "
     "a\n"},
    {"ResultsGiven",
     "def forward(self, x, y):\n  a = torch.zeros([x.size(0), 4, 12], dtype=7)\n  torch.neg(x, out=a[:, :, 6:])\n"
     "  b = torch.zeros_like(y)\n  torch.add(x, y, alpha=2, out=b)\n  c, i = torch.zeros_like(x[:, 0]), "
     "torch.zeros([x.size(0), 6], dtype=4)\n  torch.max(x, 1, max=c, max_values=i)\n  d = torch.zeros_like(x)\n"
     "  torch.sin(x, out=d)\n  return a, b, c, i, d\n"},
    // As a trace has an LSTM cell.
    {"WrittenParts",
     "def forward(self, x, y):\n  a, b = torch.unsafe_chunk((x + 1).add_(y), 2, 2)\n  c = torch.tanh_(b)\n"
     "  return torch.sigmoid_(a) * c\n"},
    {"Chained", "def forward(self, x, y):\n  return (x * 1).relu_().mul_(y).add_(1).clamp_(min=0.1)\n"},
    {"KeepsItsType",
     "def forward(self, x, y):\n  a = torch.ones([4, 6], dtype=6)\n  a = a + torch.zeros([4, 6])\n  "
     "a.add_(torch.ones([4, 6], dtype=7))\n  return a + x\n"},
    {"CopyFromNarrower", "def forward(self, x, y):\n  a = x + 1\n  a.copy_(y[:, :1])\n  return a\n"},
    {"Zeroed", "def forward(self, x, y):\n  a = x + 1\n  b = a * 2\n  a.zero_()\n  return a + b\n"},
    {"WrittenAfterContiguous",
     "def forward(self, x, y):\n  a = (x * 2).transpose(1, 2).contiguous()\n  a.add_(1)\n  return a\n"},
    {"WrittenAfterReshape",
     "def forward(self, x, y):\n  a = (x * 2).reshape(-1, 24)\n  row = a[:, 3]\n  a[:, 1:5].mul_(3)\n  return a, "
     "row\n"},
    {"WrittenAfterDetach", "def forward(self, x, y):\n  a = (x + 1).detach()\n  a.add_(1)\n  return a * y\n"},
    {"SizeReadAfterwards",
     "def forward(self, x, y):\n  a = x + 1\n  b = a.reshape(-1, 24)\n  b.mul_(2)\n  return b.view(a.shape) * y\n"},
    {"OtherPartRead",
     "def forward(self, x, y):\n  a = x * 2\n  b, c, d = a.split([2, 1, 1], 1)\n  e = b.reshape(-1, 12)\n  "
     "e.mul_(3)\n  return e, c, d\n"},
    {"EveryOtherWritten",
     "def forward(self, x, y):\n  a = torch.zeros_like(x)\n  a[..., 0::2] = torch.sin(x[..., :3])\n  a[..., 1::2] = "
     "y[..., 3:]\n  return a * y\n"},
    {"EveryThirdWritten",
     "def forward(self, x, y):\n  a = x + 1\n  a[..., 1:33:3] = y[..., :2]\n  a[..., 2::3].mul_(3)\n  return a\n"},
    {"EveryOtherOfARangeWritten",
     "def forward(self, x, y):\n  a = x + 1\n  a[..., 1:4:2] = y[..., 4:]\n  a[..., 3:6:2].mul_(y[..., 1::4])\n  "
     "return a\n"},
    {"UnevenStepsWritten",
     "def forward(self, x, y):\n  a = x + 1\n  a[..., 0:5:4] = y[..., :2]\n  a[..., ::4].mul_(2)\n  a[:, 3::2] = "
     "0.5\n  a[:, 1:, 5::7].add_(y[:, 1:, :1])\n  return a\n"},
    {"ViewOfEveryOtherWritten",
     "def forward(self, x, y):\n  a = x + 1\n  b = a[..., 1::2]\n  b[:, 1:3].add_(y[:, 1:3, :3])\n  a.mul_(2)\n  "
     "return a, b\n"},
    {"MaskedFill", "def forward(self, x, y):\n  a = x + 1\n  a.masked_fill_(y > 0, 0.25)\n  return a\n"},
};
constexpr Program kStructure[] = {
    {"Loop", "def forward(self, x, y):\n  for i in range(3):\n    x = x * y + i\n  return x\n"},
    {"LoopOverLayers",
     "def forward(self, x, y):\n  outs = []\n  for i in range(x.size(1)):\n    outs.append(x[:, i] * i)\n  return "
     "torch.stack(outs, 1)\n"},
    {"While", "def forward(self, x, y):\n  i = 0\n  while i < 4:\n    x = x + y\n    i += 2\n  return x\n"},
    {"EarlyReturn", "def forward(self, x, y):\n  if x.size(1) == 4:\n    return x + y\n  return x - y\n"},
    {"BranchOfSizes",
     "def forward(self, x, y):\n  if x.dim() == 3 and x.size(2) > 5:\n    x = x * 2\n  else:\n    x = x * 3\n  return "
     "x\n"},
    {"CheckThatRaises",
     "def forward(self, x, y):\n  assert x.size(1) == 4, 'four rows'\n  "
     "return x + y\n"},
    {"Tuples",
     "def pair(self, x):\n  return x + 1, x - 1\ndef forward(self, x, y):\n  a, b = self.pair(x)\n  c = (a, b, y)\n  "
     "return c[1] * c[2] + c[0]\n"},
    {"Dictionary", "def forward(self, x, y):\n  d = {'a': x + 1, 'b': y}\n  d['c'] = d['a'] * d['b']\n  return d\n"},
    {"Optional",
     "def f(self, x, scale: Optional[float]):\n  if scale is not None:\n    return x * scale\n  return x\ndef "
     "forward(self, x, y):\n  return self.f(x, None) + self.f(y, 0.5)\n"},
    {"Numbers",
     "def forward(self, x, y):\n  n = x.size(0) * x.size(1)\n  m = n // x.size(1)\n  return x.view(n, -1).view(m, 4, "
     "6) * float(x.size(2)) + min(2, 5) + max([1, 3])\n"},
    {"Strings", "def forward(self, x, y):\n  mode = 'a'\n  if mode in ['b', 'a']:\n    return x\n  return y\n"},
    {"ListsOfSizes", "def forward(self, x, y):\n  shape = list(x.shape[:1]) + [2, 12]\n  return x.reshape(shape)\n"},
    {"RoundedSizes",
     "def forward(self, x, y):\n  n = x.size(0)\n  up = torch.ceil(n / 4) * 4\n  half = torch.floor(n * 0.5)\n  more "
     "= int(n * 1.5)\n  third = int(round(n / 3))\n  root = int(torch.sqrt(n * n))\n  return torch.ones([up, half, "
     "more, third]), torch.ones([root, 2]), torch.ones([int((n - 1) / 2 + 1), int(n * 0.75)]), torch.ones([int(n ** 2) "
     "// n, 3])\n"},
    {"QuotientsOfSizes",
     "def forward(self, x, y):\n  r = x.size(0) / 4\n  if r > 0 and r + 1 > 1:\n    y = y * 2\n  return x - y\n"},
    {"NumbersOfTensors",
     "def forward(self, x, y):\n  n = int(torch.tensor(x.size(1)) * 2)\n  return x.repeat(1, n // 4, 1)\n"},
};
constexpr Program kComplex[] = {
    {"Rotary",
     "def forward(self, x, y):\n  a = torch.view_as_complex(x.reshape(-1, 4, 3, 2))\n  angle = torch.arange(3, "
     "dtype=7) * 0.7\n  f = torch.polar(torch.ones_like(angle), angle) * 1.25\n  return torch.view_as_real(a * "
     "f.view([1, 1, 3]).expand([-1, 4, -1])).flatten(2)\n"},
    {"Arithmetic",
     "def forward(self, x, y):\n  a = torch.complex(x, y)\n  b = a * a.conj() + a / (a + 2) - a * 0.5\n  c = 1.5 / a + "
     "x * a - a / y + (x - a) + torch.sub(a, x, alpha=3)\n  c.mul_(a)\n  return torch.real(b), torch.imag(b), "
     "torch.view_as_real(-c), torch.real(x)\n"},
    {"SizeAndAngle",
     "def forward(self, x, y):\n  a = torch.complex(x, y)\n  o = torch.zeros_like(x)\n  z = torch.complex(o, o)\n  "
     "return a.abs(), torch.angle(a), z.abs(), torch.angle(z), torch.angle(torch.complex(x, o)), "
     "torch.abs(torch.exp(a))\n"},
    {"Moves",
     "def forward(self, x, y):\n  a = torch.complex(x, y)\n  b = torch.cat([a.transpose(1, 2), a.permute([0, -1, "
     "1])[:, :2]], 1)\n  c = torch.stack(a.unbind(1), -1).flip([-1]).roll(1, -1)\n  halves = a.chunk(2, -1)\n  n = "
     "a.size(-1) * a.dim() + len(a.shape)\n  return torch.view_as_real(b.unsqueeze(-1)) * n, "
     "torch.view_as_real(c.reshape(-1, 24)), torch.view_as_real(halves[0].select(1, -1) + halves[1][:, 0]), "
     "torch.view_as_real(a.repeat([1, 2, 1]).mT.squeeze())\n"},
    {"Written",
     "def forward(self, x, y):\n  p = x * 2\n  a = torch.view_as_complex(p.view(-1, 4, 3, 2))\n  a[:, 1:3].mul_(3)\n  "
     "a[:, 0] = a[:, 3]\n  torch.imag(a).add_(y[..., :3])\n  a[:, :, ::2].copy_(y[..., :2])\n  return p, "
     "torch.view_as_real(a)\n"},
    {"Products",
     "def forward(self, x, y):\n  a = torch.complex(x, y)\n  return torch.view_as_real(a @ a.mT), torch.view_as_real(a "
     "@ x.mT.to(15 - 5)), torch.view_as_real(a.sum(-1) + a.mean([1, 2], True)[:, 0]), torch.view_as_real(torch.where(x "
     "> 0, a, a * 2))\n"},
    {"Properties",
     "def forward(self, x, y):\n  a = torch.complex(x, y)\n  if a.is_complex() and not x.is_complex() and a.dtype == "
     "10:\n    x = x * (a[:, :, 0].numel() // a.size(0))\n  return x\n"},
    {"Fourier",
     "def forward(self, x, y):\n  f = torch.fft_rfft(x, dim=-1)\n  return torch.fft_irfft(f * torch.fft_rfft(y), 6), "
     "torch.view_as_real(torch.fft_fft(torch.complex(x, y), 9, 1, 'ortho')), torch.fft_irfft(f, 5, -1, 'forward')\n"},
    {"FourierOfSeveralAxes",
     "def forward(self, x, y):\n  a = torch.fft_ifftn(torch.complex(x, y), dim=[1, 2])\n"
     "  b = torch.fft_rfft2(x)\n  return torch.real(a), torch.imag(a), torch.view_as_real(b), torch.fft_irfft2(b), "
     "torch.real(torch.fft_fftn(x, dim=[1, 2]))\n"},
    {"InAList",
     "def forward(self, x, y):\n  parts = [torch.complex(x, y)]\n  parts.append(parts[0] * 2)\n  return "
     "torch.view_as_real(torch.cat(parts, 1))\n"},
};
INSTANTIATE_TEST_SUITE_P(Complex, Programs, testing::ValuesIn(kComplex),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(InPlace, Programs, testing::ValuesIn(kInPlace),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Structure, Programs, testing::ValuesIn(kStructure),
                         [](const auto& info) { return info.param.name; });

TEST(TracedNumbers, AreNumbersInArithmetic) {
  SavedModule module("def forward(self, x, y):\n  a = torch.arange(6) * 0.5 + 2.5\n  return (a - 1.5) / 4.0, x * y\n");
  torch::jit::Graph& graph = *module.module().get_method("forward").graph();
  const std::set<c10::Symbol> arithmetic = {c10::aten::mul, c10::aten::add, c10::aten::sub, c10::aten::div};
  for (torch::jit::Node* node : graph.nodes()) {  // a trace records numbers as tensors
    if (!arithmetic.contains(node->kind())) continue;
    const torch::jit::WithInsertPoint here(node);
    const at::Scalar number = torch::jit::toIValue(node->inputs()[1])->toScalar();
    node->replaceInput(1, graph.insertConstant(at::scalar_tensor(number, at::kDouble)));
  }
  module.module().save(module.path());
  EXPECT_EQ(difference(module, inputs()), "");
}

constexpr Program kPicked[] = {
    {"Masked",
     "def forward(self, x, y):\n  a = torch.zeros_like(x)\n  m = x[:, :, 0] > 0\n  a[m] = x[m] * 2 + y[m].relu()\n"
     "  return a\n"},
    {"MaskedByEachSample",
     "def forward(self, x, y):\n  a = x + 1\n  m = x[:, 0, 0] > 0\n  a[m] = torch.softmax(y[m], -1)\n  return a\n"},
    {"MaskOfElements", "def forward(self, x, y):\n  a = x + 1\n  m = x > 0\n  a[m] = x[m].log() / y[m]\n  return a\n"},
    {"MaskAddedUp", "def forward(self, x, y):\n  m = x > 0\n  return torch.index_put(y, [m], x[m].sqrt(), True)\n"},
    {"MaskFilled",
     "def forward(self, x, y):\n  a = x + 1\n  a[x > 0] = 0.5\n  a[y[:, 0, 0] > 0] = torch.ones([4, 6], dtype=7)\n  "
     "return a\n"},
    {"IndexAdded",
     "def forward(self, x, y):\n  t = x.view(-1, 6)\n  a = torch.zeros_like(t)\n  i = torch.where(t[:, 0] > 0)[0]\n"
     "  a.index_add_(0, i, t[i] * y.view(-1, 6)[i], alpha=2)\n  return a.view(-1, 4, 6)\n"},
    {"IndexCopied",
     "def forward(self, x, y):\n  t = x.view(-1, 6)\n  i = torch.nonzero(t[:, 0] > 0).squeeze(1)\n"
     "  return t.index_copy(0, i, t.index_select(0, i).tanh()).view(-1, 4, 6)\n"},
    {"ChoicesOfExperts",
     "def forward(self, x, y):\n  t = x.view(-1, 6)\n  w, c = torch.topk(y.view(-1, 6), 2, -1)\n"
     "  a = torch.zeros_like(t)\n  for e in range(6):\n    k, i = torch.where((c == e).t())\n"
     "    a.index_add_(0, i, (t[i] + e) * w[i, k].unsqueeze(1))\n  return a.view(-1, 4, 6)\n"},
    {"MaskedSelect",
     "def forward(self, x, y):\n  m = x[:, :, :1] > 0\n"
     "  return y.masked_scatter(m, torch.exp(torch.masked_select(x, m)))\n"},
    {"MaskOfLaterAxes",
     "def forward(self, x, y):\n  m = torch.arange(4) > 1\n  a = x + 1\n  a[:, m] = x[:, m] * 3\n  return a\n"},
    {"SortedByExpert",
     "def forward(self, x, y):\n  t = x.view(-1, 6)\n  l = y.view(-1, 6)[:, :3]\n  w, c = torch.topk(l, 2, -1)\n"
     "  n = torch.zeros_like(l).scatter(1, c, 1.0).long().sum(0)\n  i = c.flatten().sort(0)[1]\n"
     "  b = i.div(2, rounding_mode='trunc')\n  p = t[b].split([int(n[0]), int(n[1]), int(n[2])], 0)\n"
     "  o = torch.cat([p[0] * 2, p[1].tanh(), p[2] + 1], 0) * w.flatten()[i].unsqueeze(1)\n"
     "  return torch.zeros_like(t).index_add(0, b, o).view(-1, 4, 6)\n"},
    {"SortedAndPutBack",
     "def forward(self, x, y):\n  t = x.view(-1, 6)\n  w, c = torch.topk(y.view(-1, 6)[:, :3], 2, -1)\n"
     "  n = torch.bincount(c.flatten(), minlength=3)\n  i = c.flatten().argsort()\n  r = torch.empty_like(i)\n"
     "  r[i] = torch.arange(i.size(0))\n  p = t[i // 2].split([int(n[0]), int(n[1]), int(n[2])], 0)\n"
     "  o = torch.cat([p[0] * 2, p[1].tanh(), p[2] + 1], 0) * w.flatten()[i].unsqueeze(1)\n"
     "  return o[r].view(-1, 4, 2, 6).sum(2)\n"},
    {"GroupedProducts",
     "def forward(self, x, y):\n  t = torch.round(x.view(-1, 6)[:, :4] * 4).float()\n"
     "  w, c = torch.topk(y.view(-1, 6)[:, :3], 2, -1)\n  k, i = torch.sort(c.flatten())\n"
     "  m = (torch.arange(96) % 7 - 3).view(3, 4, 8).float()\n"
     "  e = torch.cumsum(torch.histc(k.float(), 3, 0, 2), 0, dtype=3)\n"
     "  o = torch._grouped_mm(t[i // 2], m, e) + m[k, 0]\n"
     "  return o.index_select(0, torch.argsort(i)).view(-1, 4, 2, 8).sum(2)\n"},
    {"GroupedProductsOfOtherRows",
     "def forward(self, x, y):\n  m = (torch.arange(96) % 7 - 3).view(3, 4, 8).float()\n"
     "  t = (torch.arange(20) % 5).view(5, 4).float()\n"
     "  return x.float() * torch._grouped_mm(t, m, torch.tensor([1, 1, 5], dtype=3)).sum()\n"},
    {"MaskIgnored", "def forward(self, x, y):\n  n = x[x > 0]\n  return x + y\n"},
};
INSTANTIATE_TEST_SUITE_P(Picked, Programs, testing::ValuesIn(kPicked),
                         [](const auto& info) { return info.param.name; });

// --- what is refused, and where

struct Refused {
  const char *name, *source, *reports;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
class Refusals : public testing::TestWithParam<Refused> {};

TEST_P(Refusals, NameThePlace) {
  const SavedModule module(GetParam().source);
  const auto imported = frontend::read_torch(module.path(), {.inputs = input_flags(inputs())});
  ASSERT_FALSE(imported.ok());
  EXPECT_NE(imported.diagnostic().str().find(GetParam().reports), std::string::npos) << imported.diagnostic().str();
}

constexpr Refused kRefused[] = {
    {"GroupsOfOtherSizes",
     "def forward(self, x, y):\n  t = x.view(-1, 6)[:, :4].float()\n"
     "  i = torch.topk(y.view(-1, 6)[:, :3], 1, -1)[1].flatten().argsort()\n"
     "  e = torch.tensor([1, 2, 3], dtype=3)\n  return torch._grouped_mm(t[i], torch.ones([3, 4, 8]).float(), e)\n",
     "the ends of groups of sorted rows must be the running sums"},
    {"InverseOfSortReturned",
     "def forward(self, x, y):\n  i = torch.topk(y.view(-1, 6)[:, :3], 1, -1)[1].flatten().argsort()\n"
     "  return i.argsort()\n",
     "computes with the places of rows that a mask picks"},
    {"WriteThroughReshape", "def forward(self, x, y):\n  a = x + 1\n  a.reshape(-1, 24).add_(1)\n  return a\n",
     "may share memory"},
    {"WriteThroughExpand", "def forward(self, x, y):\n  a = x[:, :1] + 1\n  a.expand(-1, 4, 6).add_(1)\n  return a\n",
     "writes through a view by expand"},
    {"ReadOfReshapeAfterWrite",
     "def forward(self, x, y):\n  a = x + 1\n  b = a.reshape(-1, 24)\n  a.add_(1)\n  return b\n",
     "was written in the meantime"},
    {"WriteThroughDetach", "def forward(self, x, y):\n  a = x + 1\n  a.detach().add_(1)\n  return a\n",
     "may share memory"},
    {"ComplexResult", "def forward(self, x, y):\n  return torch.complex(x, y)\n", "return torch.view_as_real(x)"},
    {"ComplexOperandOfARealOperator", "def forward(self, x, y):\n  return torch.complex(x, y).cumsum(1).abs()\n",
     "a complex tensor; expected a tensor"},
    {"WriteThroughViewOfTheDispatcher",
     "def forward(self, x, y):\n  a = x + 1\n  torch.diagonal(a, 0, 1, 2).mul_(0)\n  return a\n", "may share memory"},
    {"ReadOfWrittenPart",
     "def forward(self, x, y):\n  a = x * 2\n  b, c = a.split([2, 2], 1)\n  e = b.reshape(-1, 12)\n  e.mul_(3)\n  "
     "return e, a[:, 1]\n",
     "may share memory"},
    {"SizeThatFloatsRound", "def forward(self, x, y):\n  n = int(x.size(0) * 1.15)\n  return torch.ones([n])\n",
     "rounded value follows exactly from sizes"},
    {"MaskedIndex", "def forward(self, x, y):\n  return x[x > 0]\n", "is an output"},
    {"MaskedMaximum", "def forward(self, x, y):\n  return x * x[x > 0].max()\n",
     "computes over rows that a mask picks"},
    {"MaskedCount", "def forward(self, x, y):\n  n = x[x[:, 0, 0] > 0].size(0)\n  return x * n\n",
     "number of rows that a mask picks"},
    {"MaskedIndexOfAnother", "def forward(self, x, y):\n  a = x + 1\n  a[x > 0] = y[y > 0]\n  return a\n",
     "picked.rows"},
    {"MaskedOrder", "def forward(self, x, y):\n  a = x + 1\n  m = x > 0\n  a[m] = x[m].flip(0)\n  return a\n",
     "does not compute rows one"},
    {"MaskWithinMask", "def forward(self, x, y):\n  r = x[x > 0]\n  a = x + 1\n  a[x > 0] = r[r > 1]\n  return a\n",
     "another mask picks"},
    {"Raises", "def forward(self, x, y):\n  assert x.size(1) != 4, 'four'\n  return x\n", "raises an exception"},
    {"SamplesMixed", "def forward(self, x, y):\n  return torch.cumsum(x, 0)\n", "sample"},
    {"UnknownOperators",
     "def forward(self, x, y):\n  return torch.unique_consecutive(x)[0] + torch.unique_consecutive(y)[0] + "
     "torch.poisson(x)\n",
     "operators without a translation: aten::poisson (1), aten::unique_consecutive (2)"},
};
INSTANTIATE_TEST_SUITE_P(Each, Refusals, testing::ValuesIn(kRefused), [](const auto& info) { return info.param.name; });

// --- what is left out

Result<frontend::Imported> read_for(const SavedModule& module, std::vector<std::string> required) {
  frontend::ImportOptions options{.inputs = input_flags(inputs()), .outputs = {"a", "b"}};
  options.required = std::move(required);
  return frontend::read_torch(module.path(), options);
}

// An operator without a translation, one that fails, and a write of what neither gives.
TEST(OutputsThatNobodyAsksFor, AreLeftOutWhereTheyCannotBeTranslated) {
  for (const char* lost : {"torch.nonzero(y)", "y[y > 0]", "torch.zeros_like(x).add_(torch.poisson(y))"}) {
    const SavedModule module(fmt::format("def forward(self, x, y):\n  return x * 2, {}\n", lost));
    const auto found = read_for(module, {"a"});
    ASSERT_TRUE(found.ok()) << lost << found.diagnostic().str();
    EXPECT_EQ(found->graph.outputs().size(), 1U);
    ASSERT_EQ(found->notes.open.size(), 1U);
    EXPECT_NE(found->notes.open[0].message.find("output b is excluded"), std::string::npos);
    EXPECT_FALSE(read_for(module, {}).ok());
    EXPECT_FALSE(read_for(module, {"b"}).ok());
  }
}

TEST(OutputsThatNobodyAsksFor, DoNotHideWhatTheOthersNeed) {
  for (const char* body : {"a = x * 2\n  a.add_(torch.poisson(y))\n  return a, y",
                           "a = x * 2\n  b = a.view(-1, 24)\n  b.add_(torch.poisson(b))\n  return a, y",
                           "a = x * 2\n  b = a.reshape(-1, 24)\n  b.add_(torch.poisson(b))\n  return a, y",
                           "l = [x]\n  l.append(torch.poisson(y))\n  return l[1], y"}) {
    const SavedModule module(fmt::format("def forward(self, x, y):\n  {}\n", body));
    EXPECT_FALSE(read_for(module, {"a"}).ok()) << body;
    EXPECT_TRUE(read_for(module, {"b"}).ok()) << body;
  }
}

TEST(TorchScriptFlags, AreChecked) {
  const SavedModule module("def forward(self, x, y):\n  return x + y\n");
  const auto said = [&](std::vector<std::string> flags) {
    const auto imported = frontend::read_torch(module.path(), {.inputs = std::move(flags)});
    return imported.ok() ? std::string() : imported.diagnostic().str();
  };
  EXPECT_NE(said({}).find("forward takes x, y"), std::string::npos) << said({});
  EXPECT_NE(said({"x=f32[batch]"}).find("forward takes x, y"), std::string::npos);
  EXPECT_NE(said({"x=f32[batch]", "y=f31[batch]"}).find("'f31' is no element type"), std::string::npos);
  EXPECT_NE(said({"x=f32[batch]", "y=f32[a b]"}).find("is no size"), std::string::npos);
  EXPECT_NE(said({"x=f32[batch]", "f32[batch]"}).find("there is no name"), std::string::npos);
  EXPECT_NE(said({"x=f32[batch]", "x=f32[batch]"}).find("twice"), std::string::npos);
  EXPECT_EQ(said({"y=f32[batch]", "x=f32[batch]"}), "");
  EXPECT_EQ(said({"a=f32[batch]", "b=f32[batch]"}), "");
}

TEST(TorchScriptFlags, FixNumbersAndBooleans) {
  const SavedModule module(
      "def forward(self, x, n: int, s: float, flip: bool, m: Optional[int] = None):\n"
      "  for i in range(n):\n    x = x * s\n"
      "  if flip:\n    x = -x\n"
      "  if m is not None:\n    x = x + m\n"
      "  return x\n");
  const auto read = [&](std::map<std::string, double> values) {
    return frontend::read_torch(module.path(), {.inputs = {"x=f32[batch,2]"}, .input_values = std::move(values)});
  };
  const auto tasks = [&](std::map<std::string, double> values) {
    const auto imported = read(std::move(values));
    EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
    return imported.ok() ? imported->graph.task_count() : 0;
  };
  const auto plain = tasks({{"n", 2}, {"s", 0.5}, {"flip", 0}});
  EXPECT_EQ(tasks({{"n", 3}, {"s", 0.5}, {"flip", 0}}), plain + 2) << "a number and a product";
  EXPECT_EQ(tasks({{"n", 2}, {"s", 0.5}, {"flip", 1}}), plain + 1);
  EXPECT_EQ(tasks({{"n", 2}, {"s", 0.5}, {"flip", 0}, {"m", 7}}), plain + 2) << "a number and a sum";
  const auto refuse = [&](std::map<std::string, double> values, const std::string& message) {
    const auto imported = read(std::move(values));
    ASSERT_FALSE(imported.ok()) << message;
    EXPECT_EQ(imported.diagnostic().message, message);
  };
  refuse({{"s", 0.5}, {"flip", 0}},
         "argument 'n' of forward is of type int: specify its value with --input-value n=VALUE");
  refuse({{"n", 2.5}, {"s", 0.5}, {"flip", 0}}, "--input-value n=2.5: argument 'n' of forward is of type int");
  refuse({{"n", 2}, {"s", 0.5}, {"flip", 2}}, "--input-value flip=2: argument 'flip' of forward is of type bool");
  refuse({{"n", 2}, {"s", 1}, {"flip", 0}, {"x", 1}},
         "--input-value x=1: forward has no argument 'x' of type int, float or bool; it has n: int, s: float, flip: "
         "bool, m: int?");
}

// --- state

frontend::Imported read(const SavedModule& module, std::vector<std::string> flags) {
  auto imported = frontend::read_torch(module.path(), {.inputs = std::move(flags)});
  if (!imported.ok()) throw std::runtime_error(imported.diagnostic().str());
  return *std::move(imported);
}

TEST(TorchScriptState, KeepsNamesAndRoles) {
  const SavedModule module("def forward(self, x):\n  return x @ self.w + self.b + self.frozen\n",
                           [](torch::jit::Module& m) {
                             m.register_parameter("w", at::ones({4, 100}), false);
                             m.register_parameter("frozen", at::ones({100}).requires_grad_(false), false);
                             m.register_buffer("b", at::zeros({100}));
                           });
  const auto imported = read(module, {"x=f32[batch,4]"});
  const auto& listed = imported.notes.stored.listed;
  EXPECT_EQ(listed.at("w"), ir::ValueKind::kConstant) << "a tensor without requires_grad is not trained";
  EXPECT_EQ(listed.at("b"), ir::ValueKind::kConstant);
}

TEST(TorchScriptState, TrainsWhatRequiresGradients) {
  const SavedModule module("def forward(self, x):\n  return x @ self.w + self.frozen\n", [](torch::jit::Module& m) {
    m.register_parameter("w", at::ones({4, 100}).requires_grad_(true), false);
    m.register_parameter("frozen", at::ones({100}), false);
  });
  const auto imported = read(module, {"x=f32[batch,4]"});
  EXPECT_EQ(imported.notes.stored.listed.at("w"), ir::ValueKind::kParameter);
  EXPECT_EQ(imported.notes.stored.listed.at("frozen"), ir::ValueKind::kConstant);
  const ValueId w = imported.graph.find("w");
  ASSERT_TRUE(w.valid());
  const auto& data = imported.graph.value(w).data;
  ASSERT_TRUE(data.in_file()) << "weights stay in the archive";
  const auto bytes = data.read();
  ASSERT_TRUE(bytes.ok());
  float first = 0;
  std::memcpy(&first, bytes->data(), sizeof(first));
  EXPECT_EQ(first, 1.0f);
}

TEST(TorchScriptState, ResultsGivenHaveNoGradient) {
  const auto imported = [](const std::string& body) {
    const SavedModule module("def forward(self, x):\n  h = x @ self.w\n" + body, [](torch::jit::Module& m) {
      m.register_parameter("w", at::ones({4, 4}).requires_grad_(true), false);
    });
    return frontend::read_torch(module.path(), {.inputs = {"x=f32[batch,4]"}});
  };
  const auto made = imported("  a = torch.zeros_like(x)\n  torch.neg(h, out=a)\n  return a + h\n");
  ASSERT_TRUE(made.ok()) << made.diagnostic().str();
  const ir::Graph& graph = made->graph;
  const ValueId sum = graph.outputs()[0];
  const ValueId given = graph.inputs(graph.producer(sum))[0];
  EXPECT_EQ(graph.op(graph.producer(given)).name, "core.stop_gradient");
  const auto refused = imported("  torch.neg(x, out=h)\n  return h\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.diagnostic().message.find("writes without gradients"), std::string::npos)
      << refused.diagnostic().str();
}

TEST(TorchScriptState, EqualStorageIsOneParameter) {
  const SavedModule module("def forward(self, x):\n  return (x @ self.a) @ self.b + x @ self.c\n",
                           [](torch::jit::Module& m) {
                             const at::Tensor tied = at::randn({16, 16}).requires_grad_(true);
                             m.register_parameter("a", tied, false);
                             m.register_parameter("b", tied, false);
                             m.register_parameter("c", tied.detach().clone().requires_grad_(true), false);
                           });
  const auto imported = read(module, {"x=f32[batch,16]"});
  EXPECT_TRUE(imported.graph.find("a").valid());
  EXPECT_FALSE(imported.graph.find("b").valid()) << "b is a";
  EXPECT_TRUE(imported.graph.find("c").valid()) << "equal numbers are no tie";
}

TEST(TorchScriptState, APartOfAParameterIsNoBuffer) {
  const auto shares = [](const std::function<at::Tensor(const at::Tensor&)>& part, bool trained) {
    const SavedModule module("def forward(self, x):\n  return x @ self.w + self.part.sum()\n",
                             [&](torch::jit::Module& m) {
                               const at::Tensor w = at::randn({4, 4});
                               m.register_buffer("part", part(w));
                               m.register_parameter("w", w.requires_grad_(trained), false);
                             });
    const auto imported = frontend::read_torch(module.path(), {.inputs = {"x=f32[batch,4]"}});
    return !imported.ok() && imported.diagnostic().str().find("share part of their memory") != std::string::npos;
  };
  EXPECT_TRUE(shares([](const at::Tensor& w) { return w.select(0, 3); }, true));
  EXPECT_TRUE(shares([](const at::Tensor& w) { return w.t(); }, true));
  EXPECT_FALSE(shares([](const at::Tensor& w) { return w.t(); }, false));
  EXPECT_FALSE(shares([](const at::Tensor& w) { return w.t().clone(); }, true));
}

TEST(SqueezedSizes, AreAssumedToBeMoreThanOne) {
  const SavedModule module("def forward(self, x):\n  return x.squeeze(2).squeeze()\n");
  const auto free = read(module, {"x=f32[batch,1,s]"});
  EXPECT_EQ(ir::str(*free.graph.type(free.graph.outputs()[0]).shape), "[batch,s]");
  ASSERT_EQ(free.graph.assumptions().size(), 1u);
  EXPECT_EQ(ir::str(free.graph.assumptions()[0]), "2 equals min(2, s)");
  EXPECT_TRUE(read(module, {"x=f32[batch,4,1]"}).graph.assumptions().empty());
}

void add_buffers(torch::jit::Module& m) {
  m.register_buffer("seen", at::zeros({}, at::kLong));
  m.register_buffer("total", at::zeros({4}));
}

TEST(TorchScriptState, WritesThatNoOutputReadsAreNoted) {
  const SavedModule counts("def forward(self, x):\n  self.seen.add_(1)\n  return x + 1\n", add_buffers);
  EXPECT_EQ(
      read(counts, {"x=f32[batch,4]"}).notes.counted_remarks.count("counters of the program's state are not kept"), 1u);
  for (const char* const source : {"def forward(self, x):\n  self.total.mul_(0.9).add_(x[0])\n  return x + 1\n",
                                   "def forward(self, x):\n  self.total = self.total + x[0]\n  return x + 1\n"}) {
    const SavedModule sums(source, add_buffers);
    const auto notes = read(sums, {"x=f32[2,4]"}).notes;
    ASSERT_EQ(notes.warnings.size(), 1u) << source;
    EXPECT_NE(notes.warnings[0].message.find("'total', a buffer that no output depends on"), std::string::npos);
  }
}

TEST(TorchScriptState, WritesThatOutputsReadInTheNextStepAreRefused) {
  for (const auto& [body, reports] : std::vector<std::pair<std::string, std::string>>{
           {"  self.seen.add_(1)\n  return x * self.seen\n", "aten::add.Scalar writes into 'seen'"},
           {"  h = x * self.seen\n  self.seen.add_(1)\n  return h\n", "aten::add.Scalar writes into 'seen'"},
           {"  self.total.add_(1)\n  return x + self.total\n", "aten::add.Scalar writes into 'total'"},
           {"  self.total[1:].add_(1)\n  return x + self.total\n", "aten::add.Scalar writes into 'total'"},
           {"  h = x + self.total\n  self.total = x[0]\n  return h\n", "the program sets 'total'"},
           {"  self.seen = self.seen + 1\n  return x * self.seen\n", "the program sets 'seen'"}}) {
    const SavedModule module("def forward(self, x):\n" + body, add_buffers);
    const auto refused = frontend::read_torch(module.path(), {.inputs = {"x=f32[2,4]"}});
    ASSERT_FALSE(refused.ok()) << body;
    const std::string text = refused.diagnostic().str();
    EXPECT_NE(text.find(reports), std::string::npos) << text;
    EXPECT_NE(text.find("the output 'output' depends on what the step before left"), std::string::npos) << text;
  }
}

TEST(TorchScriptState, NumbersOfWrittenBuffersDecideNothing) {
  const std::string sizes = "def forward(self, x):\n  h = x[:, :int(self.seen) + 1]\n";
  EXPECT_TRUE(
      frontend::read_torch(SavedModule(sizes + "  return h\n", add_buffers).path(), {.inputs = {"x=f32[2,4]"}}).ok());
  const auto refusal = [](const std::string& source, const std::vector<std::string>& inputs) {
    const auto imported = frontend::read_torch(SavedModule(source, add_buffers).path(), {.inputs = inputs});
    return imported.ok() ? "" : imported.diagnostic().str();
  };
  const std::string body = "  h = x[:, :int(self.seen) + 1]\n  self.seen.add_(1)\n  return h\n";
  const std::string alone = refusal("def forward(self, x):\n" + body, {"x=f32[2,4]"});
  EXPECT_NE(alone.find("of data; expected an integer that follows from sizes"), std::string::npos) << alone;
  // The input has the name first, so that the buffer's value has another one.
  const std::string beside = refusal("def forward(self, x, seen):\n" + body, {"x=f32[2,4]", "seen=f32[2]"});
  EXPECT_NE(beside.find("of data; expected an integer that follows from sizes"), std::string::npos) << beside;
}

void add_counts(torch::jit::Module& m) {
  m.register_attribute("calls", c10::IntType::get(), 0);
  m.register_attribute("warm", c10::BoolType::get(), false);
}

TEST(TorchScriptState, AttributesThatTheNextCallReadsAreRefused) {
  for (const auto& [body, reports] : std::vector<std::pair<std::string, std::string>>{
           {"  self.calls += 1\n  return x * self.calls\n", "sets 'calls' while it runs"},
           {"  h = x * self.calls\n  self.calls += 1\n  return h\n", "sets 'calls' while it runs"},
           {"  if not self.warm:\n    self.warm = True\n    return x * 2\n  return x\n", "sets 'warm' while"},
           {"  self.calls += 1\n  if self.calls > 1:\n    assert self.warm\n  return x\n", "sets 'calls' while"}}) {
    const SavedModule module("def forward(self, x):\n" + body, add_counts);
    const auto refused = frontend::read_torch(module.path(), {.inputs = {"x=f32[2,4]"}});
    ASSERT_FALSE(refused.ok()) << body;
    const std::string text = refused.diagnostic().str();
    EXPECT_NE(text.find(reports), std::string::npos) << text;
    EXPECT_NE(text.find("its next call computes something else"), std::string::npos) << text;
  }
  for (const char* const body : {"  self.calls += 1\n  return x + 1\n", "  self.calls = 3\n  return x * self.calls\n",
                                 "  if not self.warm:\n    self.warm = True\n  return x + 1\n"}) {
    const SavedModule counts(std::string("def forward(self, x):\n") + body, add_counts);
    EXPECT_EQ(read(counts, {"x=f32[2,4]"})
                  .notes.counted_remarks.count("attributes that the program sets while it runs are not kept"),
              1u)
        << body;
  }
}

TEST(TorchScriptTexts, OfIntegersAndTruthsAreKnown) {
  SavedModule module(
      "def forward(self, x):\n  n = x.size(1)\n  names = {'4': 2, 'True': 3}\n"
      "  return x * names[str(n)] + float(str(n) == '4') * names[str(n > 1)]\n");
  EXPECT_EQ(difference(module, {at::randn({2, 4}, at::kDouble)}, false), "");
}

TEST(TorchScriptTexts, ThatAreNotMadeDecideNothing) {
  for (const char* const body : {"  return x * (2 if str(x.size(0)) == '4' else 3)\n",
                                 "  return x * (2 if 'a {}'.format(x.size(1)) == 'a 4' else 3)\n"}) {
    const SavedModule module(std::string("def forward(self, x):\n") + body);
    const auto imported = frontend::read_torch(module.path(), {.inputs = {"x=f32[batch,4]"}});
    ASSERT_FALSE(imported.ok()) << body;
    EXPECT_NE(imported.diagnostic().str().find("compare by eq"), std::string::npos) << imported.diagnostic().str();
  }
  const SavedModule asserts("def forward(self, x):\n  assert x.size(1) == 4, 'not {}'.format(x.size(1))\n  return x\n");
  EXPECT_TRUE(frontend::read_torch(asserts.path(), {.inputs = {"x=f32[batch,4]"}}).ok());
}

TEST(TorchScriptState, OnlyRequiredOutputsRefuseWrites) {
  const SavedModule module(
      "def forward(self, x):\n  self.total.add_(1)\n  return {'y': x + 1, 'total': x + self.total}\n", add_buffers);
  const auto kept = frontend::read_torch(module.path(), {.inputs = {"x=f32[2,4]"}, .required = {"y"}});
  ASSERT_TRUE(kept.ok()) << kept.diagnostic().str();
  EXPECT_EQ(kept->graph.outputs().size(), 1u);
  ASSERT_EQ(kept->notes.open.size(), 1u);
  EXPECT_NE(kept->notes.open[0].message.find("output total is excluded"), std::string::npos);
}

TEST(TorchScriptState, BuffersThatAreWrittenBeforeTheyAreReadHaveTheNewNumbers) {
  SavedModule module("def forward(self, x):\n  self.last.copy_(x[0])\n  return x + self.last\n",
                     [](torch::jit::Module& m) { m.register_buffer("last", at::zeros({3}, at::kDouble)); });
  const at::Tensor x = at::randn({2, 3}, at::kDouble);
  EXPECT_EQ(difference(module, {x}, false), "");
}

TEST(TorchScriptState, ComplexNumbersAreConstants) {
  const auto prepare = [](bool trained) {
    return [trained](torch::jit::Module& m) {
      at::manual_seed(5);
      const at::Tensor turns = at::randn({4, 6}, at::kComplexDouble);
      trained ? m.register_parameter("turns", turns.requires_grad_(true), false) : m.register_buffer("turns", turns);
    };
  };
  const char* const source =
      "def forward(self, x, y):\n  return torch.view_as_real(self.turns[1:].conj() * x[:, :3])\n";
  SavedModule kept(source, prepare(false));
  EXPECT_EQ(difference(kept, inputs()), "");
  const SavedModule trained(source, prepare(true));
  const auto refused = frontend::read_torch(trained.path(), {.inputs = input_flags(inputs())});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.diagnostic().str().find("parameter 'turns' is complex"), std::string::npos);
}

TEST(TorchScriptState, BatchNormKeepsStatisticsInTraining) {
  for (const bool training : {false, true}) {
    const SavedModule module(
        std::string("def forward(self, x):\n  return torch.batch_norm(x, self.w, self.b, self.mean, self.var, ") +
            (training ? "True" : "False") + ", 0.2, 1e-3, True)\n",
        [](torch::jit::Module& m) {
          m.register_parameter("w", at::ones({4}).requires_grad_(true), false);
          m.register_parameter("b", at::zeros({4}).requires_grad_(true), false);
          m.register_buffer("mean", at::zeros({4}));
          m.register_buffer("var", at::ones({4}));
        });
    const auto imported = read(module, {"x=f32[batch,4,5,5]"});
    const TaskId norm = imported.graph.producer(imported.graph.outputs()[0]);
    EXPECT_EQ(imported.graph.op(norm).name, "core.batch_norm");
    EXPECT_EQ(imported.graph.outputs(norm).size(), training ? 3u : 1u);
    EXPECT_EQ(imported.graph.attributes(norm).number("momentum"), 0.2);
  }
}

TEST(TorchScriptState, RunningStatisticsHaveTheirValuesOfBeforeTheStep) {
  const auto imported = [](const std::string& body) {
    const SavedModule module("def forward(self, x):\n" + body, [](torch::jit::Module& m) {
      m.register_buffer("mean", at::zeros({4}));
      m.register_buffer("var", at::ones({4}));
    });
    return frontend::read_torch(module.path(), {.inputs = {"x=f32[batch,4]"}});
  };
  const std::string norm = "  y = torch.batch_norm(x, None, None, self.mean, self.var, True, 0.2, 1e-3, True)\n";
  EXPECT_TRUE(imported("  m = self.mean * 2\n" + norm + "  return y + m\n").ok());
  EXPECT_TRUE(imported("  m = self.mean.clone()\n" + norm + "  return y + m\n").ok());
  EXPECT_TRUE(imported(norm + "  m = self.mean * 2\n  return y\n").ok());
  EXPECT_TRUE(
      imported(norm + "  return torch.batch_norm(y, None, None, self.mean, self.var, True, 0.2, 1e-3, True)\n").ok());
  const auto refused = imported(norm + "  return y + self.mean\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.diagnostic().message.find("reads 'mean' after a batch normalization"), std::string::npos)
      << refused.diagnostic().str();
}

TEST(TorchScriptArchives, OthersAreRefusedByName) {
  const std::string path = testing::TempDir() + "no_archive.pt";
  for (const std::string_view bytes :
       {std::string_view(), std::string_view("text"), std::string_view("PK\3\4 and no more", 16)}) {
    std::ofstream(path) << bytes;
    const auto refused = frontend::read_torch(path);
    ASSERT_FALSE(refused.ok());
    const char* const reports = bytes.starts_with("PK") ? "no complete directory of a zip archive" : "torch.jit.save";
    EXPECT_NE(refused.diagnostic().str().find(reports), std::string::npos) << refused.diagnostic().str();
    EXPECT_EQ(refused.diagnostic().where.file, path);
  }
  EXPECT_FALSE(frontend::read_torch(testing::TempDir() + "absent.pt").ok());
}

}  // namespace
}  // namespace rannc::test
