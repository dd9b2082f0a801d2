// Defines the built-in clusters.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "partition/cluster.h"
#include "partition/device_names.h"

namespace rannc::partition {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kGigabitPerSecond = 1e9 / 8;

/// V100: 15.7 Tflop/s single precision and 900 GB/s by its data sheet; two thirds and four fifths are achieved.
DeviceKind v100(uint64_t memory_gib) { return {"v100", memory_gib << 30, 10.5e12, 720 * kGigabyte, 6000}; }

/// «Tesla P40»: 11.8 Tflop/s single precision and 346 GB/s; two thirds and four fifths are achieved. 22 GiB as
/// torchgpipe's paper states.
DeviceKind p40() { return {"p40", 22ull << 30, 7.9e12, 277 * kGigabyte, 6000}; }

/// What PyTorch gives cuBLAS as its workspace, and from Hopper on.
constexpr uint64_t kSmallWorkspace = 4096 * 1024 * 2 + 16 * 1024 * 8, kWorkspace = 4096 * 1024 * 8;

/// A GPU and its connections by its data sheet: peak rates without sparsity, in Tflop/s, GB/s of one direction.
struct Gpu {
  const char* name;
  double memory_gib;  ///< that CUDA reports, which is less than the name says
  FlopRates teraflops;
  double memory, nvlink, infiniband;  ///< GB/s
  uint32_t multiprocessors;
  uint64_t workspace = kSmallWorkspace;  ///< bytes
};

FlopRates teraflops(double f32, double tf32, double sixteen_bits, double f64) {
  FlopRates rates(f32);
  rates.tf32 = tf32;
  rates.bf16 = rates.f16 = sixteen_bits;
  rates.f64 = f64;
  return rates;
}

/// The V100 has neither bf16 nor TF32.
FlopRates teraflops_of_v100() {
  FlopRates rates(15.7);
  rates.f16 = 125;
  rates.f64 = 7.8;
  return rates;
}

/// Data sheets of NVIDIA: «V100 Tensor Core GPU» (SXM2), «A100 Tensor Core GPU» (SXM), «H100 Tensor Core GPU» (SXM),
/// «H200 Tensor Core GPU» (SXM), «HGX B200» and «DGX B200» (an eighth of the system), and its papers on the
/// architectures for the multiprocessors. Rates of f64 are those of tensor cores, which products use. NVLink is half of
/// the total of both directions: a switch gives it to any pair. The V100s of a «DGX-1» have no switch, so theirs is one
/// link of 25 GB/s. InfiniBand is the share of one GPU in the systems «DGX-1» (4 x 100 Gbit/s for 8 GPUs), «DGX A100»
/// (8 x 200, HDR), «DGX H100», «DGX H200» and «DGX B200» (8 x 400, NDR).
const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> kinds{
      {"a100-40", 39.4, teraflops(19.5, 156, 312, 19.5), 1555, 300, 25, 108},
      {"a100-80", 79.1, teraflops(19.5, 156, 312, 19.5), 2039, 300, 25, 108},
      {"h100", 79.1, teraflops(67, 494.7, 989.4, 67), 3350, 450, 50, 132, kWorkspace},
      {"h200", 139.8, teraflops(67, 494.7, 989.4, 67), 4800, 450, 50, 132, kWorkspace},
      {"b200", 178.3, teraflops(75, 1125, 2250, 37), 8000, 900, 50, 148, kWorkspace},
      {"v100", 31.7, teraflops_of_v100(), 900, 25, 6.25, 80},
  };
  return kinds;
}

constexpr uint64_t kOfCuda = uint64_t{2} << 30;  ///< that the context of CUDA and its libraries use

/// Shares of the peak rates that kernels achieve, on tensor cores and on others. Those for f32 and for 16-bit types
/// reproduce the kernel times of a step that `tests/bench/gpu.md` has for an H200; TF32 is assumed to be as 16-bit
/// types, and other GPUs are assumed to be as the H200. Rates of f64 are an assumption.
struct Share {
  double tensor_cores, others;
};
constexpr Share kProducts{0.6, 0.68}, kConvolutions{0.3, 0.38};
/// On tensor cores 6.6 ms of GPT-2 medium more than PyTorch's, which is taken for cuDNN's 0.19 of BERT-large there.
constexpr Share kAttention{0.07, 2. / 3};
/// On tensor cores an assumption: slightly less than that 0.19.
constexpr Share kFlashAttention{0.18, 2. / 3};

FlopRates achieved(const FlopRates& peak, Share share) {
  const auto of = [&](double rate) { return 1e12 * rate * (rate > peak.f32 ? share.tensor_cores : share.others); };
  FlopRates rates;
  for (double FlopRates::*rate :
       {&FlopRates::f32, &FlopRates::tf32, &FlopRates::bf16, &FlopRates::f16, &FlopRates::f64})
    rates.*rate = of(peak.*rate);
  return rates;
}

/// Nothing for GPUs before compute capability 8.0, which have no bf16.
std::optional<FlopRates> flash_attention(const Gpu& gpu) {
  const bool has = gpu.teraflops.bf16 > gpu.teraflops.f32;
  return has ? std::optional(achieved(gpu.teraflops, kFlashAttention)) : std::nullopt;
}

/// Four fifths of every bandwidth are achieved. LibTorch's kernels of batch normalizations handle so many elements for
/// each byte of peak bandwidth, on an H200. Latencies and launches are assumptions.
Cluster gpu_cluster(const Gpu& gpu, std::string name, uint32_t nodes, uint32_t per_node) {
  constexpr double kTransfer = 4. / 5 * kGigabyte, kNormalized = 0.03, kNormalizedChannelsLast = 0.0625;
  const auto memory_bytes = static_cast<uint64_t>(gpu.memory_gib * (1 << 30)) - kOfCuda;
  DeviceKind kind{gpu.name, memory_bytes,         achieved(gpu.teraflops, kProducts), gpu.memory * kTransfer,
                  5000,     ir::DeviceType::kCuda};
  kind.kernels = {achieved(gpu.teraflops, kConvolutions),
                  achieved(gpu.teraflops, kAttention),
                  flash_attention(gpu),
                  kNormalized * gpu.memory * kGigabyte,
                  kNormalizedChannelsLast * gpu.memory * kGigabyte,
                  gpu.multiprocessors};
  kind.workspace_bytes = gpu.workspace;
  return make_cluster(std::move(name), kind, nodes, per_node, Link{gpu.nvlink * kTransfer, 5000},
                      Link{gpu.infiniband * kTransfer, 10000});
}

constexpr uint32_t kMostPerNode = 8, kMostNodes = 1024;

/// One worker of a desktop processor; `rannc-profile` replaces these numbers by measured ones.
DeviceKind cpu() { return {"cpu", 4ull << 30, 5e10, 10 * kGigabyte, 2000}; }

constexpr Link kNvlink{25 * kGigabyte, 5000};
constexpr Link kPcie{10 * kGigabyte, 10000};  ///< generation 3, 16 lanes

/// Returns the number that `text` is, at most 2^20, or 0.
uint32_t count_of(std::string_view text) {
  uint32_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  return failure == std::errc() && end == text.data() + text.size() && count <= (1u << 20) ? count : 0;
}

/// Returns N of "prefix:N" with N in [1, 2^20], or 0.
uint32_t counted(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? count_of(name.substr(prefix.size())) : 0;
}

/// `h100-8`, `2x-h100-8`.
std::optional<Cluster> gpu_cluster(std::string_view name) {
  std::string_view kind = name;
  uint32_t nodes = 1;
  if (const size_t x = name.find("x-"); x != std::string_view::npos) {
    nodes = count_of(name.substr(0, x));
    kind = name.substr(x + 2);
  }
  const size_t dash = kind.rfind('-');
  if (nodes == 0 || nodes > kMostNodes || dash == std::string_view::npos) return std::nullopt;
  const uint32_t per_node = count_of(kind.substr(dash + 1));
  if (per_node == 0 || per_node > kMostPerNode) return std::nullopt;
  for (const Gpu& gpu : gpus()) {
    if (gpu.name == kind.substr(0, dash)) return gpu_cluster(gpu, std::string(name), nodes, per_node);
  }
  return std::nullopt;
}

/// The kind that a driver calls `NVIDIA A100-SXM4-80GB`, `NVIDIA H100 80GB HBM3`; null if its data sheet is not here.
/// Boards for PCIe, workstations and parts of a GPU have other rates and links.
const Gpu* gpu_of(std::string_view model, uint64_t memory_bytes) {
  const std::vector<std::string> words = device_words(model);
  const auto is_other = [](const std::string& word) {
    return is_board_word(word) || word == "rtx" || word == "quadro";
  };
  if (std::any_of(words.begin(), words.end(), is_other)) return nullptr;
  const auto difference = [&](const Gpu& gpu) {
    return std::abs(gpu.memory_gib * (1 << 30) - static_cast<double>(memory_bytes));
  };
  const Gpu* found = nullptr;
  for (const Gpu& gpu : gpus()) {
    const std::string family = device_words(gpu.name).front();
    if (std::find(words.begin(), words.end(), family) == words.end()) continue;
    if (found == nullptr || difference(gpu) < difference(*found)) found = &gpu;
  }
  return found;
}

}  // namespace

Result<Cluster> preset_cluster(std::string_view name) {
  const Link ethernet25{25 * kGigabitPerSecond, 30000}, ethernet10{10 * kGigabitPerSecond, 30000};
  const Link infiniband{100 * kGigabitPerSecond, 10000};
  const std::string text(name);
  if (name == "dapple-a") return make_cluster(text, v100(16), 2, 8, kNvlink, ethernet25);
  if (name == "dapple-b") return make_cluster(text, v100(16), 16, 1, ethernet25, ethernet25);
  if (name == "dapple-c") return make_cluster(text, v100(16), 16, 1, ethernet10, ethernet10);
  if (name == "dapple-a-4x8") return make_cluster(text, v100(16), 4, 8, kNvlink, ethernet25);
  if (name == "torchgpipe-8") return make_cluster(text, p40(), 1, 8, kPcie, kPcie);
  if (name == "rannc-1x8") return make_cluster(text, v100(32), 1, 8, kNvlink, infiniband);
  if (name == "rannc-4x8") return make_cluster(text, v100(32), 4, 8, kNvlink, infiniband);
  if (const uint32_t count = counted(name, "local:")) {
    const Link memory{8 * kGigabyte, 20000};
    return make_cluster(text, cpu(), 1, count, memory, memory);
  }
  if (const uint32_t count = counted(name, "flat:")) return make_cluster(text, v100(32), 1, count, kNvlink, kNvlink);
  if (auto cluster = gpu_cluster(name)) return *std::move(cluster);
  std::string known;
  for (const std::string& preset : preset_cluster_names()) known += preset + ", ";
  return error("unknown cluster '" + text + "'; known: " + known + "or a TOML file");
}

Result<Cluster> cluster_of_gpus(std::string_view model, uint64_t memory_bytes, uint32_t count) {
  const Gpu* const gpu = gpu_of(model, memory_bytes);
  if (gpu == nullptr) {
    std::string known;
    for (const Gpu& each : gpus()) known += (known.empty() ? "" : ", ") + std::string(each.name);
    return error("the rates of GPU '" + std::string(model) + "' are unknown, only those of whole GPUs with NVLink (" +
                 known + "); describe it in a cluster file");
  }
  Cluster cluster = gpu_cluster(*gpu, "local:cuda", 1, count);
  cluster.kinds.front().memory_bytes = memory_bytes > kOfCuda ? memory_bytes - kOfCuda : memory_bytes;
  return cluster;
}

const std::vector<std::string>& preset_cluster_names() {
  static const std::vector<std::string> names{
      "local:N",   "flat:N",   "a100-40-N", "a100-80-N", "h100-N",       "h200-N",    "b200-N",    "v100-N",
      "Mx-KIND-N", "dapple-a", "dapple-b",  "dapple-c",  "dapple-a-4x8", "rannc-1x8", "rannc-4x8", "torchgpipe-8"};
  return names;
}

}  // namespace rannc::partition
