// Defines the built-in clusters.
#include <algorithm>
#include <charconv>
#include <optional>

#include "partition/cluster.h"

namespace rannc::partition {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kGigabitPerSecond = 1e9 / 8;

/// V100: 15.7 Tflop/s single precision and 900 GB/s by its data sheet; two thirds and four fifths are achieved.
DeviceKind v100(uint64_t memory_gib) { return {"v100", memory_gib << 30, 10.5e12, 720 * kGigabyte, 6000}; }

/// A GPU and its connections by its data sheet: peak rates without sparsity, in Tflop/s, GB/s of one direction.
struct Gpu {
  const char* name;
  uint64_t memory_gib;
  FlopRates teraflops;
  double memory, nvlink, infiniband;  ///< GB/s
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
/// «H200 Tensor Core GPU» (SXM), «HGX B200» and «DGX B200» (an eighth of the system). NVLink is half of the total of
/// both directions. InfiniBand is the share of one GPU in the systems «DGX-1» (4 x 100 Gbit/s for 8 GPUs), «DGX A100»
/// (8 x 200, HDR), «DGX H100», «DGX H200» and «DGX B200» (8 x 400, NDR).
const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> kinds{
      {"a100-40", 40, teraflops(19.5, 156, 312, 9.7), 1555, 300, 25},
      {"a100-80", 80, teraflops(19.5, 156, 312, 9.7), 2039, 300, 25},
      {"h100", 80, teraflops(67, 494.7, 989.4, 34), 3350, 450, 50},
      {"h200", 141, teraflops(67, 494.7, 989.4, 34), 4800, 450, 50},
      {"b200", 180, teraflops(75, 1125, 2250, 37), 8000, 900, 50},
      {"v100", 32, teraflops_of_v100(), 900, 150, 6.25},
  };
  return kinds;
}

/// Two thirds of the peak rates and four fifths of every bandwidth are achieved. The context of CUDA and its libraries
/// use 2 GiB. Latencies and launches are assumptions; none of these numbers has been measured by us.
Cluster gpu_cluster(const Gpu& gpu, std::string name, uint32_t nodes, uint32_t per_node) {
  constexpr double kCompute = 2. / 3 * 1e12, kTransfer = 4. / 5 * kGigabyte;
  FlopRates rates;
  for (double FlopRates::*rate :
       {&FlopRates::f32, &FlopRates::tf32, &FlopRates::bf16, &FlopRates::f16, &FlopRates::f64})
    rates.*rate = gpu.teraflops.*rate * kCompute;
  const DeviceKind kind{gpu.name, (gpu.memory_gib - 2) << 30, rates, gpu.memory * kTransfer,
                        5000,     ir::DeviceType::kCuda};
  return make_cluster(std::move(name), kind, nodes, per_node, Link{gpu.nvlink * kTransfer, 5000},
                      Link{gpu.infiniband * kTransfer, 10000});
}

constexpr uint32_t kMostPerNode = 8, kMostNodes = 1024;

/// One worker of a desktop processor; `rannc-profile` replaces these numbers by measured ones.
DeviceKind cpu() { return {"cpu", 4ull << 30, 5e10, 10 * kGigabyte, 2000}; }

constexpr Link kNvlink{25 * kGigabyte, 5000};

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

}  // namespace

Result<Cluster> preset_cluster(std::string_view name) {
  const Link ethernet25{25 * kGigabitPerSecond, 30000}, ethernet10{10 * kGigabitPerSecond, 30000};
  const Link infiniband{100 * kGigabitPerSecond, 10000};
  const std::string text(name);
  if (name == "dapple-a") return make_cluster(text, v100(16), 2, 8, kNvlink, ethernet25);
  if (name == "dapple-b") return make_cluster(text, v100(16), 16, 1, ethernet25, ethernet25);
  if (name == "dapple-c") return make_cluster(text, v100(16), 16, 1, ethernet10, ethernet10);
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
  constexpr uint64_t kOfCuda = uint64_t{2} << 30;
  std::string known;
  for (const Gpu& gpu : gpus()) {
    const std::string_view name = gpu.name;
    std::string family(name.substr(0, name.find('-')));
    std::transform(family.begin(), family.end(), family.begin(), [](char c) { return c >= 'a' ? c - 'a' + 'A' : c; });
    known += (known.find(family) == std::string::npos) ? (known.empty() ? "" : ", ") + family : "";
    if (model.find(family) == std::string_view::npos) continue;
    Cluster cluster = gpu_cluster(gpu, "local:cuda", 1, count);
    cluster.kinds.front().memory_bytes = memory_bytes > kOfCuda ? memory_bytes - kOfCuda : memory_bytes;
    return cluster;
  }
  return error("the rates of GPU '" + std::string(model) + "' are unknown, only those of " + known +
               "; describe it in a cluster file");
}

const std::vector<std::string>& preset_cluster_names() {
  static const std::vector<std::string> names{"local:N",  "flat:N",   "a100-40-N", "a100-80-N", "h100-N",
                                              "h200-N",   "b200-N",   "v100-N",    "Mx-KIND-N", "dapple-a",
                                              "dapple-b", "dapple-c", "rannc-1x8", "rannc-4x8"};
  return names;
}

}  // namespace rannc::partition
