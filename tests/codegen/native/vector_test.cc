// Arithmetic, masks, memory and reductions of codegen/native/vector.h against plain C++, for every variant.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/codegen/native/variants.h"

namespace rannc::native_kernels {
namespace {

template <typename T>
const Table<T>& table_of(const Kernels& kernels) {
  if constexpr (sizeof(T) == 4)
    return kernels.of_float;
  else
    return kernels.of_double;
}

/// Numbers of all sizes with zeros, infinities and NaN among them. 1003 of them end in a tail.
template <typename T>
std::vector<T> numbers(unsigned seed, std::size_t count = 1003) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> mantissa(-4, 4), exponent(-60, 60);
  const T special[] = {0,
                       T(-0.0),
                       std::numeric_limits<T>::infinity(),
                       -std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       T(2.5),
                       T(-0.5),
                       T(8388609),
                       std::numeric_limits<T>::denorm_min()};
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = mantissa(random);
    if (i % 3 == 0) all[i] *= std::exp2(exponent(random));
    if (i % 11 == 0) all[i] = special[random() % std::size(special)];
  }
  return all;
}

/// Same bits, where all NaN are one.
template <typename T>
bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

template <typename T>
class Vectors : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Vectors, Types);

TYPED_TEST(Vectors, ComputeAsScalarsDo) {
  using T = TypeParam;
  using One = std::function<T(T)>;
  const std::map<std::string, One> exact = {
      {"negate", [](T x) { return -x; }},
      {"add_minus_zero", [](T x) { return x; }},
      {"abs", [](T x) { return std::abs(x); }},
      {"sqrt", [](T x) { return std::sqrt(x); }},
      {"rsqrt", [](T x) { return 1 / std::sqrt(x); }},
      {"floor", [](T x) { return std::floor(x); }},
      {"ceil", [](T x) { return std::ceil(x); }},
      {"trunc", [](T x) { return std::trunc(x); }},
      {"round", [](T x) { return std::nearbyint(x); }},
      {"relu", [](T x) { return x < 0 ? T(0) : x; }},
      {"polynomial", [](T x) { return (x * T(3) - T(0.1)) * x + T(1) / (x + T(2)); }},
  };
  const std::vector<T> x = numbers<T>(1);
  std::vector<T> to(x.size());
  for (const Kernels* kernels : usable_variants()) {
    const Table<T>& table = table_of<T>(*kernels);
    std::size_t found = 0;
    for (int i = 0; i < table.unary_count; ++i) {
      const auto it = exact.find(table.unary[i].name);
      if (it == exact.end()) continue;
      ++found;
      table.unary[i].run(x.data(), to.data(), static_cast<std::int64_t>(x.size()));
      for (std::size_t k = 0; k < x.size(); ++k)
        ASSERT_TRUE(same(to[k], it->second(x[k])))
            << kernels->variant << ": " << it->first << " of " << x[k] << " is " << to[k];
    }
    EXPECT_EQ(found, exact.size());
  }
}

template <typename T>
T smaller(T x, T y) {
  return std::isnan(x) || std::isnan(y) ? std::numeric_limits<T>::quiet_NaN() : (y < x ? y : x);
}
template <typename T>
T larger(T x, T y) {
  return std::isnan(x) || std::isnan(y) ? std::numeric_limits<T>::quiet_NaN() : (y > x ? y : x);
}

TYPED_TEST(Vectors, CombineAsScalarsDo) {
  using T = TypeParam;
  using Two = std::function<T(T, T)>;
  const std::map<std::string, Two> exact = {
      {"add", [](T x, T y) { return x + y; }},
      {"subtract", [](T x, T y) { return x - y; }},
      {"multiply", [](T x, T y) { return x * y; }},
      {"divide", [](T x, T y) { return x / y; }},
      {"min", smaller<T>},
      {"max", larger<T>},
      {"copysign", [](T x, T y) { return std::copysign(x, y); }},
      {"less", [](T x, T y) { return T(x < y); }},
      {"less_equal", [](T x, T y) { return T(x <= y); }},
      {"greater", [](T x, T y) { return T(x > y); }},
      {"greater_equal", [](T x, T y) { return T(x >= y); }},
      {"equal", [](T x, T y) { return T(x == y); }},
      {"not_equal", [](T x, T y) { return T(x != y); }},
  };
  std::vector<T> x = numbers<T>(1), y = numbers<T>(2), to(x.size());
  for (std::size_t i = 0; i < x.size(); i += 7) y[i] = x[i];
  for (const Kernels* kernels : usable_variants()) {
    const Table<T>& table = table_of<T>(*kernels);
    std::size_t found = 0;
    for (int i = 0; i < table.binary_count; ++i) {
      const auto it = exact.find(table.binary[i].name);
      if (it == exact.end()) continue;
      ++found;
      table.binary[i].run(x.data(), y.data(), to.data(), static_cast<std::int64_t>(x.size()));
      for (std::size_t k = 0; k < x.size(); ++k)
        ASSERT_TRUE(same(to[k], it->second(x[k], y[k])))
            << kernels->variant << ": " << it->first << " of " << x[k] << " and " << y[k] << " is " << to[k];
    }
    EXPECT_EQ(found, exact.size());
  }
}

TYPED_TEST(Vectors, ReduceLanesInOneOrder) {
  using T = TypeParam;
  const std::map<std::string, std::function<T(T, T)>> combine = {
      {"sum", [](T x, T y) { return x + y; }}, {"max", larger<T>}, {"min", smaller<T>}};
  for (const Kernels* kernels : usable_variants()) {
    const Table<T>& table = table_of<T>(*kernels);
    for (unsigned seed = 0; seed < 100; ++seed)
      for (int i = 0; i < table.reduction_count; ++i) {
        // Sizes differ so much that every other order rounds otherwise.
        std::vector<T> lanes = numbers<T>(seed, static_cast<std::size_t>(table.lanes));
        if (seed % 2 == 0)
          std::replace_if(
              lanes.begin(), lanes.end(), [](T x) { return !std::isfinite(x); }, T(0.1));
        const T result = table.reduction[i].run(lanes.data());
        const auto& of = combine.at(table.reduction[i].name);
        for (std::size_t half = lanes.size() / 2; half > 0; half /= 2)
          for (std::size_t k = 0; k < half; ++k) lanes[k] = of(lanes[k], lanes[k + half]);
        ASSERT_TRUE(same(result, lanes[0])) << kernels->variant << ": " << table.reduction[i].name << ", seed " << seed;
      }
  }
}

TYPED_TEST(Vectors, MaskAsConditionsDo) {
  using T = TypeParam;
  const std::vector<T> x = numbers<T>(1), y = numbers<T>(2);
  std::vector<std::uint8_t> mask(x.size()), bytes(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) mask[i] = i % 5 == 0 ? 0 : static_cast<std::uint8_t>(i);
  std::vector<T> kept(x.size());
  for (const Kernels* kernels : usable_variants()) {
    const Table<T>& table = table_of<T>(*kernels);
    table.others->keep(mask.data(), x.data(), kept.data(), static_cast<std::int64_t>(x.size()));
    table.others->logic(x.data(), y.data(), bytes.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same(kept[i], mask[i] != 0 ? x[i] : T(0))) << kernels->variant << " at " << i;
      const bool expected = (x[i] < y[i] && x[i] != 0) || (std::isnan(x[i]) != (y[i] >= 3));
      ASSERT_EQ(bytes[i], expected ? 1 : 0) << kernels->variant << ": " << x[i] << ", " << y[i];
    }
    std::vector<T> lanes(static_cast<std::size_t>(table.lanes), T(-1));
    EXPECT_FALSE(table.others->any_positive(lanes.data()));
    for (T& lane : lanes) {
      lane = 1;
      EXPECT_TRUE(table.others->any_positive(lanes.data())) << kernels->variant << " at " << &lane - lanes.data();
      lane = -1;
    }
  }
}

TYPED_TEST(Vectors, ConvertAsCastsDo) {
  using T = TypeParam;
  constexpr std::size_t kCount = 203;
  std::mt19937_64 random(3);
  std::vector<std::int64_t> longs(kCount), whole(kCount);
  std::vector<std::int32_t> ints(kCount);
  std::vector<std::uint8_t> bytes(kCount);
  std::vector<double> doubles = numbers<double>(4, kCount);
  std::vector<T> to(kCount), mixed = numbers<T>(5, kCount);
  std::vector<float> floats(kCount);
  std::replace_if(
      mixed.begin(), mixed.end(), [](T x) { return !(std::abs(x) < T(1e18)); }, T(-7.9));
  for (std::size_t i = 0; i < kCount; ++i) {
    longs[i] = static_cast<std::int64_t>(random()) >> (i % 64);
    ints[i] = static_cast<std::int32_t>(random()) >> (i % 32);
    bytes[i] = static_cast<std::uint8_t>(random());
  }
  const auto expect = [&](const Kernels* kernels, const auto& from) {
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_TRUE(same(to[i], static_cast<T>(from[i]))) << kernels->variant << ": " << from[i] << " became " << to[i];
  };
  for (const Kernels* kernels : usable_variants()) {
    const Others<T>& others = *table_of<T>(*kernels).others;
    others.from_int64(longs.data(), to.data(), kCount), expect(kernels, longs);
    others.from_int32(ints.data(), to.data(), kCount), expect(kernels, ints);
    others.from_bytes(bytes.data(), to.data(), kCount), expect(kernels, bytes);
    others.from_double(doubles.data(), to.data(), kCount), expect(kernels, doubles);
    others.to_int64(mixed.data(), whole.data(), kCount);
    others.to_float(mixed.data(), floats.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(whole[i], static_cast<std::int64_t>(mixed[i])) << kernels->variant << " of " << mixed[i];
      ASSERT_TRUE(same(floats[i], static_cast<float>(mixed[i]))) << kernels->variant << " of " << mixed[i];
    }
  }
}

/// `bytes` that end where memory ends.
class LastBytes {
 public:
  explicit LastBytes(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    pages_ = static_cast<char*>(mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(pages_ + page_, page_, PROT_NONE), 0);
    begin_ = pages_ + page_ - bytes;
  }
  ~LastBytes() { munmap(pages_, 2 * page_); }
  LastBytes(const LastBytes&) = delete;
  LastBytes& operator=(const LastBytes&) = delete;
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(begin_);
  }

 private:
  std::size_t page_;
  char* pages_;
  char* begin_;
};

TYPED_TEST(Vectors, TouchNoMemoryBeyondTails) {
  using T = TypeParam;
  for (const Kernels* kernels : usable_variants()) {
    const Table<T>& table = table_of<T>(*kernels);
    for (std::int64_t count = 0; count <= 2 * table.lanes; ++count) {
      const auto size = static_cast<std::size_t>(count);
      LastBytes from(size * sizeof(T)), to(size * sizeof(T)), mask(size), bytes(size), longs(size * 8);
      std::fill_n(from.as<T>(), count, T(-2));
      std::fill_n(mask.as<std::uint8_t>(), count, 1);
      table.unary[0].run(from.as<T>(), to.as<T>(), count);
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(to.as<T>()[i], T(2));
      table.others->keep(mask.as<std::uint8_t>(), from.as<T>(), to.as<T>(), count);
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(to.as<T>()[i], T(-2));
      table.others->logic(from.as<T>(), to.as<T>(), bytes.as<std::uint8_t>(), count);
      table.others->to_int64(from.as<T>(), longs.as<std::int64_t>(), count);
      table.others->from_int64(longs.as<std::int64_t>(), to.as<T>(), count);
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(to.as<T>()[i], T(-2));
      std::vector<T> lanes(static_cast<std::size_t>(table.lanes));
      if (count > table.lanes) continue;
      table.others->fill(from.as<T>(), lanes.data(), count);
      for (std::int64_t i = 0; i < table.lanes; ++i)
        ASSERT_EQ(lanes[static_cast<std::size_t>(i)], i < count ? T(-2) : T(7 + i));
    }
  }
}

TYPED_TEST(Vectors, HaveTheSameBitsInEveryVariant) {
  using T = TypeParam;
  const std::vector<const Kernels*> variants = usable_variants();
  if (variants.size() < 2) GTEST_SKIP() << "this processor runs the baseline alone";
  const std::size_t size = 768 * 9;
  std::vector<T> x = numbers<T>(1, size), y = numbers<T>(2, size), first(size), other(size);
  const auto expect = [&](const char* variant, const char* name) {
    for (std::size_t i = 0; i < size; ++i)
      ASSERT_TRUE(same(first[i], other[i]))
          << variant << ": " << name << " of " << x[i] << ", " << y[i] << " is " << other[i] << ", not " << first[i];
  };
  for (std::size_t v = 1; v < variants.size(); ++v) {
    const Table<T>&base = table_of<T>(*variants[0]), &table = table_of<T>(*variants[v]);
    for (int i = 0; i < base.unary_count; ++i) {
      base.unary[i].run(x.data(), first.data(), static_cast<std::int64_t>(size));
      table.unary[i].run(x.data(), other.data(), static_cast<std::int64_t>(size));
      expect(variants[v]->variant, base.unary[i].name);
    }
    for (int i = 0; i < base.binary_count; ++i) {
      base.binary[i].run(x.data(), y.data(), first.data(), static_cast<std::int64_t>(size));
      table.binary[i].run(x.data(), y.data(), other.data(), static_cast<std::int64_t>(size));
      expect(variants[v]->variant, base.binary[i].name);
    }
    std::vector<T> finite = x;
    std::replace_if(
        finite.begin(), finite.end(), [](T number) { return !(std::abs(number) < 1e6); }, T(1));
    base.others->layer_norm(finite.data(), y.data(), x.data(), first.data(), 9, 768);
    table.others->layer_norm(finite.data(), y.data(), x.data(), other.data(), 9, 768);
    expect(variants[v]->variant, "layer_norm");
  }
}

TEST(VectorVariants, HaveTheSameBitsAtEvery4999thFloat) {
  const std::vector<const Kernels*> variants = usable_variants();
  if (variants.size() < 2) GTEST_SKIP() << "this processor runs the baseline alone";
  constexpr std::size_t kBlock = 8192;
  std::vector<float> x(kBlock), first(kBlock), other(kBlock);
  for (std::uint64_t bits = 0; bits <= UINT32_MAX;) {
    for (std::size_t i = 0; i < kBlock; ++i, bits += 4999) {
      const auto pattern = static_cast<std::uint32_t>(bits);
      std::memcpy(&x[i], &pattern, sizeof pattern);
    }
    const Table<float>& base = variants[0]->of_float;
    for (int k = 0; k < base.unary_count; ++k) {
      base.unary[k].run(x.data(), first.data(), kBlock);
      for (std::size_t v = 1; v < variants.size(); ++v) {
        variants[v]->of_float.unary[k].run(x.data(), other.data(), kBlock);
        for (std::size_t i = 0; i < kBlock; ++i)
          ASSERT_TRUE(same(first[i], other[i])) << variants[v]->variant << ": " << base.unary[k].name << " of " << x[i];
      }
    }
  }
}

}  // namespace
}  // namespace rannc::native_kernels
