#include "tests/codegen/native/variants.h"

namespace rannc::native_kernels {

std::vector<const Kernels*> usable_variants() {
  std::vector<const Kernels*> usable{baseline_kernels()};
#if defined(RANNC_HAS_AVX2)
  if (__builtin_cpu_supports("avx2")) usable.push_back(avx2_kernels());
#endif
#if defined(RANNC_HAS_AVX512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    usable.push_back(avx512_kernels());
#endif
  return usable;
}

}  // namespace rannc::native_kernels
