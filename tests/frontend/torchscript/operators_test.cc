// Each operator of the table beside LibTorch: x and y are doubles [batch, 4, 6] and [batch, 4, 6], z integers [batch,
// 4].
#include <ATen/Context.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/torchscript/program.h"

namespace rannc::test {
namespace {

std::vector<at::Tensor> inputs() {
  at::manual_seed(7);
  return {at::randn({3, 4, 6}, at::kDouble), at::randn({3, 4, 6}, at::kDouble), at::randint(0, 4, {3, 4}, at::kLong)};
}

struct Expression {
  const char* text;
};
void PrintTo(const Expression& expression, std::ostream* out) { *out << expression.text; }

class Expressions : public testing::TestWithParam<Expression> {};

TEST_P(Expressions, EqualLibTorchs) {
  SavedModule module(std::string("def forward(self, x, y, z):\n  return ") + GetParam().text + "\n");
  EXPECT_EQ(difference(module, inputs()), "");
}

TEST(Bags, OfLengthsThatAreDataAreRefused) {
  const std::string table = "torch.arange(12, dtype=7).view(4, 3), z.reshape(-1), ";
  for (const char* const offsets :
       {"z[:, 0]", "torch.arange(0, z.numel() - 4, 4)", "torch.arange(1, z.numel(), 4)", "torch.arange(z.size(0))"}) {
    SavedModule module("def forward(self, x, y, z):\n  return torch.embedding_bag(" + table + offsets + ")[0]\n");
    EXPECT_THAT(difference(module, inputs()), testing::HasSubstr("bags of one length that cover all [4*batch]"))
        << offsets;
  }
}

/// What joins all samples, which are numbers of the file then.
class WholeBatches : public Expressions {};

TEST_P(WholeBatches, EqualLibTorchs) {
  SavedModule module(std::string("def forward(self, x, y, z):\n  return ") + GetParam().text + "\n");
  EXPECT_EQ(difference(module, inputs(), false), "");
}

constexpr Expression kElementwise[] = {{"x + y"},
                                       {"x - y"},
                                       {"x * y"},
                                       {"x / y"},
                                       {"x + 2"},
                                       {"2 - x"},
                                       {"x * 0.3"},
                                       {"z / 2"},
                                       {"z // 2"},
                                       {"z % 3"},
                                       {"x % 0.7"},
                                       {"x ** 2"},
                                       {"torch.pow(torch.abs(x), 1.5)"},
                                       {"torch.pow(2.0, x)"},
                                       {"z ** 2"},
                                       {"x + z.unsqueeze(2)"},
                                       {"z + 1.5"},
                                       {"z * x[:, :, 0]"},
                                       {"torch.add(x, y, alpha=3)"},
                                       {"torch.sub(x, y, alpha=0.5)"},
                                       {"torch.rsub(x, y)"},
                                       {"torch.rsub(x, 2.0)"},
                                       {"torch.div(x, y, rounding_mode='floor')"},
                                       {"torch.div(x, y, rounding_mode='trunc')"},
                                       {"torch.div(z, 3, rounding_mode='trunc')"},
                                       {"torch.floor_divide(x, 0.4)"},
                                       {"torch.fmod(x, 0.6)"},
                                       {"-x"},
                                       {"-z"},
                                       {"x == y"},
                                       {"x != y"},
                                       {"x < y"},
                                       {"x <= 0.0"},
                                       {"x > y"},
                                       {"z >= 2"},
                                       {"(x > 0) & (y > 0)"},
                                       {"(x > 0) | (y > 0)"},
                                       {"(x > 0) ^ (y > 0)"},
                                       {"~(x > 0)"},
                                       {"z & 1"},
                                       {"torch.logical_and(x > 0, y > 0)"},
                                       {"torch.logical_or(z, y[:, :, 0] > 0)"},
                                       {"torch.logical_xor(x > 0, y > 0)"},
                                       {"torch.logical_not(z)"},
                                       {"torch.where(x > 0, x, y)"},
                                       {"torch.where(x > 0, x, 0.5)"},
                                       {"torch.where(x > 0, 1.0, 0.0)"},
                                       {"x.masked_fill(x > 0, -1.5)"},
                                       {"x.masked_fill(z.unsqueeze(2) > 1, float('-inf'))"},
                                       {"torch.clamp(x, -0.5, 0.5)"},
                                       {"torch.clamp(x, min=0.1)"},
                                       {"torch.clamp(x, max=0.1)"},
                                       {"z.clamp(1, 2)"},
                                       {"torch.clamp(x, min=y)"},
                                       {"x.clamp_min(0.2)"},
                                       {"x.clamp_max(0.2)"},
                                       {"torch.maximum(x, y)"},
                                       {"torch.minimum(x, y)"},
                                       {"torch.max(x, y)"},
                                       {"torch.min(x, y)"},
                                       {"torch.square(x)"},
                                       {"torch.addcmul(x, x, y, value=0.5)"},
                                       {"torch.addcdiv(x, x, y, value=0.5)"},
                                       {"torch.lerp(x, y, 0.3)"},
                                       {"torch.lerp(x, y, torch.sigmoid(x))"},
                                       {"torch.isnan(x)"},
                                       {"torch.isfinite(x / 0.0)"},
                                       {"x.to(6)"},
                                       {"x.float()"},
                                       {"z.double()"},
                                       {"z.type_as(x)"},
                                       {"x.to(z)"},
                                       {"x.long()"},
                                       {"(x > 0).to(x.dtype)"},
                                       {"x.contiguous()"},
                                       {"x.clone()"},
                                       {"x.detach()"},
                                       {"torch.zeros_like(x)"},
                                       {"torch.ones_like(z)"},
                                       {"torch.full_like(x, 0.3)"},
                                       {"x.new_zeros(2, 3)"},
                                       {"x.new_ones([x.size(0), 2])"},
                                       {"x.new_full([2], 0.7)"}};
constexpr Expression kFunctions[] = {{"torch.exp(x)"},
                                     {"torch.log(torch.abs(x))"},
                                     {"torch.sqrt(torch.abs(x))"},
                                     {"torch.rsqrt(torch.abs(x))"},
                                     {"torch.erf(x)"},
                                     {"torch.tanh(x)"},
                                     {"torch.sigmoid(x)"},
                                     {"torch.sin(x)"},
                                     {"torch.cos(x)"},
                                     {"torch.atan(x)"},
                                     {"torch.asin(torch.tanh(x))"},
                                     {"torch.sinh(x)"},
                                     {"torch.cosh(x)"},
                                     {"torch.floor(x)"},
                                     {"torch.ceil(x)"},
                                     {"torch.round(x * 3)"},
                                     {"torch.abs(x)"},
                                     {"torch.sign(x)"},
                                     {"torch.reciprocal(x)"},
                                     {"torch.relu(x)"},
                                     {"torch.log1p(torch.abs(x))"},
                                     {"torch.expm1(x)"},
                                     {"torch.log2(torch.abs(x))"},
                                     {"torch.log10(torch.abs(x))"},
                                     {"torch.exp2(x)"},
                                     {"torch.erfc(x)"},
                                     {"torch.silu(x)"},
                                     {"torch.gelu(x)"},
                                     {"torch.gelu(x, approximate='tanh')"},
                                     {"torch.elu(x, 0.7)"},
                                     {"torch.selu(x)"},
                                     {"torch.celu(x, 0.7)"},
                                     {"torch.leaky_relu(x, 0.2)"},
                                     {"torch.softplus(x)"},
                                     {"torch.softplus(x, beta=2.0)"},
                                     {"torch.mish(x)"},
                                     {"torch.log_sigmoid(x)"},
                                     {"torch.hardswish(x)"},
                                     {"torch.hardsigmoid(x)"},
                                     {"torch.relu6(x * 5)"},
                                     {"torch.hardtanh(x)"},
                                     {"torch.glu(x)"},
                                     {"torch.threshold(x, 0.1, 0.2)"},
                                     {"torch.exp(z)"},
                                     {"torch.sigmoid(z)"},
                                     {"torch.dropout(x, 0.5, False)"},
                                     {"torch.softmax(x, -1)"},
                                     {"torch.softmax(x, 1)"},
                                     {"torch.log_softmax(x, 2)"},
                                     {"torch.softmax(x, -1, dtype=6)"}};
constexpr Expression kShapes[] = {{"x.view(x.size(0), -1)"},
                                  {"x.view(-1, 24)"},
                                  {"x.reshape(x.size(0), 2, 2, 6)"},
                                  {"x.reshape(-1, 6)"},
                                  {"torch.flatten(x, 1)"},
                                  {"x.flatten(0, 1)"},
                                  {"x.unflatten(2, [2, 3])"},
                                  {"x.unflatten(1, [-1, 2])"},
                                  {"x.permute(0, 2, 1)"},
                                  {"x.permute(2, 0, 1)"},
                                  {"x.transpose(1, -1)"},
                                  {"x.transpose(0, 1)"},
                                  {"x[:, :, 0].t()"},
                                  {"torch.movedim(x, 1, 2)"},
                                  {"x.unsqueeze(1)"},
                                  {"x.unsqueeze(-1)"},
                                  {"x.unsqueeze(1).squeeze(1)"},
                                  {"x.squeeze(1)"},
                                  {"x[:, :1].squeeze()"},
                                  {"x[:, :1].expand(-1, 5, 6)"},
                                  {"x[:, :1].expand(x.size(0), 5, 6)"},
                                  {"x[:, :1].expand_as(y)"},
                                  {"torch.broadcast_tensors(x[:, :1], y)"},
                                  {"x[:, 1:3]"},
                                  {"x[:, -2:]"},
                                  {"x[:, :-1]"},
                                  {"x[..., ::2]"},
                                  {"x[:, 1:9]"},
                                  {"x[:, 0]"},
                                  {"x[:, -1]"},
                                  {"x[:, 1, 2]"},
                                  {"x.select(2, 3)"},
                                  {"x.narrow(1, 1, 2)"},
                                  {"x.unbind(1)"},
                                  {"x.split(2, 1)"},
                                  {"x.split([1, 3], 1)"},
                                  {"x.split(4, 2)"},
                                  {"x.chunk(3, 2)"},
                                  {"x.chunk(4, 2)"},
                                  {"torch.unsafe_chunk(x, 3, 2)"},
                                  {"torch.unsafe_split(x, 2, 1)"},
                                  {"torch.unsafe_split_with_sizes(x, [1, 3], 1)"},
                                  {"torch.tensor_split(x, 4, dim=2)"},
                                  {"torch.cat([x, y], 1)"},
                                  {"torch.cat([x, y.float()], -1)"},
                                  {"torch.cat([z, z + 1], 1)"},
                                  {"torch.stack([x, y], 1)"},
                                  {"torch.stack([x, y], -1)"},
                                  {"x.repeat(1, 2, 1)"},
                                  {"x[:, 0].repeat(1, 2)"},
                                  {"torch.tile(x, [1, 2, 1])"},
                                  {"x.repeat_interleave(2, 1)"},
                                  {"x.repeat_interleave(2)"},
                                  {"x[:, 0, 0].repeat_interleave(3)"},
                                  {"torch.flip(x, [1])"},
                                  {"torch.flip(x, [1, 2])"},
                                  {"torch.roll(x, 1, 2)"},
                                  {"torch.roll(x, [1, -2], [1, 2])"},
                                  {"torch.pad(x, [1, 2])"},
                                  {"torch.pad(x, [1, 2, 0, 1], value=0.5)"},
                                  {"torch.pad(x, [1, 2], mode='reflect')"},
                                  {"torch.pad(x, [1, 2], mode='replicate')"},
                                  {"torch.pad(x, [1, 2], mode='circular')"},
                                  {"torch.pixel_shuffle(x.unsqueeze(3), 2)"},
                                  {"torch.pixel_unshuffle(x.unsqueeze(1), 2)"},
                                  {"torch.channel_shuffle(x.unsqueeze(3), 2)"},
                                  {"torch.diff(x)"},
                                  {"torch.diff(z, 1, 1, z[:, :1] - 1)"},
                                  {"torch.diff(x, 2, 1, None, y)"},
                                  {"torch.diff(x > 0, 1, 2)"},
                                  {"torch.upsample_nearest2d(x.unsqueeze(0), [8, 9], None)"},
                                  {"torch.upsample_bilinear2d(x.unsqueeze(0), [7, 9], False, None)"},
                                  {"torch.linear(x, torch.arange(6, dtype=7))"},
                                  {"torch.linear(x, torch.arange(6, dtype=7), torch.ones([], dtype=7))"},
                                  {"(x > 0) * (y > 0)"},
                                  {"(x > 0) + (y > 0)"},
                                  {"torch.maximum(x > 0, y > 0)"},
                                  {"torch.minimum(x > 0, y > 0)"},
                                  {"torch.layer_norm(x.to(15), [6], torch.arange(6).float(), torch.ones([6]).float())"},
                                  {"torch.group_norm(x.to(15), 2, torch.arange(4).float(), torch.ones([4]).float())"},
                                  {"x.mT"}};
constexpr Expression kIndices[] = {{"torch.gather(x, 1, z.unsqueeze(2))"},
                                   {"torch.take_along_dim(x, x.argsort(2), 2)"},
                                   {"torch.take_along_dim(x, z.unsqueeze(2), 1)"},
                                   {"torch.take_along_dim(x[:, :1], x.argsort(2), -1)"},
                                   {"torch.index_select(x, 2, torch.tensor([3, 0, 1]))"},
                                   {"x[:, torch.tensor([2, 0])]"},
                                   {"x[:, torch.tensor([2, 0]), torch.tensor([1, 5])]"},
                                   {"x[:, torch.tensor([[2], [0]]), torch.tensor([1, 5])]"},
                                   {"x.permute(1, 2, 0)[torch.tensor([0, 3]), torch.tensor([1, 2])]"},
                                   {"torch.one_hot(z, 5)"},
                                   {"torch.embedding(torch.arange(12, dtype=7).view(4, 3), z)"},
                                   {"torch.topk(x, 2, -1)"},
                                   {"torch.topk(x, 2, 1, False)"},
                                   {"torch.sort(x, 2)"},
                                   {"torch.argsort(x, 2, True)"},
                                   {"torch.cumsum(x, 1)"},
                                   {"torch.cumsum(z, 1)"},
                                   {"torch.triu(x)"},
                                   {"torch.tril(x, -1)"},
                                   {"x.scatter(1, z[:, :2].unsqueeze(2), 0.5)"},
                                   {"x.scatter_add(2, z.unsqueeze(2), y[:, :, :1])"},
                                   {"x[torch.arange(x.size(0)).view(-1, 1), z]"}};
/// Bags of one length each: the reduction is each sample's own.
constexpr Expression kBags[] = {
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)))[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 1)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 2)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(z.size(0)) * "
     "4, False, 1)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, 4 * "
     "z.size(0) + 4, 4), False, 1, False, None, True)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 0, False, y[:, :, 0].reshape(-1))[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 0, False, y[:, :, 0].reshape(-1), False, 2)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 1, False, None, False, -1)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), (z * 0 + 1).reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 1, False, None, False, 1)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin() - 2, z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 2, False, None, False, 0)[0]"},
    {"torch.embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin() - 2, (z * 0 + 1).reshape(-1), "
     "torch.arange(0, z.numel(), z.size(1)), False, 2, False, None, False, 1)[0]"},
    {"torch._embedding_bag((torch.arange(12, dtype=7).view(4, 3) * 0.7).sin(), z.reshape(-1), torch.arange(0, "
     "z.numel(), z.size(1)), False, 1)[0]"}};
constexpr Expression kOfAllAxes[] = {{"x.sum()"},
                                     {"z.sum()"},
                                     {"x.sum([])"},
                                     {"x.sum(dtype=6)"},
                                     {"x.mean()"},
                                     {"x.prod()"},
                                     {"x.amax()"},
                                     {"x.amin([])"},
                                     {"x.max()"},
                                     {"x.min()"},
                                     {"x.argmax()"},
                                     {"x.argmin()"},
                                     {"(x > -9).all()"},
                                     {"(x > 2).any()"},
                                     {"x.var()"},
                                     {"x.std()"},
                                     {"x.std(unbiased=False)"},
                                     {"torch.var_mean(x)"},
                                     {"torch.norm(x)"},
                                     {"torch.norm(x, 1)"},
                                     {"torch.linalg_vector_norm(x)"},
                                     {"torch.linalg_vector_norm(x, 3)"},
                                     {"x.logsumexp([0, 1, 2])"},
                                     {"torch.mse_loss(x, y)"},
                                     {"torch.mse_loss(x, y, 2)"},
                                     {"torch.l1_loss(x, y)"},
                                     {"torch.smooth_l1_loss(x, y)"},
                                     {"torch.huber_loss(x, y)"}};

constexpr Expression kReductions[] = {{"x.sum(1)"},
                                      {"x.sum([1, 2])"},
                                      {"x.sum(-1, keepdim=True)"},
                                      {"z.sum(1)"},
                                      {"x.mean(2)"},
                                      {"x.mean([1, 2], keepdim=True)"},
                                      {"(x > 0).sum(1)"},
                                      {"x.prod(2)"},
                                      {"x.amax(1)"},
                                      {"x.amin([1, 2])"},
                                      {"torch.max(x, 1)"},
                                      {"torch.min(x, 2, keepdim=True)"},
                                      {"torch.argmax(x, 1)"},
                                      {"torch.argmin(x, 2)"},
                                      {"(x > 0).all(1)"},
                                      {"(x > 2).any(2)"},
                                      {"x.var(2)"},
                                      {"x.var(1, unbiased=False)"},
                                      {"x.std(2, keepdim=True)"},
                                      {"torch.var_mean(x, 2)"},
                                      {"torch.norm(x, 2, 2)"},
                                      {"torch.norm(x, 1, [2], True)"},
                                      {"torch.linalg_vector_norm(x, 3, [2])"},
                                      {"x.logsumexp(1)"},
                                      {"x.logsumexp(2, keepdim=True)"}};
constexpr Expression kDense[] = {
    {"torch.matmul(x, y.transpose(1, 2))"},
    {"torch.bmm(x, y.transpose(1, 2))"},
    {"x @ torch.ones([6, 3], dtype=7)"},
    {"torch.linear(x, torch.ones([3, 6], dtype=7))"},
    {"torch.baddbmm(torch.ones([1, 1, 1], dtype=7), x, y.transpose(1, 2), alpha=0.5)"},
    {"torch.addmm(torch.arange(2, dtype=7), x[:, 0], torch.ones([6, 2], dtype=7))"},
    {"torch.einsum('bij,bkj->bik', [x, y])"},
    {"torch.einsum('bij,jk->bki', [x, torch.ones([6, 2], dtype=7)])"},
    {"torch.einsum('...ij,...kj->...ik', [x, y])"},
    {"torch.einsum('b...,b...->b', [x, y])"},
    {"torch.einsum('bij,jk', [x, torch.ones([6, 2], dtype=7)])"},
    {"torch.einsum('bij->bji', [x])"},
    {"torch.einsum('bij->b', [x])"},
    {"torch.einsum('bii->bi', [x[:, :, :4]])"},
    {"torch.einsum('bij,bkj,bkl->bil', [x, y, x])"},
    {"torch.einsum('b i j, j k, k l -> b i l', [x, torch.ones([6, 2], dtype=7), torch.ones([2, 3], dtype=7)])"},
    {"torch.einsum('bij,bkl->bi', [x, y])"},
    {"torch.einsum('bhqd,bkd->bhqk', [x.view(-1, 2, 2, 6), y])"},
    {"torch.einsum('...,...', [x, y[:, :1]])"},
    {"torch.einsum('Bij,Bij->Bi', [x, y])"},
    {"torch.max_pool1d(x, 2)"},
    {"torch.avg_pool1d(x, [3], [2], [1])"},
    {"torch.max_pool2d(x.unsqueeze(1), [2, 3], ceil_mode=True)"},
    {"torch.avg_pool2d(x.unsqueeze(1), [2, 2])"},
    {"torch.adaptive_avg_pool1d(x, [3])"},
    {"torch.adaptive_avg_pool2d(x.unsqueeze(1), [1, 1])"},
    {"torch.adaptive_max_pool1d(x, 3)"},
    {"torch.conv1d(x, torch.ones([2, 4, 3], dtype=7), padding=1)"},
    {"torch.conv1d(x, torch.ones([2, 4, 3], dtype=7), padding='same')"},
    {"torch.conv_transpose1d(x, torch.ones([4, 2, 3], dtype=7), stride=2)"},
    {"torch.layer_norm(x, [6])"},
    {"torch.rms_norm(x, [6])"},
    {"torch.group_norm(x, 2)"},
    {"torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)"},
    {"torch.scaled_dot_product_attention(x.unsqueeze(1), y.unsqueeze(1), x.unsqueeze(1))"},
    {"torch.scaled_dot_product_attention(x.unsqueeze(1), y.unsqueeze(1), x.unsqueeze(1), is_causal=True)"},
    {"torch.scaled_dot_product_attention(x, y, x)"},
    {"torch.scaled_dot_product_attention(x, y, x, x[:, :, :4] > 0, is_causal=False)"},
    {"torch.scaled_dot_product_attention(x, y, x, torch.ones([4, 4], dtype=7), is_causal=False)"},
    {"torch.scaled_dot_product_attention(x, y, x, is_causal=True)"},
    {"torch.scaled_dot_product_attention(x.unsqueeze(1), y.unsqueeze(1), x.unsqueeze(1), x.unsqueeze(1)[..., :4] > 0, "
     "scale=0.3)"},
    {"torch.scaled_dot_product_attention(x.view(-1, 4, 2, 3), y.view(-1, 2, 4, 3), y.view(-1, 2, 4, 3), "
     "enable_gqa=True)"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 2, 2, 3), y.view(-1, 2, 2, 2, 3), x.view(-1, 2, 2, 2, 3))"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 2, 2, 3), y.view(-1, 1, 2, 4, 3), x.view(-1, 1, 2, 4, 3), "
     "is_causal=True)"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 2, 2, 3).transpose(0, 1), y.view(-1, 2, 2, 2, 3).transpose(0, "
     "1), x.view(-1, 2, 2, 2, 3).transpose(0, 1), x.view(-1, 2, 2, 6)[..., :2].transpose(0, 1).unsqueeze(3) > 0)"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 2, 2, 3), y.view(-1, 2, 2, 2, 3), x.view(-1, 2, 2, 2, 3), "
     "torch.arange(8, dtype=7).view(2, 2, 2))"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 2, 2, 3), y.view(-1, 2, 2, 2, 3), x.view(-1, 2, 2, 2, 3), "
     "torch.arange(8, dtype=7).view(2, 2, 1, 2))"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 4, 3), y.view(-1, 1, 8, 3), y.view(-1, 1, 8, 3))"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 4, 3), y.view(-1, 2, 4, 3), y.view(-1, 2, 4, 3), "
     "torch.arange(32, dtype=7).view(2, 4, 4))"},
    {"torch.scaled_dot_product_attention(x.view(-1, 2, 2, 2, 3), y.view(-1, 2, 1, 4, 3), y.view(-1, 2, 1, 4, 3), "
     "enable_gqa=True)"},
    {"torch.scaled_dot_product_attention(x, torch.ones([5, 6], dtype=7), torch.ones([5, 2], dtype=7))"},
    {"torch.upsample_bilinear2d(x.unsqueeze(1), [8, 12], False, None)"},
    {"torch.upsample_nearest2d(x.unsqueeze(1), [8, 12], None)"},
    {"torch.upsample_nearest2d(x.unsqueeze(1), [7, 9], 1.9, 1.55)"},
    {"torch.upsample_bilinear2d(x.unsqueeze(1), [7, 9], False, 1.9, 1.55)"},
    {"torch.upsample_bicubic2d(x.unsqueeze(1), [7, 9], False, 1.9, 1.55)"},
    {"torch.upsample_linear1d(x, [9], False, 1.55)"},
    {"torch.upsample_nearest1d(x, [9], 1.55)"},
    {"torch._upsample_nearest_exact2d(x.unsqueeze(1), [7, 9], 1.9, 1.55)"},
    {"torch.upsample_nearest3d(x.view(-1, 1, 2, 2, 6), [3, 3, 9], 1.6, 1.6, 1.55)"},
    {"torch.upsample_trilinear3d(x.view(-1, 1, 2, 2, 6), [3, 3, 9], False, 1.6, 1.6, 1.55)"},
    {"torch.upsample_bilinear2d(x.unsqueeze(1), None, False, [1.9, 1.55])"},
    {"torch.upsample_nearest2d(x.unsqueeze(1), None, [1.9, 1.55])"}};
constexpr Expression kCreated[] = {{"torch.arange(4, dtype=7) + x[:, :, 0]"},
                                   {"torch.arange(x.size(1)) + z"},
                                   {"torch.arange(1, 9, 2) * z"},
                                   {"torch.arange(x.size(0))"},
                                   {"torch.zeros([2, 3])"},
                                   {"torch.ones([x.size(0), 2], dtype=7)"},
                                   {"torch.full([2], 3)"},
                                   {"torch.full([2], 0.1)"},
                                   {"torch.tensor([1, 2]) + z[:, :2]"},
                                   {"torch.tensor([[0.5], [1.5]], dtype=7)"},
                                   {"torch.eye(4, dtype=7) @ x"},
                                   {"torch.linspace(0.0, 1.0, 6, dtype=7) * x"},
                                   {"torch.tensor(x.size(1)) + z"}};
constexpr Expression kLosses[] = {
    {"torch.mse_loss(x, y, reduction=0)"},
    {"torch.l1_loss(x, y, reduction=0)"},
    {"torch.smooth_l1_loss(x, y, reduction=0, beta=0.5)"},
    {"torch.huber_loss(x, y, reduction=0, delta=0.5)"},
    {"torch.binary_cross_entropy_with_logits(x, torch.sigmoid(y), reduction=0)"},
    {"torch.binary_cross_entropy_with_logits(x, torch.sigmoid(y), z.unsqueeze(2), torch.exp(y), 0)"},
    {"torch.nll_loss_nd(torch.log_softmax(x.transpose(1, 2), 1), z, None, 0, 2)"},
    {"torch.nll_loss_nd(x.transpose(1, 2), z, torch.arange(6, dtype=7), 0, 2)"},
    {"torch.cross_entropy_loss(x.transpose(1, 2), z, None, 0, 2)"},
    {"torch.cross_entropy_loss(x.transpose(1, 2), z, torch.arange(6, dtype=7), 0, 2, 0.3)"},
    {"torch.cross_entropy_loss(x, torch.softmax(y, 1), torch.arange(4, dtype=7), 0, -100, 0.3)"},
    {"torch.cross_entropy_loss(x, torch.softmax(y, 1), None, 0)"},
    {"torch.cross_entropy_loss(x[:, :, 0], torch.softmax(y[:, 0, :4], 1), None, 0)"}};
constexpr Expression kLossesOfAll[] = {
    {"torch.binary_cross_entropy_with_logits(x, torch.sigmoid(y), z.unsqueeze(2), torch.exp(y))"},
    {"torch.nll_loss_nd(torch.log_softmax(x.transpose(1, 2), 1), z, torch.arange(6, dtype=7), 1, 2)"},
    {"torch.nll_loss_nd(x.transpose(1, 2), z, torch.arange(6, dtype=7), 1, 2)"},
    {"torch.cross_entropy_loss(x.transpose(1, 2), z, torch.arange(6, dtype=7), 1, 2, 0.3)"},
    {"torch.cross_entropy_loss(x.transpose(1, 2), z, torch.arange(6, dtype=7), 2, 2, 0.3)"},
    {"torch.cross_entropy_loss(x, torch.softmax(y, 1), torch.arange(4, dtype=7), 1, -100, 0.3)"},
    {"torch.cross_entropy_loss(x, torch.softmax(y, 1), None, 2)"},
    {"torch.cross_entropy_loss(x[0, 0], torch.softmax(y[0, 0], 0))"}};

// What no core operator is runs by the dispatcher.
constexpr Expression kDispatched[] = {
    {"torch.digamma(torch.abs(x))"},
    {"torch.cdist(x, y)"},
    {"torch._upsample_bilinear2d_aa(x.unsqueeze(1), None, False, [2.0, 1.5])"},
    {"torch.searchsorted(torch.cumsum(torch.abs(x), 2), y)"},
    {"torch.block_diag([x[0], y[0]]) if x.dim() == 2 else torch.column_stack([x[:, 0], y[:, 1]])"},
    {"torch.linalg_inv(x[:, :, :4])"},
    {"torch.special_i0(x)"},
    {"torch.trapezoid(x, dim=1)"},
    {"torch.heaviside(x, y)"},
    {"torch.aminmax(x, dim=1)"},
    {"(x + 1).digamma_() * 0 + y"}};

INSTANTIATE_TEST_SUITE_P(Dispatched, Expressions, testing::ValuesIn(kDispatched));
INSTANTIATE_TEST_SUITE_P(Elementwise, Expressions, testing::ValuesIn(kElementwise));
INSTANTIATE_TEST_SUITE_P(Functions, Expressions, testing::ValuesIn(kFunctions));
INSTANTIATE_TEST_SUITE_P(Shapes, Expressions, testing::ValuesIn(kShapes));
INSTANTIATE_TEST_SUITE_P(Indices, Expressions, testing::ValuesIn(kIndices));
INSTANTIATE_TEST_SUITE_P(Bags, Expressions, testing::ValuesIn(kBags));
INSTANTIATE_TEST_SUITE_P(Reductions, Expressions, testing::ValuesIn(kReductions));
INSTANTIATE_TEST_SUITE_P(OfAllAxes, WholeBatches, testing::ValuesIn(kOfAllAxes));
INSTANTIATE_TEST_SUITE_P(Reductions, WholeBatches, testing::ValuesIn(kReductions));
INSTANTIATE_TEST_SUITE_P(Dense, Expressions, testing::ValuesIn(kDense));
INSTANTIATE_TEST_SUITE_P(Created, Expressions, testing::ValuesIn(kCreated));
INSTANTIATE_TEST_SUITE_P(Losses, Expressions, testing::ValuesIn(kLosses));
INSTANTIATE_TEST_SUITE_P(Losses, WholeBatches, testing::ValuesIn(kLossesOfAll));

}  // namespace
}  // namespace rannc::test
